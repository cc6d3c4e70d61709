/*
 * What a build may add to the MCP endpoint beside the operations: methods, tools, capabilities. The
 * product adds nothing. A build with -Dmcp_fixtures=true has what the official conformance suite
 * calls by name (tests/conformance/fixtures.c), so that the protocol is tested whole.
 */
#pragma once

#include <stdbool.h>
#include <jansson.h>

#include "api/mcp_exchange.h"
#include "api/mcp_message.h"

struct mcp_extra;

#ifdef SKERRY_MCP_FIXTURES

struct mcp_extra *mcp_extra_new(void);
/* After the HTTP server has gone. NULL is fine. */
void mcp_extra_free(struct mcp_extra *extra);

/* [worker] Whether the message is one for it; then it answers the exchange, now or later. */
bool mcp_extra_take(struct mcp_extra *extra, struct http_request *req,
		    struct mcp_exchange *exchange, const struct mcp_message *m);

/* Add to the capabilities of the server, and to the array for tools/list. */
void mcp_extra_put_capabilities(const struct mcp_extra *extra, json_t *capabilities);
void mcp_extra_put_tools(const struct mcp_extra *extra, json_t *tools);

#else

static inline struct mcp_extra *mcp_extra_new(void)
{
	return NULL;
}

static inline void mcp_extra_free(struct mcp_extra *extra)
{
	(void)extra;
}

static inline bool mcp_extra_take(struct mcp_extra *extra, struct http_request *req,
				  struct mcp_exchange *exchange, const struct mcp_message *m)
{
	(void)extra, (void)req, (void)exchange, (void)m;
	return false;
}

static inline void mcp_extra_put_capabilities(const struct mcp_extra *extra, json_t *capabilities)
{
	(void)extra, (void)capabilities;
}

static inline void mcp_extra_put_tools(const struct mcp_extra *extra, json_t *tools)
{
	(void)extra, (void)tools;
}

#endif
