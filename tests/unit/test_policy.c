/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime/policy.h: what a policy grants, and that each mistake is told by line, column and key.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/egress.h"
#include "runtime/policy.h"

static struct draft g_draft;
static char g_dir[64];

/* A tree for rules to name: a/b, a/file, c, and link to a. */
static void tree_up(void)
{
	char cmd[256];

	strcpy(g_dir, "/var/tmp/moat-policy-XXXXXX");
	cr_assert_not_null(mkdtemp(g_dir));
	snprintf(cmd, sizeof(cmd), "cd %s && mkdir -p a/b c && : >a/file && ln -s a link", g_dir);
	cr_assert_eq(system(cmd), 0);
}

static void tree_down(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_dir);
	cr_assert_eq(system(cmd), 0);
}

/* @text with each $ as the tree's path. */
static int load(const char *text, struct err *e)
{
	char buf[8192];
	size_t n = 0;
	int r;

	for (const char *s = text; *s; s++) {
		if (*s == '$')
			n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%s", g_dir);
		else
			buf[n++] = *s;
	}
	e->text[0] = '\0';
	draft_init(&g_draft);
	r = policy_parse("p", buf, n, &g_draft, e);
	return r ? r : draft_finish(&g_draft, e);
}

static const struct grant_path *path_of(const char *target)
{
	for (uint32_t i = 0; i < g_draft.g.path_count; i++)
		if (strcmp(g_draft.paths[i].target, target) == 0)
			return &g_draft.paths[i];
	return NULL;
}

Test(policy, grants)
{
	const struct grant_path *p;
	struct err e;

	tree_up();
	cr_assert_eq(load("# first\n"
			  "version = 1\n"
			  "name = \"a \\\"name\\\" \\\\\"  strict = true\r\n"
			  "path \"/work\" { host = \"$/link\" access = rw }\n"
			  "path \"/work/b\" {\n\thost = \"$/a/b\"\n\texec = true }\n"
			  "path \"/work/file\" { access = hidden }\n"
			  "path \"/gone\" { optional = true }\n"
			  "env = { \"A=1\", \"B=x=y\", MOAT_TEST_UNSET, } devices = { null }\n"
			  "cwd = \"/work\" hostname = box user = 1000:100 cpus = 1\n"
			  "limits { memory = 1M timers = 5 wall_time = 2m cpu_share = 50% }\n"
			  "limits { locks = none }\n"
			  "clock = fixed:5 seed = 18446744073709551615\n"
			  "egress = { \"example.org:443\", *.example.net, \"10.0.0.0/8\" }",
			  &e),
		     0, "%s", e.text);
	cr_expect_str_eq(g_draft.g.name, "a \"name\" \\");
	cr_expect(g_draft.g.strict);
	cr_expect_eq(g_draft.g.path_count, 4);
	p = path_of("/work");
	cr_assert_not_null(p);
	cr_expect(strstr(p->host, "/a") && !strstr(p->host, "link"), "free of links: %s", p->host);
	cr_expect_eq(p->access, GRANT_WRITE);
	cr_expect(!p->exec);
	cr_expect_str_eq(p->origin.file, "p");
	cr_expect_eq(p->origin.line, 4);
	cr_expect_eq(p->origin.column, 6);
	p = path_of("/work/b");
	cr_assert_not_null(p);
	cr_expect(p->exec && p->access == GRANT_READ);
	cr_expect_eq(p->origin.line, 5);
	p = path_of("/work/file");
	cr_assert_not_null(p);
	cr_expect_eq(p->access, GRANT_HIDDEN);
	cr_expect_eq(g_draft.g.hidden_count, 1);
	cr_expect_eq(g_draft.g.hidden_file_count, 1);
	cr_expect(path_of("/gone")->optional);
	cr_expect_str_eq(g_draft.env[0], "A=1");
	cr_expect_str_eq(g_draft.env[1], "B=x=y");
	cr_expect_eq(strncmp(g_draft.env[2], "PATH=", 5), 0);
	cr_expect_eq(g_draft.g.device_count, 1);
	cr_expect_str_eq(g_draft.g.cwd, "/work");
	cr_expect_str_eq(g_draft.g.hostname, "box");
	cr_expect(g_draft.g.uid == 1000 && g_draft.g.gid == 100 && g_draft.g.cpus == 1);
	cr_expect_eq(g_draft.g.limits[GRANT_LIMIT_memory], 1 << 20);
	cr_expect_eq(g_draft.g.limits[GRANT_LIMIT_timers], 5);
	cr_expect_eq(g_draft.g.limits[GRANT_LIMIT_wall_time], 120 * NSEC_PER_SEC);
	cr_expect_eq(g_draft.g.limits[GRANT_LIMIT_cpu_share], 50);
	cr_expect_eq(g_draft.g.limits[GRANT_LIMIT_locks], GRANT_NO_LIMIT);
	cr_expect_eq(g_draft.g.limit_origin[GRANT_LIMIT_timers].line, 12);
	cr_expect(g_draft.g.clock == CLOCK_KIND_FIXED &&
		  g_draft.g.clock_arg_ns == 5 * (int64_t)NSEC_PER_SEC);
	cr_expect(g_draft.g.seeded && g_draft.g.seed == UINT64_MAX);
	cr_expect_eq(g_draft.g.egress_count, 3);
	draft_fini(&g_draft);
	tree_down();
}

