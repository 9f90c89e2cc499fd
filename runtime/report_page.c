/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moat report's page.
 *
 * Theory of operation: everything is written as HTML that needs no script: the script that is built
 * in only searches and copies. A content security policy in the page allows its own style and that
 * script, by its hash, and nothing else: no network, no other script, whatever a name in the log
 * looks like. The words are for people who do not know moat.
 */
#include "runtime/report.h"

#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <string.h>

extern const uint8_t g_report_css[], g_report_css_end[], g_report_js[], g_report_js_end[];

#define ROWS_MAX 5000u

static void write_head(const struct report *r, FILE *f)
{
	const size_t js_size = (size_t)(g_report_js_end - g_report_js);
	uint8_t digest[SHA256_DIGEST_SIZE];
	char hash[BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE) + 1];
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, js_size, g_report_js);
	sha256_digest(&sha, sizeof(digest), digest);
	base64_encode_raw(hash, sizeof(digest), digest);
	hash[BASE64_ENCODE_RAW_LENGTH(SHA256_DIGEST_SIZE)] = '\0';
	fprintf(f,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"style-src 'unsafe-inline'; script-src 'sha256-%s'; base-uri 'none'; "
		"form-action 'none'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"referrer\" content=\"no-referrer\">\n<title>moat: ",
		hash);
	html_text(f, r->command ? r->command : "a run without a beginning");
	fputs("</title>\n<style>\n", f);
	fwrite(g_report_css, 1, (size_t)(g_report_css_end - g_report_css), f);
	fputs("</style>\n</head>\n<body>\n", f);
}

static void fact(FILE *f, const char *name, const char *value)
{
	if (!value)
		return;
	fprintf(f, "<div><dt>%s</dt><dd>", name);
	html_text(f, value);
	fputs("</dd></div>\n", f);
}

static void write_status(const struct report *r, FILE *f)
{
	if (!r->ended)
		fputs("<span class=\"chip warn\">the end is not in the log</span>", f);
	else if (r->sentry && strcmp(r->sentry, "killed") == 0)
		fprintf(f,
			"<span class=\"chip bad\">the sandbox itself was killed by signal "
			"%ld</span>",
			(long)r->sentry_status);
	else if (r->status == 0)
		fputs("<span class=\"chip ok\">ended well (status 0)</span>", f);
	else if (r->status > 128 && r->status < 193)
		fprintf(f, "<span class=\"chip bad\">killed by signal %ld (status %ld)</span>",
			(long)r->status - 128, (long)r->status);
	else
		fprintf(f, "<span class=\"chip bad\">ended with status %ld</span>",
			(long)r->status);
}

/* What nothing can be done about comes last. */
static bool is_minor(const struct report_denial *d)
{
	return d->why && strcmp(d->why, "not-served") == 0;
}

static uint64_t sum_denied(const struct report *r)
{
	uint64_t n = 0;

	for (size_t i = 0; i < r->denial_count; i++)
		n += is_minor(&r->denials[i]) ? 0 : r->denials[i].count;
	return n;
}

static void write_summary(const struct report *r, FILE *f)
{
	const uint64_t denied = sum_denied(r);

	fputs("<header>\n<h1>", f);
	html_text(f, r->command ? r->command : "(the log does not say what was run)");
	fputs("</h1>\n<p>", f);
	write_status(r, f);
	if (denied)
		fprintf(f, " <span class=\"chip warn\">%lu refused</span>", denied);
	else
		fputs(" <span class=\"chip plain\">nothing refused</span>", f);
	fputs("</p>\n<dl class=\"facts\">\n<div><dt>Took</dt><dd>", f);
	html_seconds(f, r->duration);
	fputs("</dd></div>\n", f);
	if (r->time) {
		/* To the second. */
		fputs("<div><dt>Started (UTC)</dt><dd>", f);
		for (const char *p = r->time; *p && *p != '.' && p < r->time + 19; p++)
			html_text(f, (char[]){*p == 'T' ? ' ' : *p, '\0'});
		fputs("</dd></div>\n", f);
	}
	fact(f, "In directory", r->cwd);
	fact(f, "Policy", r->policy);
	fact(f, "Platform", r->platform);
	fact(f, "Walls around the sandbox", r->walls && *r->walls ? r->walls : NULL);
	if (r->grant) {
		fputs("<div><dt>Fingerprint of the permissions</dt><dd class=\"mono\" title=\"", f);
		html_text(f, r->grant);
		fputs("\">", f);
		html_text(f, r->grant);
		fputs("</dd></div>\n", f);
	}
	fputs("</dl>\n</header>\n", f);
}

