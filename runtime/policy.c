/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of policy files.
 *
 * Theory of operation: a scanner makes tokens with their places; a table of keys says what each
 * takes, and its function adds it to the draft, which checks it as it checks what comes from the
 * command line. The first error ends it. Nothing in a file leads anywhere else: there are no
 * includes, no variables, no functions.
 *
 * libconfuse was measured for this and left: it counts lines wrong behind sections, knows no
 * columns, puts the environment into strings that say ${NAME}, takes "path|exec = x" outside of any
 * path, lets the last of two equal keys win silently, and ends at a comment that is not closed
 * without a word, after which it parses nothing more in this process.
 *
 * Syntax: KEY = VALUE, KEY = { VALUE, … }, KEY { … }, KEY "TITLE" { … }. A value is a word of
 * letters, digits and ._+:*%/@~- or a string in double quotes, in which \" and \\ stand for " and
 * \. # begins a comment up to the line's end.
 */
#include "runtime/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/lx.h"
#include "base/meter.h"

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_STRING, TOKEN_MARK /* one of { } = , */ };

struct token {
	enum token_kind kind;
	char mark;
	const char *text;
	uint32_t line, column;
};

struct parser {
	const char *name;
	const char *at, *end;
	uint32_t line, column;
	struct draft *d;
	struct err *e;
	struct token now;
	uint64_t seen;      /* keys of the top, by their index */
	uint32_t part_seen; /* keys of the path that is being read */
	uint64_t limits_seen;
	struct grant_path path;
	struct token host;
};

/* ---- errors ---- */

static int PRINTF_LIKE(3, 4) fail(struct parser *p, const struct token *where, const char *fmt, ...)
{
	char text[sizeof(p->e->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(p->e, EINVAL, "%s:%u:%u: %s", p->name, where->line, where->column, text);
}

/* What the draft said goes behind the place and the key. */
static int fail_key(struct parser *p, const struct token *where, const char *key)
{
	char text[sizeof(p->e->text)];

	strcpy(text, p->e->text);
	return fail(p, where, "%s: %s", key, text);
}

static struct grant_origin origin_of(const struct parser *p, const struct token *t)
{
	return (struct grant_origin){.file = p->name, .line = t->line, .column = t->column};
}

/* ---- the scanner ---- */

/* Of one character in UTF-8: its bytes; 0: none is there. Overlong forms and surrogates are none.
 */
static size_t char_size(const char *s, const char *end)
{
	const unsigned char c = (unsigned char)*s;
	const size_t n = c < 0x80   ? 1
			 : c < 0xc2 ? 0
			 : c < 0xe0 ? 2
			 : c < 0xf0 ? 3
			 : c < 0xf5 ? 4
				    : 0;

	if (n == 0 || (size_t)(end - s) < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return 0;
	if (n > 1) {
		const unsigned char d = (unsigned char)s[1];

		if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) || (c == 0xf0 && d < 0x90) ||
		    (c == 0xf4 && d > 0x8f))
			return 0;
	}
	return n;
}

/* Goes on by one character. Control characters, which could draw something else on a terminal, are
 * none; C1 neither. */
static int advance(struct parser *p)
{
	const struct token here = {.line = p->line, .column = p->column};
	const unsigned char c = (unsigned char)*p->at;
	const size_t n = char_size(p->at, p->end);

	if (n == 0)
		return fail(p, &here, "a byte 0x%02x that is no UTF-8; write the file in UTF-8", c);
	if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
	    (c == 0xc2 && (unsigned char)p->at[1] < 0xa0))
		return fail(p, &here, "a control character 0x%02x; only tabs and line ends may be",
			    n == 2 ? (unsigned char)p->at[1] : c);
	p->at += n;
	p->column++;
	if (c == '\n') {
		p->line++;
		p->column = 1;
	}
	return 0;
}

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("._+:*%/@~-", c));
}

