/*
 * Terminals over WebSocket: GET /v1/sandboxes/{id}/terminal. docs/terminal.md says what users see.
 *
 * terminal.c has the request: who asks, for what, and whether it is a WebSocket at all;
 * terminal_session.c what is said from then on.
 */
#pragma once

#include "api/rest_internal.h"
#include "core/terminal.h"

/* Protocols that a client may offer: ours, which is chosen, and one that is not a protocol but
 * carries the key of a web page, which cannot set headers. */
#define TERMINAL_PROTOCOL   "skerry.terminal"
#define TERMINAL_KEY_PREFIX "skerry.key."

/* Why a terminal's connection is closed, beyond the codes of RFC 6455. */
#define TERMINAL_CODE_ERROR	 4000 /* an error message says which */
#define TERMINAL_CODE_TAKEN_OVER 4001
#define TERMINAL_CODE_OVER	 4002 /* the sandbox has ended */
#define TERMINAL_CODE_KEY	 4003 /* the key was revoked, or has expired */

/* As auth_check_key, but the key may come as a protocol as well. */
int terminal_check_key(struct core *core, const struct http_request *req, struct principal *ret,
		       struct err *err);

/* [worker] Answers a request whose arguments were checked; takes rc over. */
void terminal_serve(struct rest_call *rc, struct loop *loop);

struct terminal_session;

/* [worker] The same, of one that is a WebSocket; accept: what its key is answered with. */
void terminal_session_run(struct rest_call *rc, struct loop *loop, const char *accept,
			  bool with_protocol);
