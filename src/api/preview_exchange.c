/*
 * The states of an exchange, all on the loop's thread but for the opening:
 *
 *	CONNECTING   the socket into the sandbox is being connected
 *	ASKING       the request goes out, and the head of the answer is waited for
 *	ANSWERING    the body of the answer is passed on
 *	UPGRADING    the guest has agreed to another protocol, the client is being told
 *	TUNNEL       the two sockets are joined
 *
 * Memory is bounded both ways: OUT_BYTES of the request wait for the guest (and what the HTTP
 * server queues before the client's window closes), ANSWER_BYTES of the answer for the client. Each
 * connection into a sandbox serves one request: there is no second one whose answer a guest could
 * give in advance.
 *
 * libmicrohttpd sends an answer only when the whole request has come. An answer that a guest gives
 * before it has read the whole body therefore waits until it has, unless it is a refusal or the
 * guest stops reading: then the rest of the body is dropped.
 *
 * Deadlines are about silence: of the guest before its answer begins. Afterwards an answer may
 * pause for ever (server-sent events do); a guest that is gone is noticed by the keepalive of the
 * kernel, and by the core, which ends the connections of a sandbox with it.
 */
#include "api/preview_exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "api/preview_answer.h"
#include "api/preview_body.h"
#include "api/preview_head.h"
#include "api/preview_tunnel.h"
#include "api/problem.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

#define OUT_BYTES	  (32u * 1024)
#define CHUNK_ROOM	  32 /* of a chunk's size line and end */
#define ANSWER_BYTES	  (256u * 1024)
#define READ_BYTES	  (64u * 1024)
#define INTERIM_HEADS_MAX 16

struct preview_exchange {
	struct loop *loop;
	struct http_request *req;
	struct preview_target target;
	struct preview_forward forward;
	int64_t connect_timeout_ms, answer_timeout_ms;
	int64_t expires_unix_ms;

	struct core_preview *preview;
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
	int64_t silent_until_ms; /* INT64_MAX: for as long as it pleases */
	int64_t expires_boottime_ms;
	enum { CONNECTING, ASKING, ANSWERING, UPGRADING, TUNNEL } state;
	bool started;
	bool over; /* before it has started */
	struct err over_err;

	struct buf out; /* for the guest */
	size_t sent;
	bool asked;	  /* the whole request is in out, or was */
	bool guest_deaf;  /* it does not read any more */
	bool out_blocked; /* until the socket takes more */

	struct buf in; /* of the head, and what came with it */
	bool have_head;
	size_t head_len;
	unsigned int interim;
	bool guest_ended;
	struct preview_head head; /* spans of in */
	struct preview_body body;
	struct http_stream *answer;
	size_t unsent; /* bytes of the answer that the client has not taken */
	struct preview_tunnel *tunnel;
};

static void go_on(struct preview_exchange *x);

/* ---- the end ---- */

static void exchange_free(struct preview_exchange *x)
{
	preview_tunnel_free(x->tunnel);
	loop_io_remove(x->io);
	loop_timer_remove(x->timer);
	if (x->fd >= 0)
		close(x->fd);
	if (x->preview)
		core_preview_close(x->preview);
	preview_forward_clear(&x->forward);
	buf_clear(&x->out);
	buf_clear(&x->in);
	free(x);
}

/* The client's descriptor is closed soon after it was given back: nobody watches it by then. */
static void end_upgrade(struct preview_exchange *x)
{
	preview_tunnel_free(STEAL(x->tunnel));
	http_upgrade_end(x->req);
}

/* Ends it in whatever state it is: with an error as the answer where none was given yet, else with
 * an answer that breaks off. */
static void fail(struct preview_exchange *x, const struct err *err)
{
	if (x->state == TUNNEL || x->state == UPGRADING)
		end_upgrade(x);
	else if (x->answer)
		http_stream_cut(x->answer);
	else
		problem_respond(x->req, err);
	exchange_free(x);
}

static void finish(struct preview_exchange *x)
{
	http_stream_end(x->answer);
	exchange_free(x);
}

static void bad_answer(struct preview_exchange *x, const char *reason)
{
	struct err err = ERR_INIT;

	err_code(&err, -EPROTO, "preview_bad_answer",
		 "what listens on port %u of sandbox '%s' did not answer as an HTTP server: %s",
		 x->target.port, x->target.id, reason);
	err_hint(&err, "previews are for servers that speak HTTP/1.1 without TLS on that port");
	fail(x, &err);
}

