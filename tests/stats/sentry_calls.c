/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the sentry make each host call that it may: see tests/run-sentry-calls.sh. What fails is of no matter here.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

static void files(void)
{
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
	const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "d/socket"};
	char buf[70000], *p;
	unsigned char vec[16];
	struct statfs sf;
	struct sysinfo si;
	struct dirent *e;
	int fd, tmp;
	DIR *d;

	mkdir("d", 0755);
	fd = open("d/f", O_RDWR | O_CREAT, 0644);
	memset(buf, 'x', sizeof(buf));
	pwrite(fd, buf, sizeof(buf), 0);
	lseek(fd, 0, SEEK_DATA);
	lseek(fd, 0, SEEK_HOLE);
	fsync(fd);
	fdatasync(fd);
	syncfs(fd);
	sync();
	fstatfs(fd, &sf);
	statfs("d", &sf);
	fsetxattr(fd, "user.a", "b", 1, 0);
	fgetxattr(fd, "user.a", buf, 10);
	flistxattr(fd, buf, 100);
	fremovexattr(fd, "user.a");
	fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_len = 1});
	fcntl(fd, F_GETLK, &(struct flock){.l_type = F_WRLCK, .l_len = 1});
	flock(fd, LOCK_EX);
	flock(fd, LOCK_UN);
	fchmod(fd, 0600);
	fchown(fd, getuid(), getgid());
	chmod("d", 02777);
	chown("d", getuid(), 1);
	chown("d/f", getuid(), -1);
	chown("d/f", -1, getgid());
	futimens(fd, times);
	fallocate(fd, 0, 0, 80000);
	ftruncate(fd, 65536);
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		p[5000] = 1;
		mincore(p, 65536, vec);
		madvise(p, 65536, MADV_REMOVE);
	}
	for (int i = 0; i < 20; i++)
		pread(fd, buf, 65536, 0);
	symlink("f", "d/l");
	readlink("d/l", buf, 100);
	link("d/f", "d/g");
	rename("d/g", "d/h");
	mkfifo("d/p", 0644);
	bind(socket(AF_UNIX, SOCK_STREAM, 0), (const struct sockaddr *)&name, sizeof(name));
	tmp = open("d", O_TMPFILE | O_RDWR, 0644);
	snprintf(buf, 100, "/proc/self/fd/%d", tmp);
	linkat(AT_FDCWD, buf, AT_FDCWD, "d/t", AT_SYMLINK_FOLLOW);
	d = opendir("d");
	while (d && (e = readdir(d)))
		fstatat(dirfd(d), e->d_name, &(struct stat){0}, AT_SYMLINK_NOFOLLOW);
	for (const char *const *n = (const char *const[]){"d/l", "d/h", "d/p", "d/socket", "d/t", "d/f", NULL}; *n; n++)
		unlink(*n);
	rmdir("d");
	sysinfo(&si);
	/* A file of memory: it moves to the host's when it is mapped. */
	fd = open("/tmp/file", O_RDWR | O_CREAT, 0644);
	for (int i = 0; i < 40; i++)
		write(fd, buf, sizeof(buf));
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (int i = 0; i < 40; i++)
		write(fd, buf, sizeof(buf));
	if (p != MAP_FAILED)
		p[4096] = 1;
	mmap(NULL, 4096, PROT_READ, MAP_SHARED, open("/tmp/file", O_RDONLY), 0);
	fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 65536);
	pread(fd, buf, 100, 4000);
	ftruncate(fd, 4097);
	syscall(SYS_getrandom, buf, 64, 0);
	/* More small files than 2 MiB hold: what they had goes back to the host. */
	for (int i = 0; i < 1200; i++) {
		snprintf(buf, 100, "/tmp/small%d", i % 600);
		fd = i < 600 ? open(buf, O_WRONLY | O_CREAT, 0644) : -1;
		if (fd < 0)
			unlink(buf);
		else
			write(fd, "x", 1);
		close(fd);
	}
}

