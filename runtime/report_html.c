/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text and figures in HTML.
 */
#include "runtime/report.h"
#include "sentry/audit_text.h"

#include <string.h>

void html_text(FILE *f, const char *s)
{
	char piece[512];

	if (!s)
		return;
	while (*s) {
		/* A piece ends between characters. */
		size_t n = strlen(s), took = 0;

		n = audit_clean(piece, sizeof(piece), s, MIN(n, (size_t)4096), &took);
		if (!took)
			return;
		s += took;
		for (size_t i = 0; i < n; i++) {
			switch (piece[i]) {
			case '&':
				fputs("&amp;", f);
				break;
			case '<':
				fputs("&lt;", f);
				break;
			case '>':
				fputs("&gt;", f);
				break;
			case '"':
				fputs("&quot;", f);
				break;
			case '\'':
				fputs("&#39;", f);
				break;
			default:
				fputc(piece[i], f);
			}
		}
	}
}

void html_seconds(FILE *f, double s)
{
	if (s < 0.0005)
		fprintf(f, "%.0f µs", s * 1e6);
	else if (s < 0.1)
		fprintf(f, "%.1f ms", s * 1e3);
	else if (s < 1)
		fprintf(f, "%.0f ms", s * 1e3);
	else if (s < 60)
		fprintf(f, "%.2f s", s);
	else if (s < 3600)
		fprintf(f, "%d min %02d s", (int)(s / 60), (int)s % 60);
	else
		fprintf(f, "%d h %02d min", (int)(s / 3600), (int)(s / 60) % 60);
}

void html_bytes(FILE *f, double v)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	unsigned u = 0;

	while (v >= 1024 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		u++;
	}
	fprintf(f, u && v < 10 ? "%.1f %s" : "%.0f %s", v, units[u]);
}

void html_meter(FILE *f, enum meter m, double v)
{
	switch (meter_unit_of(m)) {
	case METER_UNIT_BYTES:
		html_bytes(f, v);
		break;
	case METER_UNIT_TIME:
		html_seconds(f, v / 1e9);
		break;
	case METER_UNIT_PERCENT:
		fprintf(f, "%.0f %%", v);
		break;
	default:
		fprintf(f, "%.0f", v);
	}
}