/* What is written, and how the one line of the error begins. */
static const struct {
	const char *text, *error;
} g_wrong[] = {
	{"", "p:1:1: version: it comes first"},
	{"# nothing\n", "p:2:1: version: it comes first"},
	{"name = a", "p:1:1: version: it comes first"},
	{"version = 2", "p:1:11: version: '2': this moat knows"},
	{"version = 1\nversion = 1", "p:2:1: version is given twice"},
	{"version = 1 foo = 2", "p:1:13: 'foo': no such key; there are version, name, "},
	{"version = 1 path|exec = true", "p:1:17: a character that belongs into quotes"},
	{"version = 1 include(\"/etc/passwd\")", "p:1:13: 'include': no such key"},
	{"version = 1 name = include(\"/etc/passwd\")", "p:1:27: a character"},
	{"version = 1 = 2", "p:1:13: '=' where a key must be"},
	{"version 1", "p:1:9: '1' where '=' must be, after version"},
	{"version =", "p:1:10: version: 'the end of the file' where a value"},
	{"version = 1 name = \"open", "p:1:20: a string that is not closed"},
	{"version = 1 name = \"a\nb\"", "p:1:20: a string that is not closed"},
	{"version = 1 name = \"a\\nb\"", "p:1:22: a backslash stands before"},
	{"version = 1\n\tname = \x01", "p:2:9: a control character 0x01"},
	{"version = 1 name = \"\x1b[2J\"", "p:1:21: a control character 0x1b"},
	{"version = 1 # \xc2\x9b", "p:1:15: a control character 0x9b"},
	{"version = 1 name = \"\xc0\xaf\"",
	 "p:1:21: a byte 0xc0 that is no UTF-8; write the file in UTF-8"},
	{"version = 1 name = \"\xc3\xa9\" x = 1", "p:1:24: 'x': no such key"},
	{"version = 1 name = { a }", "p:1:20: name: '{' where a value must be"},
	{"version = 1 env = A", "p:1:19: env: 'A' where a list must be"},
	{"version = 1 env = { A B }", "p:1:23: env: 'B' where ',' or '}'"},
	{"version = 1 env = { , }", "p:1:21: env: ',' where a value"},
	{"version = 1 env = { \"=x\" }", "p:1:21: env: a variable needs a name"},
	{"version = 1 env = { \"A=1\",\n\"A=2\" }", "p:2:1: env: A is set twice"},
	{"version = 1 env = { A", "p:1:22: env: 'the end of the file' where"},
	{"version = 1 strict = 1", "p:1:22: strict: '1': it is true or false"},
	{"version = 1 cpus = 0", "p:1:20: cpus: '0': it is a number from 1 to"},
	{"version = 1 cpus = 100000", "p:1:20: cpus: '100000': it is a number from 1"},
	{"version = 1 user = root", "p:1:20: user: 'root': it is UID"},
	{"version = 1 user = 1:", "p:1:20: user: '1:'"},
	{"version = 1 cwd = work", "p:1:19: cwd: 'work': it is an absolute path"},
	{"version = 1 devices = { mem }", "p:1:25: devices: no such device; there are null"},
	{"version = 1 devices = { null, null }", "p:1:31: devices: null is there already"},
	{"version = 1 clock = tomorrow", "p:1:21: clock: it is one of host"},
	{"version = 1 seed = -1", "p:1:20: seed: it is a number"},
	{"version = 1 root = \"/\"", "p:1:20: root: the whole host is never granted"},
	{"version = 1 root = \"/none/such\"",
	 "p:1:20: root: /none/such: No such file or directory on the host; name a directory"},
	/* Limits. */
	{"version = 1 limits { memory = 0 }", "p:1:31: memory: it is bytes from 1"},
	{"version = 1 limits { memory = -5 }", "p:1:31: memory: it is bytes from 1"},
	{"version = 1 limits { memory = 5X }", "p:1:31: memory: it is bytes from 1"},
	{"version = 1 limits { memory = 9000T }", "p:1:31: memory: this host has"},
	{"version = 1 limits { memory = 101% }", "p:1:31: memory: it is bytes"},
	{"version = 1 limits { cpu_share = 50 }", "p:1:34: cpu_share: it is a percentage"},
	{"version = 1 limits { wall_time = 10 }", "p:1:34: wall_time: it is a time"},
	{"version = 1 limits { timers = 1 timers = 2 }", "p:1:33: limits: timers is given twice"},
	{"version = 1 limits { speed = 1 }", "p:1:30: speed: no such limit; there are processes"},
	{"version = 1 limits { memory 1 }", "p:1:29: '1' where '=' must be, after memory"},
	{"version = 1 limits { memory = }", "p:1:31: memory: '}' where a value"},
	{"version = 1 limits { { } }", "p:1:22: limits: '{' where the name of a limit"},
	{"version = 1 limits = 5", "p:1:20: '=' where '{' must be, after limits"},
	/* Paths. */
	{"version = 1 path { }", "p:1:18: path: '{' where a quoted path"},
	{"version = 1 path \"work\" { }", "p:1:18: path: it is an absolute path"},
	{"version = 1 path \"/a/../b\" { }", "p:1:18: path: it is an absolute path"},
	{"version = 1 path \"/a/./b\" { }", "p:1:18: path: it is an absolute path"},
	{"version = 1 path \"/a//b\" { }", "p:1:18: path: it is an absolute path"},
	{"version = 1 path \"/a/\" { }", "p:1:18: path: it is an absolute path"},
	{"version = 1 path \"/\" { }", "p:1:18: path: the root is no grant"},
	{"version = 1 path \"/proc/self\" { }", "p:1:18: path: the guest has a /proc of its own"},
	{"version = 1 path \"/dev\" { }", "p:1:18: path: the guest has a /dev of its own"},
	{"version = 1 path \"/none/such\" { }",
	 "p:1:18: path: /none/such: No such file or directory on the host; say with host = where"},
	{"version = 1 path \"/w\" { host = \"/proc\" }", "p:1:32: host: /proc shows the host's"},
	{"version = 1 path \"/w\" { host = \"/sys/kernel\" }", "p:1:32: host: /sys shows"},
	{"version = 1 path \"/w\" { host = \"/\" }", "p:1:32: host: the whole host is never"},
	{"version = 1 path \"/w\" { host = \"$/../\" }", "p:1:32: host: it is an absolute path"},
	{"version = 1 path \"/w\" { host = \"$/none\" }", "p:1:32: host: /"},
	{"version = 1 path \"/w\" { acc = ro }", "p:1:25: path: 'acc': no such key; there are"},
	{"version = 1 path \"/w\" { access = wo }", "p:1:34: access: 'wo': it is one of ro, rw"},
	{"version = 1 path \"/w\" { exec = yes }", "p:1:32: exec: 'yes': it is true or false"},
	{"version = 1 path \"/w\" { exec = true exec = true }",
	 "p:1:37: path: exec is given twice"},
	{"version = 1 path \"/w\" { access = hidden exec = true }",
	 "p:1:18: path: /w is hidden: it"},
	{"version = 1 path \"/w\" { path \"/x\" { } }", "p:1:25: path: 'path': no such key"},
	{"version = 1 path \"/w\" { host = \"$/a\"", "p:1:"},
	/* Rules that meet. */
	{"version = 1\npath \"/w\" { host = \"$/a\" }\npath \"/w\" { host = \"$/a\" }",
	 "p:3:6: /w: granted already: p:2:6"},
	{"version = 1\npath \"/w\" { host = \"$/a\" access = rw }\npath \"/w\" { host = \"$/a\" }",
	 "p:3:6: /w: it is ro here and rw by p:2:6"},
	{"version = 1\npath \"/w\" { host = \"$/a\" access = rw }\npath \"/v/x\" { host = "
	 "\"$/link\" }",
	 "p:3:6: /v/x: "},
	{"version = 1\npath \"/w\" { host = \"$/a\" }\npath \"/w/b\" { host = \"$/a/b\" }",
	 "p:3:6: /w/b: p:2:6 grants that already"},
	{"version = 1\npath \"/w\" { host = \"$/a\" }\npath \"/w/no\" { access = hidden }",
	 "p:3:6: /w/no: "},
	{"version = 1\npath \"/w/x\" { access = hidden }", "p:2:6: /w/x: no rule shows it"},
	{"version = 1\npath \"/wo\" { host = \"$/a\" }\npath \"/work/b\" { access = hidden }",
	 "p:3:6: /work/b: no rule shows it"},
	{"version = 1\npath \"/w\" { host = \"$/a\" }\npath \"/w\" { access = hidden }",
	 "p:3:6: /w: it is hidden here and ro by p:2:6"},
	{"version = 1\npath \"/w\" { host = \"$/a\" }\npath \"/w/b\" { access = hidden }\n"
	 "path \"/w/b/c\" { host = \"$/c\" }",
	 "p:4:6: /w/b/c: /w/b is hidden by p:3:6"},
	/* Egress. */
	{"version = 1 egress = { \"*\" }", "p:1:24: egress: it is HOST, *.SUFFIX"},
	{"version = 1 egress = { \"a.b:0\" }", "p:1:24: egress: a port is a number"},
	{"version = 1 egress = { \"10.0.0.1/8\" }", "p:1:24: egress: bits of the address"},
	{"version = 1 egress = { \"127.1\" }", "p:1:24: egress: it is HOST"},
	{"version = 1 egress = { \"2130706433\" }", "p:1:24: egress: it is HOST"},
	{"version = 1 egress = { \"a.0x7f\" }", "p:1:24: egress: it is HOST"},
	{"version = 1 egress = { *.a.org, b.a.org:80 }", "p:1:33: egress: *.a.org (p:1:24) allows"},
	{"version = 1 egress = { b.a.org:80, b.a.org }",
	 "p:1:36: egress: it allows all that b.a.o"},
};

