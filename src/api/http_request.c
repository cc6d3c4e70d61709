/*
 * One request, from its request line to its answer.
 *
 *	HTTP_HEADERS   reading headers; refused here, or goes on to the body
 *	HTTP_BODY      collecting the body, up to the cap; a bounded rest is dropped
 *	HTTP_HANDED    suspended; the handler (a worker, or whoever it left the request to) has it
 *	HTTP_ANSWERED  an answer is set; libmicrohttpd sends it
 *	HTTP_DONE      libmicrohttpd has finished with it; only callbacks under way still hold it
 */
#include "api/http_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"

#define LOG_PATH_MAX 200

/* ---- life ---- */

static struct http_request *request_new(struct http_server *server, struct MHD_Connection *mhd,
					const char *uri)
{
	struct http_request *req = xcalloc(1, sizeof(*req));
	pthread_mutexattr_t recursive;
	const union MHD_ConnectionInfo *info;
	char *question;

	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	req->refs = 1;
	req->server = server;
	req->mhd = mhd;
	req->conn = info->socket_context;
	req->started_ms = clock_boottime_ms();
	req->path = xstrdup(uri ? uri : "");
	question = strchr(req->path, '?');
	if (question) {
		*question = '\0';
		req->query = question + 1;
	}
	str_copy(req->peer, sizeof(req->peer), req->conn->peer);
	req->loopback = req->conn->loopback;
	pthread_mutex_init(&req->lock, NULL);
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&req->callback_lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	atomic_fetch_add(&server->refs, 1);
	return req;
}

struct http_request *http_request_ref(struct http_request *req)
{
	atomic_fetch_add(&req->refs, 1);
	return req;
}

void http_request_unref(struct http_request *req)
{
	struct http_server *server = req->server;

	if (atomic_fetch_sub(&req->refs, 1) != 1)
		return;
	if (req->response)
		MHD_destroy_response(req->response);
	if (req->stream)
		http_stream_free(req->stream);
	if (req->holder.release)
		req->holder.release(req->holder.arg);
	buf_clear(&req->body);
	buf_clear(&req->upgrade.early);
	free(req->path);
	pthread_mutex_destroy(&req->lock);
	pthread_mutex_destroy(&req->callback_lock);
	free(req);
	http_server_unref(server);
}

void http_request_suspend(struct http_request *req)
{
	req->suspended = true;
	MHD_suspend_connection(req->mhd);
	http_watch_add(req);
}

void http_request_wake(struct http_request *req)
{
	if (!req->suspended)
		return;
	req->suspended = false;
	http_watch_remove(req);
	MHD_resume_connection(req->mhd);
}

/* A request is under way until its handler has answered and the answer has left, or cannot any
 * more: a server that ends waits for both. */
static void leave_active(struct http_request *req)
{
	struct http_server *server = req->server;

	pthread_mutex_lock(&server->lock);
	if (req->under_way > 0 && --req->under_way == 0) {
		LIST_REMOVE(req, active_link);
		if (LIST_EMPTY(&server->active))
			pthread_cond_broadcast(&server->all_answered);
	}
	pthread_mutex_unlock(&server->lock);
}

void http_request_release(struct http_request *req)
{
	leave_active(req);
	http_request_unref(req);
}

/* ---- answers ---- */

void http_response_headers(struct http_request *req, struct MHD_Response *response,
			   const char *content_type, const struct http_extra_header *headers,
			   size_t n)
{
	bool cache_control = false;

	if (content_type)
		MHD_add_response_header(response, "Content-Type", content_type);
	for (size_t i = 0; i < n; i++) {
		if (strcasecmp(headers[i].name, "Cache-Control") == 0)
			cache_control = true;
		MHD_add_response_header(response, headers[i].name, headers[i].value);
	}
	if (!cache_control)
		MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "X-Request-Id", req->request_id);
	if (req->close_after)
		MHD_add_response_header(response, "Connection", "close");
}

static struct MHD_Response *response_from_buf(struct buf *body)
{
	struct MHD_Response *response;
	size_t len = body ? body->len : 0;
	void *data = body ? buf_take(body) : xstrdup("");

	response = MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		log_error("http answer cannot be made", "bytes=%zu", len);
		abort();
	}
	return response;
}

void http_request_silence(struct http_request *req)
{
	pthread_mutex_lock(&req->callback_lock);
	req->on_disconnect = NULL;
	req->pass.ready = NULL;
	req->upgrade.upgraded = NULL;
	pthread_mutex_unlock(&req->callback_lock);
}

