/*
 * The HTTP server: bytes in, bytes out. It knows connections, requests, bodies, deadlines and
 * streams; it knows no routes, JSON or keys. Built on libmicrohttpd: epoll event threads read
 * requests whole (up to a cap), a request is then suspended and handed to the worker pool, and
 * resumed with its answer (one that is quick is answered on the spot). A stream (SSE) holds neither
 * a worker nor a thread: whoever has something to say appends to it.
 *
 * A request may be passed on instead of being read whole (a preview of a guest's server): it is
 * handed over after its headers, its body is taken in pieces, its answer is sent in pieces, and its
 * connection may be upgraded. Whoever passes it on bounds what waits in either direction.
 *
 * Refused here, before a handler sees it (400, connection closed): header names that are no tokens,
 * repeated Host, Authorization, Content-Length, Content-Type, Transfer-Encoding or Origin,
 * Content-Length together with Transfer-Encoding, any Transfer-Encoding but chunked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/metrics.h"
#include "loop/loop.h"
#include "loop/pool.h"

struct http_server;
struct http_request;

/* [worker, or is_quick] Handles one request; must call http_respond, or http_stream_begin and
 * http_stream_end, exactly once, now or later from any thread. */
typedef void (*http_handler_fn)(void *arg, struct http_request *req);

struct http_config {
	const char *address;	  /* "127.0.0.1", "::1", "0.0.0.0", "localhost" … */
	uint16_t port;		  /* 0: any free one */
	int listen_fd;		  /* from http_listen, taken over; -1: opened by http_server_new */
	const char *tls_cert_pem; /* contents, used during http_server_new only; NULL: plain */
	const char *tls_key_pem;
	uint64_t body_max_bytes; /* of larger bodies a bounded rest is read and dropped, then the
				    handler answers 413 (http_body_too_large); beyond that bound the
				    server does */
	unsigned int connections_max;
	int64_t header_timeout_ms; /* for headers once begun, and for gaps in a body */
	int64_t idle_timeout_ms; /* connections without a request, and clients that stop reading */
	unsigned int event_threads;
	struct loop *loop; /* started; for heartbeats, deadlines and disconnects */
	struct pool *pool;
	http_handler_fn handler;
	/* [libmicrohttpd's thread, must not block] Whether a request, of which the headers are
	 * known, is passed on. NULL: none is. */
	bool (*passes)(void *arg, const struct http_request *req);
	/* [libmicrohttpd's thread, must not block] Whether the handler answers a request without
	 * waiting for anything: it is run on this thread then, which saves the way to a worker and
	 * back, most of what a short answer costs. NULL: none is. */
	bool (*is_quick)(void *arg, struct http_request *req);
	void *arg;
};

/* A socket that listens already, so that a taken port is known before anything else is done, and
 * clients wait instead of being refused while a daemon starts. -EADDRINUSE (code "address_in_use").
 */
int http_listen(const char *address, uint16_t port, int *ret_fd, struct err *err);
/* -EADDRINUSE (code "address_in_use") and the like with the address in err. */
int http_server_new(const struct http_config *config, struct http_server **ret, struct err *err);
uint16_t http_server_port(const struct http_server *server);

/* What a server has done so far, and does now. Any thread. */
struct http_counts {
	uint64_t requests[6]; /* by the first digit of the status; [0]: without an answer */
	uint64_t incomplete;  /* the client left before the answer had left */
	size_t connections;   /* open */
	size_t under_way;     /* requests that a handler has, streams among them */
	size_t streams;	      /* open */
};
void http_server_counts(struct http_server *server, struct http_counts *ret);
/* How long requests took; streams are not among them. */
const struct metrics_histogram *http_server_seconds(const struct http_server *server);
/* Stops accepting, tells every request under way that its client is gone, waits up to grace_ms for
 * their answers (which still reach the clients), closes every connection. Handlers that are late
 * may still answer, to nobody. NULL is fine. Not on the loop's thread. */
void http_server_free(struct http_server *server, int64_t grace_ms);

/* ---- a request; valid until its answer was given (http_respond, http_stream_end) ---- */
const char *http_method(const struct http_request *req);
const char *http_path(
	const struct http_request *req); /* as sent, still percent-encoded, no query */
const char *http_header(const struct http_request *req,
			const char *name); /* NULL if absent; not
					      after the answer began */
/* Number of headers of this name. */
size_t http_header_count(const struct http_request *req, const char *name);
/* Calls fn for each header, in order; names are tokens, values may hold any byte but NUL. */
void http_header_each(const struct http_request *req,
		      void (*fn)(void *arg, const char *name, const char *value), void *arg);
const char *http_query(const struct http_request *req); /* as sent; NULL: none */
/* Calls fn for each query parameter, decoded; a parameter may hold any bytes (len). */
void http_query_each(const struct http_request *req,
		     void (*fn)(void *arg, const char *key, const char *value, size_t len),
		     void *arg);
