/*
 * Requests that are passed on: the body comes in pieces, at the pace at which it is taken.
 *
 * libmicrohttpd calls with the headers (which hand the request over and suspend it), then again
 * when it is resumed, then with each piece of the body, and once after the last. A piece that does
 * not fit the queue stays with libmicrohttpd, suspended, until there is room: the client's window
 * closes. libmicrohttpd takes an answer after the headers, which costs the connection, or after the
 * body; of one that comes in between the rest of the body is dropped first, up to a bound.
 */
#include "api/http_internal.h"

#include <string.h>

/* ---- telling the handler ---- */

static void run_ready(void *arg)
{
	struct http_request *req = arg;

	pthread_mutex_lock(&req->callback_lock);
	pthread_mutex_lock(&req->lock);
	req->pass.ready_posted = false;
	pthread_mutex_unlock(&req->lock);
	if (req->pass.ready)
		req->pass.ready(req->pass.ready_arg);
	pthread_mutex_unlock(&req->callback_lock);
	http_request_unref(req);
}

/* Lock held. */
static void post_ready(struct http_request *req)
{
	if (req->pass.ready_posted || req->phase != HTTP_HANDED)
		return;
	req->pass.ready_posted = true;
	loop_post(req->server->config.loop, run_ready, http_request_ref(req));
}

/* ---- libmicrohttpd's thread, lock held ---- */

static bool is_answered(const struct http_request *req)
{
	return req->phase == HTTP_ANSWERED;
}

/* Resumed after the headers: with an answer, or to let the body come. *ret_answer: now. */
static void after_headers(struct http_request *req, bool *ret_answer)
{
	if (is_answered(req)) {
		/* Without a body the answer can wait for the last call, which keeps the connection.
		 */
		*ret_answer = req->pass.has_body;
		req->pass.begun = true;
	} else if (req->pass.wanted) {
		req->pass.begun = true;
	} else {
		http_request_suspend(req);
	}
}

static enum MHD_Result take_piece(struct http_request *req, const char *data, size_t *data_size)
{
	size_t room;

	if (is_answered(req)) {
		req->dropped_bytes += *data_size;
		*data_size = 0;
		return req->dropped_bytes > HTTP_BODY_DROP_MAX_BYTES ? MHD_NO : MHD_YES;
	}
	room = HTTP_PASS_QUEUE_BYTES - (req->body.len - req->pass.taken);
	if (room > *data_size)
		room = *data_size;
	buf_append(&req->body, data, room);
	*data_size -= room;
	if (*data_size > 0) {
		req->pass.full = true;
		http_request_suspend(req);
	}
	post_ready(req);
	return MHD_YES;
}

static void after_body(struct http_request *req, bool *ret_answer)
{
	*ret_answer = is_answered(req);
	if (*ret_answer)
		return;
	req->pass.whole = true;
	http_request_suspend(req);
	post_ready(req);
}

enum MHD_Result http_pass_access(struct http_request *req, const char *data, size_t *data_size)
{
	enum MHD_Result result = MHD_YES;
	bool answer = false, waits;

	/* Not waiting for the client while it is suspended: said before it can be resumed. */
	http_conn_set_phase(req->server, req->conn, CONN_BUSY);
	pthread_mutex_lock(&req->lock);
	if (*data_size > 0)
		result = take_piece(req, data, data_size);
	else if (!req->pass.begun)
		after_headers(req, &answer);
	else
		after_body(req, &answer);
	waits = !req->suspended && !answer && req->pass.has_body;
	pthread_mutex_unlock(&req->lock);
	if (waits)
		http_conn_set_phase(req->server, req->conn, CONN_PASS);
	return answer ? http_request_queue_answer(req) : result;
}

/* ---- the handler's side ---- */

bool http_is_passed(const struct http_request *req)
{
	return req->pass.on;
}

bool http_has_body(const struct http_request *req)
{
	return req->pass.has_body;
}

void http_body_begin(struct http_request *req, void (*ready)(void *arg), void *arg)
{
	pthread_mutex_lock(&req->callback_lock);
	req->pass.ready = ready;
	req->pass.ready_arg = arg;
	pthread_mutex_lock(&req->lock);
	req->pass.wanted = true;
	if (req->phase == HTTP_HANDED)
		http_request_wake(req);
	pthread_mutex_unlock(&req->lock);
	pthread_mutex_unlock(&req->callback_lock);
}

size_t http_body_take(struct http_request *req, void *out, size_t max, bool *ret_whole)
{
	size_t n;

	pthread_mutex_lock(&req->lock);
	n = req->body.len - req->pass.taken;
	if (n > max)
		n = max;
	memcpy(out, buf_str(&req->body) + req->pass.taken, n);
	req->pass.taken += n;
	if (req->pass.taken == req->body.len) {
		buf_reset(&req->body);
		req->pass.taken = 0;
	}
	/* Half the queue empty: worth waking the connection for. */
	if (req->pass.full && req->body.len - req->pass.taken <= HTTP_PASS_QUEUE_BYTES / 2) {
		req->pass.full = false;
		buf_drop_front(&req->body, req->pass.taken);
		req->pass.taken = 0;
		http_request_wake(req);
	}
	*ret_whole = req->pass.whole && req->body.len == req->pass.taken;
	pthread_mutex_unlock(&req->lock);
	return n;
}

void http_on_loop(struct http_request *req, loop_fn fn, void *arg)
{
	if (loop_is_current(req->server->config.loop))
		fn(arg);
	else
		loop_post(req->server->config.loop, fn, arg);
}