Test(policy, mistakes)
{
	tree_up();
	for (size_t i = 0; i < ARRAY_SIZE(g_wrong); i++) {
		struct err e;
		int r = load(g_wrong[i].text, &e);

		cr_expect(r < 0, "%s", g_wrong[i].text);
		cr_expect_eq(strncmp(e.text, g_wrong[i].error, strlen(g_wrong[i].error)), 0,
			     "%s\n gives %s\n and not %s", g_wrong[i].text, e.text,
			     g_wrong[i].error);
		cr_expect_null(strchr(e.text, '\n'));
		draft_fini(&g_draft);
	}
	tree_down();
}

/* What moat run grants without a preset is what the preset says. */
Test(policy, presets)
{
	uint8_t without[GRANT_HASH_SIZE], with[GRANT_HASH_SIZE];
	struct err e = {{0}};

	tree_up();
	cr_assert_eq(chdir(g_dir), 0);
	draft_init(&g_draft);
	draft_default(&g_draft);
	cr_assert_eq(draft_finish(&g_draft, &e), 0, "%s", e.text);
	grant_hash(&g_draft.g, without);
	draft_fini(&g_draft);
	for (unsigned i = 0; policy_preset_name(i); i++) {
		const char *name = policy_preset_name(i), *text = policy_preset(name);

		draft_init(&g_draft);
		cr_expect_eq(policy_load_preset(name, &g_draft, &e), 0, "%s", e.text);
		cr_expect_str_eq(g_draft.g.name, name);
		cr_expect_eq(draft_finish(&g_draft, &e), 0, "%s", e.text);
		grant_hash(&g_draft.g, with);
		cr_expect_eq(memcmp(with, without, sizeof(with)) == 0, strcmp(name, "default") == 0,
			     "%s", name);
		draft_fini(&g_draft);
		cr_expect_eq(text[strlen(text) - 1], '\n');
	}
	cr_expect_null(policy_preset("none"));
	/* No variables. */
	draft_init(&g_draft);
	cr_expect_lt(policy_parse("p", "version = 1 name = ${HOME}", 26, &g_draft, &e), 0);
	cr_expect_str_eq(e.text, "p:1:20: a character that belongs into quotes or a comment");
	draft_fini(&g_draft);
	cr_assert_eq(chdir("/"), 0);
	tree_down();
}