void http_request_answer(struct http_request *req, unsigned int status,
			 struct MHD_Response *response)
{
	pthread_mutex_lock(&req->lock);
	if (req->phase == HTTP_HANDED && !req->abandoned) {
		req->phase = HTTP_ANSWERED;
		req->status = status;
		req->response = STEAL(response);
		http_request_wake(req);
	}
	pthread_mutex_unlock(&req->lock);
	if (response)
		MHD_destroy_response(response);
}

void http_respond(struct http_request *req, unsigned int status, const char *content_type,
		  struct buf *body, const struct http_extra_header *headers, size_t n_headers)
{
	struct MHD_Response *response = response_from_buf(body);

	http_response_headers(req, response, content_type, headers, n_headers);
	http_request_silence(req);
	http_request_answer(req, status, response);
	http_request_release(req);
}

/* An answer of the server itself, in the shape of the problem details of the layer above. */
static struct MHD_Response *own_answer(struct http_request *req, unsigned int status,
				       const char *title, const char *code, const char *detail)
{
	struct buf body = BUF_INIT;
	struct MHD_Response *response;
	const struct http_extra_header retry[] = { { "Retry-After", "1" } };

	buf_printf(&body,
		   "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,\"detail\":\"%s\","
		   "\"code\":\"%s\",\"request_id\":\"%s\"}",
		   title, status, detail, code, req->request_id);
	response = response_from_buf(&body);
	http_response_headers(req, response, "application/problem+json", retry, status == 503);
	return response;
}

/* Answers on libmicrohttpd's thread, while nobody else has the request. */
static enum MHD_Result refuse(struct http_request *req, unsigned int status, const char *title,
			      const char *code, const char *detail)
{
	enum MHD_Result result;

	req->close_after = status != 503;
	req->status = status;
	req->phase = HTTP_ANSWERED;
	req->response = own_answer(req, status, title, code, detail);
	result = MHD_queue_response(req->mhd, status, req->response);
	MHD_destroy_response(STEAL(req->response));
	return result;
}

static enum MHD_Result refuse_framing(struct http_request *req, const char *detail)
{
	return refuse(req, 400, "Bad Request", "bad_request", detail);
}

/* ---- headers ---- */

struct header_check {
	unsigned int host, authorization, content_length, content_type, transfer_encoding, origin;
	bool bad_name;
};

static bool is_token(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];

		if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		      (c && strchr("!#$%&'*+-.^_`|~", c))))
			return false;
	}
	return len > 0;
}

static enum MHD_Result check_header(void *arg, enum MHD_ValueKind kind, const char *key,
				    size_t key_size, const char *value, size_t value_size)
{
	struct header_check *check = arg;

	if (!is_token(key, key_size))
		check->bad_name = true;
	check->host += strcasecmp(key, "Host") == 0;
	check->authorization += strcasecmp(key, "Authorization") == 0;
	check->content_length += strcasecmp(key, "Content-Length") == 0;
	check->content_type += strcasecmp(key, "Content-Type") == 0;
	check->transfer_encoding += strcasecmp(key, "Transfer-Encoding") == 0;
	check->origin += strcasecmp(key, "Origin") == 0;
	return MHD_YES;
}

/* What is wrong with the headers, as a sentence; NULL when nothing is. */
static const char *framing_error(const struct http_request *req)
{
	struct header_check check = { 0 };
	const char *encoding = http_header(req, "Transfer-Encoding");

	MHD_get_connection_values_n(req->mhd, MHD_HEADER_KIND, check_header, &check);
	if (check.bad_name)
		return "a header name is not a token (is there a blank before a colon?)";
	if (check.host > 1 || check.authorization > 1 || check.content_length > 1 ||
	    check.content_type > 1 || check.transfer_encoding > 1 || check.origin > 1)
		return "one of Host, Authorization, Content-Length, Content-Type, "
		       "Transfer-Encoding, "
		       "Origin was sent twice";
	if (check.transfer_encoding && check.content_length)
		return "Transfer-Encoding and Content-Length exclude each other";
	if (encoding && strcasecmp(encoding, "chunked") != 0)
		return "the only supported Transfer-Encoding is chunked";
	return NULL;
}

