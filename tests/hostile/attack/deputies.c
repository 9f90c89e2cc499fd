/* SPDX-License-Identifier: Apache-2.0 */
/* Getting the sentry, which may do more than the ally in a shared directory, to do what the ally
 * wants. */
#include "attack.h"

#define GUEST 1000 /* whom the guest makes files for */

/* ---- set-id ---- */

static bool set_id(const char *path)
{
	struct stat st;

	if (lstat(path, &st) != 0 || S_ISDIR(st.st_mode) || !(st.st_mode & (S_ISUID | S_ISGID)))
		return false;
	return true;
}

static bool as_it_was(const char *path)
{
	char text[16] = "";
	int fd = open(path, O_RDONLY);

	read(fd, text, sizeof(text) - 1);
	close(fd);
	return fd < 0 || strcmp(text, "good") == 0;
}

/* The ally looks from outside, so it is it who says HARM. */
static void set_id_ally(void)
{
	static const char *const names[] = {"suid",  "sgid",    "opened", "node",     "named",
					    "later", "renamed", "linked", "host_suid"};

	for (;;) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			const char *p = in("work/%s", names[i]);

			if (strcmp(names[i], "host_suid") == 0 && as_it_was(p))
				continue;
			if (set_id(p)) {
				chmod(in("out"), 0700); /* which the runner sees */
				rename(p, in("work/found_%s", names[i]));
			}
		}
		usleep(500);
	}
}

static void set_id_scene(void)
{
	put_file(in("work/host_suid"), "good", 0755);
	chmod(in("work/host_suid"), 06755);
}

static int set_ids(void)
{
	int fd;

	put_file("suid", "x", 0755);
	tried("chmod u+s: %d", chmod("suid", 04755));
	put_file("sgid", "x", 0755);
	tried("fchmod g+s: %d", fchmod(open("sgid", O_RDONLY), 02755));
	fd = open("opened", O_CREAT | O_RDWR, 06755);
	tried("open with 6755: %d", fd);
	tried("mknod with 6755: %d", mknod("node", S_IFREG | 06755, 0));
	fd = open(".", O_TMPFILE | O_RDWR, 06755);
	tried("O_TMPFILE with 6755, linked: %d", linkat(fd, "", AT_FDCWD, "named", AT_EMPTY_PATH));
	fd = open("later", O_CREAT | O_RDWR, 0755);
	tried("fchmodat2: %ld", syscall(452, fd, "", 06755, AT_EMPTY_PATH));
	tried("creat by openat with 6755: %d", open("renamed.tmp", O_CREAT | O_RDWR, 06755));
	rename("renamed.tmp", "renamed");
	tried("link: %d", link("suid", "linked"));
	/* One that the host had: with what we write to it it must not stay one. */
	fd = open("host_suid", O_WRONLY);
	tried("write to a set-id program of the host's: %zd", pwrite(fd, "evil code", 9, 0));
	usleep(100000);
	return 0;
}

static int set_id_map(void)
{
	int fd = open("host_suid", O_RDWR);
	char *m;

	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m != MAP_FAILED)
		memcpy(m, "evil", 4);
	tried("write by a shared map: %s", m == MAP_FAILED ? strerror(errno) : "done");
	usleep(100000);
	return 0;
}

/* ---- what is given away or opened up ---- */

/* The ally puts a victim's file where the guest has just made its own, so that the sentry, which
 * gives that to the guest's user, gives him the victim's. */
static void victims_scene(void)
{
	mkdir(in("away"), 0755);
	mkfifo(in("out/fifo"), 0600);
}

static void victims_ally(void)
{
	const char *staged = in("away/fresh"), *fresh = in("work/fresh"), *victim = in("out/fifo");

	for (;;) {
		link(victim, staged);
		rename(staged, fresh);
	}
}

static int give_away(void)
{
	if (setresgid(GUEST, GUEST, GUEST) != 0 || setresuid(GUEST, GUEST, GUEST) != 0)
		return 2;
	for (unsigned i = 0; again(i, rounds() * 10); i++) {
		unlink("fresh");
		mknod("fresh", S_IFIFO | 0600, 0);
	}
	tried("%u rounds of mknod", rounds() * 10);
	return 0;
}

const struct attack g_deputies[] = {
	{"set_ids", "deputy", set_ids, .ally = set_id_ally, .scene = set_id_scene},
	{"set_id_map", "deputy", set_id_map, .ally = set_id_ally, .scene = set_id_scene},
	{"give_away", "deputy", give_away, .ally = victims_ally, .scene = victims_scene,
	 .flags = "root,unnative:where_there_is_no_deputy_nothing_is_given_away"},
	{0},
};