static int skip_blank(struct parser *p)
{
	int r = 0;

	while (r == 0 && p->at < p->end) {
		if (*p->at == '#') {
			while (r == 0 && p->at < p->end && *p->at != '\n')
				r = advance(p);
		} else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\n') {
			r = advance(p);
		} else if (*p->at == '\r' && p->end - p->at > 1 && p->at[1] == '\n') {
			p->at++;
		} else {
			break;
		}
	}
	return r;
}

/* Copies up to the closing quote. */
static int scan_string(struct parser *p, struct token *t)
{
	char buf[LX_PATH_MAX + 256];
	size_t n = 0;
	int r = advance(p);

	while (r == 0) {
		const char *from = p->at;

		if (p->at == p->end || *p->at == '\n')
			return fail(p, t, "a string that is not closed on its line");
		if (*p->at == '"')
			break;
		if (*p->at == '\\') {
			if (p->end - p->at < 2 || (p->at[1] != '"' && p->at[1] != '\\')) {
				t->line = p->line;
				t->column = p->column;
				return fail(p, t, "a backslash stands before \" or \\ only");
			}
			r = advance(p);
			from = p->at;
		}
		if (r == 0)
			r = advance(p);
		if (n + 4 >= sizeof(buf))
			return fail(p, t, "a string of more than %zu bytes", sizeof(buf) - 5);
		memcpy(buf + n, from, (size_t)(p->at - from));
		n += (size_t)(p->at - from);
	}
	if (r)
		return r;
	buf[n] = '\0';
	t->kind = TOKEN_STRING;
	t->text = draft_text(p->d, buf);
	return advance(p);
}

static int scan_word(struct parser *p, struct token *t)
{
	const char *from = p->at;
	char buf[256];

	while (p->at < p->end && is_word(*p->at)) {
		p->at++;
		p->column++;
	}
	if ((size_t)(p->at - from) >= sizeof(buf))
		return fail(p, t, "a word of more than %zu bytes; quote it", sizeof(buf) - 1);
	memcpy(buf, from, (size_t)(p->at - from));
	buf[p->at - from] = '\0';
	t->kind = TOKEN_WORD;
	t->text = draft_text(p->d, buf);
	return 0;
}

/* p->now becomes the next token. */
static int next(struct parser *p)
{
	struct token *t = &p->now;
	int r = skip_blank(p);

	if (r)
		return r;
	*t = (struct token){.line = p->line, .column = p->column, .text = "the end of the file"};
	if (p->at == p->end)
		return 0;
	if (strchr("{}=,", *p->at) && *p->at) {
		const char text[2] = {*p->at, '\0'};

		t->kind = TOKEN_MARK;
		t->mark = *p->at;
		t->text = draft_text(p->d, text);
		return advance(p);
	}
	if (*p->at == '"')
		return scan_string(p, t);
	if (is_word(*p->at))
		return scan_word(p, t);
	/* Says what cannot be shown; else shows it. */
	r = advance(p);
	return r ? r : fail(p, t, "a character that belongs into quotes or a comment");
}

static bool is_mark(const struct parser *p, char mark)
{
	return p->now.kind == TOKEN_MARK && p->now.mark == mark;
}

static int expect_mark(struct parser *p, char mark, const char *after)
{
	if (!is_mark(p, mark))
		return fail(p, &p->now, "'%s' where '%c' must be, after %s", p->now.text, mark,
			    after);
	return next(p);
}

/* ---- single keys ---- */

static int parse_bool(struct parser *p, const char *key, const struct token *v, bool *out)
{
	if (strcmp(v->text, "true") != 0 && strcmp(v->text, "false") != 0)
		return fail(p, v, "%s: '%s': it is true or false", key, v->text);
	*out = strcmp(v->text, "true") == 0;
	return 0;
}

