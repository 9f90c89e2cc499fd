/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report's pictures: processes as a tree on a time line, and meters over time.
 *
 * The tree is what the log says of parents. A log may say anything: a process whose parent is not
 * there, or comes later, stands at the top, so there are no rings.
 */
#include "runtime/report.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 3000u
#define DEPTH_SHOWN 24u
#define POINTS 400u

/* ---- processes ---- */

static void link_tree(struct report *r)
{
	for (uint32_t i = 0; i < r->process_count; i++) {
		struct report_process *p = &r->processes[i];
		struct report_process *parent;

		if (!p->up || p->up > i)
			continue;
		parent = &r->processes[p->up - 1];
		p->is_child = true;
		if (parent->last_child)
			r->processes[parent->last_child - 1].next = i + 1;
		else
			parent->first_child = i + 1;
		parent->last_child = i + 1;
	}
}

static void write_end(const struct report_process *p, FILE *f)
{
	if (p->end < 0)
		fputs("<span class=\"soft\">not in the log</span>", f);
	else if (p->signal)
		html_text(f, p->signal);
	else if (p->status >= 0)
		fprintf(f, "%ld", (long)p->status);
}

static bool is_bad(const struct report_process *p)
{
	return p->signal || p->status > 0;
}

static void write_process(const struct report *r, const struct report_process *p, unsigned depth,
			  FILE *f)
{
	const double whole = r->duration > 0 ? r->duration : 1;
	const double end = p->end < 0 ? whole : p->end, from = MIN(p->start / whole, 1.0);
	const double width = MIN(MAX((end - p->start) / whole, 0.0), 1 - from);

	fprintf(f, "<tr data-item><td class=\"who\" style=\"--d:%u\" title=\"",
		MIN(depth, DEPTH_SHOWN));
	html_text(f, p->args ? p->args : p->comm);
	fputs("\"><b>", f);
	html_text(f, p->comm ? p->comm : "?");
	fputs("</b> <span class=\"arg mono\">", f);
	if (p->args) {
		const char *rest = strchr(p->args, ' ');

		html_text(f, rest ? rest + 1 : "");
	} else {
		fputs("(a copy of its parent)", f);
	}
	if (p->last_comm) {
		fputs("</span> then <b>", f);
		html_text(f, p->last_comm);
		fputs("</b><span>", f);
	}
	fprintf(f,
		"</span></td><td class=\"num soft\">%ld</td><td class=\"track\"><i class=\"%s\" "
		"style=\"left:%.3f%%;width:%.3f%%\"></i></td><td class=\"num\">",
		(long)p->pid,
		p->end < 0  ? "open"
		: is_bad(p) ? "bad"
			    : "",
		from * 100, width * 100);
	html_seconds(f, MAX(end - p->start, 0.0));
	fputs("</td><td class=\"num\">", f);
	if (p->end >= 0)
		html_seconds(f, p->user + p->system);
	fputs("</td><td class=\"num\">", f);
	if (p->memory_peak)
		html_bytes(f, (double)p->memory_peak);
	fputs("</td><td>", f);
	write_end(p, f);
	fputs("</td></tr>\n", f);
}

/* In the order of a walk, without recursion: a log may be deeper than the stack. */
static size_t write_tree(struct report *r, FILE *f)
{
	size_t rows = 0;

	for (uint32_t top = 0; top < r->process_count && rows < ROWS_MAX; top++) {
		uint32_t *up, depth = 0, at = top;

		if (r->processes[top].is_child)
			continue;
		up = malloc((r->process_count + 1) * sizeof(*up));
		if (!up)
			break;
		for (;;) {
			const struct report_process *p = &r->processes[at];

			write_process(r, p, depth, f);
			if (++rows >= ROWS_MAX)
				break;
			if (p->first_child) {
				up[depth++] = at;
				at = p->first_child - 1;
				continue;
			}
			while (depth && !r->processes[at].next)
				at = up[--depth];
			if (!depth)
				break;
			at = r->processes[at].next - 1;
		}
		free(up);
	}
	return rows;
}

void report_processes(struct report *r, FILE *f)
{
	size_t rows;

	fprintf(f, "<h2 id=\"processes\">Processes <span class=\"n\">%zu</span></h2>\n",
		r->process_count);
	if (!r->process_count) {
		fputs("<p class=\"soft\">The log tells of none.</p>\n", f);
		return;
	}
	link_tree(r);
	fputs("<input type=\"search\" data-for=\"tree\" placeholder=\"Search processes\" "
	      "aria-label=\"Search processes\" hidden> <span class=\"soft\" "
	      "aria-live=\"polite\"></span>\n"
	      "<div class=\"scroll\" tabindex=\"0\" aria-label=\"Processes on a time "
	      "line\"><table class=\"tree\" id=\"tree\"><colgroup><col style=\"width:34%\"><col "
	      "style=\"width:58px\"><col><col style=\"width:86px\"><col style=\"width:86px\"><col "
	      "style=\"width:78px\"><col style=\"width:90px\"></colgroup>\n<thead><tr><th>Process"
	      "</th><th class=\"num\">Number</th><th><span class=\"axis\"><span>0</span><span>",
	      f);
	html_seconds(f, r->duration / 2);
	fputs("</span><span>", f);
	html_seconds(f, r->duration);
	fputs("</span></span></th><th class=\"num\">Lived</th><th class=\"num\">Processor</th>"
	      "<th class=\"num\">Memory</th><th>Ended with</th></tr></thead>\n<tbody>\n",
	      f);
	rows = write_tree(r, f);
	fputs("</tbody></table></div>\n", f);
	if (rows < r->process_count)
		fprintf(f, "<p class=\"soft\">And %zu more, which are in the log.</p>\n",
			r->process_count - rows);
}

