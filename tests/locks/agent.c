/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes and asks for file locks as it is told, a line at a time, and answers each with a line; natively and in a
 * sandbox alike. See contend.py.
 *
 *   open N r|w|rw PATH    close N    rename PATH PATH    unlink PATH    put N TEXT    get N
 *   set|setw|get_lock|oset|osetw|oget N r|w|u START LEN    flock N sh|ex|un|sh_nb|ex_nb
 *   many N COUNT          disjoint locks; how many there were, and why no more
 *   bg COMMAND            by a child, which answers when it is through; "asleep" when it waits
 *   signal NUMBER         to that child: SIGUSR2 interrupts it not (SA_RESTART)
 *   interrupt             SIGUSR1, which does, again and again until it has ended
 *   wait                  until it has ended
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int g_fds[10];
static pid_t g_child;

static void on_signal(int sig)
{
	(void)sig;
}

static void say(long r)
{
	printf("%s\n", r < 0 ? strerrorname_np(errno) : "ok");
}

static int command_of(const char *word)
{
	static const struct {
		const char *word;
		int cmd;
	} all[] = {{"set", F_SETLK},	  {"setw", F_SETLKW},	   {"get_lock", F_GETLK},
		   {"oset", F_OFD_SETLK}, {"osetw", F_OFD_SETLKW}, {"oget", F_OFD_GETLK}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(word, all[i].word) == 0)
			return all[i].cmd;
	return -1;
}

static int type_of(const char *word)
{
	return *word == 'r' ? F_RDLCK : *word == 'w' ? F_WRLCK : F_UNLCK;
}

static void record(int cmd, int fd, const char *type, long start, long len)
{
	struct flock l = {.l_type = (short)type_of(type), .l_whence = SEEK_SET, .l_start = start, .l_len = len};
	int r = fcntl(fd, cmd, &l);

	if (r < 0 || (cmd != F_GETLK && cmd != F_OFD_GETLK))
		say(r);
	else if (l.l_type == F_UNLCK)
		printf("free\n");
	else
		printf("%s %ld+%ld pid %s\n", l.l_type == F_RDLCK ? "read" : "write", (long)l.l_start, (long)l.l_len,
		       l.l_pid > 0 ? "known" : l.l_pid == 0 ? "0" : "-1");
}

static void flocked(int fd, const char *how)
{
	int op = how[0] == 's' ? LOCK_SH : how[0] == 'e' ? LOCK_EX : LOCK_UN;

	say(flock(fd, op | (strstr(how, "_nb") ? LOCK_NB : 0)));
}

static void many(int fd, long count)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	long n = 0;

	while (n < count && fcntl(fd, F_OFD_SETLK, &l) == 0) {
		n++;
		l.l_start += 2;
	}
	printf("%ld %s\n", n, n < count ? strerrorname_np(errno) : "ok");
}

static void until_asleep(pid_t pid)
{
	char path[64], line[512], *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (;;) {
		f = fopen(path, "r");
		if (!f || !fgets(line, sizeof(line), f))
			exit(3);
		fclose(f);
		state = strrchr(line, ')');
		if (state && state[2] == 'S')
			return;
		sched_yield();
	}
}

static void obey(char *line)
{
	char *w[7] = {NULL};
	int n = 0, fd, cmd;

	for (char *p = strtok(line, " \n"); p && n < 6; p = strtok(NULL, " \n"))
		w[n++] = p;
	if (n == 0)
		return;
	fd = n > 1 && w[1][1] == '\0' && w[1][0] >= '0' && w[1][0] <= '9' ? g_fds[w[1][0] - '0'] : -1;
	cmd = command_of(w[0]);
	if (cmd >= 0 && n == 5) {
		record(cmd, fd, w[2], atol(w[3]), atol(w[4]));
	} else if (strcmp(w[0], "open") == 0 && n == 4) {
		int how = strcmp(w[2], "r") == 0 ? O_RDONLY : strcmp(w[2], "w") == 0 ? O_WRONLY : O_RDWR;

		if (fd > 2)
			close(fd);
		say(g_fds[w[1][0] - '0'] = open(w[3], how | O_CLOEXEC));
	} else if (strcmp(w[0], "close") == 0) {
		say(close(fd));
		g_fds[w[1][0] - '0'] = -1;
	} else if (strcmp(w[0], "rename") == 0 && n == 3) {
		say(rename(w[1], w[2]));
	} else if (strcmp(w[0], "unlink") == 0 && n == 2) {
		say(unlink(w[1]));
	} else if (strcmp(w[0], "put") == 0 && n == 3) {
		say(ftruncate(fd, 0) ? -1 : pwrite(fd, w[2], strlen(w[2]), 0));
	} else if (strcmp(w[0], "get") == 0) {
		char text[100] = "";
		struct stat st;

		fstat(fd, &st);
		(void)!pread(fd, text, sizeof(text) - 1, 0);
		printf("%ld %s\n", (long)st.st_size, text);
	} else if (strcmp(w[0], "flock") == 0 && n == 3) {
		flocked(fd, w[2]);
	} else if (strcmp(w[0], "many") == 0 && n == 3) {
		many(fd, atol(w[2]));
	} else {
		printf("what?\n");
	}
}

static void in_child(char *line)
{
	g_child = fork();
	if (g_child == 0) {
		obey(line);
		exit(0);
	}
	until_asleep(g_child);
	printf("asleep\n");
}

int main(void)
{
	char line[1000];
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
	printf("here\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "bg ", 3) == 0) {
			in_child(line + 3);
		} else if (strncmp(line, "signal ", 7) == 0) {
			say(kill(g_child, atoi(line + 7)));
		} else if (strncmp(line, "interrupt", 9) == 0) {
			while (waitpid(g_child, &status, WNOHANG) == 0) {
				kill(g_child, SIGUSR1);
				usleep(1000);
			}
			printf("gone %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		} else if (strncmp(line, "wait", 4) == 0) {
			waitpid(g_child, &status, 0);
			printf("gone %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		} else {
			obey(line);
		}
	}
	return 0;
}