static void choose_request_id(struct http_request *req)
{
	const char *given = http_header(req, "X-Request-Id");
	size_t len = given ? strlen(given) : 0;

	if (len >= 1 && len <= HTTP_REQUEST_ID_MAX &&
	    strspn(given, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.") ==
		    len) {
		str_copy(req->request_id, sizeof(req->request_id), given);
		return;
	}
	str_copy(req->request_id, sizeof(req->request_id), "req_");
	rand_hex(req->request_id + 4, 16);
}

/* ---- body and hand-over ---- */

static enum MHD_Result take_body(struct http_request *req, const char *data, size_t *data_size)
{
	const struct http_config *config = &req->server->config;

	http_conn_body_progress(req->server, req->conn);
	if (!req->body_too_large && req->body.len + *data_size > config->body_max_bytes) {
		req->body_too_large = true;
		buf_clear(&req->body);
	}
	if (req->body_too_large) {
		req->close_after = true;
		req->dropped_bytes += *data_size;
		if (req->dropped_bytes > config->body_max_bytes + HTTP_BODY_DROP_MAX_BYTES)
			return MHD_NO;
	} else {
		buf_append(&req->body, data, *data_size);
	}
	*data_size = 0;
	return MHD_YES;
}

static void run_handler(void *arg)
{
	struct http_request *req = arg;

	req->server->config.handler(req->server->config.arg, req);
}

/* Gives the handler its reference, unless the server is ending. */
static bool admit(struct http_request *req)
{
	struct http_server *server = req->server;
	bool open;

	pthread_mutex_lock(&server->lock);
	open = !server->closing;
	if (open) {
		http_request_ref(req);
		req->under_way = 2;
		LIST_INSERT_HEAD(&server->active, req, active_link);
	}
	pthread_mutex_unlock(&server->lock);
	return open;
}

static void answer_overloaded(struct http_request *req)
{
	pthread_mutex_lock(&req->lock);
	if (!req->abandoned) {
		req->phase = HTTP_ANSWERED;
		req->status = 503;
		req->response = own_answer(req, 503, "Service Unavailable", "overloaded",
					   "every worker is busy; try again");
		http_request_wake(req);
	}
	pthread_mutex_unlock(&req->lock);
	http_request_release(req);
}

/* On this thread. An answer that comes later after all finds the connection suspended. */
static enum MHD_Result handle_here(struct http_request *req)
{
	bool answered;

	run_handler(req); /* may give its reference back: libmicrohttpd has another one */
	pthread_mutex_lock(&req->lock);
	answered = req->phase != HTTP_HANDED;
	if (!answered)
		http_request_suspend(req);
	pthread_mutex_unlock(&req->lock);
	return answered ? http_request_queue_answer(req) : MHD_YES;
}

static enum MHD_Result hand_over(struct http_request *req)
{
	const struct http_config *config = &req->server->config;
	const bool here = config->is_quick && !req->pass.on && config->is_quick(config->arg, req);
	bool open;

	http_conn_set_phase(req->server, req->conn, CONN_BUSY);
	if (!admit(req))
		return refuse(req, 503, "Service Unavailable", "shutting_down",
			      "the server is ending");

	/* Suspended before a worker can answer, or the resume would come first and be lost. */
	pthread_mutex_lock(&req->lock);
	open = !req->abandoned; /* the end may have come since */
	if (open) {
		req->phase = HTTP_HANDED;
		if (!here)
			http_request_suspend(req);
	}
	pthread_mutex_unlock(&req->lock);
	if (!open) {
		http_request_release(req);
		return refuse(req, 503, "Service Unavailable", "shutting_down",
			      "the server is ending");
	}
	if (here)
		return handle_here(req);
	if (pool_submit(config->pool, run_handler, req) < 0)
		answer_overloaded(req);
	return MHD_YES;
}

static enum MHD_Result request_begin(struct http_request *req, const char *method)
{
	const struct http_config *config = &req->server->config;
	const char *length_text, *error;
	int64_t length = 0;

	str_copy(req->method, sizeof(req->method), method);
	req->is_head = str_eq(method, "HEAD");
	choose_request_id(req);
	http_conn_set_phase(req->server, req->conn, CONN_BODY);
	error = framing_error(req);
	if (error)
		return refuse_framing(req, error);
	length_text = http_header(req, "Content-Length");
	if (length_text && str_to_i64(length_text, &length) < 0)
		return refuse_framing(req, "Content-Length is not a number");
	if (config->passes && config->passes(config->arg, req)) {
		req->pass.on = true;
		req->pass.has_body = length > 0 || http_header(req, "Transfer-Encoding");
		return hand_over(req);
	}
	if ((uint64_t)length > config->body_max_bytes) {
		req->body_too_large = true;
		if ((uint64_t)length > config->body_max_bytes + HTTP_BODY_DROP_MAX_BYTES ||
		    http_header(req, "Expect"))
			return refuse(req, 413, "Content Too Large", "request_too_large",
				      "the body is larger than this server accepts");
	}
	req->phase = HTTP_BODY;
	return MHD_YES;
}

enum MHD_Result http_request_queue_answer(struct http_request *req)
{
	struct MHD_Response *response;
	unsigned int status;
	enum MHD_Result result;

	pthread_mutex_lock(&req->lock);
	response = STEAL(req->response);
	status = req->status;
	pthread_mutex_unlock(&req->lock);
	if (!response)
		return MHD_NO;
	result = MHD_queue_response(req->mhd, status, response);
	MHD_destroy_response(response);
	return result;
}

/* ---- libmicrohttpd's callbacks ---- */

void *http_request_uri(void *arg, const char *uri, struct MHD_Connection *mhd)
{
	return request_new(arg, mhd, uri);
}

enum MHD_Result http_request_access(void *arg, struct MHD_Connection *mhd, const char *url,
				    const char *method, const char *version, const char *data,
				    size_t *data_size, void **context)
{
	struct http_request *req = *context;

	if (!req)
		return MHD_NO;
	switch (req->phase) {
	case HTTP_HEADERS:
		return request_begin(req, method);
	case HTTP_BODY:
		return *data_size ? take_body(req, data, data_size) : hand_over(req);
	case HTTP_HANDED:
	case HTTP_ANSWERED:
		return req->pass.on ? http_pass_access(req, data, data_size)
				    : http_request_queue_answer(req);
	case HTTP_DONE:
		break;
	}
	return MHD_NO;
}

static void write_access_log(const struct http_request *req, bool complete)
{
	int64_t ms = clock_boottime_ms() - req->started_ms;
	const enum log_level level = str_eq(req->path, "/healthz") || str_eq(req->path, "/readyz")
					     ? LOG_LVL_DEBUG
					     : LOG_LVL_INFO;

	log_write(level, "request", "id=%s peer=%s method=%s path=\"%.*s\" status=%u ms=%lld%s%s%s",
		  req->request_id, req->peer, req->method, LOG_PATH_MAX, req->path, req->status,
		  (long long)ms, complete ? "" : " incomplete=true", req->log_fields[0] ? " " : "",
		  req->log_fields);
}

static void count_request(const struct http_request *req, bool complete)
{
	struct http_server *server = req->server;
	const unsigned int class = req->status / 100 < 6 ? req->status / 100 : 0;

	pthread_mutex_lock(&server->lock);
	server->counts.requests[class]++;
	server->counts.incomplete += !complete;
	pthread_mutex_unlock(&server->lock);
	if (!req->stream)
		metrics_observe(&server->seconds, (clock_boottime_ms() - req->started_ms) * 1000);
}

void http_request_completed(void *arg, struct MHD_Connection *mhd, void **context,
			    enum MHD_RequestTerminationCode code)
{
	struct http_request *req = *context;
	bool complete = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;

	if (!req)
		return;
	*context = NULL;
	if (!complete)
		http_request_gone(req);
	http_conn_set_phase(req->server, req->conn, CONN_IDLE);
	pthread_mutex_lock(&req->lock);
	req->mhd = NULL;
	req->suspended = false;
	req->upgrade.handle = NULL;
	req->phase = HTTP_DONE;
	pthread_mutex_unlock(&req->lock);
	if (req->status)
		write_access_log(req, complete);
	count_request(req, complete);
	leave_active(req);
	http_request_unref(req);
}

/* ---- clients that go away ---- */

static void run_disconnect(void *arg)
{
	struct http_request *req = arg;
	void (*fn)(void *arg);

	pthread_mutex_lock(&req->callback_lock);
	fn = req->on_disconnect;
	req->on_disconnect = NULL;
	if (fn)
		fn(req->on_disconnect_arg);
	pthread_mutex_unlock(&req->callback_lock);
	http_request_unref(req);
}

void http_request_gone(struct http_request *req)
{
	bool first;

	pthread_mutex_lock(&req->lock);
	first = !req->gone;
	req->gone = true;
	pthread_mutex_unlock(&req->lock);
	if (first)
		loop_post(req->server->config.loop, run_disconnect, http_request_ref(req));
}

/* ---- who it is answered to ---- */

void http_hold(struct http_request *req, const struct http_holder *holder)
{
	pthread_mutex_lock(&req->server->lock);
	req->holder = *holder;
	pthread_mutex_unlock(&req->server->lock);
}

bool http_held_by_good(struct http_request *req)
{
	bool good;

	pthread_mutex_lock(&req->server->lock);
	good = !req->holder.good || req->holder.good(req->holder.arg);
	pthread_mutex_unlock(&req->server->lock);
	return good;
}

/* First its handler is told, as of a client that went away: it may end in good order, and say why.
 * Then the connection is shut down, which libmicrohttpd sees as any end; a client that goes on to
 * send is reset by the kernel. The descriptor is open as long as libmicrohttpd has the request. */
void http_request_check_holder(struct http_request *req)
{
	if (!req->holder.good || req->holder.good(req->holder.arg))
		return;
	if (!req->told) {
		req->told = true;
		http_request_gone(req);
		return;
	}
	pthread_mutex_lock(&req->lock);
	if (req->mhd)
		shutdown(req->conn->fd, SHUT_RDWR);
	pthread_mutex_unlock(&req->lock);
}

void http_on_disconnect(struct http_request *req, void (*fn)(void *arg), void *arg)
{
	bool gone;

	pthread_mutex_lock(&req->callback_lock);
	req->on_disconnect = fn;
	req->on_disconnect_arg = arg;
	pthread_mutex_lock(&req->lock);
	gone = req->gone;
	pthread_mutex_unlock(&req->lock);
	pthread_mutex_unlock(&req->callback_lock);
	if (gone)
		loop_post(req->server->config.loop, run_disconnect, http_request_ref(req));
}

void http_request_abandon(struct http_request *req)
{
	pthread_mutex_lock(&req->lock);
	req->abandoned = true;
	if (req->phase == HTTP_HANDED) {
		req->phase = HTTP_ANSWERED;
		req->status = 503;
		req->response = own_answer(req, 503, "Service Unavailable", "shutting_down",
					   "the server is ending");
	}
	http_request_wake(req);
	pthread_mutex_unlock(&req->lock);
}

/* ---- what a handler asks ---- */

const char *http_method(const struct http_request *req)
{
	return req->method;
}

const char *http_path(const struct http_request *req)
{
	return req->path;
}

const char *http_header(const struct http_request *req, const char *name)
{
	return req->mhd ? MHD_lookup_connection_value(req->mhd, MHD_HEADER_KIND, name) : NULL;
}

struct header_visit {
	void (*fn)(void *arg, const char *name, const char *value);
	void *arg;
};

static enum MHD_Result visit_header(void *arg, enum MHD_ValueKind kind, const char *key,
				    const char *value)
{
	const struct header_visit *visit = arg;

	visit->fn(visit->arg, key, value ? value : "");
	return MHD_YES;
}

void http_header_each(const struct http_request *req,
		      void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
	struct header_visit visit = { fn, arg };

	if (req->mhd)
		MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, visit_header, &visit);
}