static void write_warnings(const struct report *r, FILE *f)
{
	uint64_t dropped = 0;

	for (size_t i = 0; i < r->dropped_count; i++)
		dropped += r->dropped[i].count;
	if (!r->started)
		fputs("<p class=\"banner\">The beginning of the log is missing.</p>\n", f);
	if (!r->ended || r->cut || r->in_middle)
		fputs("<p class=\"banner\">The log is cut off: what came after is not known. "
		      "Processes that are drawn with a dashed bar may have ended later.</p>\n",
		      f);
	if (r->bad_lines - (r->in_middle && r->bad_lines))
		fprintf(f,
			"<p class=\"banner\">%lu of %lu lines of the log are damaged and left "
			"out.</p>\n",
			r->bad_lines, r->lines);
	if (dropped) {
		fputs("<p class=\"banner\">Too much happened at once, so this was only counted: ",
		      f);
		for (size_t i = 0; i < r->dropped_count; i++) {
			fprintf(f, "%s%lu of kind ", i ? ", " : "", r->dropped[i].count);
			html_text(f, r->dropped[i].kind);
		}
		fputs(".</p>\n", f);
	}
	if (r->lines_over)
		fprintf(f,
			"<p class=\"banner\">The log reached its size limit: %lu events are "
			"missing.</p>\n",
			r->lines_over);
	if (r->lines_refused)
		fprintf(f,
			"<p class=\"banner\">%lu lines that moat cannot have written were thrown "
			"away. Take what follows with care.</p>\n",
			r->lines_refused);
	if (r->left_out)
		fprintf(f, "<p class=\"banner\">%lu events were too many for this page.</p>\n",
			r->left_out);
}

/* ---- what was refused ---- */

static void write_stack(const struct report_denial *d, FILE *f)
{
	fprintf(f,
		"<details><summary>Where in the program (%u calls deep)</summary>\n<table>"
		"<thead><tr><th class=\"num\">#</th><th>Function</th><th>In</th></tr></thead>\n",
		d->frame_count);
	for (unsigned i = 0; i < d->frame_count; i++) {
		const struct report_frame *s = &d->frames[i];

		fprintf(f, "<tr><td class=\"num soft\">%u</td><td class=\"mono\">", i);
		if (s->symbol) {
			html_text(f, s->symbol);
			fprintf(f, "<span class=\"soft\">+0x%lx</span>", s->symbol_offset);
		} else {
			fputs("<span class=\"soft\">no name</span>", f);
		}
		fputs("</td><td class=\"mono\">", f);
		if (s->module) {
			html_text(f, s->module);
			fprintf(f, "<span class=\"soft\">+0x%lx</span>", s->offset);
		} else {
			html_text(f, s->ip ? s->ip : "?");
		}
		fputs("</td></tr>\n", f);
	}
	fputs("</table></details>\n", f);
}

/* The call's name: what stands before the parenthesis. */
static void write_call_name(const struct report_denial *d, FILE *f)
{
	char name[40] = "a system call";
	size_t n = d->call ? strcspn(d->call, "(") : 0;

	if (n && n < sizeof(name)) {
		memcpy(name, d->call, n);
		name[n] = '\0';
	}
	html_text(f, name);
}

static void write_title(const struct report_denial *d, FILE *f)
{
	if (strcmp(d->event, "limit") == 0) {
		fputs("Limit reached: ", f);
		html_text(f, d->why);
	} else if (strcmp(d->event, "kill") == 0) {
		fputs("Killed for a limit: ", f);
		html_text(f, d->why);
	} else if (d->path) {
		html_text(f, d->path);
	} else {
		write_call_name(d, f);
	}
	if (d->count > 1)
		fprintf(f, " <span class=\"chip plain\">%lu times</span>", d->count);
}

static void write_denial(const struct report_denial *d, FILE *f)
{
	fputs("<article class=\"card\"><h3>", f);
	write_title(d, f);
	fputs("</h3>\n<p>", f);
	html_text(f, d->reason ? d->reason : d->why);
	if (d->note) {
		fputs(": ", f);
		html_text(f, d->note);
	}
	if (d->rule) {
		fputs(" <span class=\"soft\">· rule: ", f);
		html_text(f, d->rule);
		fputs("</span>", f);
	}
	fputs(" <span class=\"soft\">· asked by ", f);
	html_text(f, d->comm ? d->comm : "nobody in particular");
	if (d->pid > 0)
		fprintf(f, " (process %ld)", (long)d->pid);
	fputs(" after ", f);
	html_seconds(f, d->at);
	fputs("</span></p>\n", f);
	if (d->allow) {
		fputs("<p class=\"allow\">Allow it with <code>", f);
		html_text(f, d->allow);
		fputs("</code><button type=\"button\" data-copy hidden>copy</button>", f);
		if (d->policy) {
			fputs(" or in a policy file <code>", f);
			html_text(f, d->policy);
			fputs("</code><button type=\"button\" data-copy hidden>copy</button>", f);
		}
		fputs("</p>\n", f);
	}
	if (d->call) {
		fputs("<pre>", f);
		html_text(f, d->call);
		fputs("</pre>\n", f);
	}
	if (d->frame_count)
		write_stack(d, f);
	fputs("</article>\n", f);
}

