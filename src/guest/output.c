/* From the pipe to the log. See output.h. */
#include "guest/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "guest/guest.h"

#define PIPE_BYTES  (256 * 1024) /* fewer turns, if it may */
#define BURST_MS    10		 /* pieces that follow each other within it … */
#define SMALL_BYTES (16 * 1024)	 /* … and are smaller than this … */
#define REST_MS	    2		 /* … are gathered for so long */
/* More than a terminal's driver holds: what comes after it is somebody else's, who kept it open. */
#define TERMINAL_HELD_MAX (1024u * 1024)

/* How much may be read now without dropping what a follower with back-pressure still needs. */
static size_t allowance(const struct output *o)
{
	uint64_t room = capture_room(&o->log, session_slowest(&o->exec->guest->session, o));
	size_t chunk = sizeof(o->exec->guest->chunk);

	return room < chunk ? (size_t)room : chunk;
}

/* What the pipe held when its command ended is logged. */
static void end_drain(struct output *o)
{
	o->drain_left = 0;
	exec_output_progress(o->exec);
}

static void end_stream(struct output *o)
{
	poller_close(&o->exec->guest->poller, &o->pipe);
	o->ended = true;
	end_drain(o);
}

/* Moves one chunk; 0 when there is nothing to do now. */
static size_t move_chunk(struct output *o)
{
	struct guest *guest = o->exec->guest;
	size_t allowed = allowance(o);
	ssize_t n;

	if (o->ended)
		return 0;
	if (allowed == 0) {
		poller_pause(&guest->poller, &o->pipe);
		return 0;
	}
	n = read(o->pipe.fd, guest->chunk, allowed);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (o->exec->tty && o->drain_left > 0)
			end_drain(o);
		return 0;
	}
	if (n <= 0) {
		end_stream(o);
		return 0;
	}
	capture_append(&o->log, guest->chunk, (size_t)n);
	if (o->draining && o->drain_left > 0) {
		o->drain_left -= (size_t)n < o->drain_left ? (size_t)n : o->drain_left;
		if (o->drain_left == 0)
			end_drain(o);
	}
	return (size_t)n;
}

/* After a piece of n bytes. */
static void rest(struct output *o, size_t n)
{
	int64_t now_ms = clock_boottime_ms();
	bool burst = now_ms - o->read_boottime_ms < BURST_MS;

	o->read_boottime_ms = now_ms;
	if (!burst || n >= SMALL_BYTES || o->ended)
		return;
	o->rest_boottime_ms = now_ms + REST_MS;
	poller_pause(&o->exec->guest->poller, &o->pipe);
}

static void on_pipe(struct watch *w, uint32_t events)
{
	struct output *o = w->owner;

	if (!o->direct) {
		size_t n = move_chunk(o);

		if (n > 0)
			rest(o, n);
		return;
	}
	o->readable = true;
	poller_pause(&o->exec->guest->poller, &o->pipe); /* until it was found empty */
}

void output_begin(struct output *o, struct exec *exec, int pipe_fd, bool direct)
{
	o->direct = direct;
	(void)fcntl(pipe_fd, F_SETPIPE_SZ, PIPE_BYTES);
	poller_add(&exec->guest->poller, &o->pipe, pipe_fd, EPOLLIN, on_pipe, o);
}

size_t output_take(struct output *o, char *out, size_t max)
{
	ssize_t n;

	if (o->ended || !o->readable)
		return 0;
	n = read(o->pipe.fd, out, max);
	if (n > 0) {
		o->log.total += (uint64_t)n;
		return (size_t)n;
	}
	if (n < 0 && errno == EINTR)
		return 0;
	o->readable = false;
	if (n < 0 && errno == EAGAIN)
		poller_resume(&o->exec->guest->poller, &o->pipe, EPOLLIN);
	else
		end_stream(o);
	return 0;
}

void output_abandon(struct output *o)
{
	if (!o->ended)
		end_stream(o);
}

void output_drain(struct output *o)
{
	int held = 0;

	o->draining = true;
	if (o->ended || o->direct)
		return;
	/* A terminal does not count what its driver holds, but hands it all out before it says that
	 * there is nothing. */
	if (o->exec->tty)
		o->drain_left = TERMINAL_HELD_MAX;
	else if (ioctl(o->pipe.fd, FIONREAD, &held) == 0 && held > 0)
		o->drain_left = (size_t)held;
	while (o->drain_left > 0 && move_chunk(o) > 0)
		;
}

bool output_drained(const struct output *o)
{
	return o->draining && o->drain_left == 0 && (!o->direct || o->ended);
}

int64_t output_check(struct output *o, int64_t now_ms)
{
	if (o->direct || o->ended || o->pipe.in_set || o->pipe.fd < 0)
		return INT64_MAX;
	if (now_ms < o->rest_boottime_ms)
		return o->rest_boottime_ms;
	if (allowance(o) > 0)
		poller_resume(&o->exec->guest->poller, &o->pipe, EPOLLIN);
	return INT64_MAX;
}

void output_close(struct output *o)
{
	poller_close(&o->exec->guest->poller, &o->pipe);
	capture_close(&o->log);
}
