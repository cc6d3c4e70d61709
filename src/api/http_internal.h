/*
 * Shared by the files of the HTTP server only.
 *
 * Locks, outermost first: server->lock, request->lock, server->watch_lock. request->callback_lock
 * is taken before any of them and held while the loop's thread runs a callback of the request's
 * owner.
 */
#pragma once

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "api/http.h"

#define HTTP_REQUEST_ID_MAX 64
#define HTTP_PEER_SIZE	    64

struct http_conn { /* one client connection; freed by libmicrohttpd's close notification */
	LIST_ENTRY(http_conn) link;
	int fd;
	bool loopback;
	char peer[HTTP_PEER_SIZE];
	enum http_conn_phase {
		CONN_IDLE, /* no complete header block since the connection began or the last answer
			    */
		CONN_BODY, /* the body is being read */
		CONN_PASS, /* a body that is passed on is being read, as fast as it is taken */
		CONN_BUSY, /* handed over, or being answered */
	} phase;
	int64_t phase_since_ms; /* start of the phase; in CONN_BODY and CONN_PASS: of the last bytes
				 */
	int64_t body_since_ms;
	int64_t header_since_ms; /* 0: no byte of a next request was seen yet */
	uint64_t bytes_received; /* when the connection became idle */
};

struct http_stream {
	TAILQ_ENTRY(http_stream) link;
	struct http_request *req;
	struct buf queue;
	size_t sent;		/* of queue */
	size_t heartbeat_bytes; /* at the front of what is unsent; not the source's */
	int64_t heartbeat_ms;
	int64_t last_sent_ms;
	bool ended;
	bool cut; /* after what is queued, the client sees that it was not all */
	void (*drained)(void *arg, size_t bytes);
	void *drained_arg;
	size_t drained_bytes; /* left for the client and not reported yet */
	bool drained_posted;
	bool gave_back; /* memory that it has no use for while it waits */
};

/* What a request that is passed on has more. Its body waits in the request's buffer. */
struct http_pass {
	bool on;
	bool has_body;
	/* under the request's lock */
	bool begun;   /* libmicrohttpd has gone on from the headers */
	bool wanted;  /* the handler lets the body come */
	bool full;    /* the connection is suspended because the queue is full */
	bool whole;   /* nothing will follow */
	size_t taken; /* of the buffer */
	bool ready_posted;
	/* under callback_lock */
	void (*ready)(void *arg);
	void *ready_arg;
};

struct http_upgrade {
	struct MHD_UpgradeResponseHandle *handle; /* lock: while the connection is the handler's */
	bool ended;				  /* lock */
	http_upgraded_fn upgraded;		  /* under callback_lock */
	void *arg;
	int fd;
	struct buf early; /* what came with the request */
};

struct http_request {
	atomic_uint refs; /* one of libmicrohttpd, one of the handler, short ones of callbacks */
	struct http_server *server;
	struct http_conn *conn; /* while libmicrohttpd's reference is held */
	char *path;
	char *query; /* in the same allocation; NULL: none */
	char method[24];
	char request_id[HTTP_REQUEST_ID_MAX + 1];
	char peer[HTTP_PEER_SIZE];
	char log_fields[160];
	bool loopback;
	bool is_head;
	int64_t started_ms;
	struct buf body;
	uint64_t dropped_bytes;
	bool body_too_large;
	struct http_pass pass;
	struct http_upgrade upgrade;

	pthread_mutex_t lock; /* guards what follows */
	enum http_phase { HTTP_HEADERS, HTTP_BODY, HTTP_HANDED, HTTP_ANSWERED, HTTP_DONE } phase;
	struct MHD_Connection *mhd; /* NULL once libmicrohttpd has finished with the request */
	struct MHD_Response *response;
	unsigned int status;
	bool close_after; /* the connection cannot be used again */
	bool suspended;
	bool gone;	/* the client went away */
	bool abandoned; /* the server ends without waiting for the handler */
	struct http_stream *stream;
	LIST_ENTRY(http_request) active_link; /* server->active, under server->lock */
	unsigned int under_way;	   /* server->lock: of handler and client, who is not done yet */
	const void *note;	   /* the handler's */
	struct http_holder holder; /* server->lock; good NULL: none */
	bool told;		   /* server->lock: that it is good no more */