/* A number up to @max; -1: it is none. */
static int64_t parse_number(const char *s, uint32_t max)
{
	char *end;
	unsigned long v;

	if (s[0] < '0' || s[0] > '9' || strlen(s) > 10)
		return -1;
	v = strtoul(s, &end, 10);
	return *end || v > max ? -1 : (int64_t)v;
}

static int key_version(struct parser *p, const struct token *v)
{
	if (strcmp(v->text, "1") != 0)
		return fail(p, v, "version: '%s': this moat knows version 1", v->text);
	return 0;
}

static int key_name(struct parser *p, const struct token *v)
{
	if (!v->text[0] || strlen(v->text) > 64)
		return fail(p, v, "name: it has 1 to 64 bytes");
	p->d->g.name = v->text;
	return 0;
}

static int key_strict(struct parser *p, const struct token *v)
{
	return parse_bool(p, "strict", v, &p->d->g.strict);
}

static int key_root(struct parser *p, const struct token *v)
{
	return draft_resolve_host(p->d, v->text, false, "name a directory that exists there",
				  &p->d->g.root, p->e)
		       ? fail_key(p, v, "root")
		       : 0;
}

static int key_env(struct parser *p, const struct token *v)
{
	const size_t n = strcspn(v->text, "=");

	for (uint32_t i = 0; i < p->d->g.env_count; i++)
		if (strncmp(p->d->env[i], v->text, n) == 0 && p->d->env[i][n] == '=')
			return fail(p, v, "env: %.*s is set twice; choose one", (int)n, v->text);
	return draft_add_env(p->d, v->text, p->e) ? fail_key(p, v, "env") : 0;
}

static int key_devices(struct parser *p, const struct token *v)
{
	return draft_add_device(p->d, v->text, p->e) ? fail_key(p, v, "devices") : 0;
}

static int key_egress(struct parser *p, const struct token *v)
{
	const struct grant_origin o = origin_of(p, v);

	return draft_add_egress(p->d, v->text, &o, p->e) ? fail_key(p, v, "egress") : 0;
}

static int key_cwd(struct parser *p, const struct token *v)
{
	struct draft *d = p->d;

	d->cwd_origin = origin_of(p, v);
	if (v->kind == TOKEN_WORD && strcmp(v->text, "caller") == 0) {
		d->show_cwd = DRAFT_CWD_READ;
	} else if (v->kind == TOKEN_WORD && strcmp(v->text, "caller-rw") == 0) {
		d->show_cwd = DRAFT_CWD_WRITE;
	} else if (v->text[0] != '/' || strlen(v->text) >= LX_PATH_MAX) {
		return fail(p, v,
			    "cwd: '%s': it is an absolute path of the guest, caller (the caller's "
			    "directory, shown read-only) or caller-rw",
			    v->text);
	} else {
		d->g.cwd = v->text;
		d->cwd_given = true;
	}
	return 0;
}

static int key_hostname(struct parser *p, const struct token *v)
{
	if (!v->text[0] || strlen(v->text) > 64)
		return fail(p, v, "hostname: it has 1 to 64 bytes");
	p->d->g.hostname = v->text;
	return 0;
}

static int key_user(struct parser *p, const struct token *v)
{
	char buf[32];
	char *colon;
	int64_t uid, gid;

	if (strlen(v->text) >= sizeof(buf))
		return fail(p, v, "user: it is UID or UID:GID");
	strcpy(buf, v->text);
	colon = strchr(buf, ':');
	if (colon)
		*colon = '\0';
	uid = parse_number(buf, UINT32_MAX - 1);
	gid = colon ? parse_number(colon + 1, UINT32_MAX - 1) : uid;
	if (uid < 0 || gid < 0)
		return fail(p, v, "user: '%s': it is UID or UID:GID, in numbers", v->text);
	p->d->g.uid = (uint32_t)uid;
	p->d->g.gid = (uint32_t)gid;
	return 0;
}