/* What a policy file is read as when it is cut off anywhere: an error, or less. */
Test(policy, cut)
{
	const char *text = policy_preset("agent-node");
	struct err e;

	for (size_t n = 0; n <= strlen(text); n++) {
		draft_init(&g_draft);
		(void)!policy_parse("cut", text, n, &g_draft, &e);
		draft_fini(&g_draft);
	}
}

Test(policy, command_line_wins)
{
	struct grant_path p = {.target = "/w", .access = GRANT_READ, .origin = {.file = "--ro"}};
	struct err e;

	tree_up();
	cr_assert_eq(load("version = 1 path \"/w\" { host = \"$/a\" access = rw }\n"
			  "path \"/w/b\" { access = hidden }",
			  &e),
		     0, "%s", e.text);
	p.host = "/usr";
	cr_assert_eq(draft_replace_path(&g_draft, &p, &e), 0);
	cr_expect_eq(path_of("/w")->access, GRANT_READ);
	cr_expect_str_eq(path_of("/w")->origin.file, "--ro");
	p.target = "/w/b";
	cr_expect_eq(draft_replace_path(&g_draft, &p, &e), -EPERM);
	draft_fini(&g_draft);
	tree_down();
}

Test(policy, egress_covers)
{
	static const struct {
		const char *rule, *what;
		bool covers;
	} rows[] = {
		{"example.org", "example.org:443", true},
		{"Example.ORG:443", "example.org:443", true},
		{"example.org:443", "example.org:80", false},
		{"example.org:443", "example.org", false},
		{"example.org", "www.example.org:443", false},
		{"*.example.org", "www.example.org:443", true},
		{"*.example.org", "a.b.example.org:443", true},
		{"*.example.org", "example.org:443", false},
		{"*.example.org", "badexample.org:443", false},
		{"10.0.0.0/8", "10.255.1.2:80", true},
		{"10.0.0.0/8", "11.0.0.1:80", false},
		{"10.1.2.3", "10.1.2.3:1", true},
		{"0.0.0.0/0", "2001:db8::1", false},
		{"2001:db8::/32", "[2001:db8:1::1]:443", true},
		{"[2001:db8::/33]:443", "[2001:db8:8000::1]:443", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_rule a, b;
		struct err e = {{0}};

		cr_assert_eq(egress_parse(rows[i].rule, &a, &e), 0, "%s", e.text);
		cr_assert_eq(egress_parse(rows[i].what, &b, &e), 0, "%s: %s", rows[i].what, e.text);
		cr_expect_eq(egress_covers(&a, &b), rows[i].covers, "%s %s", rows[i].rule,
			     rows[i].what);
	}
}
