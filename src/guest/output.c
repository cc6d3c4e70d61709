/* From the pipe to the log. See output.h. */
#include "guest/output.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "guest/guest.h"

/* How much may be read now without dropping what a follower with back-pressure still needs. */
static size_t allowance(const struct output *o)
{
	uint64_t room = capture_room(&o->log, session_slowest(&o->exec->guest->session, o));
	size_t chunk = sizeof(o->exec->guest->chunk);

	return room < chunk ? (size_t)room : chunk;
}

static void end_stream(struct output *o)
{
	poller_close(&o->exec->guest->poller, &o->pipe);
	o->ended = true;
	o->drain_left = 0;
	exec_output_progress(o->exec);
}

/* Moves one chunk; false when there is nothing to do now. */
static bool move_chunk(struct output *o)
{
	struct guest *guest = o->exec->guest;
	size_t allowed = allowance(o);
	ssize_t n;

	if (o->ended)
		return false;
	if (allowed == 0) {
		poller_pause(&guest->poller, &o->pipe);
		return false;
	}
	n = read(o->pipe.fd, guest->chunk, allowed);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		end_stream(o);
		return false;
	}
	capture_append(&o->log, guest->chunk, (size_t)n);
	if (o->draining && o->drain_left > 0) {
		o->drain_left -= (size_t)n < o->drain_left ? (size_t)n : o->drain_left;
		if (o->drain_left == 0)
			exec_output_progress(o->exec);
	}
	return true;
}

static void on_pipe(struct watch *w, uint32_t events)
{
	move_chunk(w->owner);
}

void output_begin(struct output *o, struct exec *exec, int pipe_fd)
{
	poller_add(&exec->guest->poller, &o->pipe, pipe_fd, EPOLLIN, on_pipe, o);
}

void output_drain(struct output *o)
{
	int held = 0;

	o->draining = true;
	if (o->ended)
		return;
	if (ioctl(o->pipe.fd, FIONREAD, &held) == 0 && held > 0)
		o->drain_left = (size_t)held;
	while (o->drain_left > 0 && move_chunk(o))
		;
}

bool output_drained(const struct output *o)
{
	return o->draining && o->drain_left == 0;
}

void output_check(struct output *o)
{
	if (!o->ended && !o->pipe.in_set && o->pipe.fd >= 0 && allowance(o) > 0)
		poller_resume(&o->exec->guest->poller, &o->pipe, EPOLLIN);
}

void output_close(struct output *o)
{
	poller_close(&o->exec->guest->poller, &o->pipe);
	capture_close(&o->log);
}
