/*
 * A server's end of a WebSocket, over a connection that was upgraded: messages in, messages out,
 * pings, closing. It knows nothing of what the messages mean. Loop's thread.
 *
 * Memory is bounded in both directions: of what comes, one read is held while its bytes are not
 * taken; what goes out is paced by its source, which hears how much has left (`drained`). A client
 * that pings without reading is not read on.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/ws.h"
#include "loop/loop.h"

struct ws_conn;

struct ws_conn_events {
	/* Bytes of binary messages; returns how many were taken. The rest is offered again after
	 * ws_conn_resume, and nothing else is read before. */
	size_t (*binary)(void *arg, const void *data, size_t len);
	void (*text)(void *arg, const char *text, size_t len); /* a whole message; NUL behind it */
	void (*drained)(void *arg, size_t bytes);	       /* of binary messages, about */
	/* Once: the connection is over. The only place for ws_conn_free, but for outside of all
	 * callbacks. */
	void (*closed)(void *arg);
};

/* The descriptor does not block and stays the caller's; early: what came behind the request. Events
 * come from the loop, not from within this. NULL with errno when it cannot be watched. */
struct ws_conn *ws_conn_new(struct loop *loop, int fd, const void *early, size_t early_len,
			    const struct ws_conn_events *events, void *arg);
void ws_conn_free(struct ws_conn *conn); /* NULL is fine */

void ws_conn_text(struct ws_conn *conn, const char *text, size_t len);
void ws_conn_binary(struct ws_conn *conn, const void *data, size_t len);
void ws_conn_resume(struct ws_conn *conn);
/* Sends what is queued, then says that and why it closes; `closed` follows when the client has
 * agreed, or did not in time. What it still sends is dropped. Only the first call counts. */
void ws_conn_close(struct ws_conn *conn, uint16_t code, const char *reason);
