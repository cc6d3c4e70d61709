/*
 * The MCP endpoint: the operations table as tools for agents, over Streamable HTTP, in both eras of
 * the protocol. It has no sessions: every request stands for itself, and what it needs to remember
 * are only the calls that are under way.
 *
 * mcp_message decides what a request is, mcp_tools describes tools and words results, mcp_calls
 * keeps what is under way, mcp.c joins them with the HTTP server.
 */
#pragma once

#include "api/http.h"
#include "api/preview_target.h"
#include "core/core.h"
#include "loop/loop.h"
#include "loop/pool.h"

struct mcp;

/* All are borrowed and outlive it; the loop is running or starts later. pool: where calls go on
 * that are followed for progress. preview_domain may be NULL. */
struct mcp *mcp_new(struct core *core, struct loop *loop, struct pool *pool,
		    const struct preview_domain *preview_domain);
/* After the HTTP server has gone, so that no call is left. The loop must still run. NULL is fine.
 */
void mcp_free(struct mcp *mcp);

/* [worker] Answers any request to /mcp or /mcp/, whatever its method; the router has checked Host
 * and Origin. */
void mcp_handle(struct mcp *mcp, struct http_request *req);