static void on_over(void *arg, const struct err *why)
{
	struct preview_exchange *x = arg;

	if (x->started) {
		fail(x, why);
		return;
	}
	x->over = true;
	x->over_err = *why;
}

static void on_client_gone(void *arg)
{
	struct err err = ERR_INIT;

	err_code(&err, -ECANCELED, "cancelled", "the client went away");
	fail(arg, &err);
}

/* ---- deadlines ---- */

static void on_timer(void *arg)
{
	struct preview_exchange *x = arg;
	const int64_t now_ms = clock_boottime_ms();
	int64_t due_ms = x->silent_until_ms < x->expires_boottime_ms ? x->silent_until_ms
								     : x->expires_boottime_ms;
	struct err err = ERR_INIT;

	if (now_ms < due_ms) {
		loop_timer_set(x->timer, due_ms);
		return;
	}
	if (now_ms >= x->expires_boottime_ms) {
		err_code(&err, -EACCES, "preview_expired", "the link to this preview has expired");
	} else if (x->state == CONNECTING) {
		core_preview_connect_error(x->target.id, x->target.port, -ETIMEDOUT, &err);
	} else {
		err_code(&err, -ETIMEDOUT, "preview_timeout",
			 "the server on port %u of sandbox '%s' did not answer within %lld s",
			 x->target.port, x->target.id, (long long)x->answer_timeout_ms / 1000);
		err_hint(&err, "limit preview_answer_timeout_ms in section [limits] of the "
			       "configuration");
	}
	fail(x, &err);
}

static void set_silence(struct preview_exchange *x, int64_t timeout_ms)
{
	x->silent_until_ms = timeout_ms < 0 ? INT64_MAX : clock_boottime_ms() + timeout_ms;
}

/* ---- the request, on its way out ---- */

/* Takes what has come of the body, and frames it. */
static void fill_out(struct preview_exchange *x)
{
	char *at;
	size_t n;
	bool whole = false;

	buf_reset(&x->out);
	x->sent = 0;
	if (!http_has_body(x->req)) {
		x->asked = true;
		return;
	}
	buf_reserve(&x->out, OUT_BYTES + CHUNK_ROOM);
	at = x->out.data + (x->forward.chunked ? CHUNK_ROOM / 2 : 0);
	n = http_body_take(x->req, at, OUT_BYTES, &whole);
	if (!x->forward.chunked) {
		x->out.len = n;
	} else if (n > 0) {
		char size[CHUNK_ROOM / 2];
		int len = snprintf(size, sizeof(size), "%zx\r\n", n);

		memcpy(x->out.data, size, (size_t)len);
		memmove(x->out.data + len, at, n);
		x->out.len = (size_t)len + n;
		buf_append_str(&x->out, "\r\n");
	}
	if (whole && x->forward.chunked)
		buf_append_str(&x->out, "0\r\n\r\n");
	x->asked = whole;
}

/* Also when the guest is deaf: the client's body is then taken and dropped, so that its end comes.
 */
static void push_out(struct preview_exchange *x)
{
	x->out_blocked = false;
	while (x->sent < x->out.len || !x->asked) {
		ssize_t n;

		if (x->sent == x->out.len) {
			fill_out(x);
			if (x->out.len == 0)
				return;
		}
		n = x->guest_deaf ? (ssize_t)(x->out.len - x->sent)
				  : send(x->fd, x->out.data + x->sent, x->out.len - x->sent,
					 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			x->sent += (size_t)n;
			set_silence(x, x->answer_timeout_ms);
		} else if (errno == EAGAIN || errno == EINTR) {
			x->out_blocked = true;
			return;
		} else {
			x->guest_deaf = true; /* an answer may have come all the same */
		}
	}
}

static bool all_sent(const struct preview_exchange *x)
{
	return x->asked && x->sent == x->out.len;
}

/* ---- the answer, on its way in ---- */

static void on_drained(void *arg, size_t bytes)
{
	struct preview_exchange *x = arg;

	x->unsent -= bytes;
	go_on(x);
}