static int key_cpus(struct parser *p, const struct token *v)
{
	const unsigned host = draft_host_cpus();
	const int64_t n = parse_number(v->text, UINT32_MAX);

	if (n < 1 || n > host)
		return fail(p, v, "cpus: '%s': it is a number from 1 to %u, which this host has",
			    v->text, host);
	p->d->g.cpus = (uint32_t)n;
	return 0;
}

static int key_clock(struct parser *p, const struct token *v)
{
	const struct grant_origin o = origin_of(p, v);

	return draft_set_clock(p->d, v->text, &o, p->e) ? fail_key(p, v, "clock") : 0;
}

static int key_seed(struct parser *p, const struct token *v)
{
	const struct grant_origin o = origin_of(p, v);

	return draft_set_seed(p->d, v->text, &o, p->e) ? fail_key(p, v, "seed") : 0;
}

static const struct {
	const char *name;
	bool list;
	int (*fn)(struct parser *p, const struct token *v);
} g_keys[] = {
	{"version", false, key_version},
	{"name", false, key_name},
	{"strict", false, key_strict},
	{"root", false, key_root},
	{"env", true, key_env},
	{"devices", true, key_devices},
	{"egress", true, key_egress},
	{"cwd", false, key_cwd},
	{"hostname", false, key_hostname},
	{"user", false, key_user},
	{"cpus", false, key_cpus},
	{"clock", false, key_clock},
	{"seed", false, key_seed},
};

/* ---- the grammar ---- */

/* p->now is the value of @key. */
static int parse_value(struct parser *p, const struct token *key,
		       int (*fn)(struct parser *p, const struct token *v))
{
	const struct token v = p->now;
	int r;

	if (v.kind != TOKEN_WORD && v.kind != TOKEN_STRING)
		return fail(p, &v, "%s: '%s' where a value must be", key->text, v.text);
	r = fn(p, &v);
	return r ? r : next(p);
}

static int parse_list(struct parser *p, const struct token *key,
		      int (*fn)(struct parser *p, const struct token *v))
{
	int r;

	if (!is_mark(p, '{'))
		return fail(p, &p->now, "%s: '%s' where a list must be: { A, B }", key->text,
			    p->now.text);
	r = next(p);
	while (r == 0 && !is_mark(p, '}')) {
		r = parse_value(p, key, fn);
		if (r == 0 && is_mark(p, ','))
			r = next(p);
		else if (r == 0 && !is_mark(p, '}'))
			r = fail(p, &p->now, "%s: '%s' where ',' or '}' must be", key->text,
				 p->now.text);
	}
	return r ? r : next(p);
}

static const char *const g_path_keys[] = {"host", "access", "exec", "optional"};
enum { PATH_HOST, PATH_ACCESS, PATH_EXEC, PATH_OPTIONAL };

static int path_access(struct parser *p, const struct token *v)
{
	if (strcmp(v->text, "ro") == 0)
		p->path.access = GRANT_READ;
	else if (strcmp(v->text, "rw") == 0)
		p->path.access = GRANT_WRITE;
	else if (strcmp(v->text, "hidden") == 0)
		p->path.access = GRANT_HIDDEN;
	else
		return fail(p, v, "access: '%s': it is one of ro, rw, hidden", v->text);
	return 0;
}

static int path_host(struct parser *p, const struct token *v)
{
	p->host = *v;
	return 0;
}

static int path_exec(struct parser *p, const struct token *v)
{
	return parse_bool(p, "exec", v, &p->path.exec);
}

static int path_optional(struct parser *p, const struct token *v)
{
	return parse_bool(p, "optional", v, &p->path.optional);
}

