/*
 * One struct way a direction. A way reads when it holds nothing, and writes what it holds; its end
 * is passed on (shutdown) once everything before it was written. When one way has ended the other
 * gets a while to end too: long for a guest that may still have something to say, short for a
 * client, which under TLS does not hear of the end before its connection is closed (libmicrohttpd
 * 0.9.75 does not pass on the end of one direction).
 */
#include "api/preview_tunnel.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"

#define HALF_CLOSED_MS 30000

struct way {
	int from, to;
	struct buf held;
	size_t sent; /* of held */
	bool over;   /* from has ended */
	bool closed; /* and to was told */
	bool last;   /* its end is the end of both */
};

struct preview_tunnel {
	struct loop *loop;
	struct way ways[2]; /* client to guest, guest to client */
	struct loop_io *ios[2];
	struct loop_timer *timer; /* once one way has ended */
	loop_fn ended;
	void *arg;
};

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* false: it is over, or broken. */
static bool write_held(struct way *way)
{
	while (way->sent < way->held.len) {
		ssize_t n = send(way->to, way->held.data + way->sent, way->held.len - way->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0)
			return would_block();
		way->sent += (size_t)n;
	}
	buf_reset(&way->held);
	way->sent = 0;
	if (way->over && !way->closed) {
		if (way->last)
			return false;
		shutdown(way->to, SHUT_WR);
		way->closed = true;
	}
	return true;
}

static bool read_more(struct way *way)
{
	ssize_t n;

	if (way->over || way->held.len > 0)
		return true;
	buf_reserve(&way->held, PREVIEW_TUNNEL_BYTES);
	n = recv(way->from, way->held.data, PREVIEW_TUNNEL_BYTES, MSG_DONTWAIT);
	if (n < 0)
		return would_block();
	way->held.len = (size_t)n;
	way->held.data[n] = '\0';
	way->over = n == 0;
	return write_held(way);
}

/* What the descriptor that this way reads from, and the other way writes to, has to wait for. */
static uint32_t wanted(const struct way *reads, const struct way *writes)
{
	uint32_t events = 0;

	if (!reads->over && reads->held.len == 0)
		events |= EPOLLIN;
	if (writes->held.len > 0)
		events |= EPOLLOUT;
	return events;
}

static void half_closed_for_long(void *arg)
{
	struct preview_tunnel *tunnel = arg;

	tunnel->ended(tunnel->arg);
}

static void pump(struct preview_tunnel *tunnel)
{
	struct way *ways = tunnel->ways;
	bool whole = true;

	for (int i = 0; i < 2 && whole; i++)
		whole = write_held(&ways[i]) && read_more(&ways[i]);
	if (!whole || (ways[0].closed && ways[1].closed)) {
		tunnel->ended(tunnel->arg);
		return;
	}
	if (!tunnel->timer && (ways[0].closed || ways[1].closed))
		tunnel->timer = loop_timer_add(tunnel->loop, clock_boottime_ms() + HALF_CLOSED_MS,
					       half_closed_for_long, tunnel);
	for (int i = 0; i < 2; i++)
		loop_io_set(tunnel->ios[i], wanted(&ways[i], &ways[!i]));
}

static void on_ready(void *arg, uint32_t events)
{
	pump(arg);
}

struct preview_tunnel *preview_tunnel_new(struct loop *loop, int client_fd, bool client_half_closes,
					  int guest_fd, const void *from_client,
					  size_t from_client_len, const void *from_guest,
					  size_t from_guest_len, loop_fn ended, void *arg)
{
	struct preview_tunnel *tunnel = xcalloc(1, sizeof(*tunnel));

	tunnel->loop = loop;
	tunnel->ended = ended;
	tunnel->arg = arg;
	tunnel->ways[0] = (struct way){ .from = client_fd, .to = guest_fd };
	tunnel->ways[1] =
		(struct way){ .from = guest_fd, .to = client_fd, .last = !client_half_closes };
	buf_append(&tunnel->ways[0].held, from_client, from_client_len);
	buf_append(&tunnel->ways[1].held, from_guest, from_guest_len);
	for (int i = 0; i < 2; i++) {
		tunnel->ios[i] =
			loop_io_add(loop, tunnel->ways[i].from,
				    wanted(&tunnel->ways[i], &tunnel->ways[!i]), on_ready, tunnel);
		if (!tunnel->ios[i]) {
			preview_tunnel_free(tunnel);
			return NULL;
		}
	}
	return tunnel;
}

void preview_tunnel_free(struct preview_tunnel *tunnel)
{
	if (!tunnel)
		return;
	for (int i = 0; i < 2; i++) {
		loop_io_remove(tunnel->ios[i]);
		buf_clear(&tunnel->ways[i].held);
	}
	loop_timer_remove(tunnel->timer);
	free(tunnel);
}
