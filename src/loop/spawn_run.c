/*
 * Running a program to its end and collecting what it prints.
 *
 * One poll(2) watches both pipes and the pidfd. The program's end counts, not the end of the pipes:
 * a background process that it left behind may hold them open for ever. So when the pidfd reports
 * the end, what is in the pipes is read once more without waiting, and that is all.
 */
#include "loop/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#define LINE_MAX_BYTES 4096
#define TAIL_MAX_BYTES 512 /* of stderr, for the error message */

enum { SLOT_OUT, SLOT_ERR, SLOT_END, N_SLOTS };

struct run {
	struct child child;
	int out_fd, err_fd; /* our ends of the pipes, -1 when closed */
	struct buf *out;
	size_t out_left;
	struct buf line; /* the line of stderr that is not complete yet */
	struct buf tail; /* the last lines, where nobody takes them one by one */
	spawn_line_fn line_fn;
	void *line_arg;
};

static void run_clear(struct run *run)
{
	child_kill(&run->child);
	cleanup_closep(&run->out_fd);
	cleanup_closep(&run->err_fd);
	buf_clear(&run->line);
	buf_clear(&run->tail);
}

/* Keeps the end of what was printed, in whole lines where they are short enough. */
static void remember_line(struct run *run)
{
	if (run->line.len == 0)
		return;
	if (run->tail.len > 0)
		buf_append_str(&run->tail, "; ");
	buf_append(&run->tail, run->line.data, run->line.len);
	while (run->tail.len > TAIL_MAX_BYTES) {
		const char *next = memmem(run->tail.data, run->tail.len, "; ", 2);
		size_t cut =
			next ? (size_t)(next - run->tail.data) + 2 : run->tail.len - TAIL_MAX_BYTES;

		buf_drop_front(&run->tail, cut);
	}
}

static void finish_line(struct run *run)
{
	/* A line is a C string for its receiver: a NUL within it would hide the rest. */
	for (size_t i = 0; i < run->line.len; i++) {
		if (run->line.data[i] == '\0')
			run->line.data[i] = '?';
	}
	if (run->line_fn)
		run->line_fn(run->line_arg, buf_str(&run->line));
	else
		remember_line(run);
	buf_reset(&run->line);
}

static void take_stderr(struct run *run, const char *data, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(data, '\n', len);
		size_t part = newline ? (size_t)(newline - data) : len;
		size_t room = LINE_MAX_BYTES - run->line.len;

		buf_append(&run->line, data, part < room ? part : room);
		if (!newline)
			return;
		finish_line(run);
		data += part + 1;
		len -= part + 1;
	}
}

static void take_stdout(struct run *run, const char *data, size_t len)
{
	size_t kept = len < run->out_left ? len : run->out_left;

	buf_append(run->out, data, kept);
	run->out_left -= kept;
}

/* One read of a pipe. Returns false when there is nothing to read now; closes it at its end. */
static bool read_pipe(struct run *run, int *fd, void (*take)(struct run *, const char *, size_t))
{
	char chunk[16384];
	ssize_t n;

	if (*fd < 0)
		return false;
	do {
		n = read(*fd, chunk, sizeof(chunk));
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		close(STEAL_FD(*fd));
		return false;
	}
	take(run, chunk, (size_t)n);
	return true;
}

/* What the program has left in a pipe when it ended; bounded, as a background process may go on. */
static void drain_pipe(struct run *run, int *fd, void (*take)(struct run *, const char *, size_t))
{
	for (int i = 0; i < 64 && read_pipe(run, fd, take); i++)
		;
}

/* Reads until the program ends: 0, -ETIMEDOUT or what poll said. */
static int pump(struct run *run, int64_t deadline_boottime_ms)
{
	for (;;) {
		struct pollfd fds[N_SLOTS] = {
			[SLOT_OUT] = { .fd = run->out_fd, .events = POLLIN },
			[SLOT_ERR] = { .fd = run->err_fd, .events = POLLIN },
			[SLOT_END] = { .fd = run->child.pidfd, .events = POLLIN },
		};
		int n;

		/* Asked before poll: a program that never stops printing meets its deadline too. */
		if (clock_remaining_ms(deadline_boottime_ms) == 0)
			return -ETIMEDOUT;
		n = poll(fds, N_SLOTS, clock_remaining_ms(deadline_boottime_ms));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		if (fds[SLOT_END].revents) {
			drain_pipe(run, &run->out_fd, take_stdout);
			drain_pipe(run, &run->err_fd, take_stderr);
			return 0;
		}
		if (fds[SLOT_OUT].revents)
			read_pipe(run, &run->out_fd, take_stdout);
		if (fds[SLOT_ERR].revents)
			read_pipe(run, &run->err_fd, take_stderr);
	}
}

static int make_pipe(int *ret_read, int *ret_write)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_read = fds[0];
	*ret_write = fds[1];
	return fd_set_nonblock(fds[0], true);
}

static int start(struct run *run, const struct spawn_spec *spec, struct err *err)
{
	_cleanup_close_ int out_write = -1, err_write = -1;
	struct spawn_spec piped = *spec;
	int r = make_pipe(&run->err_fd, &err_write);

	if (r == 0 && run->out)
		r = make_pipe(&run->out_fd, &out_write);
	if (r < 0)
		return err_set(err, r, "cannot run '%s': make a pipe: %s", spec->argv[0],
			       strerrordesc_np(-r));
	piped.stderr_fd = err_write;
	if (run->out)
		piped.stdout_fd = out_write;
	return spawn(&piped, &run->child, err);
}

static int judge(const struct run *run, const struct spawn_spec *spec, int status, struct err *err)
{
	const char *separator = run->tail.len ? ": " : "";
	const char *tail = buf_str(&run->tail);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status))
		return err_set(err, -EIO, "'%s' ended with exit status %d%s%s", spec->argv[0],
			       WEXITSTATUS(status), separator, tail);
	return err_set(err, -EIO, "'%s' was killed by signal %d (%s)%s%s", spec->argv[0],
		       WTERMSIG(status), sigdescr_np(WTERMSIG(status)) ?: "unknown", separator,
		       tail);
}

int spawn_run(const struct spawn_spec *spec, int64_t deadline_boottime_ms, struct buf *out,
	      size_t out_max, spawn_line_fn line_fn, void *line_arg, struct err *err)
{
	_cleanup_(run_clear) struct run run = {
		.child = { .pid = 0, .pidfd = -1 },
		.out_fd = -1,
		.err_fd = -1,
		.out = out,
		.out_left = out_max,
		.line_fn = line_fn,
		.line_arg = line_arg,
	};
	int status = 0;
	int r = start(&run, spec, err);

	if (r < 0)
		return r;
	r = pump(&run, deadline_boottime_ms);
	if (r < 0) {
		/* Its own session is its own process group: what it started goes with it. */
		if (spec->new_session)
			kill(-run.child.pid, SIGKILL);
		if (r == -ETIMEDOUT)
			return err_set(err, r, "'%s' did not end in time and was killed",
				       spec->argv[0]);
		return err_set(err, r, "cannot wait for '%s': %s", spec->argv[0],
			       strerrordesc_np(-r));
	}
	if (run.line.len > 0)
		finish_line(&run);
	r = child_wait(&run.child, INT64_MAX, &status);
	if (r < 0)
		return err_set(err, r, "cannot wait for '%s': %s", spec->argv[0],
			       strerrordesc_np(-r));
	return judge(&run, spec, status, err);
}
