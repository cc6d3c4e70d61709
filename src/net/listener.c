/* Accepting connections. */
#include "net/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

struct listener {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	struct loop_timer *pause;
	listener_fn fn;
	void *arg;
};

static void on_pause_over(void *arg)
{
	struct listener *listener = arg;

	loop_timer_remove(STEAL(listener->pause));
	loop_io_set(listener->io, EPOLLIN);
}

static void rest(struct listener *listener, int error)
{
	log_warn("cannot accept connections of guests for a moment", "errno=%s",
		 strerrorname_np(error));
	loop_io_set(listener->io, 0);
	listener->pause = loop_timer_add(listener->loop, clock_boottime_ms() + LISTENER_PAUSE_MS,
					 on_pause_over, listener);
}

static bool is_lack(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_ready(void *arg, uint32_t events)
{
	struct listener *listener = arg;

	for (int i = 0; i < LISTENER_ACCEPTS_PER_ROUND; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t from_len = sizeof(from);
		int fd = accept4(listener->fd, (struct sockaddr *)&from, &from_len,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			listener->fn(listener->arg, fd, &from);
			continue;
		}
		if (is_lack(errno))
			rest(listener, errno);
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

struct listener *listener_new(struct loop *loop, int fd, listener_fn fn, void *arg)
{
	struct listener *listener = xcalloc(1, sizeof(*listener));

	*listener = (struct listener){ .loop = loop, .fd = fd, .fn = fn, .arg = arg };
	listener->io = loop_io_add(loop, fd, EPOLLIN, on_ready, listener);
	if (!listener->io) {
		int error = errno;

		listener_free(listener);
		errno = error;
		return NULL;
	}
	return listener;
}

void listener_free(struct listener *listener)
{
	if (!listener)
		return;
	loop_timer_remove(listener->pause);
	loop_io_remove(listener->io);
	cleanup_closep(&listener->fd);
	free(listener);
}
