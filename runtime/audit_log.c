/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit's file.
 *
 * Theory of operation: the sentry writes lines into a pipe; a thread of the monitor's reads them
 * and writes them down, so that the monitor's own loop never waits for a disk. Only whole lines
 * are written: a sentry that is killed in the middle of one leaves a file that is valid to its
 * end. The last line is the monitor's own and says how the sentry ended, whatever the sentry says.
 *
 * The sentry may have been taken over. The thread waits in poll() alone, so who reads from the pipe
 * behind its back does not stop it, and after the sentry's death for as much as a pipe holds. It
 * cannot take back what it has said, as it does not have the file. It cannot speak in the monitor's
 * name: a line must begin with {"by":"sentry", and hold no second "by", however it is written (a
 * quote in a text of JSON's has a backslash before it). Nothing else of a line is looked at. Lines
 * are bounded, and so is the sum of them, by the grant's log_bytes.
 */
#include "runtime/audit_log.h"

#include "runtime/summary.h"

#include "base/hostcall.h"
#include "base/thread.h"
#include "runtime/monitor_lock.h"
#include "sentry/audit.h"
#include "sentry/audit_text.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_ ((size_t)64 << 10)
/* For who holds the pipe after the sentry's death: nobody should. */
#define PATIENCE_MS 2000
/* And what he can still write: more than a pipe holds. */
#define LAST_BYTES ((size_t)4 << 20)

static const char g_by_sentry[] = "{\"by\":\"sentry\",", g_by[] = "\"by\"";

static struct {
	int file, from, to; /* the file; the two ends of the pipe. -1: none */
	pthread_t thread;
	struct timespec started;
	_Atomic bool ended; /* the sentry is dead */
	/* The thread's, and after its end audit_log_end's: of g_buf. */
	size_t used;
	bool has_thread;
	bool skip; /* the rest of a line that is too long */
	uint64_t bytes, lines, refused, over, lost;
	const char *path; /* as the user named it */
	int error;        /* writing failed: errno */
} g_log = {.file = -1, .from = -1, .to = -1};
static char g_buf[2 * LINE_MAX_];

bool audit_log_is_guests(const char *path)
{
	char *copy = strdup(path);
	char *file = HOST(readlink_monitor, realpath(path, NULL));
	char *dir = copy ? HOST(readlink_monitor, realpath(dirname(copy), NULL)) : NULL;
	const char *where = file ? file : dir;
	bool yes = false;

	for (uint32_t i = 0; where && g_grant && i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];
		size_t n = g->host ? strlen(g->host) : 0;

		if (g->access == GRANT_WRITE && n && strncmp(where, g->host, n) == 0 &&
		    (where[n] == '/' || !where[n]))
			yes = true;
	}
	free(copy);
	free(file);
	free(dir);
	return yes;
}

int audit_log_open(const char *path, int *fd, struct err *e)
{
	int ends[2];

	if (audit_log_is_guests(path))
		return err_set(e, EPERM,
			       "--audit=%s: the program may write there, and could change what it "
			       "did; name a file elsewhere",
			       path);
	g_log.file = HOST(openat_monitor,
			  open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
	if (g_log.file < 0)
		return err_set(e, errno, "--audit=%s: %s; name a file that can be written", path,
			       err_text(errno));
	if (HOST(pipe2_monitor, pipe2(ends, O_CLOEXEC | O_NONBLOCK)) != 0)
		return err_set(e, errno, "--audit: no pipe for the sentry: %s", err_text(errno));
	g_log.path = path;
	g_log.from = ends[0];
	g_log.to = *fd = ends[1];
	clock_gettime(CLOCK_MONOTONIC, &g_log.started);
	return 0;
}

void audit_log_forget(void)
{
	if (g_log.file < 0)
		return;
	HOST(close_fd, close(g_log.file));
	HOST(close_fd, close(g_log.from));
	g_log.file = g_log.from = -1;
}

static void write_all(const char *p, size_t size)
{
	while (size > 0 && !g_log.error) {
		ssize_t n = HOST(write_monitor_audit, write(g_log.file, p, size));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			g_log.error = errno;
			return;
		}
		p += n;
		size -= (size_t)n;
		g_log.bytes += (uint64_t)n;
	}
}

/* Is it an event of the sentry's, and nothing that passes for another's? */
static bool is_sentrys(const char *line, size_t size)
{
	const size_t head = sizeof(g_by_sentry) - 1;
	const char *p = line + head, *end = line + size;

	if (size < head + 2 || memcmp(line, g_by_sentry, head) != 0)
		return false;
	/* What comes through the shared region need not be one. */
	if (memchr(line, '\n', size - 1))
		return false;
	for (; p < end; p++) {
		const char *q = p + sizeof(g_by) - 1;

		/* A letter needs no number: the sentry's own texts have none, but a key might. */
		if (*p == '\\') {
			if (end - p > 5 && memcmp(p, "\\u00", 4) == 0 && p[4] >= '2' && p[4] <= '7')
				return false;
			p++;
			continue;
		}
		if ((size_t)(end - p) < sizeof(g_by) - 1 || memcmp(p, g_by, sizeof(g_by) - 1) != 0)
			continue;
		while (q < end && (*q == ' ' || *q == '\t' || *q == '\r'))
			q++;
		if (q < end && *q == ':')
			return false;
	}
	return true;
}

/* With its newline. */
static void take_line(const char *line, size_t size)
{
	if (!is_sentrys(line, size)) {
		g_log.refused++;
	} else if (g_log.bytes + size > grant_limit(GRANT_LIMIT_log_bytes)) {
		g_log.over++;
	} else {
		write_all(line, size);
		if (g_log.error)
			g_log.lost++;
		else
			g_log.lines++;
	}
}

static void take_lines(void)
{
	char *at = g_buf, *end = g_buf + g_log.used, *nl;

	while ((nl = memchr(at, '\n', (size_t)(end - at)))) {
		if (g_log.skip)
			g_log.refused++;
		else
			take_line(at, (size_t)(nl + 1 - at));
		g_log.skip = false;
		at = nl + 1;
	}
	g_log.used = (size_t)(end - at);
	memmove(g_buf, at, g_log.used);
	if (g_log.used >= LINE_MAX_) {
		g_log.skip = true;
		g_log.used = 0;
	}
}

static void *log_main(void *arg UNUSED)
{
	for (size_t last = 0; last < LAST_BYTES;) {
		struct pollfd p = {.fd = g_log.from, .events = POLLIN};
		const bool ended = atomic_load(&g_log.ended);
		ssize_t n;

		/* Once the sentry is dead, what there is to read is there. */
		if (ended && HOST(poll_monitor_audit, poll(&p, 1, 0)) <= 0)
			break;
		if (HOST(poll_monitor_audit, poll(&p, 1, PATIENCE_MS)) <= 0)
			continue;
		n = HOST(read_monitor_audit,
			 read(g_log.from, g_buf + g_log.used, sizeof(g_buf) - g_log.used));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			break;
		last += ended ? (size_t)n : 0;
		g_log.used += (size_t)n;
		take_lines();
	}
	return NULL;
}

void audit_log_lock(struct monitor_lock *l)
{
	if (g_log.file < 0)
		return;
	l->variant |= MONITOR_AUDIT;
	l->slots[MONITOR_LOG] = g_log.file;
	l->slots[MONITOR_LOG_PIPE] = g_log.from;
}

int audit_log_start(struct err *e)
{
	int r;

	if (g_log.file < 0)
		return 0;
	HOST(close_monitor, close(g_log.to));
	g_log.to = -1;
	r = thread_start(&g_log.thread, log_main, NULL, "moat-log");
	g_log.has_thread = r == 0;
	return r ? err_set(e, -r, "--audit: no thread to write it: %s", err_text(-r)) : 0;
}

void audit_log_end(int status, int result)
{
	char line[768], when[AUDIT_TIME_SIZE], grant[2 * GRANT_HASH_SIZE + 16] = "";
	struct timespec now = {0};
	const char *how;
	double took;
	int n;

	if (g_log.file < 0)
		return;
	atomic_store(&g_log.ended, true);
	if (g_log.has_thread)
		pthread_join(g_log.thread, NULL);
	summary_events(take_line);
	clock_gettime(CLOCK_MONOTONIC, &now);
	took = (double)(now.tv_sec - g_log.started.tv_sec) +
	       (double)(now.tv_nsec - g_log.started.tv_nsec) / 1e9;
	clock_gettime(CLOCK_REALTIME, &now);
	audit_time_text(when, (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec);
	if (g_grant) {
		n = snprintf(grant, sizeof(grant), ",\"grant\":\"");
		for (unsigned i = 0; i < GRANT_HASH_SIZE; i++)
			n += snprintf(grant + n, sizeof(grant) - (size_t)n, "%02x",
				      g_grant->hash[i]);
		strcpy(grant + n, "\"");
	}
	how = WIFSIGNALED(status) ? "killed" : "exited";
	n = snprintf(line, sizeof(line),
		     "{\"by\":\"monitor\",\"event\":\"end\",\"time\":\"%s\",\"at\":%.6f%s,"
		     "\"status\":%d,\"sentry\":\"%s\",\"sentry_status\":%d,\"lines\":%lu,"
		     "\"lines_over_limit\":%lu,\"lines_refused\":%lu,\"cut\":%s}\n",
		     when, took, grant, result, how,
		     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), g_log.lines,
		     g_log.over, g_log.refused, g_log.used || g_log.skip ? "true" : "false");
	write_all(line, (size_t)n);
	if (g_log.error)
		fprintf(stderr,
			"moat: --audit=%s: %s: %llu events and the end are not in the log; make "
			"room, or name a file elsewhere\n",
			g_log.path, err_text(g_log.error), (unsigned long long)g_log.lost);
	else if (g_log.over)
		fprintf(stderr,
			"moat: limit: log_bytes: %llu events are not in the log; allow more with: "
			"--limit log_bytes=SIZE\n",
			(unsigned long long)g_log.over);
	HOST(close_monitor, close(g_log.file));
	HOST(close_monitor, close(g_log.from));
	g_log.file = g_log.from = -1;
}
