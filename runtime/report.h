/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moat report: the file of --audit as a page for people.
 *
 *   report.c        the command; lines of JSON into a struct report
 *   report_page.c   the page: summary, what was refused, files, changes
 *   report_chart.c  its pictures: processes on a time line, meters over time
 *   report_html.c   text that is safe in HTML
 *   report.css, report.js  built in; the page loads nothing
 *
 * Trust: a log holds names of the guest's, and may be cut short, damaged, or made up. So lines are
 * parsed strictly, with bounded depth, length and number; nothing is believed of what one line says
 * of another; and all text goes through html_text().
 */
#ifndef MOAT_RUNTIME_REPORT_H
#define MOAT_RUNTIME_REPORT_H

#include <stdio.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/meter.h"
#include "base/types.h"

/* A longer line is damaged. */
#define REPORT_LINE_MAX ((size_t)64 << 10)

struct report_frame {
	const char *ip, *module, *symbol; /* the latter two or NULL */
	uint64_t offset, symbol_offset;
};

/* Denials, reached limits and kills by them; equal ones are one, with a count. */
struct report_denial {
	const char *event, *why, *reason, *path, *rule, *allow, *policy, *call, *note,
		*comm; /* or NULL */
	double at;
	int64_t pid;
	uint64_t count;
	struct report_frame *frames;
	unsigned frame_count;
	uint64_t hash;
};

struct report_process {
	int64_t pid, parent; /* parent -1: unknown */
	double start, end;   /* end < 0: it has not ended in the log */
	/* Of its first program, and of its last if that is another; or NULL. */
	const char *comm, *path, *args, *last_comm, *signal;
	int64_t status; /* -1: unknown */
	double user, system;
	uint64_t memory_peak;
	unsigned execs;
	uint32_t up; /* the process that had the parent's number then: index + 1; 0: none */
	/* The tree: report_chart.c */
	uint32_t first_child, last_child, next; /* index + 1; 0: none */
	bool is_child;
};

enum { FILE_READ = 1, FILE_WRITE = 2, FILE_EXEC = 4, FILE_CREATED = 8, FILE_HOST = 16 };

struct report_file {
	const char *path, *comm;
	unsigned ways;
	double at;
};

struct report_change {
	const char *what, *path, *comm;
	double at;
	bool directory;
};

struct report_note {
	const char *event, *text;
	double at;
};

struct report_sample {
	double at;
	uint64_t used[METER_COUNT];
};

struct report_dropped {
	const char *kind;
	uint64_t count;
};

struct report {
	/* What start and end say; NULL or negative: nothing. */
	const char *command, *cwd, *platform, *policy, *grant, *walls, *time;
	const char *sentry;
	double duration;
	int64_t status, sentry_status;
	bool started, ended, cut;
	uint64_t limits[METER_COUNT]; /* METER_NO_LIMIT: none */
	uint64_t lines_over, lines_refused;

	uint64_t lines, bad_lines, unknown_lines, left_out;
	double last_at;
	bool in_middle; /* the last line has no end */

	struct report_denial *denials;
	struct report_process *processes;
	struct report_file *files;
	struct report_change *changes;
	struct report_note *notes;
	struct report_sample *samples;
	struct report_dropped *dropped;
	size_t denial_count, process_count, file_count, change_count, note_count, sample_count,
		dropped_count;

	struct htable by_pid;  /* the last process of that number: index + 1 */
	struct htable by_hash; /* denials: index + 1 */
	struct report_text *texts;
	uint64_t text_bytes;
	void *tokener;
};

struct report *report_new(void) MUST_USE;
void report_free(struct report *r);
/* One line without its newline. */
void report_line(struct report *r, const char *line, size_t size);
/* Sorts what has been read. Once, after the last line. */
void report_finish(struct report *r);
/* The page. */
void report_write(struct report *r, FILE *f, const char *log_name);

int report_main(int argc, char **argv);

/* ---- between the files ---- */

void html_text(FILE *f, const char *s);
/* "1.5 s", "12 ms". */
void html_seconds(FILE *f, double seconds);
void html_bytes(FILE *f, double v);
/* In the unit of the meter. */
void html_meter(FILE *f, enum meter m, double v);
void report_processes(struct report *r, FILE *f);
void report_meters(const struct report *r, FILE *f);

#endif
