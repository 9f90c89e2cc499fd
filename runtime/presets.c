/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presets: policies that come with moat. What `moat run' grants without one is the preset default;
 * draft_default() says the same without parsing, and a test compares them.
 */
#include "runtime/policy.h"
#include "runtime/default_limits.h"

#include <string.h>

#define ALL_DEVICES                                                                        \
	"devices = { null, zero, full, random, urandom, tty, stdin, stdout, stderr, fd,\n" \
	"            ptmx, shm, mqueue }\n"
#define USUAL_ENV "env = { TERM, LANG, LC_ALL, LC_CTYPE, TZ, COLORTERM }\n"
/* Software that is installed beside the distribution's. */
#define OPT_TREE "path \"/opt\" {\n\taccess = ro\n\texec = true\n\toptional = true\n}\n"
#define LIMIT_LINE(name, value) "\t" #name " = " value "\n"
#define MINOR_LIMITS          \
	"\tin_flight = 256\n" \
	"\ttimers = 1024\n"   \
	"\tsignals = 4096\n"  \
	"\tmaps = 65536\n"    \
	"\tlocks = 4096\n"    \
	"\twatches = 65536\n" \
	"\tlog_bytes = 64M\n"

static const struct {
	const char *name, *text;
} g_presets[] = {
	{"strict", "# Code that nobody knows: nothing of the caller's, and what the host lacks of "
		   "the second\n"
		   "# wall is refused.\n"
		   "version = 1\n"
		   "name = \"strict\"\n"
		   "strict = true\n"
		   "devices = { null, zero, full, random, urandom, stdin, stdout, stderr, fd }\n"
		   "limits {\n"
		   "\tprocesses = 64\n"
		   "\tthreads = 256\n"
		   "\tmemory = 25%\n"
		   "\tcpu_time = 10m\n"
		   "\twall_time = 30m\n"
		   "\topen_files = 4096\n"
		   "\tfile_bytes = 10%\n"
		   "\tfile_inodes = 100000\n"
		   "\twrite_bytes = 1G\n"
		   "\tbuffers = 64M\n" MINOR_LIMITS "}\n"},
	{"default",
	 "# What moat run grants without a policy: the system directories, in which "
	 "writes vanish, and\n"
	 "# the caller's directory, read-only.\n"
	 "version = 1\n"
	 "name = \"default\"\n"
	 "cwd = caller\n" USUAL_ENV ALL_DEVICES "limits {\n" DEFAULT_LIMITS(LIMIT_LINE) "}\n"},
	{"agent-python",
	 "# Python that an agent has written, in the caller's directory. What it is to keep is "
	 "granted\n"
	 "# with --rw.\n"
	 "version = 1\n"
	 "name = \"agent-python\"\n"
	 "cwd = caller\n" OPT_TREE "env = { TERM, LANG, LC_ALL, LC_CTYPE, TZ, COLORTERM, "
	 "\"PYTHONDONTWRITEBYTECODE=1\" }\n" ALL_DEVICES "limits {\n"
	 "\tprocesses = 256\n"
	 "\tthreads = 1024\n"
	 "\tmemory = 50%\n"
	 "\tcpu_time = 1h\n"
	 "\twall_time = 1h\n"
	 "\topen_files = 16384\n"
	 "\tfile_bytes = 25%\n"
	 "\tfile_inodes = 500000\n"
	 "\twrite_bytes = 10G\n"
	 "\tbuffers = 256M\n" MINOR_LIMITS "}\n"},
	{"agent-node",
	 "# JavaScript that an agent has written, in the caller's directory. node_modules has "
	 "many\n"
	 "# files, and node many threads and watches. What it is to keep is granted with --rw.\n"
	 "version = 1\n"
	 "name = \"agent-node\"\n"
	 "cwd = caller\n" OPT_TREE "env = { TERM, LANG, LC_ALL, LC_CTYPE, TZ, COLORTERM, "
	 "\"NO_UPDATE_NOTIFIER=1\" }\n" ALL_DEVICES "limits {\n"
	 "\tprocesses = 256\n"
	 "\tthreads = 4096\n"
	 "\tmemory = 50%\n"
	 "\tcpu_time = 2h\n"
	 "\twall_time = 1h\n"
	 "\topen_files = 65536\n"
	 "\tfile_bytes = 25%\n"
	 "\tfile_inodes = 2000000\n"
	 "\twrite_bytes = 10G\n"
	 "\tbuffers = 256M\n" MINOR_LIMITS "}\n"},
	{"build", "# A compiler and make, which write to the caller's directory.\n"
		  "version = 1\n"
		  "name = \"build\"\n"
		  "cwd = caller-rw\n" OPT_TREE USUAL_ENV ALL_DEVICES "limits {\n"
		  "\tprocesses = 2048\n"
		  "\tthreads = 4096\n"
		  "\tmemory = 75%\n"
		  "\twall_time = 6h\n"
		  "\topen_files = 65536\n"
		  "\tfile_bytes = 25%\n"
		  "\tfile_inodes = 2000000\n"
		  "\twrite_bytes = 100G\n"
		  "\tbuffers = 512M\n" MINOR_LIMITS "}\n"},
};

const char *policy_preset(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_presets); i++)
		if (strcmp(g_presets[i].name, name) == 0)
			return g_presets[i].text;
	return NULL;
}

const char *policy_preset_name(unsigned i)
{
	return i < ARRAY_SIZE(g_presets) ? g_presets[i].name : NULL;
}
