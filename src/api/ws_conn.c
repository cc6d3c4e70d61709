/*
 * WebSocket connections. See ws_conn.h.
 *
 *	OPEN      messages go both ways
 *	CLOSING   we have said that we close: what comes is dropped until the client does too
 *	OVER      the client has said so or is gone; what is queued goes out, then `closed`
 *
 * Whatever was asked for within a callback takes effect after it (settle), so that the connection
 * never goes away under its own feet.
 *
 * A ping goes out whenever nothing was heard for PING_EVERY_MS. A client that answers none of three
 * is gone, unless it is we who do not read: then only the kernel can tell.
 */
#include "api/ws_conn.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"

#define READ_BYTES     (32u * 1024)
#define TEXT_MAX       (16u * 1024)
#define OUT_READ_MAX   (512u * 1024) /* with so much queued, nothing is read */
#define COMPACT_BYTES  (64u * 1024)
#define PING_EVERY_MS  20000
#define PINGS	       3
#define CLOSE_WAIT_MS  5000
#define READS_PER_TURN 8 /* then others have theirs */

struct ws_conn {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
	struct ws_conn_events events;
	void *arg;
	struct ws_decoder decoder;
	enum { OPEN, CLOSING, OVER } state;
	bool broken; /* nothing can be sent any more */

	struct buf in; /* one read */
	size_t in_used;
	uint8_t *piece; /* of `in`: what binary has not taken */
	size_t piece_len;

	struct buf out;
	size_t out_sent;
	size_t unreported; /* bytes of binary messages queued and not reported as drained */

	int64_t heard_ms, due_ms; /* due: of closing */
	unsigned int pings;	  /* since something was heard */
};

/* ---- out ---- */

