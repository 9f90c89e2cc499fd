/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moat report: from lines of JSON to a struct report. See runtime/report.h.
 *
 * Theory of operation: each line stands alone; one that cannot be read, or whose members are not of
 * the kind that they should be, is counted and left out. Arrays grow to bounds of their own, and
 * what is beyond them is counted. Text is kept in blocks that live as long as the report.
 */
#include "runtime/report.h"

#include <argp.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/alloc.h"
#include "runtime/run.h"

#define DEPTH_MAX 8
#define TEXT_BLOCK ((size_t)256 << 10)
#define TEXTS_MAX ((uint64_t)1 << 30)
#define PROCESSES_MAX 100000u
#define FILES_MAX 500000u
#define CHANGES_MAX 100000u
#define DENIALS_MAX 10000u
#define NOTES_MAX 10000u
#define SAMPLES_MAX 100000u
#define DROPPED_MAX 64u
#define FRAMES_MAX 64u
/* Eleven days: a later time is damage. */
#define AT_MAX 1e6

struct report_text {
	struct report_text *next;
	size_t used, size;
	char data[];
};

/* ---- memory ---- */

static void *keep(struct report *r, size_t size)
{
	struct report_text *b = r->texts;

	size = (size + 15) & ~(size_t)15;
	if (r->text_bytes + size > TEXTS_MAX)
		return NULL;
	if (!b || b->size - b->used < size) {
		size_t room = MAX(size, TEXT_BLOCK);

		b = mem_zalloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		b->size = room;
		b->next = r->texts;
		r->texts = b;
		r->text_bytes += room;
	}
	b->used += size;
	return b->data + b->used - size;
}

/* Makes room for one more in an array of @count, which has room for powers of two. */
static void *grow(struct report *r, void *array, size_t count, size_t size, size_t max)
{
	if (count >= max) {
		r->left_out++;
		return NULL;
	}
	if (count & (count - 1) || count == 1)
		return array;
	return mem_realloc(array, MAX(count * 2, (size_t)2) * size);
}

#define ADD(r, array, count, max)                                                         \
	__extension__({                                                                   \
		void *grown_ = grow(r, (r)->array, (r)->count, sizeof(*(r)->array), max); \
		__typeof__((r)->array) new_ = NULL;                                       \
		if (grown_) {                                                             \
			(r)->array = grown_;                                              \
			new_ = &(r)->array[(r)->count++];                                 \
			memset(new_, 0, sizeof(*new_));                                   \
		}                                                                         \
		new_;                                                                     \
	})

struct report *report_new(void)
{
	struct report *r = mem_zalloc(sizeof(*r));
	struct json_tokener *t = json_tokener_new_ex(DEPTH_MAX);

	if (!r || !t) {
		mem_free(r);
		if (t)
			json_tokener_free(t);
		return NULL;
	}
	json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	r->tokener = t;
	r->duration = -1;
	r->status = r->sentry_status = -1;
	for (unsigned m = 0; m < METER_COUNT; m++)
		r->limits[m] = METER_NO_LIMIT;
	htable_init(&r->by_pid);
	htable_init(&r->by_hash);
	return r;
}

void report_free(struct report *r)
{
	struct report_text *b, *next;

	if (!r)
		return;
	for (b = r->texts; b; b = next) {
		next = b->next;
		mem_free(b);
	}
	json_tokener_free(r->tokener);
	htable_fini(&r->by_pid);
	htable_fini(&r->by_hash);
	mem_free(r->denials);
	mem_free(r->processes);
	mem_free(r->files);
	mem_free(r->changes);
	mem_free(r->notes);
	mem_free(r->samples);
	mem_free(r->dropped);
	mem_free(r);
}

/* ---- members ---- */

static struct json_object *member(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *v = NULL;

	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, type))
		return NULL;
	return v;
}

static const char *keep_text(struct report *r, const char *s, size_t size)
{
	char *copy = keep(r, size + 1);

	if (!copy)
		return NULL;
	/* A NUL in a JSON text would hide what follows it. */
	for (size_t i = 0; i < size; i++)
		copy[i] = s[i] ? s[i] : '?';
	copy[size] = '\0';
	return copy;
}

static const char *text(struct report *r, struct json_object *o, const char *key)
{
	struct json_object *v = member(o, key, json_type_string);

	return v ? keep_text(r, json_object_get_string(v), (size_t)json_object_get_string_len(v))
		 : NULL;
}

