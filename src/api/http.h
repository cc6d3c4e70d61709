/*
 * The HTTP server: bytes in, bytes out. It knows connections, requests, bodies, deadlines and streams;
 * it knows no routes, JSON or keys. Built on libmicrohttpd: epoll event threads read requests whole (up
 * to a cap), a request is then suspended and handed to the worker pool, and resumed with its answer. A
 * stream (SSE) holds neither a worker nor a thread: whoever has something to say appends to it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "loop/loop.h"
#include "loop/pool.h"

struct http_server;
struct http_request;

/* [worker] Handles one request; must call http_respond or http_stream_begin exactly once, now or later
 * from any thread. */
typedef void (*http_handler_fn)(void *arg, struct http_request *req);

struct http_config {
	const char *address;      /* "127.0.0.1", "::1", "0.0.0.0" … */
	uint16_t port;            /* 0: any free one */
	const char *tls_cert_pem; /* contents; NULL: plain */
	const char *tls_key_pem;
	uint64_t body_max_bytes;  /* larger bodies are answered 413 by the handler's on_too_large rule */
	unsigned int connections_max;
	int64_t header_timeout_ms; /* for headers and for gaps in a body */
	unsigned int event_threads;
	struct loop *loop;        /* for heartbeats */
	struct pool *pool;
	http_handler_fn handler;
	void *arg;
};

int http_server_new(const struct http_config *config, struct http_server **ret, struct err *err);
uint16_t http_server_port(const struct http_server *server);
/* Stops accepting, waits up to grace_ms for requests under way, closes streams, frees. */
void http_server_free(struct http_server *server, int64_t grace_ms);

/* ---- a request; valid until its answer was given ---- */
const char *http_method(const struct http_request *req);
const char *http_path(const struct http_request *req);                /* decoded once by us: raw path */
const char *http_header(const struct http_request *req, const char *name); /* NULL if absent */
/* Number of headers of this name (a second Host or Authorization is refused by callers). */
size_t http_header_count(const struct http_request *req, const char *name);
/* Calls fn for each query parameter, decoded; a parameter may hold any bytes (len). */
void http_query_each(const struct http_request *req,
		     void (*fn)(void *arg, const char *key, const char *value, size_t len), void *arg);
const struct buf *http_body(const struct http_request *req);
bool http_body_too_large(const struct http_request *req); /* the rest was read and dropped */
const char *http_request_id(const struct http_request *req); /* X-Request-Id, ours if none or unfit */
const char *http_peer(const struct http_request *req);       /* address text, for logs */
bool http_is_loopback(const struct http_request *req);       /* served on a loopback address */

/* Called (any thread, at most once) when the client went away before the answer was complete. */
void http_on_disconnect(struct http_request *req, void (*fn)(void *arg), void *arg);

struct http_extra_header { const char *name, *value; };
/* Answers. body is stolen (emptied). headers may be NULL; any thread. */
void http_respond(struct http_request *req, unsigned int status, const char *content_type,
		  struct buf *body, const struct http_extra_header *headers, size_t n_headers);

/* ---- streams: server-sent events ---- */
struct http_stream;
/* Starts a text/event-stream answer (X-Accel-Buffering: no, Cache-Control: no-store). A comment line
 * goes out whenever nothing was sent for heartbeat_ms. drained (may be NULL) is called, on any
 * thread, with how many bytes left for the client, so that a source can be paced. */
struct http_stream *http_stream_begin(struct http_request *req, int64_t heartbeat_ms,
				      void (*drained)(void *arg, size_t bytes), void *arg);
/* Any thread. Queues bytes; returns false when the client is gone (the bytes are dropped). The queue is
 * bounded by what the source was allowed to send before drained. */
bool http_stream_write(struct http_stream *stream, const void *data, size_t len);
/* Any thread, once: everything queued is sent, then the answer ends. Frees the stream. */
void http_stream_end(struct http_stream *stream);
