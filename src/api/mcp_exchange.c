/*
 * The answer starts as JSON that is collected, and becomes a stream at most once, before anything
 * was collected; from then on every response is an event of its own and `stream` never changes. The
 * first bytes of a stream leave at once, as some clients wait only seconds for the head of an
 * answer.
 */
#include "api/mcp_exchange.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"

struct mcp_exchange {
	atomic_uint refs;
	struct http_request *req;
	struct http_stream *stream;
	struct mcp_accept accept;
	int64_t heartbeat_ms;
	bool batch;

	pthread_mutex_t lock;
	size_t awaited;
	unsigned int status;
	json_t *responses; /* array */
};

/* ---- Accept ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* "q=0", "q=0.0", …: the client names it to refuse it. */
static bool is_refused(const char *params, size_t len)
{
	const char *end = params + len;

	for (; params < end; params++) {
		if (*params != ';')
			continue;
		do
			params++;
		while (params < end && is_blank(*params));
		if (end - params < 3 || strncasecmp(params, "q=0", 3) != 0)
			continue;
		for (params += 3; params < end && (*params == '.' || *params == '0'); params++)
			;
		return params == end || is_blank(*params) || *params == ';';
	}
	return false;
}

static void read_range(const char *text, size_t len, struct mcp_accept *accept)
{
	const char *params = memchr(text, ';', len);
	size_t n = params ? (size_t)(params - text) : len;

	while (n > 0 && is_blank(text[n - 1]))
		n--;
#define IS(name) (n == strlen(name) && strncasecmp(text, name, n) == 0)
	if (params && is_refused(params, len - (size_t)(params - text)))
		return;
	if (IS("*/*"))
		accept->json = accept->stream = true;
	else if (IS("application/*") || IS("application/json"))
		accept->json = true;
	else if (IS("text/*") || IS("text/event-stream"))
		accept->stream = accept->stream_by_name = true;
#undef IS
}

struct mcp_accept mcp_accept_read(const char *header)
{
	struct mcp_accept accept = { 0 };
	size_t len;

	if (!header)
		return (struct mcp_accept){ .json = true, .stream = true };
	while (*header) {
		header += strspn(header, " \t,");
		len = strcspn(header, ",");
		read_range(header, len, &accept);
		header += len;
	}
	return accept;
}

/* ---- the exchange ---- */

struct mcp_exchange *mcp_exchange_new(struct http_request *req, struct mcp_accept accept,
				      int64_t heartbeat_ms, bool batch, size_t n_messages)
{
	struct mcp_exchange *exchange = xcalloc(1, sizeof(*exchange));

	atomic_init(&exchange->refs, 1);
	pthread_mutex_init(&exchange->lock, NULL);
	exchange->req = req;
	exchange->accept = accept;
	exchange->heartbeat_ms = heartbeat_ms;
	exchange->batch = batch;
	exchange->awaited = n_messages;
	exchange->responses = json_array();
	if (!accept.json)
		mcp_exchange_stream(exchange);
	return exchange;
}

struct mcp_exchange *mcp_exchange_ref(struct mcp_exchange *exchange)
{
	atomic_fetch_add(&exchange->refs, 1);
	return exchange;
}

void mcp_exchange_unref(struct mcp_exchange *exchange)
{
	if (atomic_fetch_sub(&exchange->refs, 1) > 1)
		return;
	json_decref(exchange->responses);
	pthread_mutex_destroy(&exchange->lock);
	free(exchange);
}

void mcp_exchange_stream(struct mcp_exchange *exchange)
{
	static const char opening[] = ": open\n\n";

	if (exchange->stream || !exchange->accept.stream)
		return;
	if (exchange->accept.json && !exchange->accept.stream_by_name)
		return;
	if (json_array_size(exchange->responses) > 0)
		return;
	exchange->stream = http_stream_begin(exchange->req, exchange->heartbeat_ms, NULL, NULL);
	http_stream_write(exchange->stream, opening, strlen(opening));
}

bool mcp_exchange_is_stream(const struct mcp_exchange *exchange)
{
	return exchange->stream;
}

void mcp_exchange_notify(struct mcp_exchange *exchange, json_t *message)
{
	_cleanup_json_ json_t *owned = message;
	_cleanup_buf_ struct buf event = BUF_INIT;

	if (!exchange->stream)
		return;
	buf_append_str(&event, "event: message\ndata: ");
	json_write(owned, &event);
	buf_append_str(&event, "\n\n");
	http_stream_write(exchange->stream, event.data, event.len);
}

/* All answers are there: nobody else touches the exchange's request any more. */
static void finish(struct mcp_exchange *exchange)
{
	_cleanup_buf_ struct buf body = BUF_INIT;

	if (exchange->stream) {
		http_stream_end(exchange->stream);
		return;
	}
	if (json_array_size(exchange->responses) == 0) {
		http_respond(exchange->req, 202, NULL, NULL, NULL, 0);
		return;
	}
	json_write(exchange->batch ? exchange->responses : json_array_get(exchange->responses, 0),
		   &body);
	http_respond(exchange->req, exchange->batch ? 200 : exchange->status, "application/json",
		     &body, NULL, 0);
}

void mcp_exchange_answer(struct mcp_exchange *exchange, unsigned int status, json_t *response)
{
	bool last;

	if (response && exchange->stream) {
		mcp_exchange_notify(exchange, response);
		response = NULL;
	}
	pthread_mutex_lock(&exchange->lock);
	if (response) {
		json_array_append_new(exchange->responses, response);
		exchange->status = status;
	}
	last = --exchange->awaited == 0;
	pthread_mutex_unlock(&exchange->lock);
	if (last)
		finish(exchange);
}
