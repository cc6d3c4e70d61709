/*
 * MCP messages on their way between lines of stdio and requests of HTTP: the headers that mirror a
 * message, and answers to messages that did not reach the server. Pure: no I/O.
 */
#pragma once

#include <stdbool.h>
#include <jansson.h>

#include "base/buf.h"

#define MCP_WIRE_HEADERS_MAX 3

struct mcp_wire_headers {
	struct buf lines[MCP_WIRE_HEADERS_MAX]; /* "Name: value" */
	size_t n;
};

/* Modern messages (2026-07-28 and later) carry their protocol version; this is it, or NULL. */
const char *mcp_wire_version(const json_t *message);

/* legacy_version: what a handshake has agreed on; NULL: none yet. */
void mcp_wire_headers(const json_t *message, const char *legacy_version,
		      struct mcp_wire_headers *ret);
void mcp_wire_headers_clear(struct mcp_wire_headers *headers);

/* The id of a request. Borrowed; NULL: it is none. */
json_t *mcp_wire_id(const json_t *message);
/* A notification or a response: nobody waits for an answer. */
bool mcp_wire_is_silent(const json_t *message);
/* The id of the request that this notification takes back; NULL: it is none of these. Borrowed. */
json_t *mcp_wire_cancelled(const json_t *message);

/* An error in answer to id, which may be NULL. Owned. */
json_t *mcp_wire_error(json_t *id, int code, const char *text);
/* What the client gets for a request that failed on the way: for a call of a tool a result that
 * says so, which its model sees, else an error. Owned. */
json_t *mcp_wire_failure(const json_t *request, const char *text);