/* ---- meters ---- */

static void write_curve(const struct report *r, enum meter m, double top, bool area, FILE *f)
{
	const double whole = r->duration > 0 ? r->duration : 1;
	const size_t step = r->sample_count / POINTS + 1;
	double x = 0;

	fprintf(f, "<path class=\"%s\" d=\"%s", area ? "area" : "curve", area ? "M0 100" : "");
	for (size_t i = 0; i < r->sample_count; i += step) {
		uint64_t most = 0;

		/* Of several samples the highest: a peak must not vanish. */
		for (size_t k = i; k < MIN(i + step, r->sample_count); k++)
			most = MAX(most, r->samples[k].used[m]);
		x = MIN(r->samples[i].at / whole, 1.0) * 1000;
		fprintf(f, "%s%.1f %.2f", i || area ? "L" : "M", x,
			100 - MIN((double)most / top, 1.0) * 96);
	}
	fprintf(f, area ? "L%.1f 100Z\"/>" : "\"/>", x);
}

/* For people who know nothing of how moat is made. */
static const char *const g_labels[METER_COUNT] = {
	[METER_processes] = "Processes",
	[METER_threads] = "Threads",
	[METER_memory] = "Memory of the program",
	[METER_sentry_memory] = "Memory of moat itself",
	[METER_cpu_time] = "Processor time",
	[METER_cpu_share] = "Share of processors",
	[METER_wall_time] = "Time since the start",
	[METER_open_files] = "Open files",
	[METER_file_bytes] = "Files in memory: size",
	[METER_file_inodes] = "Files in memory: number",
	[METER_write_bytes] = "Written to files of the host",
	[METER_buffers] = "Waiting in pipes and sockets",
	[METER_in_flight] = "Files on their way to others",
	[METER_timers] = "Timers",
	[METER_signals] = "Signals that wait",
	[METER_maps] = "Memory regions",
	[METER_locks] = "File locks",
	[METER_watches] = "Watched files",
	[METER_log_bytes] = "This log",
};

static const char *label_of(enum meter m)
{
	return g_labels[m] ? g_labels[m] : meter_what(m);
}

static void write_meter(const struct report *r, enum meter m, uint64_t peak, FILE *f)
{
	const uint64_t limit = r->limits[m];
	/* A limit far above would flatten the curve. */
	const bool show_limit = limit != METER_NO_LIMIT && limit && limit <= 3 * peak;
	const double top = (double)(show_limit ? MAX(limit, peak) : peak);

	fprintf(f, "<figure><figcaption><span>%s</span><b>", label_of(m));
	html_meter(f, m, (double)peak);
	fputs("</b></figcaption>\n<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" "
	      "role=\"img\" aria-label=\"",
	      f);
	fprintf(f, "%s over time; at most ", label_of(m));
	html_meter(f, m, (double)peak);
	fputs("\"><line class=\"base\" x1=\"0\" x2=\"1000\" y1=\"99.5\" y2=\"99.5\"/>", f);
	write_curve(r, m, top, true, f);
	write_curve(r, m, top, false, f);
	if (show_limit)
		fprintf(f, "<line class=\"limit\" x1=\"0\" x2=\"1000\" y1=\"%.2f\" y2=\"%.2f\"/>",
			100 - (double)limit / top * 96, 100 - (double)limit / top * 96);
	fputs("</svg>\n<div class=\"ends\"><span>0</span><span>", f);
	if (limit != METER_NO_LIMIT && limit) {
		fputs("limit ", f);
		html_meter(f, m, (double)limit);
	}
	fputs("</span><span>", f);
	html_seconds(f, r->duration);
	fputs("</span></div></figure>\n", f);
}

void report_meters(const struct report *r, FILE *f)
{
	bool any = false;

	fputs("<h2 id=\"use\">Use over time</h2>\n<div class=\"charts\">\n", f);
	for (unsigned m = 0; m < METER_COUNT; m++) {
		uint64_t peak = 0;

		for (size_t i = 0; i < r->sample_count; i++)
			peak = MAX(peak, r->samples[i].used[m]);
		if (!peak)
			continue;
		write_meter(r, (enum meter)m, peak, f);
		any = true;
	}
	fputs("</div>\n", f);
	if (!any)
		fputs("<p class=\"soft\">Nothing was measured.</p>\n", f);
}
