/*
 * Operations as MCP tools: their definitions, and their results in words. Pure but for one look at
 * a sandbox's state when something failed. What a tool takes and gives comes from the operations
 * table; here is only what is particular to agents.
 */
#pragma once

#include <stdbool.h>
#include <jansson.h>

#include "api/http.h"
#include "api/ops.h"

#define MCP_TOOLS_MAX 32

/* The tools that a client of this endpoint sees, in the order of the table. */
struct mcp_toolset {
	const struct op *ops[MCP_TOOLS_MAX];
	size_t n;
};

/* All that the key may call, or those of them that `?tools=a,b` names. -EINVAL when it names one
 * that does not exist. */
int mcp_toolset_read(const struct http_request *req, const struct principal *who,
		     struct mcp_toolset *ret, struct err *err);
const struct op *mcp_toolset_find(const struct mcp_toolset *set, const char *name);
/* Among all there are; NULL: there is none of this name. */
const struct op *mcp_tool_find(const char *name);

/* May take longer than a client's patience for a first byte. */
bool mcp_tool_is_slow(const struct op *op);

/* The array for tools/list; owned by the caller. */
json_t *mcp_toolset_list(const struct mcp_toolset *set, const struct core_limits *limits);

/* What a model should know before it calls anything. */
extern const char mcp_instructions[];

/* CallToolResult of a call that worked: the answer as text and as structuredContent. Owned. */
json_t *mcp_tool_result(const struct op *op, json_t *answer);

/* CallToolResult of a call that did not: what failed, the state now, what to do next. args may be
 * NULL (the call never began). Looks the sandbox up that args name. Owned. */
json_t *mcp_tool_failure(const struct op *op, struct core *core, const struct principal *who,
			 const json_t *args, const struct err *err);