static void let_go(int sig)
{
	(void)sig;
	close(open("go", O_WRONLY | O_CREAT, 0644));
}

/* Waits for a lock of somebody outside, who lets it go when there is a file. */
static void waited_for(void)
{
	const int fd = open("held", O_RDWR | O_CREAT, 0644);

	while (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		flock(fd, LOCK_UN);
		usleep(1000);
	}
	sigaction(SIGALRM, &(struct sigaction){.sa_handler = let_go, .sa_flags = SA_RESTART}, NULL);
	alarm(1);
	flock(fd, LOCK_EX);
}

/* What is looked at again and again is watched, until it changes all the time. */
static void watched(void)
{
	static const char *const names[] = {"watched/f", "watched/g"};
	struct stat st;

	mkdir("watched", 0755);
	for (int i = 0; i < 2; i++)
		close(open(names[i], O_RDWR | O_CREAT, 0644));
	for (int i = 0; i < 60000; i++)
		lstat(names[i % 2], &st);
	for (int i = 0; i < 1000; i++) {
		chmod(names[i % 2], i & 2 ? 0644 : 0600);
		lstat(names[i % 2], &st);
	}
}

static void stdio(void)
{
	struct pollfd p[2] = {{.fd = 0, .events = POLLIN}, {.fd = 1, .events = POLLOUT}};
	char buf[100];
	int n;

	fcntl(0, F_GETFL);
	poll(p, 2, 100);
	ioctl(0, FIONREAD, &n);
	read(0, buf, sizeof(buf));
	write(1, "text\n", 5);
	write(2, "text\n", 5);
	poll(p, 1, 0);
	close(0);
	close(1);
}

static void terminal(void)
{
	struct termios t;
	struct winsize w;
	char buf[100];

	tcgetattr(0, &t);
	tcsetattr(0, TCSADRAIN, &t);
	ioctl(0, TIOCGWINSZ, &w);
	tcdrain(1);
	write(1, "text\n", 5);
	read(0, buf, sizeof(buf));
	raise(SIGWINCH);
}

static void *spin(void *arg)
{
	volatile unsigned long *stop = arg;

	while (!*stop)
		getppid();
	return NULL;
}

static void processes(void)
{
	static unsigned long stop;
	struct rusage ru;
	pthread_t t[6];
	char buf[4096], c;
	pid_t pid;
	int fd, pp[2];

	for (int i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, spin, &stop);
	usleep(200000);
	stop = 1;
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
	pipe(pp);
	for (int i = 0; i < 30; i++) {
		pid = fork();
		if (pid == 0) {
			if (i % 3 == 0)
				execl("/bin/true", "true", NULL);
			if (i % 3 == 1)
				for (;;)
					;
			pause();
		}
		usleep(5000);
		kill(pid, i % 2 ? SIGKILL : SIGTERM);
		waitpid(pid, NULL, 0);
	}
	getrusage(RUSAGE_SELF, &ru);
	fd = open("/proc/self/status", O_RDONLY);
	read(fd, buf, sizeof(buf));
	fd = open("/proc/self/smaps", O_RDONLY);
	while (read(fd, buf, sizeof(buf)) > 0)
		continue;
	fd = open("/proc/self/mem", O_RDWR);
	pwrite(fd, "x", 1, (off_t)(unsigned long)"constant");
	pread(fd, &c, 1, (off_t)(unsigned long)&c);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 1000}}, NULL);
	signal(SIGALRM, SIG_IGN);
	usleep(20000);
	open("/etc/no-such-file", O_RDONLY);
	open("/etc/passwd", O_WRONLY);
	if (fork() == 0)
		*(volatile int *)8 = 1;
	wait(NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "files"))
		files();
	if (!strcmp(what, "watched"))
		watched();
	if (!strcmp(what, "waited_for"))
		waited_for();
	if (!strcmp(what, "stdio"))
		stdio();
	if (!strcmp(what, "terminal"))
		terminal();
	if (!strcmp(what, "processes"))
		processes();
	return 0;
}