static void begin_answer(struct preview_exchange *x)
{
	struct preview_answer answer;
	struct http_answer begin = {
		.status = x->head.status,
		.has_length = x->head.has_length && x->head.body != PREVIEW_BODY_CHUNKED,
		.length = x->head.length,
		.has_body = x->head.body != PREVIEW_BODY_NONE,
	};

	preview_answer_make(&x->head, &x->target, http_header(x->req, "Host"), "", &answer);
	begin.headers = answer.headers;
	begin.n_headers = answer.n;
	preview_body_init(&x->body, &x->head);
	x->answer = http_answer_begin(x->req, &begin, on_drained, x);
	x->state = ANSWERING;
	set_silence(x, -1);
	preview_answer_clear(&answer);
}

/* false: it is over, x is gone. */
static bool pass_on(struct preview_exchange *x, const char *data, size_t len)
{
	while (len > 0 && !preview_body_ended(&x->body)) {
		const char *piece;
		size_t piece_len;
		ssize_t n = preview_body_next(&x->body, data, len, &piece, &piece_len);

		if (n < 0) {
			bad_answer(x, "its chunks are not well-formed");
			return false;
		}
		if (piece_len > 0 && http_stream_write(x->answer, piece, piece_len))
			x->unsent += piece_len;
		data += n;
		len -= (size_t)n;
	}
	if (!preview_body_ended(&x->body))
		return true;
	finish(x);
	return false;
}

static void on_tunnel_ended(void *arg)
{
	struct preview_exchange *x = arg;

	end_upgrade(x);
	exchange_free(x);
}

static void on_upgraded(void *arg, int fd, const void *data, size_t len)
{
	struct preview_exchange *x = arg;

	x->state = TUNNEL;
	loop_io_remove(STEAL(x->io));
	x->tunnel = preview_tunnel_new(x->loop, fd, !http_is_tls(x->req), x->fd, data, len,
				       x->in.data, x->in.len, on_tunnel_ended, x);
	buf_clear(&x->in);
	if (!x->tunnel)
		on_tunnel_ended(x);
}

static bool agrees_to(const struct preview_head *head, const char *protocol)
{
	for (size_t i = 0; *protocol && i < head->n_headers; i++) {
		if (preview_header_is(&head->headers[i], "Upgrade"))
			return preview_span_is(head->headers[i].value, head->headers[i].value_len,
					       protocol);
	}
	return false;
}

/* false: x is gone. */
static bool begin_upgrade(struct preview_exchange *x, size_t head_len)
{
	struct preview_answer answer;

	if (!agrees_to(&x->head, x->forward.upgrade)) {
		bad_answer(x, "it switches to a protocol that was not asked for");
		return false;
	}
	preview_answer_make(&x->head, &x->target, http_header(x->req, "Host"), x->forward.upgrade,
			    &answer);
	buf_drop_front(&x->in, head_len);
	x->state = UPGRADING;
	set_silence(x, -1);
	http_upgrade(x->req, answer.headers, answer.n, on_upgraded, x);
	preview_answer_clear(&answer);
	return true;
}

/* Looks for a head in what has come; interim ones (100, 103) are passed over. false: x is gone. */
static bool read_head(struct preview_exchange *x)
{
	while (!x->have_head) {
		const char *reason = NULL;
		ssize_t n = preview_head_parse(buf_str(&x->in), x->in.len, x->forward.head_request,
					       &x->head, &reason);

		if (n < 0) {
			bad_answer(x, reason);
			return false;
		}
		if (n == 0) {
			if (!x->guest_ended)
				return true;
			bad_answer(x, x->in.len ? "it closed the connection within the headers"
						: "it closed the connection without a word");
			return false;
		}
		if (x->head.status == 101)
			return begin_upgrade(x, (size_t)n);
		if (x->head.status >= 200) {
			x->have_head = true;
			x->head_len = (size_t)n;
			return true;
		}
		buf_drop_front(&x->in, (size_t)n);
		if (++x->interim > INTERIM_HEADS_MAX) {
			bad_answer(x, "it sends interim answers without an end");
			return false;
		}
	}
	return true;
}

/* false: x is gone. */
static bool read_guest(struct preview_exchange *x)
{
	char block[READ_BYTES];
	ssize_t n = recv(x->fd, block, sizeof(block), MSG_DONTWAIT);
	struct err err = ERR_INIT;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (x->state == ASKING) {
		x->guest_ended = n <= 0;
		if (n > 0)
			buf_append(&x->in, block, (size_t)n);
		return true;
	}
	if (n > 0)
		return pass_on(x, block, (size_t)n);
	if (n == 0 && preview_body_may_close(&x->body)) {
		finish(x);
		return false;
	}
	err_code(&err, -EPIPE, "preview_bad_answer", "the guest's server broke off");
	fail(x, &err);
	return false;
}

