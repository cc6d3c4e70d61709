/*
 *                  ┌──────────── running, time left ───────────┐
 *   exec ──► WAIT ─┤                                           ▼
 *             ▲    └─ ended, or time is over: the answer     TOTAL ──► TAIL ──┐
 *             └──────────────────────────────────────────────────────────────┘
 *
 * The newest output is looked at in two steps as its place is not known before: how much there is,
 * then the last bytes of the stream that grew. A failure of these two is left for the next WAIT to
 * find.
 */
#include "api/mcp_follow.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

static const char *const wishes[] = { "from_offset", "from_stderr_offset", "max_output_bytes" };

void mcp_follow_init(struct mcp_follow *follow, const struct op *op, const json_t *args,
		     const struct core_limits *limits, int64_t now_ms)
{
	int64_t wait_ms = limits->mcp_exec_wait_ms;
	json_t *value;

	*follow = (struct mcp_follow){ 0 };
	if (str_eq(op->name, "exec_wait"))
		wait_ms = json_get_int(args, "wait_ms", wait_ms);
	else if (!str_eq(op->name, "exec") || json_get_bool(args, "background", false))
		return;
	follow->on = true;
	follow->deadline_ms = now_ms + wait_ms;
	follow->wanted = json_object();
	str_copy(follow->sandbox_id, sizeof(follow->sandbox_id), json_get_str(args, "id", ""));
	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
		value = json_object_get(args, wishes[i]);
		if (value)
			json_put(follow->wanted, wishes[i], json_incref(value));
	}
}

void mcp_follow_clear(struct mcp_follow *follow)
{
	json_decref(follow->wanted);
	*follow = (struct mcp_follow){ 0 };
}

static json_t *ask(const struct mcp_follow *follow, int64_t wait_ms)
{
	json_t *args = json_object();

	json_put_str(args, "id", follow->sandbox_id);
	json_put_str(args, "exec_id", follow->exec_id);
	json_put_int(args, "wait_ms", wait_ms);
	return args;
}

static json_t *ask_wait(struct mcp_follow *follow, int64_t now_ms)
{
	int64_t left_ms = follow->deadline_ms - now_ms;
	json_t *args;

	if (left_ms > MCP_FOLLOW_STEP_MS)
		left_ms = MCP_FOLLOW_STEP_MS;
	follow->phase = MCP_FOLLOW_WAIT;
	args = ask(follow, left_ms > 0 ? left_ms : 0);
	json_object_update(args, follow->wanted);
	return args;
}

/* An offset beyond the end is brought back to the end. */
static json_t *ask_total(struct mcp_follow *follow)
{
	json_t *args = ask(follow, 0);

	follow->phase = MCP_FOLLOW_TOTAL;
	json_put_int(args, "from_offset", INT64_MAX);
	json_put_int(args, "from_stderr_offset", INT64_MAX);
	json_put_int(args, "max_output_bytes", 1);
	return args;
}

/* Half of max_output_bytes is for the head, which is all that a running command shows. */
static json_t *ask_tail(struct mcp_follow *follow, int64_t stdout_total, int64_t stderr_total)
{
	json_t *args = ask(follow, 0);
	const int64_t tail = MCP_FOLLOW_NEWS_BYTES;

	follow->phase = MCP_FOLLOW_TAIL;
	json_put_int(args, "from_offset", stdout_total > tail ? stdout_total - tail : 0);
	json_put_int(args, "from_stderr_offset", stderr_total > tail ? stderr_total - tail : 0);
	json_put_int(args, "max_output_bytes", 2 * tail);
	return args;
}

static const json_t *news_of(struct mcp_follow *follow, const json_t *result)
{
	int64_t stdout_total = json_get_int(result, "stdout_bytes", 0);
	int64_t stderr_total = json_get_int(result, "stderr_bytes", 0);
	const char *grew = NULL;

	if (stdout_total > follow->stdout_seen)
		grew = "stdout";
	else if (stderr_total > follow->stderr_seen)
		grew = "stderr";
	follow->stdout_seen = stdout_total;
	follow->stderr_seen = stderr_total;
	return grew ? json_object_get(result, grew) : NULL;
}

json_t *mcp_follow_next(struct mcp_follow *follow, const json_t *result, int64_t now_ms,
			const json_t **ret_news)
{
	*ret_news = NULL;
	if (!follow->on)
		return NULL;
	switch (follow->phase) {
	case MCP_FOLLOW_WAIT:
		if (!result || !json_get_bool(result, "running", false) ||
		    now_ms >= follow->deadline_ms)
			return NULL;
		str_copy(follow->exec_id, sizeof(follow->exec_id),
			 json_get_str(result, "exec_id", ""));
		return ask_total(follow);
	case MCP_FOLLOW_TOTAL:
		if (!result)
			return ask_wait(follow, now_ms);
		return ask_tail(follow, json_get_int(result, "stdout_bytes", 0),
				json_get_int(result, "stderr_bytes", 0));
	case MCP_FOLLOW_TAIL:
		if (result)
			*ret_news = news_of(follow, result);
		return ask_wait(follow, now_ms);
	}
	return NULL;
}