static void write_denials(const struct report *r, FILE *f)
{
	size_t minor = 0;

	fprintf(f, "<h2 id=\"refused\">Refused <span class=\"n\">%lu</span></h2>\n", sum_denied(r));
	for (size_t i = 0; i < r->denial_count; i++) {
		minor += is_minor(&r->denials[i]);
		if (!is_minor(&r->denials[i]))
			write_denial(&r->denials[i], f);
	}
	if (r->denial_count == minor)
		fputs("<p class=\"soft\">The program was not refused anything that it may have "
		      "needed.</p>\n",
		      f);
	if (!minor)
		return;
	fprintf(f,
		"<details><summary>%zu system call%s that moat does not have; programs go on "
		"without</summary>\n",
		minor, minor == 1 ? "" : "s");
	for (size_t i = 0; i < r->denial_count; i++) {
		if (is_minor(&r->denials[i]))
			write_denial(&r->denials[i], f);
	}
	fputs("</details>\n", f);
}

/* ---- files ---- */

static size_t dir_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) + (slash == path) : 0;
}

static bool same_dir(const char *a, const char *b)
{
	size_t n = dir_length(a);

	return n == dir_length(b) && memcmp(a, b, n) == 0;
}

static void write_file(const struct report_file *file, FILE *f)
{
	const size_t n = dir_length(file->path);

	fputs("<tr data-item><td class=\"mono\"><span hidden>", f);
	html_text(f, file->path);
	fputs("</span>", f);
	html_text(f, file->path + n + (n > 1 && file->path[n] == '/'));
	fprintf(f, "</td><td class=\"how soft\">%s%s%s%s</td><td class=\"how soft\">",
		file->ways & FILE_CREATED ? "created " : "",
		file->ways & FILE_WRITE ? "written " : "", file->ways & FILE_READ ? "read " : "",
		file->ways & FILE_EXEC ? "run " : "");
	html_text(f, file->comm);
	fputs("</td></tr>\n", f);
}

enum file_list { LIST_HOST, LIST_MEMORY, LIST_READ };

static enum file_list list_of(const struct report_file *file)
{
	if (!(file->ways & FILE_WRITE))
		return LIST_READ;
	return file->ways & FILE_HOST ? LIST_HOST : LIST_MEMORY;
}

/* The files of a list, by directory. */
static void write_file_list(const struct report *r, FILE *f, enum file_list list, bool open)
{
	size_t i = 0, rows = 0;

	while (i < r->file_count) {
		const char *first = r->files[i].path;
		size_t end = i, n = 0;

		for (; end < r->file_count && same_dir(first, r->files[end].path); end++)
			n += list_of(&r->files[end]) == list;
		if (n && rows < 20 * ROWS_MAX) {
			fprintf(f, "<details class=\"dir\"%s><summary><span class=\"mono\">",
				open ? " open" : "");
			for (size_t k = 0, len = dir_length(first); k < 1 && len; k++) {
				char dir[4200];

				snprintf(dir, sizeof(dir), "%.*s", (int)MIN(len, (size_t)4100),
					 first);
				html_text(f, dir);
			}
			fprintf(f, "</span> <span class=\"soft\">%zu</span></summary>\n<table>\n",
				n);
			for (size_t k = i; k < end; k++) {
				if (list_of(&r->files[k]) == list)
					write_file(&r->files[k], f);
			}
			fputs("</table></details>\n", f);
			rows += n;
		}
		i = end;
	}
}

static void write_search(FILE *f, const char *id, const char *what)
{
	fprintf(f,
		"<input type=\"search\" data-for=\"%s\" placeholder=\"Search %s\" "
		"aria-label=\"Search %s\" hidden> <span class=\"soft\" "
		"aria-live=\"polite\"></span>\n",
		id, what, what);
}