/* ---- both ---- */

static bool may_answer(const struct preview_exchange *x)
{
	return x->have_head &&
	       (all_sent(x) || x->guest_deaf || x->guest_ended || x->head.status >= 400);
}

static void set_events(struct preview_exchange *x)
{
	uint32_t events = 0;
	bool reads = x->state == ANSWERING ? x->unsent < ANSWER_BYTES
					   : x->state == ASKING && !x->have_head;

	if (x->out_blocked)
		events |= EPOLLOUT;
	if (reads && !x->guest_ended)
		events |= EPOLLIN;
	loop_io_set(x->io, events);
}

static void go_on(struct preview_exchange *x)
{
	if (x->state == ASKING) {
		push_out(x);
		if (!read_head(x))
			return;
	}
	if (x->state == ASKING && may_answer(x)) {
		buf_reset(&x->out); /* what of the request is left is dropped */
		x->sent = 0;
		x->asked = true;
		x->out_blocked = false;
		begin_answer(x);
		if (!pass_on(x, x->in.data + x->head_len, x->in.len - x->head_len))
			return;
		buf_clear(&x->in);
	}
	if (x->state == ASKING || x->state == ANSWERING || x->state == UPGRADING)
		set_events(x);
}

static void on_body_ready(void *arg)
{
	go_on(arg);
}

static void on_connected(struct preview_exchange *x)
{
	struct err err = ERR_INIT;
	socklen_t len = sizeof(int);
	int num = 0;

	if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &num, &len) < 0)
		num = errno;
	if (num != 0) {
		core_preview_connect_error(x->target.id, x->target.port, -num, &err);
		fail(x, &err);
		return;
	}
	x->state = ASKING;
	set_silence(x, x->answer_timeout_ms);
	if (http_has_body(x->req))
		http_body_begin(x->req, on_body_ready, x);
	go_on(x);
}

static void on_io(void *arg, uint32_t events)
{
	struct preview_exchange *x = arg;

	if (x->state == CONNECTING) {
		on_connected(x);
		return;
	}
	if ((events & EPOLLIN) && !read_guest(x))
		return;
	/* A connection that is broken is found out by the next read or write, whichever is wanted.
	 */
	if ((events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN) && !x->out_blocked &&
	    !read_guest(x))
		return;
	go_on(x);
}

/* ---- the start ---- */

static void start(void *arg)
{
	struct preview_exchange *x = arg;
	int64_t now_ms = clock_boottime_ms();

	x->started = true;
	if (x->over) {
		fail(x, &x->over_err);
		return;
	}
	x->expires_boottime_ms =
		x->expires_unix_ms ? now_ms + x->expires_unix_ms - clock_unix_ms() : INT64_MAX;
	set_silence(x, x->connect_timeout_ms);
	x->timer = loop_timer_add(x->loop, x->silent_until_ms, on_timer, x);
	x->io = loop_io_add(x->loop, x->fd, EPOLLOUT, on_io, x);
	http_on_disconnect(x->req, on_client_gone, x);
}

void preview_exchange_run(const struct preview_exchange_setup *setup)
{
	struct preview_exchange *x = xcalloc(1, sizeof(*x));
	const struct core_limits *limits = core_limits(setup->core);
	struct err err = ERR_INIT;

	x->loop = setup->loop;
	x->req = setup->req;
	x->target = *setup->target;
	x->target.rest = NULL; /* not needed any more, and not ours */
	x->forward = *setup->forward;
	x->out = setup->forward->head;
	x->forward.head = setup->forward->head = BUF_INIT;
	x->connect_timeout_ms = limits->preview_connect_timeout_ms;
	x->answer_timeout_ms = limits->preview_answer_timeout_ms;
	x->expires_unix_ms = setup->expires_unix_ms;
	x->fd = -1;
	if (core_preview_open(setup->core, setup->who, x->target.id, x->target.port, on_over, x,
			      &x->preview, &x->fd, &err) < 0) {
		problem_respond(x->req, &err);
		exchange_free(x);
		return;
	}
	loop_post(x->loop, start, x);
}