static bool would_block(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static size_t queued(const struct ws_conn *conn)
{
	return conn->out.len - conn->out_sent;
}

/* Sends as far as the socket takes it; the bytes sent. */
static size_t flush(struct ws_conn *conn)
{
	size_t before = conn->out_sent, sent;

	while (queued(conn) > 0 && !conn->broken) {
		ssize_t n = send(conn->fd, conn->out.data + conn->out_sent, queued(conn),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && would_block())
			break;
		if (n < 0)
			conn->broken = true;
		else
			conn->out_sent += (size_t)n;
	}
	sent = conn->out_sent - before;
	if (queued(conn) == 0) {
		buf_clear(&conn->out);
		conn->out_sent = 0;
	} else if (conn->out_sent >= COMPACT_BYTES) {
		buf_drop_front(&conn->out, conn->out_sent);
		conn->out_sent = 0;
	}
	return sent;
}

/* Heads of frames count as bytes of messages: the source is told a little early, never too late. */
static void report_drained(struct ws_conn *conn, size_t sent)
{
	size_t bytes = queued(conn) == 0 || sent > conn->unreported ? conn->unreported : sent;

	conn->unreported -= bytes;
	if (bytes > 0 && conn->state == OPEN)
		conn->events.drained(conn->arg, bytes);
}

/* ---- in ---- */

static void agree_to_close(struct ws_conn *conn)
{
	if (conn->state == OPEN)
		ws_put_close(&conn->out,
			     conn->decoder.code == WS_CODE_NO_STATUS ? WS_CODE_NORMAL
								     : conn->decoder.code,
			     "", NULL);
	conn->state = OVER;
}

static void take_event(struct ws_conn *conn, enum ws_event event)
{
	const struct ws_decoder *d = &conn->decoder;

	switch (event) {
	case WS_EV_BINARY:
		conn->piece = d->piece;
		conn->piece_len = conn->state == OPEN ? d->piece_len : 0;
		break;
	case WS_EV_TEXT:
		if (conn->state == OPEN)
			conn->events.text(conn->arg, buf_str(&d->text), d->text.len);
		break;
	case WS_EV_PING:
		if (conn->state == OPEN)
			ws_put_frame(&conn->out, WS_PONG, d->control, d->control_len, NULL);
		break;
	case WS_EV_CLOSE:
		agree_to_close(conn);
		break;
	case WS_EV_BAD:
		ws_conn_close(conn, d->code, d->why);
		break;
	case WS_EV_PONG:
	case WS_EV_MORE:
		break;
	}
}

/* Hands on what was read; false when some of it has to wait. */
static bool take_in(struct ws_conn *conn)
{
	enum ws_event event = WS_EV_PONG;

	while (event != WS_EV_MORE) {
		size_t used, n;

		if (conn->piece_len > 0) {
			n = conn->events.binary(conn->arg, conn->piece, conn->piece_len);
			if (conn->state != OPEN)
				n = conn->piece_len;
			conn->piece += n;
			conn->piece_len -= n;
			if (conn->piece_len > 0)
				return false;
		}
		event = ws_next(&conn->decoder, (uint8_t *)conn->in.data + conn->in_used,
				conn->in.len - conn->in_used, &used);
		conn->in_used += used;
		take_event(conn, event);
	}
	buf_reset(&conn->in);
	conn->in_used = 0;
	return true;
}

static bool may_read(const struct ws_conn *conn)
{
	return conn->state != OVER && queued(conn) < OUT_READ_MAX;
}

static void read_in(struct ws_conn *conn)
{
	for (int i = 0; i < READS_PER_TURN && may_read(conn); i++) {
		ssize_t n;

		if (conn->in.len > 0 && !take_in(conn))
			return;
		if (!may_read(conn))
			break;
		buf_reserve(&conn->in, READ_BYTES);
		n = recv(conn->fd, conn->in.data, READ_BYTES, MSG_DONTWAIT);
		if (n < 0 && would_block())
			break;
		if (n <= 0) {
			conn->state = OVER;
			conn->broken |= n < 0;
			break;
		}
		conn->in.len = (size_t)n;
		conn->heard_ms = clock_boottime_ms();
		conn->pings = 0;
	}
	if (conn->in.len == 0)
		buf_clear(&conn->in); /* an idle connection holds nothing */
}

/* ---- both ---- */

/* What there is to wait for now, or the end; conn may be gone afterwards. */
static void settle(struct ws_conn *conn)
{
	uint32_t events = 0;

	report_drained(conn, flush(conn));
	if (conn->broken || (conn->state == OVER && queued(conn) == 0)) {
		conn->events.closed(conn->arg);
		return;
	}
	if (queued(conn) > 0)
		events |= EPOLLOUT;
	if (may_read(conn) && conn->piece_len == 0)
		events |= EPOLLIN;
	loop_io_set(conn->io, events);
}

static void on_io(void *arg, uint32_t events)
{
	struct ws_conn *conn = arg;

	if (events & ~(uint32_t)EPOLLOUT)
		read_in(conn);
	settle(conn);
}

/* Asks for a turn: things are not done within the caller's own call. */
static void wake(struct ws_conn *conn)
{
	loop_timer_set(conn->timer, clock_boottime_ms());
}

static bool is_late(const struct ws_conn *conn, int64_t now_ms)
{
	if (conn->state != OPEN)
		return now_ms >= conn->due_ms;
	return conn->pings >= PINGS && now_ms - conn->heard_ms >= (PINGS + 1) * PING_EVERY_MS &&
	       conn->piece_len == 0;
}

static void on_timer(void *arg)
{
	struct ws_conn *conn = arg;
	int64_t now_ms = clock_boottime_ms();

	if (conn->state == OPEN && queued(conn) == 0 &&
	    now_ms - conn->heard_ms >= (conn->pings + 1) * (int64_t)PING_EVERY_MS) {
		ws_put_frame(&conn->out, WS_PING, NULL, 0, NULL);
		conn->pings++;
	}
	if (is_late(conn, now_ms))
		conn->broken = true;
	else if (conn->in.len > 0)
		read_in(conn);
	loop_timer_set(conn->timer, conn->state == OPEN	    ? now_ms + PING_EVERY_MS / 2
				    : conn->due_ms > now_ms ? conn->due_ms
							    : now_ms + CLOSE_WAIT_MS);
	settle(conn);
}

struct ws_conn *ws_conn_new(struct loop *loop, int fd, const void *early, size_t early_len,
			    const struct ws_conn_events *events, void *arg)
{
	struct ws_conn *conn = xcalloc(1, sizeof(*conn));

	conn->loop = loop;
	conn->fd = fd;
	conn->events = *events;
	conn->arg = arg;
	conn->heard_ms = clock_boottime_ms();
	ws_decoder_init(&conn->decoder, true, TEXT_MAX);
	buf_append(&conn->in, early, early_len);
	conn->io = loop_io_add(loop, fd, EPOLLIN, on_io, conn);
	if (!conn->io) {
		ws_conn_free(conn);
		return NULL;
	}
	conn->timer = loop_timer_add(loop, conn->heard_ms, on_timer, conn);
	return conn;
}

void ws_conn_free(struct ws_conn *conn)
{
	if (!conn)
		return;
	loop_io_remove(conn->io);
	loop_timer_remove(conn->timer);
	ws_decoder_clear(&conn->decoder);
	buf_clear(&conn->in);
	buf_clear(&conn->out);
	free(conn);
}

/* A connection that breaks here is found out by its own next turn. */
static void push_out(struct ws_conn *conn)
{
	if (queued(conn) > 0)
		loop_io_set(conn->io,
			    EPOLLOUT | (may_read(conn) && conn->piece_len == 0 ? (uint32_t)EPOLLIN
									       : 0u));
}

void ws_conn_text(struct ws_conn *conn, const char *text, size_t len)
{
	if (conn->state != OPEN)
		return;
	ws_put_frame(&conn->out, WS_TEXT, text, len, NULL);
	push_out(conn);
}

void ws_conn_binary(struct ws_conn *conn, const void *data, size_t len)
{
	if (conn->state != OPEN)
		return;
	ws_put_frame(&conn->out, WS_BINARY, data, len, NULL);
	conn->unreported += len;
	push_out(conn);
}

void ws_conn_resume(struct ws_conn *conn)
{
	if (conn->piece_len > 0)
		wake(conn);
}

void ws_conn_close(struct ws_conn *conn, uint16_t code, const char *reason)
{
	if (conn->state != OPEN)
		return;
	ws_put_close(&conn->out, code, reason, NULL);
	conn->state = CLOSING;
	conn->due_ms = clock_boottime_ms() + CLOSE_WAIT_MS;
	wake(conn);
}