static void write_files(const struct report *r, FILE *f)
{
	static const struct {
		const char *title;
		size_t open; /* so many are shown at once */
	} lists[] = {
		[LIST_HOST] = {"Written on the host", 100},
		[LIST_MEMORY] = {"Written in memory, and gone with the sandbox", 20},
		[LIST_READ] = {"Only read or run", 20},
	};
	size_t counts[ARRAY_SIZE(lists)] = {0};

	for (size_t i = 0; i < r->file_count; i++)
		counts[list_of(&r->files[i])]++;
	fprintf(f, "<h2 id=\"files\">Files <span class=\"n\">%zu</span></h2>\n", r->file_count);
	if (!r->file_count) {
		fputs("<p class=\"soft\">None were opened.</p>\n", f);
		return;
	}
	write_search(f, "filelist", "files");
	fputs("<div id=\"filelist\">\n", f);
	for (unsigned i = 0; i < ARRAY_SIZE(lists); i++) {
		fprintf(f, "<div class=\"card\"><h3>%s <span class=\"soft\">%zu</span></h3>\n",
			lists[i].title, counts[i]);
		write_file_list(r, f, (enum file_list)i, counts[i] <= lists[i].open);
		fputs("</div>\n", f);
	}
	fputs("</div>\n", f);
}

static void write_changes(const struct report *r, FILE *f)
{
	if (!r->change_count)
		return;
	fprintf(f,
		"<h2 id=\"changes\">Changed on the host <span class=\"n\">%zu</span></h2>\n"
		"<p class=\"soft\">Names that were made, removed or moved in directories that the "
		"program may write to. Everything else that it wrote is gone with the "
		"sandbox.</p>\n",
		r->change_count);
	write_search(f, "changelist", "changes");
	fputs("<div class=\"scroll\"><table id=\"changelist\"><thead><tr><th>What</th><th>Name</th>"
	      "<th>By</th><th class=\"num\">After</th></tr></thead>\n",
	      f);
	for (size_t i = 0; i < MIN(r->change_count, (size_t)ROWS_MAX); i++) {
		const struct report_change *c = &r->changes[i];

		fputs("<tr data-item><td class=\"how\">", f);
		html_text(f, c->what);
		fputs("</td><td class=\"mono\">", f);
		html_text(f, c->path);
		fprintf(f, "%s</td><td class=\"soft how\">", c->directory ? "/" : "");
		html_text(f, c->comm);
		fputs("</td><td class=\"num soft\">", f);
		html_seconds(f, c->at);
		fputs("</td></tr>\n", f);
	}
	fputs("</table></div>\n", f);
	if (r->change_count > ROWS_MAX)
		fprintf(f, "<p class=\"soft\">And %zu more, which are in the log.</p>\n",
			r->change_count - ROWS_MAX);
}

static void write_notes(const struct report *r, FILE *f)
{
	if (!r->note_count)
		return;
	fprintf(f,
		"<h2 id=\"notes\">Notes <span class=\"n\">%zu</span></h2>\n<div "
		"class=\"scroll\"><table>\n",
		r->note_count);
	for (size_t i = 0; i < MIN(r->note_count, (size_t)ROWS_MAX); i++) {
		fputs("<tr><td class=\"how\">", f);
		html_text(f, r->notes[i].event);
		fputs("</td><td>", f);
		html_text(f, r->notes[i].text);
		fputs("</td><td class=\"num soft\">", f);
		html_seconds(f, r->notes[i].at);
		fputs("</td></tr>\n", f);
	}
	fputs("</table></div>\n", f);
}

void report_write(struct report *r, FILE *f, const char *log_name)
{
	write_head(r, f);
	write_summary(r, f);
	fputs("<main>\n", f);
	write_warnings(r, f);
	fputs("<nav aria-label=\"Parts of this page\"><a href=\"#refused\">Refused</a>"
	      "<a href=\"#processes\">Processes</a><a href=\"#files\">Files</a>",
	      f);
	if (r->change_count)
		fputs("<a href=\"#changes\">Changed on the host</a>", f);
	fputs("<a href=\"#use\">Use over time</a></nav>\n", f);
	write_denials(r, f);
	report_processes(r, f);
	write_files(r, f);
	write_changes(r, f);
	report_meters(r, f);
	write_notes(r, f);
	fputs("</main>\n<footer><p>Made by moat report from ", f);
	html_text(f, log_name);
	fprintf(f,
		", %lu lines. In names a byte that is no printable character is written \\xNN and "
		"a "
		"backslash twice.</p></footer>\n<script>",
		r->lines);
	fwrite(g_report_js, 1, (size_t)(g_report_js_end - g_report_js), f);
	fputs("</script>\n</body>\n</html>\n", f);
}
