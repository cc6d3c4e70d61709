/*
 * Streams: server-sent events, and answers that are passed on. Whoever has something to say appends
 * to the stream's queue and wakes the connection; libmicrohttpd's reader takes from the queue and
 * suspends the connection when it is empty. How much left for the client is reported to the source
 * on the loop's thread, in one report for as many reads as came together. The queue is bounded by
 * the source's own accounting of these reports.
 */
#include "api/http_internal.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define READ_BLOCK_BYTES (32u * 1024)
/* libmicrohttpd clears a block for each answer when it is made (seen in 0.9.75), and for those in
 * chunks reads into the connection's memory instead: streams that wait shall not cost one. Clients
 * of HTTP/1.0 are read for in blocks of this. */
#define EVENT_BLOCK_BYTES   512u
#define QUEUE_COMPACT_BYTES (64u * 1024)
#define NO_HEARTBEAT	    INT64_MAX

static const char heartbeat_text[] = ":\n\n";

static void report_drained(void *arg)
{
	struct http_request *req = arg;
	struct http_stream *stream;
	void (*drained)(void *arg, size_t bytes) = NULL;
	void *drained_arg = NULL;
	size_t bytes = 0;

	pthread_mutex_lock(&req->callback_lock);
	pthread_mutex_lock(&req->lock);
	stream = req->stream;
	stream->drained_posted = false;
	if (!stream->ended) {
		drained = stream->drained;
		drained_arg = stream->drained_arg;
		bytes = stream->drained_bytes;
		stream->drained_bytes = 0;
	}
	pthread_mutex_unlock(&req->lock);
	if (drained && bytes > 0)
		drained(drained_arg, bytes);
	pthread_mutex_unlock(&req->callback_lock);
	http_request_unref(req);
}

/* Lock held. Takes up to max bytes of the queue. */
static size_t take_queued(struct http_stream *stream, char *out, size_t max)
{
	size_t n = stream->queue.len - stream->sent;
	size_t heartbeat;

	if (n > max)
		n = max;
	memcpy(out, stream->queue.data + stream->sent, n);
	stream->sent += n;
	stream->last_sent_ms = clock_boottime_ms();
	heartbeat = n < stream->heartbeat_bytes ? n : stream->heartbeat_bytes;
	stream->heartbeat_bytes -= heartbeat;
	stream->drained_bytes += n - heartbeat;
	if (stream->sent == stream->queue.len) {
		buf_reset(&stream->queue);
		stream->sent = 0;
	} else if (stream->sent >= QUEUE_COMPACT_BYTES) {
		buf_drop_front(&stream->queue, stream->sent);
		stream->sent = 0;
	}
	return n;
}

/* What the reader left of its buffer, back to the system. libmicrohttpd 0.9.75 has zeroed half of a
 * connection's memory by the time that its answer begins, and reads the answer into that: a stream
 * that then waits would keep it. Nobody reads what a reader has not filled, so that pages which are
 * zeros afterwards do no harm. */
static void give_back(const char *from, size_t len)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = ((uintptr_t)from + page - 1) & ~(page - 1);
	uintptr_t end = ((uintptr_t)from + len) & ~(page - 1);

	if (begin < end)
		madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* libmicrohttpd's thread. */
static ssize_t read_stream(void *arg, uint64_t position, char *out, size_t max)
{
	struct http_request *req = arg;
	struct http_stream *stream;
	bool report = false;
	ssize_t result = 0;

	pthread_mutex_lock(&req->lock);
	stream = req->stream;
	if (stream->queue.len > stream->sent) {
		result = (ssize_t)take_queued(stream, out, max);
		if (!stream->gave_back && stream->heartbeat_ms != NO_HEARTBEAT) {
			give_back(out + result, max - (size_t)result);
			stream->gave_back = true;
		}
		report = stream->drained && !stream->ended && !stream->drained_posted;
		stream->drained_posted |= report;
	} else if (stream->cut || (req->abandoned && req->pass.on)) {
		result = MHD_CONTENT_READER_END_WITH_ERROR;
	} else if (stream->ended || req->abandoned) {
		result = MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		http_request_suspend(req);
	}
	pthread_mutex_unlock(&req->lock);
	if (report)
		loop_post(req->server->config.loop, report_drained, http_request_ref(req));
	return result;
}

