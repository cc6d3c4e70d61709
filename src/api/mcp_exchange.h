/*
 * One POST to the MCP endpoint and its answer: a JSON object, an array for a batch, an event
 * stream, or nothing (202). Every message of the body is answered once, on any thread; the last one
 * ends the exchange. Shared: the reader of the body and every call under way hold a reference.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

#include "api/http.h"

struct mcp_exchange;

/* What the client takes, from its Accept header. */
struct mcp_accept {
	bool json;
	bool stream; /* also by a wildcard */
	bool stream_by_name;
};
struct mcp_accept mcp_accept_read(const char *header); /* NULL: anything */

/* n_messages answers are awaited; a stream is never silent for longer than heartbeat_ms. The
 * request must not be used otherwise from here on, save for http_on_disconnect. */
struct mcp_exchange *mcp_exchange_new(struct http_request *req, struct mcp_accept accept,
				      int64_t heartbeat_ms, bool batch, size_t n_messages);
struct mcp_exchange *mcp_exchange_ref(struct mcp_exchange *exchange);
void mcp_exchange_unref(struct mcp_exchange *exchange);

/* Turns the answer into a stream, if the client takes one and nothing was answered yet. Only the
 * reader of the body calls this. */
void mcp_exchange_stream(struct mcp_exchange *exchange);
bool mcp_exchange_is_stream(const struct mcp_exchange *exchange);

/* A message before the answer; dropped unless it is a stream. Stolen. Not after the last answer. */
void mcp_exchange_notify(struct mcp_exchange *exchange, json_t *message);

/* Answers one message: with a response (stolen), or with nothing (NULL) for what needs none. status
 * is of HTTP, and counts where the body was a single message that is answered as JSON. */
void mcp_exchange_answer(struct mcp_exchange *exchange, unsigned int status, json_t *response);