static int path_end(struct parser *p, const struct token *title)
{
	struct grant_path *g = &p->path;

	if (g->access == GRANT_HIDDEN && (g->exec || p->host.text))
		return fail(p, title, "path: %s is hidden: it has neither host nor exec",
			    title->text);
	if (g->access != GRANT_HIDDEN) {
		const struct token *where = p->host.text ? &p->host : title;

		if (draft_resolve_host(p->d, where->text, g->optional,
				       p->host.text
					       ? "name what exists there, or say optional = true"
					       : "say with host = where it is, or optional = true",
				       &g->host, p->e))
			return fail_key(p, where, p->host.text ? "host" : "path");
	}
	return draft_add_path(p->d, g, p->e) ? fail_key(p, title, "path") : 0;
}

/* p->now is what follows "path". */
static int parse_path(struct parser *p, const struct token *key)
{
	static int (*const fn[])(struct parser * p, const struct token *v) = {
		path_host, path_access, path_exec, path_optional};
	const struct token title = p->now;
	int r;

	if (title.kind != TOKEN_STRING)
		return fail(p, &title,
			    "path: '%s' where a quoted path must be: path \"/work\" { … }",
			    title.text);
	p->path = (struct grant_path){
		.target = title.text, .access = GRANT_READ, .origin = origin_of(p, &title)};
	p->host = (struct token){0};
	p->part_seen = 0;
	if (draft_check_target(title.text, p->e))
		return fail_key(p, &title, "path");
	r = next(p);
	if (r == 0)
		r = expect_mark(p, '{', key->text);
	while (r == 0 && !is_mark(p, '}')) {
		const struct token part = p->now;
		unsigned i = 0;

		while (i < ARRAY_SIZE(g_path_keys) &&
		       (part.kind != TOKEN_WORD || strcmp(g_path_keys[i], part.text) != 0))
			i++;
		if (part.kind == TOKEN_END)
			return fail(p, &part, "path: its { is not closed; end it with }");
		if (i == ARRAY_SIZE(g_path_keys))
			return fail(
				p, &part,
				"path: '%s': no such key; there are host, access, exec, optional",
				part.text);
		if (p->part_seen & (1u << i))
			return fail(p, &part, "path: %s is given twice; choose one", part.text);
		p->part_seen |= 1u << i;
		r = next(p);
		if (r == 0)
			r = expect_mark(p, '=', part.text);
		if (r == 0)
			r = parse_value(p, &part, fn[i]);
	}
	if (r == 0)
		r = path_end(p, &title);
	return r ? r : next(p);
}

static int parse_limits(struct parser *p, const struct token *key)
{
	int r = expect_mark(p, '{', key->text);

	while (r == 0 && !is_mark(p, '}')) {
		const struct token name = p->now;
		const struct grant_origin o = origin_of(p, &name);

		if (name.kind != TOKEN_WORD)
			return fail(p, &name, "limits: '%s' where the name of a limit must be",
				    name.text);
		for (unsigned i = 0; i < METER_COUNT; i++) {
			if (strcmp(meter_name((enum meter)i), name.text) != 0)
				continue;
			if (p->limits_seen & ((uint64_t)1 << i))
				return fail(p, &name, "limits: %s is given twice; choose one",
					    name.text);
			p->limits_seen |= (uint64_t)1 << i;
		}
		r = next(p);
		if (r == 0)
			r = expect_mark(p, '=', name.text);
		if (r)
			return r;
		if (p->now.kind != TOKEN_WORD && p->now.kind != TOKEN_STRING)
			return fail(p, &p->now, "%s: '%s' where a value must be", name.text,
				    p->now.text);
		if (draft_set_limit(p->d, name.text, p->now.text, &o, p->e))
			return fail_key(p, &p->now, name.text);
		r = next(p);
	}
	return r ? r : next(p);
}
_Static_assert(METER_COUNT <= 64, "limits_seen has a bit for each");

static int fail_unknown(struct parser *p, const struct token *key)
{
	char all[200] = "";

	for (size_t i = 0; i < ARRAY_SIZE(g_keys); i++)
		strcat(strcat(all, g_keys[i].name), ", ");
	return fail(p, key, "'%s': no such key; there are %spath, limits", key->text, all);
}

