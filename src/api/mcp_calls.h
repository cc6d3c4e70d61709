/*
 * Tool calls under way: started from a message, answered through its exchange, cancelled by the
 * client in the way of its era, and reported on while they last.
 */
#pragma once

#include "api/mcp_exchange.h"
#include "api/mcp_message.h"
#include "api/ops.h"
#include "loop/loop.h"
#include "loop/pool.h"

struct mcp_calls;

/* Who calls, and what tells its clients apart where request ids alone do not. */
struct mcp_caller {
	struct principal who;
	char client[128]; /* peer and user agent */
	char peer[OP_PEER_SIZE];
	char origin[OP_ORIGIN_SIZE];
	const struct preview_domain *preview_domain;
	const char *request_id;
};

struct mcp_calls *mcp_calls_new(struct core *core, struct loop *loop, struct pool *pool);
/* When no call is left; the loop must run. NULL is fine. */
void mcp_calls_free(struct mcp_calls *calls);

/* [worker] Calls a tool. req is the exchange's; the message (with its body) may go after this. */
void mcp_calls_start(struct mcp_calls *calls, struct http_request *req,
		     struct mcp_exchange *exchange, const struct mcp_caller *caller,
		     const struct op *op, const struct mcp_message *m);

/* A legacy client's notifications/cancelled: ends the one call of that client with this id. */
void mcp_calls_cancel(struct mcp_calls *calls, const struct mcp_caller *caller, const json_t *id);
