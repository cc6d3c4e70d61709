/*
 * MCP messages: bytes and headers in, a decision out. This knows JSON-RPC, the eras of the protocol
 * and their rules; it knows no HTTP server, tools or keys, does no I/O and keeps no state, so that
 * it can be tested by tables and fuzzed.
 *
 * One endpoint serves two eras. Modern (2026-07-28) requests carry their protocol version and the
 * client's capabilities in `_meta`, mirrored in headers that must agree. Legacy (2025-03-26 to
 * 2025-11-25) clients open with `initialize`; nothing is remembered of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>

#include "base/buf.h"

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_LEGACY_NEWEST  "2025-11-25"
#define MCP_BATCH_MAX	   32

enum mcp_error_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_METHOD_NOT_FOUND = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL_ERROR = -32603,
	MCP_HEADER_MISMATCH = -32020,
	MCP_MISSING_CAPABILITY = -32021,
	MCP_UNSUPPORTED_VERSION = -32022,
	MCP_TRY_AGAIN = 429, /* ours, and outside of what is reserved */
};

enum mcp_era { MCP_LEGACY, MCP_MODERN };

enum mcp_action {
	MCP_ACT_ACCEPT,	    /* a notification or a response that needs nothing: 202 */
	MCP_ACT_CANCEL,	    /* notifications/cancelled of a legacy client; target_id says which */
	MCP_ACT_INITIALIZE, /* legacy only */
	MCP_ACT_PING,	    /* legacy only */
	MCP_ACT_DISCOVER,   /* modern only */
	MCP_ACT_TOOLS_LIST,
	MCP_ACT_TOOLS_CALL,
	MCP_ACT_FAULT, /* cannot be served; fault says why */
};

/* The mirrored headers as they came, NULL where absent. repeated: one of them came twice. */
struct mcp_headers {
	const char *protocol_version;
	const char *method;
	const char *name;
	bool repeated;
};

/* An error for the client: a JSON-RPC error and the HTTP status that it travels with. */
struct mcp_fault {
	unsigned int status;
	enum mcp_error_code code;
	char message[512];
	json_t *data; /* owned; may be NULL */
};

struct mcp_message {
	enum mcp_action action;
	enum mcp_era era;
	const char *version;	/* static storage: the protocol version spoken */
	const json_t *whole;	/* all of it */
	json_t *id;		/* of a request; NULL for others and where it could not be read */
	json_t *params;		/* an object, or NULL */
	json_t *progress_token; /* string or integer, or NULL */
	json_t *target_id;	/* MCP_ACT_CANCEL: string or integer */
	const char *tool;	/* MCP_ACT_TOOLS_CALL: the name; may be any text without NUL */
	json_t *arguments;	/* MCP_ACT_TOOLS_CALL: an object, or NULL when absent */
	struct mcp_fault fault; /* MCP_ACT_FAULT */
};
/* All json_t pointers of a message but fault.data are borrowed from its body. */

struct mcp_body {
	json_t *root; /* owned */
	bool batch;   /* answers travel as an array, too */
	struct mcp_message messages[MCP_BATCH_MAX];
	size_t n_messages;
};

/* Reads the body of a POST. Returns true with *ret filled (one message, or a legacy batch) for
 * mcp_body_clear; false with *fault (for mcp_fault_clear) when the body as a whole is refused. A
 * message that cannot be served is in *ret with MCP_ACT_FAULT, as its id is known. */
bool mcp_body_read(const void *data, size_t len, const struct mcp_headers *headers,
		   struct mcp_body *ret, struct mcp_fault *fault);
void mcp_body_clear(struct mcp_body *body);

/* The id of a message's body that can be echoed; NULL: there is none. Borrowed. */
json_t *mcp_request_id(const json_t *body);

void mcp_fault_set(struct mcp_fault *fault, unsigned int status, enum mcp_error_code code,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void mcp_fault_clear(struct mcp_fault *fault);

/* The version to answer an `initialize` with: the one that was asked for if we speak it as a legacy
 * version, otherwise our newest legacy one. Static storage. */
const char *mcp_initialize_version(const json_t *params);

/* {"jsonrpc", "id", "result"} with result stolen, and {"jsonrpc", "id"?, "error"}; id may be NULL.
 * Owned by the caller. */
json_t *mcp_response(json_t *id, json_t *result);
json_t *mcp_error_response(json_t *id, const struct mcp_fault *fault);

/* A modern result says that it is complete (unless it says otherwise already) and who made it; a
 * legacy one is left as it is. */
void mcp_result_seal(enum mcp_era era, json_t *result);

/* The value of a mirrored header: white space trimmed, `=?base64?…?=` decoded. False when the
 * encoding is broken. */
bool mcp_header_decode(const char *value, struct buf *out);