/* A number that is no less than 0, else @other. */
static double number(struct json_object *o, const char *key, double other)
{
	struct json_object *v = NULL;
	double d;

	if (!json_object_object_get_ex(o, key, &v) ||
	    (!json_object_is_type(v, json_type_double) && !json_object_is_type(v, json_type_int)))
		return other;
	d = json_object_get_double(v);
	return isfinite(d) && d >= 0 ? d : other;
}

static uint64_t count_of(struct json_object *o, const char *key)
{
	struct json_object *v = member(o, key, json_type_int);
	int64_t n = v ? json_object_get_int64(v) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

static int64_t integer(struct json_object *o, const char *key, int64_t other)
{
	struct json_object *v = member(o, key, json_type_int);

	return v ? json_object_get_int64(v) : other;
}

/* The texts of an array, with spaces between them; those with spaces inside in quotes. */
static const char *words(struct report *r, struct json_object *o, const char *key, const char *sep)
{
	struct json_object *list = member(o, key, json_type_array);
	size_t size = 0, used = 0, n = list ? json_object_array_length(list) : 0;
	char *out;

	for (size_t i = 0; i < n; i++)
		size += (size_t)json_object_get_string_len(json_object_array_get_idx(list, i)) + 4;
	if (!n)
		return NULL;
	out = keep(r, size + 1);
	for (size_t i = 0; out && i < n; i++) {
		struct json_object *v = json_object_array_get_idx(list, i);
		const char *s =
			json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "?";
		bool quote = *sep == ' ' && (!*s || strpbrk(s, " '\"$;|&<>()*?`"));

		used += (size_t)snprintf(out + used, size + 1 - used, "%s%s%s%s", i ? sep : "",
					 quote ? "'" : "", s, quote ? "'" : "");
		if (used > size)
			break;
	}
	return out;
}

/* ---- events ---- */

/* 64 bits, seeded: an equal hash is an equal key. */
static bool any_eq(const void *entry UNUSED, const void *key UNUSED)
{
	return true;
}

static uint64_t pid_hash(int64_t pid)
{
	return hash_u64((uint64_t)pid);
}

static struct report_process *process_find(struct report *r, int64_t pid)
{
	uintptr_t at = (uintptr_t)htable_find(&r->by_pid, pid_hash(pid), any_eq, NULL);

	return at ? &r->processes[at - 1] : NULL;
}

static struct report_process *process_new(struct report *r, int64_t pid, int64_t parent, double at)
{
	uintptr_t up = (uintptr_t)htable_find(&r->by_pid, pid_hash(parent), any_eq, NULL);
	struct report_process *p = ADD(r, processes, process_count, PROCESSES_MAX);
	void *old;

	if (!p)
		return NULL;
	p->up = parent > 0 ? (uint32_t)up : 0;
	p->pid = pid;
	p->parent = parent;
	p->start = at;
	p->end = -1;
	p->status = -1;
	old = htable_find(&r->by_pid, pid_hash(pid), any_eq, NULL);
	if (old)
		htable_remove(&r->by_pid, pid_hash(pid), old);
	if (htable_insert(&r->by_pid, pid_hash(pid), (void *)(uintptr_t)r->process_count) != 0)
		r->left_out++;
	return p;
}

/* The process that an event is of; made if the log has not told of it. */
static struct report_process *process_of(struct report *r, struct json_object *o, double at)
{
	int64_t pid = integer(o, "pid", -1), parent = integer(o, "parent", -1);
	struct report_process *p = pid > 0 ? process_find(r, pid) : NULL;

	if (pid <= 0)
		return NULL;
	if (!p || p->end >= 0)
		p = process_new(r, pid, parent, at);
	if (p && parent > 0 && p->parent <= 0)
		p->parent = parent;
	return p;
}

static void on_start(struct report *r, struct json_object *o, double at UNUSED)
{
	struct json_object *limits = member(o, "limits", json_type_object);

	if (r->started)
		return;
	r->started = true;
	r->command = words(r, o, "argv", " ");
	r->walls = words(r, o, "walls", ", ");
	r->cwd = text(r, o, "cwd");
	r->platform = text(r, o, "platform");
	r->policy = text(r, o, "policy");
	r->grant = text(r, o, "grant");
	r->time = text(r, o, "time");
	for (unsigned m = 0; limits && m < METER_COUNT; m++) {
		if (member(limits, meter_name((enum meter)m), json_type_int))
			r->limits[m] = count_of(limits, meter_name((enum meter)m));
	}
}

static void on_end(struct report *r, struct json_object *o, double at)
{
	struct json_object *cut = member(o, "cut", json_type_boolean);

	if (r->ended)
		return;
	r->ended = true;
	r->duration = at;
	r->status = integer(o, "status", -1);
	r->sentry = text(r, o, "sentry");
	r->sentry_status = integer(o, "sentry_status", -1);
	r->lines_over = count_of(o, "lines_over_limit");
	r->lines_refused = count_of(o, "lines_refused");
	r->cut = cut && json_object_get_boolean(cut);
	if (!r->grant)
		r->grant = text(r, o, "grant");
}

static void on_fork(struct report *r, struct json_object *o, double at)
{
	struct report_process *parent = process_of(r, o, at), *p;
	const char *comm = parent ? parent->comm : NULL;
	int64_t child = integer(o, "child", -1);

	if (child <= 0 || !parent)
		return;
	if (!comm)
		comm = parent->comm = text(r, o, "comm");
	p = process_new(r, child, integer(o, "pid", -1), at);
	if (p)
		p->comm = comm;
}

static void on_exec(struct report *r, struct json_object *o, double at)
{
	struct report_process *p = process_of(r, o, at);

	if (!p)
		return;
	if (p->execs++) {
		p->last_comm = text(r, o, "comm");
		return;
	}
	p->comm = text(r, o, "comm");
	p->path = text(r, o, "path");
	p->args = words(r, o, "argv", " ");
}

static void on_exited(struct report *r, struct json_object *o, double at)
{
	struct report_process *p = process_of(r, o, at);
	double lived = number(o, "lived", 0);

	if (!p)
		return;
	p->end = at;
	p->start = MIN(p->start, MAX(at - lived, 0.0));
	if (!p->comm)
		p->comm = text(r, o, "comm");
	p->status = integer(o, "status", -1);
	p->signal = text(r, o, "signal");
	p->user = number(o, "user", 0);
	p->system = number(o, "system", 0);
	p->memory_peak = count_of(o, "memory_peak");
}

static void on_open(struct report *r, struct json_object *o, double at)
{
	static const struct {
		const char *word;
		unsigned ways;
	} words_[] = {{"read", FILE_READ},
		      {"write", FILE_WRITE},
		      {"read-write", FILE_READ | FILE_WRITE},
		      {"exec", FILE_EXEC}};
	const char *path = text(r, o, "path"), *way = text(r, o, "for"), *on = text(r, o, "on");
	struct report_file *f = path && way ? ADD(r, files, file_count, FILES_MAX) : NULL;

	if (!f)
		return;
	f->path = path;
	f->comm = text(r, o, "comm");
	f->at = at;
	for (unsigned i = 0; i < ARRAY_SIZE(words_); i++) {
		if (strcmp(way, words_[i].word) == 0)
			f->ways = words_[i].ways;
	}
	if (member(o, "created", json_type_boolean))
		f->ways |= FILE_CREATED;
	if (on && strcmp(on, "hostfs") == 0)
		f->ways |= FILE_HOST;
}

static void on_change(struct report *r, struct json_object *o, double at)
{
	struct report_change *c = ADD(r, changes, change_count, CHANGES_MAX);

	if (!c)
		return;
	c->what = text(r, o, "what");
	c->path = text(r, o, "path");
	c->comm = text(r, o, "comm");
	c->directory = member(o, "directory", json_type_boolean) != NULL;
	c->at = at;
}

static void take_stack(struct report *r, struct json_object *o, struct report_denial *d)
{
	struct json_object *list = member(o, "stack", json_type_array);
	size_t n = list ? MIN(json_object_array_length(list), (size_t)FRAMES_MAX) : 0;

	d->frames = n ? keep(r, n * sizeof(*d->frames)) : NULL;
	if (!d->frames)
		return;
	for (size_t i = 0; i < n; i++) {
		struct json_object *v = json_object_array_get_idx(list, i);
		struct report_frame *f = &d->frames[d->frame_count];

		if (!json_object_is_type(v, json_type_object))
			continue;
		memset(f, 0, sizeof(*f));
		f->ip = text(r, v, "ip");
		f->module = text(r, v, "module");
		f->symbol = text(r, v, "symbol");
		f->offset = count_of(v, "offset");
		f->symbol_offset = count_of(v, "symbol_offset");
		d->frame_count++;
	}
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	return s ? hash_bytes(s, strlen(s), h) : hash_u64(h);
}

static void on_denial(struct report *r, struct json_object *o, double at)
{
	struct report_denial d = {
		.event = text(r, o, "event"),
		.why = text(r, o, "why"),
		.reason = text(r, o, "reason"),
		.path = text(r, o, "path"),
		.rule = text(r, o, "rule"),
		.allow = text(r, o, "allow"),
		.policy = text(r, o, "allow_policy"),
		.call = text(r, o, "call"),
		.note = text(r, o, "note"),
		.comm = text(r, o, "comm"),
		.at = at,
		.pid = integer(o, "pid", -1),
		.count = 1,
	};
	const char *limit = text(r, o, "limit");
	struct report_denial *to;
	uint64_t h;
	uintptr_t old;

	if (limit) {
		d.why = limit;
		d.reason = text(r, o, "what");
	}
	h = hash_text(hash_text(hash_text(hash_text(0, d.event), d.why), d.path), d.allow);
	h = hash_text(h, limit ? NULL : d.note);
	old = (uintptr_t)htable_find(&r->by_hash, h, any_eq, NULL);
	if (old) {
		r->denials[old - 1].count++;
		return;
	}
	to = ADD(r, denials, denial_count, DENIALS_MAX);
	if (!to)
		return;
	take_stack(r, o, &d);
	*to = d;
	if (htable_insert(&r->by_hash, h, (void *)(uintptr_t)r->denial_count) != 0)
		r->left_out++;
}

static void on_meters(struct report *r, struct json_object *o, double at)
{
	struct json_object *used = member(o, "used", json_type_object);
	struct report_sample *s = used ? ADD(r, samples, sample_count, SAMPLES_MAX) : NULL;

	if (!s)
		return;
	s->at = at;
	for (unsigned m = 0; m < METER_COUNT; m++)
		s->used[m] = count_of(used, meter_name((enum meter)m));
}

static void on_dropped(struct report *r, struct json_object *o, double at UNUSED)
{
	const char *kind = text(r, o, "kind");
	struct report_dropped *d;

	if (!kind)
		return;
	for (size_t i = 0; i < r->dropped_count; i++) {
		if (strcmp(r->dropped[i].kind, kind) == 0) {
			r->dropped[i].count += count_of(o, "count");
			return;
		}
	}
	d = ADD(r, dropped, dropped_count, DROPPED_MAX);
	if (d)
		*d = (struct report_dropped){kind, count_of(o, "count")};
}

static void on_note(struct report *r, struct json_object *o, double at)
{
	const char *event = text(r, o, "event"), *words_ = text(r, o, "text");
	struct report_note *n = event && words_ ? ADD(r, notes, note_count, NOTES_MAX) : NULL;

	if (n)
		*n = (struct report_note){event, words_, at};
	else
		r->unknown_lines++;
}

static const struct {
	const char *name;
	void (*fn)(struct report *r, struct json_object *o, double at);
	bool of_monitor;
} g_events[] = {
	{"start", on_start, false},   {"end", on_end, true},        {"fork", on_fork, false},
	{"exec", on_exec, false},     {"exit", on_exited, false},   {"open", on_open, false},
	{"change", on_change, false}, {"denied", on_denial, false}, {"limit", on_denial, false},
	{"kill", on_denial, false},   {"meters", on_meters, false}, {"dropped", on_dropped, false},
};

static void take_event(struct report *r, struct json_object *o, bool by_monitor)
{
	struct json_object *event = member(o, "event", json_type_string);
	const char *name = event ? json_object_get_string(event) : "";
	double at = MIN(number(o, "at", r->last_at), AT_MAX);

	r->last_at = MAX(r->last_at, at);
	for (unsigned i = 0; i < ARRAY_SIZE(g_events); i++) {
		if (strcmp(name, g_events[i].name) != 0)
			continue;
		/* The end is the monitor's to tell, and nothing else is. */
		if (g_events[i].of_monitor != by_monitor)
			break;
		g_events[i].fn(r, o, at);
		return;
	}
	on_note(r, o, at);
}

void report_line(struct report *r, const char *line, size_t size)
{
	static const char by_monitor[] = "{\"by\":\"monitor\",";
	struct json_tokener *t = r->tokener;
	struct json_object *o = NULL;

	r->lines++;
	if (size > 0 && size < REPORT_LINE_MAX) {
		json_tokener_reset(t);
		o = json_tokener_parse_ex(t, line, (int)size);
		if (json_tokener_get_error(t) != json_tokener_success ||
		    json_tokener_get_parse_end(t) != size ||
		    !json_object_is_type(o, json_type_object)) {
			if (o)
				json_object_put(o);
			o = NULL;
		}
	}
	if (!o) {
		r->bad_lines++;
		return;
	}
	take_event(r, o,
		   size > sizeof(by_monitor) &&
			   memcmp(line, by_monitor, sizeof(by_monitor) - 1) == 0);
	json_object_put(o);
}

/* ---- after the last line ---- */

static size_t dir_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

/* By directory, so that its files stand together, then by name, then by time. */
static int by_path(const void *a, const void *b)
{
	const struct report_file *x = a, *y = b;
	const size_t n = dir_length(x->path), m = dir_length(y->path);
	int c = memcmp(x->path, y->path, MIN(n, m));

	if (c == 0)
		c = (n > m) - (n < m);
	if (c == 0)
		c = strcmp(x->path, y->path);
	return c ? c : (x->at > y->at) - (x->at < y->at);
}

void report_finish(struct report *r)
{
	size_t kept = 0;

	if (r->file_count)
		qsort(r->files, r->file_count, sizeof(*r->files), by_path);
	/* A file is told once for each way in which it was opened: here it is one. */
	for (size_t i = 0; i < r->file_count; i++) {
		if (kept && strcmp(r->files[kept - 1].path, r->files[i].path) == 0)
			r->files[kept - 1].ways |= r->files[i].ways;
		else
			r->files[kept++] = r->files[i];
	}
	r->file_count = kept;
	if (r->duration < 0)
		r->duration = r->last_at;
}

/* ---- the command ---- */

static bool read_log(struct report *r, FILE *f)
{
	char *line = mem_zalloc(REPORT_LINE_MAX + 1);
	size_t used = 0;
	int c;

	if (!line)
		return false;
	while ((c = getc_unlocked(f)) != EOF) {
		if (c != '\n') {
			if (used < REPORT_LINE_MAX)
				line[used++] = (char)c;
			continue;
		}
		report_line(r, line, used);
		used = 0;
	}
	if (used) {
		r->in_middle = true;
		report_line(r, line, used);
	}
	mem_free(line);
	return !ferror(f);
}

static int fail(const char *what, const char *why, const char *mend)
{
	fprintf(stderr, "moat report: %s: %s; %s\n", what, why, mend);
	return 1;
}

static int no_such(const char *what, const char *mend)
{
	(void)fail(what, strerror(errno), mend);
	return EXIT_USAGE;
}

static int make_page(const char *log, const char *out)
{
	FILE *in = strcmp(log, "-") == 0 ? stdin : fopen(log, "re"), *f;
	struct report *r;
	bool ok;

	if (!in)
		return no_such(log, "name a file that moat run --audit=FILE has made");
	r = report_new();
	if (!r)
		return fail(log, "out of memory", "take a machine with more");
	if (!read_log(r, in))
		return fail(log, "cannot be read",
			    "name a file that moat run --audit=FILE has made");
	if (in != stdin)
		fclose(in);
	if (r->lines == r->bad_lines) {
		report_free(r);
		return fail(log, "holds no event",
			    "name a file that moat run --audit=FILE has made");
	}
	report_finish(r);
	f = strcmp(out, "-") == 0 ? stdout : fopen(out, "we");
	if (!f)
		return no_such(out, "name a file that can be written");
	report_write(r, f, log);
	ok = !(ferror(f) | fflush(f));
	if (f != stdout)
		ok = !fclose(f) && ok;
	report_free(r);
	return ok ? 0 : fail(out, "cannot be written whole", "make room or name another file");
}

int report_main(int argc, char **argv)
{
	const char *log = NULL, *out = NULL;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-o") == 0 && i + 1 < argc && !out)
			out = argv[++i];
		else if (!log && (argv[i][0] != '-' || !argv[i][1]))
			log = argv[i];
		else
			log = out = NULL, i = argc;
	}
	if (!log || !out || !log[0] || !out[0]) {
		fputs("moat report: say moat report LOG -o FILE.html; LOG is what moat run "
		      "--audit=LOG has written\n",
		      stderr);
		return EXIT_USAGE;
	}
	return make_page(log, out);
}
