/*
 * The client's end of a WebSocket to the server: connecting, messages both ways. The caller waits
 * for the descriptor, calls ws_client_pump, and reads events until there are none.
 */
#pragma once

#include <stdbool.h>

#include "base/ws.h"
#include "cli/cli.h"
#include "cli/client.h"

struct ws_client;

/* Connects to a path ("/v1/…", encoded) and waits for the server's answer. 0; -EPROTO: it refused,
 * and *refusal is its answer; -EINTR: abort_fd became readable; else err says why. */
int ws_client_open(const struct cli *cli, const char *path, int abort_fd, struct ws_client **ret,
		   struct client_response *refusal, struct err *err);
void ws_client_free(struct ws_client *ws); /* NULL is fine */

int ws_client_fd(const struct ws_client *ws);
/* Something waits to be sent. */
size_t ws_client_queued(const struct ws_client *ws);

void ws_client_send(struct ws_client *ws, enum ws_opcode opcode, const void *data, size_t len);
/* Sends what the connection takes; false when it is broken. */
bool ws_client_flush(struct ws_client *ws);
/* The next event (ws.h) of what has come; pings are answered here. WS_EV_MORE: nothing now, wait;
 * *ret_over: nor ever again. */
enum ws_event ws_client_next(struct ws_client *ws, bool *ret_over);
const struct ws_decoder *ws_client_event(const struct ws_client *ws);