static int parse_key(struct parser *p)
{
	const struct token key = p->now;
	unsigned i = 0;
	int r;

	if (key.kind != TOKEN_WORD)
		return fail(p, &key, "'%s' where a key must be", key.text);
	while (i < ARRAY_SIZE(g_keys) && strcmp(g_keys[i].name, key.text) != 0)
		i++;
	/* What the rest means depends on it. */
	if (i > 0 && !(p->seen & 1))
		return fail(p, &key, "version: it comes first: version = 1");
	if (i == ARRAY_SIZE(g_keys)) {
		const bool path = strcmp(key.text, "path") == 0;

		if (!path && strcmp(key.text, "limits") != 0)
			return fail_unknown(p, &key);
		r = next(p);
		return r ? r : path ? parse_path(p, &key) : parse_limits(p, &key);
	}
	if (p->seen & ((uint64_t)1 << i))
		return fail(p, &key, "%s is given twice; choose one", key.text);
	p->seen |= (uint64_t)1 << i;
	r = next(p);
	if (r == 0)
		r = expect_mark(p, '=', key.text);
	if (r)
		return r;
	return g_keys[i].list ? parse_list(p, &key, g_keys[i].fn)
			      : parse_value(p, &key, g_keys[i].fn);
}

int policy_parse(const char *name, const char *text, size_t size, struct draft *d, struct err *e)
{
	struct parser p = {.name = name,
			   .at = text,
			   .end = text + size,
			   .line = 1,
			   .column = 1,
			   .d = d,
			   .e = e};
	int r;

	if (size > POLICY_SIZE_MAX)
		return err_set(e, EFBIG, "%s: more than %zu bytes; that is no policy", name,
			       POLICY_SIZE_MAX);
	d->g.name = name;
	r = next(&p);
	if (r == 0 && p.now.kind == TOKEN_END)
		return fail(&p, &p.now, "version: it comes first: version = 1");
	while (r == 0 && p.now.kind != TOKEN_END)
		r = parse_key(&p);
	return r;
}

/* ---- files ---- */

static int read_all(int fd, char *buf, size_t size, size_t *used)
{
	ssize_t n;

	for (*used = 0; *used < size; *used += (size_t)n) {
		n = HOST(read_monitor, read(fd, buf + *used, size - *used));
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
	return 0;
}

int policy_load(const char *path, struct draft *d, struct err *e)
{
	const size_t room = POLICY_SIZE_MAX + 1;
	char *text = malloc(room);
	size_t size = 0;
	struct stat st;
	int fd, r = 0;

	/* A FIFO without a writer must not hold us up. */
	fd = HOST(openat_monitor, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	if (fd < 0)
		r = -errno;
	else if (HOST(newfstatat_monitor, fstat(fd, &st)) != 0)
		r = -errno;
	else if (S_ISDIR(st.st_mode))
		r = -EISDIR;
	else
		r = text ? read_all(fd, text, room, &size) : -ENOMEM;
	if (fd >= 0)
		HOST(close_monitor, close(fd));
	if (r)
		r = err_set(e, -r, "%s: %s; name a policy file%s", path[0] ? path : "''",
			    err_text(-r), policy_preset(path) ? ", or say --preset" : "");
	else
		r = policy_parse(draft_text(d, path), text, size, d, e);
	free(text);
	return r;
}

int policy_load_preset(const char *name, struct draft *d, struct err *e)
{
	const char *text = policy_preset(name);
	char all[128] = "", title[64];

	if (text) {
		snprintf(title, sizeof(title), "preset %s", name);
		return policy_parse(draft_text(d, title), text, strlen(text), d, e);
	}
	for (unsigned i = 0; policy_preset_name(i); i++)
		strcat(strcat(all, i ? ", " : ""), policy_preset_name(i));
	return err_set(e, EINVAL, "no such preset; there are %s", all);
}