/* Decodes percent escapes (and '+' as blank when plus is true); -EINVAL for broken escapes. */
int http_unescape(const char *text, size_t len, bool plus, struct buf *out);
const struct buf *http_body(const struct http_request *req);
bool http_body_too_large(const struct http_request *req); /* the rest was read and dropped */
const char *http_request_id(
	const struct http_request *req);	       /* X-Request-Id, ours if none or unfit */
const char *http_peer(const struct http_request *req); /* address text, for logs */
bool http_is_loopback(const struct http_request *req); /* served on a loopback address */
bool http_is_tls(const struct http_request *req);
struct http_server *http_server_of(const struct http_request *req);
/* A pointer of the handler's own, borrowed: what is_quick has found out need not be found out
 * again. NULL until it is set. */
void http_set_note(struct http_request *req, const void *note);
const void *http_note(const struct http_request *req);
/* Adds key=value pairs to the line of the access log that every request gets (account, sandbox). */
void http_log_fields(struct http_request *req, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Called on the loop's thread, at most once, when the client went away before the answer was
 * complete (also at once when it already has). Never called, or still running, after http_respond
 * or http_stream_end has returned; fn may call these itself. */
void http_on_disconnect(struct http_request *req, void (*fn)(void *arg), void *arg);

/* Who the request is answered to, for as long as that is good: asked several times a second while
 * the request is under way. Once it is not, on_disconnect is called as for a client that went away,
 * and a moment later the connection is cut, if it has not ended by then. */
struct http_holder {
	bool (*good)(const void *arg); /* any thread, must not block */
	void (*release)(void *arg);    /* any thread, once */
	void *arg;
};
/* Any thread, once a request, before its answer has ended. */
void http_hold(struct http_request *req, const struct http_holder *holder);
/* Also where nobody holds it. */
bool http_held_by_good(struct http_request *req);

struct http_extra_header {
	const char *name, *value;
};
/* Answers. body is stolen (emptied), NULL: none. headers may be NULL; any thread. X-Request-Id and
 * X-Content-Type-Options are added, and Cache-Control: no-store unless headers have another. */
void http_respond(struct http_request *req, unsigned int status, const char *content_type,
		  struct buf *body, const struct http_extra_header *headers, size_t n_headers);

/* ---- streams: server-sent events ---- */
struct http_stream;
/* Starts a text/event-stream answer (X-Accel-Buffering: no, Cache-Control: no-store). A comment
 * line goes out whenever nothing was sent for heartbeat_ms. drained (may be NULL) is called, on the
 * loop's thread, with how many bytes left for the client, so that a source can be paced; not after
 * http_stream_end has returned. Any thread. */
struct http_stream *http_stream_begin(struct http_request *req, int64_t heartbeat_ms,
				      void (*drained)(void *arg, size_t bytes), void *arg);
/* Any thread. Queues bytes; returns false when the client is gone (the bytes are dropped). The
 * queue is bounded by what the source was allowed to send before drained. */
bool http_stream_write(struct http_stream *stream, const void *data, size_t len);
/* Any thread, once: everything queued is sent, then the answer ends. Frees the stream. */
void http_stream_end(struct http_stream *stream);

/* ---- requests that are passed on ---- */

#define HTTP_PASS_QUEUE_BYTES (64u * 1024) /* of a body that wait to be taken */

bool http_is_passed(const struct http_request *req);
bool http_has_body(const struct http_request *req);
/* Any thread, once, before the answer. Lets the body come. ready is called on the loop's thread
 * when there is something to take, or nothing any more; not after the answer's end has returned. */
void http_body_begin(struct http_request *req, void (*ready)(void *arg), void *arg);
/* Any thread. Takes up to max bytes of the body. *ret_whole: none will follow. */
size_t http_body_take(struct http_request *req, void *out, size_t max, bool *ret_whole);

/* Any thread. Runs fn on the loop's thread, where the callbacks of requests run: at once where this
 * is it. */
void http_on_loop(struct http_request *req, loop_fn fn, void *arg);

struct http_answer {
	unsigned int status;
	const struct http_extra_header *headers; /* but for those that are about the connection */
	size_t n_headers;
	bool has_length, has_body; /* without a length, the end is marked in the transfer */
	uint64_t length;
};
/* Starts an answer that comes in pieces, with http_stream_write and http_stream_end. What of the
 * body has not come yet is read and dropped. drained as in http_stream_begin. Any thread. */
struct http_stream *http_answer_begin(struct http_request *req, const struct http_answer *answer,
				      void (*drained)(void *arg, size_t bytes), void *arg);
/* As http_stream_end, but the client shall see that the answer was cut off. */
void http_stream_cut(struct http_stream *stream);

/* Answers 101 and hands the connection over: upgraded is called on the loop's thread with a
 * descriptor (not blocking, not to be closed) and what the client has sent already. Then, or when
 * on_disconnect has been called, http_upgrade_end. Any thread. */
typedef void (*http_upgraded_fn)(void *arg, int fd, const void *data, size_t len);
void http_upgrade(struct http_request *req, const struct http_extra_header *headers, size_t n,
		  http_upgraded_fn upgraded, void *arg);
/* Loop's thread, once: the connection is closed, the descriptor no longer the caller's. */
void http_upgrade_end(struct http_request *req);