static struct MHD_Response *response_made(const struct http_request *req,
					  struct MHD_Response *response)
{
	if (response)
		return response;
	log_error("http stream cannot be made", "request=%s", req->request_id);
	abort();
}

static struct http_stream *begin(struct http_request *req, unsigned int status,
				 struct MHD_Response *response,
				 void (*drained)(void *arg, size_t bytes), void *arg,
				 int64_t heartbeat_ms)
{
	struct http_stream *stream = xcalloc(1, sizeof(*stream));
	struct http_server *server = req->server;

	stream->req = req;
	stream->heartbeat_ms = heartbeat_ms;
	stream->drained = drained;
	stream->drained_arg = arg;
	stream->last_sent_ms = clock_boottime_ms();

	pthread_mutex_lock(&server->lock);
	TAILQ_INSERT_TAIL(&server->streams, stream, link);
	pthread_mutex_lock(&req->lock);
	req->stream = stream;
	pthread_mutex_unlock(&req->lock);
	http_request_answer(req, status, response);
	if (server->closing)
		http_request_gone(req);
	pthread_mutex_unlock(&server->lock);
	return stream;
}

struct http_stream *http_stream_begin(struct http_request *req, int64_t heartbeat_ms,
				      void (*drained)(void *arg, size_t bytes), void *arg)
{
	const struct http_extra_header headers[] = { { "X-Accel-Buffering", "no" } };
	struct MHD_Response *response = response_made(
		req, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BLOCK_BYTES,
						       read_stream, req, NULL));

	http_response_headers(req, response, "text/event-stream", headers, 1);
	return begin(req, 200, response, drained, arg, heartbeat_ms);
}

struct http_stream *http_answer_begin(struct http_request *req, const struct http_answer *answer,
				      void (*drained)(void *arg, size_t bytes), void *arg)
{
	struct MHD_Response *response =
		response_made(req, MHD_create_response_from_callback(
					   answer->has_length ? answer->length : MHD_SIZE_UNKNOWN,
					   READ_BLOCK_BYTES, read_stream, req, NULL));

	/* libmicrohttpd 0.9.75 sends the end mark of the chunked coding also where it sends no
	 * body (HEAD, 304): there the coding is forbidden to it, at the price of the connection. */
	if (!answer->has_body && !answer->has_length)
		MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	for (size_t i = 0; i < answer->n_headers; i++)
		MHD_add_response_header(response, answer->headers[i].name,
					answer->headers[i].value);
	return begin(req, answer->status, response, drained, arg, NO_HEARTBEAT);
}

bool http_stream_write(struct http_stream *stream, const void *data, size_t len)
{
	struct http_request *req = stream->req;
	bool open;

	pthread_mutex_lock(&req->lock);
	open = !req->gone && !req->abandoned && req->phase == HTTP_ANSWERED;
	if (open) {
		buf_append(&stream->queue, data, len);
		http_request_wake(req);
	}
	pthread_mutex_unlock(&req->lock);
	return open;
}

void http_stream_heartbeat(struct http_stream *stream, int64_t now_ms)
{
	struct http_request *req = stream->req;

	pthread_mutex_lock(&req->lock);
	if (!stream->ended && !req->gone && stream->queue.len == 0 &&
	    now_ms - stream->last_sent_ms >= stream->heartbeat_ms) {
		buf_append(&stream->queue, heartbeat_text, sizeof(heartbeat_text) - 1);
		stream->heartbeat_bytes = sizeof(heartbeat_text) - 1;
		http_request_wake(req);
	}
	pthread_mutex_unlock(&req->lock);
}

void http_stream_free(struct http_stream *stream)
{
	buf_clear(&stream->queue);
	free(stream);
}

static void end(struct http_stream *stream, bool cut)
{
	struct http_request *req = stream->req;
	struct http_server *server = req->server;

	pthread_mutex_lock(&server->lock);
	TAILQ_REMOVE(&server->streams, stream, link);
	pthread_mutex_unlock(&server->lock);

	pthread_mutex_lock(&req->callback_lock);
	http_request_silence(req);
	pthread_mutex_lock(&req->lock);
	stream->ended = true;
	stream->cut = cut;
	http_request_wake(req);
	pthread_mutex_unlock(&req->lock);
	pthread_mutex_unlock(&req->callback_lock);
	http_request_release(req);
}

void http_stream_end(struct http_stream *stream)
{
	end(stream, false);
}

void http_stream_cut(struct http_stream *stream)
{
	end(stream, true);
}
