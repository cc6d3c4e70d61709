/*
 * Following a command for its caller: the wait of exec and exec_wait cut into steps, so that there
 * is something to report meanwhile. Pure: it says what to ask next; whoever uses it asks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "api/ops.h"

#define MCP_FOLLOW_STEP_MS    5000
#define MCP_FOLLOW_NEWS_BYTES 400

enum mcp_follow_phase {
	MCP_FOLLOW_WAIT,  /* for the end, a step long; its answer is what the caller may get */
	MCP_FOLLOW_TOTAL, /* how much was printed so far */
	MCP_FOLLOW_TAIL,  /* the newest of it */
};

struct mcp_follow {
	bool on;
	enum mcp_follow_phase phase;
	int64_t deadline_ms; /* boottime: the answer is due, running or not */
	char sandbox_id[SANDBOX_ID_SIZE];
	char exec_id[EXEC_ID_SIZE];
	json_t *wanted; /* what the caller asked of the output: offsets and maximum */
	int64_t stdout_seen, stderr_seen;
};

/* For a call with these arguments; stays off for operations that wait for no command. */
void mcp_follow_init(struct mcp_follow *follow, const struct op *op, const json_t *args,
		     const struct core_limits *limits, int64_t now_ms);
void mcp_follow_clear(struct mcp_follow *follow);

/* A step has ended with result, or failed (NULL). Returns the arguments of exec_wait for the next
 * one, owned by the caller, or NULL: what came is the answer. *ret_news is set, borrowed from
 * result, when there is news: a string. */
json_t *mcp_follow_next(struct mcp_follow *follow, const json_t *result, int64_t now_ms,
			const json_t **ret_news);