struct header_count {
	const char *name;
	size_t n;
};

static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *key,
				    const char *value)
{
	struct header_count *count = arg;

	count->n += strcasecmp(key, count->name) == 0;
	return MHD_YES;
}

size_t http_header_count(const struct http_request *req, const char *name)
{
	struct header_count count = { .name = name };

	if (req->mhd)
		MHD_get_connection_values(req->mhd, MHD_HEADER_KIND, count_header, &count);
	return count.n;
}

const struct buf *http_body(const struct http_request *req)
{
	return &req->body;
}

bool http_body_too_large(const struct http_request *req)
{
	return req->body_too_large;
}

const char *http_request_id(const struct http_request *req)
{
	return req->request_id;
}

const char *http_peer(const struct http_request *req)
{
	return req->peer;
}

bool http_is_loopback(const struct http_request *req)
{
	return req->loopback;
}

bool http_is_tls(const struct http_request *req)
{
	return req->server->config.tls_cert_pem != NULL;
}

void http_set_note(struct http_request *req, const void *note)
{
	req->note = note;
}

const void *http_note(const struct http_request *req)
{
	return req->note;
}

struct http_server *http_server_of(const struct http_request *req)
{
	return req->server;
}

void http_log_fields(struct http_request *req, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(req->log_fields, sizeof(req->log_fields), fmt, ap);
	va_end(ap);
}
