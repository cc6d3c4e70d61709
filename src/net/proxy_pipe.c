/* Moving bytes. */
#include "net/proxy_pipe.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define DROP_SENT 65536

static bool is_passing(int error)
{
	return error == EAGAIN || error == EINTR;
}

void pipe_end_close(struct pipe_end *end)
{
	loop_io_remove(end->io);
	cleanup_closep(&end->fd);
	buf_clear(&end->out);
	*end = PIPE_END_INIT;
}

size_t pipe_end_waiting(const struct pipe_end *end)
{
	return end->out.len - end->out_at;
}

/* Moving the rest to the front is worth it only now and then. */
static void drop_sent(struct pipe_end *end)
{
	if (end->out_at < DROP_SENT)
		return;
	buf_drop_front(&end->out, end->out_at);
	end->out_at = 0;
}

int pipe_end_flush(struct pipe_end *end)
{
	while (pipe_end_waiting(end) > 0) {
		ssize_t n = send(end->fd, end->out.data + end->out_at, pipe_end_waiting(end),
				 MSG_NOSIGNAL);

		if (n < 0 && !is_passing(errno))
			return -errno;
		if (n < 0) {
			drop_sent(end);
			return 0;
		}
		end->out_at += (size_t)n;
	}
	buf_clear(&end->out); /* a connection at rest holds no memory */
	end->out_at = 0;
	if (end->no_more && !end->told) {
		end->told = true;
		if (shutdown(end->fd, SHUT_WR) < 0)
			return -errno;
	}
	return 0;
}

int pipe_end_receive(struct pipe_end *end, size_t max, struct buf *in)
{
	ssize_t n;

	if (end->ended || max == 0)
		return 0;
	buf_reserve(in, max);
	n = recv(end->fd, in->data + in->len, max, 0);
	if (n < 0)
		return is_passing(errno) ? 0 : -errno;
	in->len += (size_t)n;
	in->data[in->len] = '\0';
	end->ended = n == 0;
	return n > 0;
}

void pipe_end_watch(struct pipe_end *end, bool wants_more)
{
	uint32_t events = wants_more && !end->ended ? EPOLLIN : 0;

	if (pipe_end_waiting(end) > 0)
		events |= EPOLLOUT;
	if (end->io)
		loop_io_set(end->io, events);
}