	pthread_mutex_t callback_lock; /* recursive */
	void (*on_disconnect)(void *arg);
	void *on_disconnect_arg;
};

struct http_server {
	atomic_uint refs; /* one of the owner, one of each request */
	struct http_config config;
	struct MHD_Daemon *daemon;
	uint16_t port;
	int listen_fd;

	pthread_mutex_t lock;
	pthread_cond_t all_answered;
	struct http_counts counts;
	struct metrics_histogram seconds;
	LIST_HEAD(, http_conn) conns;
	LIST_HEAD(, http_request) active; /* handed to the handler and not answered to the end */
	TAILQ_HEAD(, http_stream) streams;
	bool closing;

	struct loop_timer *sweep_timer;
	struct loop_timer *holders_timer;
	int watch_fd; /* epoll of its own: clients of suspended requests, which libmicrohttpd does
			 not see */
	struct loop_io *watch_io;
	pthread_mutex_t watch_lock;
};

/* ---- http.c ---- */
void http_server_unref(struct http_server *server);

/* ---- http_conn.c: connections, their deadlines, and clients that go away ---- */
void http_conn_notify(void *arg, struct MHD_Connection *mhd, void **socket_context,
		      enum MHD_ConnectionNotificationCode code);
void http_conn_set_phase(struct http_server *server, struct http_conn *conn,
			 enum http_conn_phase phase);
void http_conn_body_progress(struct http_server *server, struct http_conn *conn);
void http_conn_sweep(struct http_server *server, int64_t now_ms);
int http_watch_open(struct http_server *server, struct err *err); /* loop's thread */
void http_watch_close(struct http_server *server);		  /* loop's thread */
void http_watch_add(struct http_request *req);
void http_watch_remove(struct http_request *req);

/* ---- http_request.c ---- */
void *http_request_uri(void *arg, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_request_access(void *arg, struct MHD_Connection *mhd, const char *url,
				    const char *method, const char *version, const char *data,
				    size_t *data_size, void **context);
void http_request_completed(void *arg, struct MHD_Connection *mhd, void **context,
			    enum MHD_RequestTerminationCode code);
struct http_request *http_request_ref(struct http_request *req);
void http_request_unref(struct http_request *req);
void http_request_suspend(struct http_request *req); /* lock held, on libmicrohttpd's thread */
void http_request_wake(struct http_request *req);    /* lock held; any thread */
void http_request_gone(struct http_request *req);    /* any thread, no lock held */
void http_request_abandon(struct http_request *req); /* any thread, no lock held */
/* server->lock held. Ends what is answered to somebody who is good no more, in two steps. */
void http_request_check_holder(struct http_request *req);
/* The handler's side is done with the request: drops its reference. */
void http_request_release(struct http_request *req);
/* After this has returned none of the handler's callbacks runs, or will. */
void http_request_silence(struct http_request *req);
/* libmicrohttpd's thread, no lock held: the answer that is set. */
enum MHD_Result http_request_queue_answer(struct http_request *req);
/* Sets the answer (stolen) and lets the connection go on, if somebody still waits for it. */
void http_request_answer(struct http_request *req, unsigned int status,
			 struct MHD_Response *response);
#define HTTP_BODY_DROP_MAX_BYTES (16u << 20)
void http_response_headers(struct http_request *req, struct MHD_Response *response,
			   const char *content_type, const struct http_extra_header *headers,
			   size_t n);

/* ---- http_pass.c ---- */
/* libmicrohttpd's thread: what follows the headers of a request that is passed on. */
enum MHD_Result http_pass_access(struct http_request *req, const char *data, size_t *data_size);

/* ---- http_stream.c ---- */
void http_stream_heartbeat(struct http_stream *stream, int64_t now_ms);
void http_stream_free(struct http_stream *stream);
