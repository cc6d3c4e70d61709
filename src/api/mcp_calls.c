/*
 * Life of a call: started on a worker, linked into the list of calls under way, answered in
 * `finished` on whatever thread ends it. Two references: one of the operation (dropped at the end
 * of `finished`) and short ones of those who cancel.
 *
 * Cancelling ends the wait and silences the answer; the command goes on in its sandbox and can be
 * picked up by exec_wait. A sandbox that was made for a caller who has gone is destroyed again, as
 * nobody learned its id. Modern clients cancel by disconnecting. Legacy clients send a notification
 * with the request's id; as there are no sessions and clients count their ids from 0, a call is
 * taken for the one meant only if key, address and user agent agree and no other call matches as
 * well.
 */
#include "api/mcp_calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "api/mcp_tools.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

#define TICK_MS		    1000
#define PROGRESS_GAP_MS	    1000  /* news is sent this often at most */
#define PROGRESS_SILENCE_MS 10000 /* without news, this often */

struct mcp_call {
	LIST_ENTRY(mcp_call) link;
	struct op_call op;
	struct mcp_calls *calls;
	struct mcp_exchange *exchange;
	struct mcp_caller caller;
	enum mcp_era era;
	json_t *id;
	json_t *progress_token; /* NULL: nobody asked */
	atomic_uint refs;
	atomic_bool silent;

	/* under calls->lock */
	int64_t started_ms;
	int64_t reported_ms;
	int64_t reported_value; /* milliseconds since the start, strictly increasing */
	bool has_news;
	char news[512];
};

struct mcp_calls {
	struct core *core;
	struct loop *loop;
	struct loop_timer *timer; /* loop's thread */
	pthread_mutex_t lock;
	LIST_HEAD(, mcp_call) live;
};

static void call_unref(struct mcp_call *call)
{
	if (atomic_fetch_sub(&call->refs, 1) > 1)
		return;
	op_call_clear(&call->op);
	mcp_exchange_unref(call->exchange);
	json_decref(call->id);
	json_decref(call->progress_token);
	free(call);
}

/* ---- progress ---- */

/* Lock held: a call in the list has an exchange that was not answered yet. */
static void report(struct mcp_call *call, int64_t now_ms)
{
	json_t *message = json_object(), *params = json_object();
	int64_t value = now_ms - call->started_ms;

	if (value <= call->reported_value)
		value = call->reported_value + 1;
	call->reported_value = value;
	call->reported_ms = now_ms;
	json_put(params, "progressToken", json_incref(call->progress_token));
	json_put(params, "progress", json_real((double)value / 1000.0));
	json_put_str(params, "message", call->news[0] ? call->news : "still running");
	json_put_str(message, "jsonrpc", "2.0");
	json_put_str(message, "method", "notifications/progress");
	json_put(message, "params", params);
	mcp_exchange_notify(call->exchange, message);
	call->has_news = false;
}

/* The newest whole characters of tail that fit. */
static void keep_news(struct mcp_call *call, int percent, const char *tail)
{
	size_t len = strlen(tail), room = sizeof(call->news) - 8;
	const char *from = len > room ? tail + len - room : tail;

	while (((unsigned char)*from & 0xc0) == 0x80)
		from++;
	if (percent >= 0)
		snprintf(call->news, sizeof(call->news), "%d %% %s", percent > 100 ? 100 : percent,
			 from);
	else
		snprintf(call->news, sizeof(call->news), "%s", from);
	call->has_news = true;
}

static void call_progress(struct op_call *op, int percent, const char *tail)
{
	struct mcp_call *call = op->surface_state;
	int64_t now_ms = clock_boottime_ms();

	pthread_mutex_lock(&call->calls->lock);
	keep_news(call, percent, tail ? tail : "");
	if (now_ms - call->reported_ms >= PROGRESS_GAP_MS)
		report(call, now_ms);
	pthread_mutex_unlock(&call->calls->lock);
}

static void tick(void *arg)
{
	struct mcp_calls *calls = arg;
	int64_t now_ms = clock_boottime_ms();
	struct mcp_call *call;

	pthread_mutex_lock(&calls->lock);
	LIST_FOREACH(call, &calls->live, link)
	{
		int64_t gap_ms = call->has_news ? PROGRESS_GAP_MS : PROGRESS_SILENCE_MS;

		if (call->op.progress && now_ms - call->reported_ms >= gap_ms)
			report(call, now_ms);
	}
	pthread_mutex_unlock(&calls->lock);
	loop_timer_set(calls->timer, now_ms + TICK_MS);
}

/* ---- the end of a call ---- */

static void destroy_unclaimed(struct mcp_call *call)
{
	const char *id = json_get_str(call->op.result, "id", NULL);
	struct sandbox_info info = { 0 };
	struct err err = ERR_INIT;

	if (!str_eq(call->op.op->name, "create_sandbox") || !id)
		return;
	if (core_destroy(call->calls->core, &call->caller.who, id, &info, &err) < 0)
		log_warn("sandbox of a cancelled call not destroyed",
			 "sandbox=%s request=%s reason=\"%s\"", id, call->op.request_id,
			 err.message);
	else
		log_info("sandbox of a cancelled call destroyed", "sandbox=%s request=%s", id,
			 call->op.request_id);
	sandbox_info_clear(&info);
}

static void call_finished(struct op_call *op, const struct err *err)
{
	struct mcp_call *call = op->surface_state;
	json_t *result = NULL;

	pthread_mutex_lock(&call->calls->lock);
	LIST_REMOVE(call, link);
	pthread_mutex_unlock(&call->calls->lock);

	if (atomic_load(&call->silent)) {
		if (!err)
			destroy_unclaimed(call);
	} else if (err) {
		result = mcp_tool_failure(op->op, op->core, &op->who, op->args, err);
	} else {
		result = mcp_tool_result(op->op, op->result);
	}
	if (result)
		mcp_result_seal(call->era, result);
	mcp_exchange_answer(call->exchange, 200, result ? mcp_response(call->id, result) : NULL);
	call_unref(call);
}

/* The caller holds a reference, or knows that finished has not returned. */
static void call_cancel(struct mcp_call *call)
{
	atomic_store(&call->silent, true);
	op_call_cancel(&call->op);
}

/* Not called once the exchange was answered, which happens within finished. */
static void client_gone(void *arg)
{
	struct mcp_call *call = arg;

	atomic_fetch_add(&call->refs, 1);
	call_cancel(call);
	call_unref(call);
}

static bool is_same_call(const struct mcp_call *call, const struct mcp_caller *caller,
			 const json_t *id)
{
	return call->era == MCP_LEGACY && str_eq(call->caller.who.key_id, caller->who.key_id) &&
	       str_eq(call->caller.client, caller->client) && json_equal(call->id, id);
}

void mcp_calls_cancel(struct mcp_calls *calls, const struct mcp_caller *caller, const json_t *id)
{
	struct mcp_call *call, *found = NULL;
	size_t n = 0;

	pthread_mutex_lock(&calls->lock);
	LIST_FOREACH(call, &calls->live, link)
	{
		if (is_same_call(call, caller, id)) {
			found = call;
			n++;
		}
	}
	if (n == 1)
		atomic_fetch_add(&found->refs, 1);
	pthread_mutex_unlock(&calls->lock);
	if (n != 1)
		return;
	call_cancel(found);
	call_unref(found);
}

/* ---- its start ---- */

static void refuse(struct mcp_calls *calls, struct mcp_exchange *exchange,
		   const struct mcp_caller *caller, const struct op *op,
		   const struct mcp_message *m, const struct err *err)
{
	json_t *result = mcp_tool_failure(op, calls->core, &caller->who, NULL, err);

	mcp_result_seal(m->era, result);
	mcp_exchange_answer(exchange, 200, mcp_response(m->id, result));
}

void mcp_calls_start(struct mcp_calls *calls, struct http_request *req,
		     struct mcp_exchange *exchange, const struct mcp_caller *caller,
		     const struct op *op, const struct mcp_message *m)
{
	_cleanup_json_ json_t *none = json_object();
	struct err err = ERR_INIT;
	struct mcp_call *call;
	json_t *args;

	if (ops_validate(op, OP_SURFACE_MCP, core_limits(calls->core),
			 m->arguments ? m->arguments : none, &args, &err) < 0) {
		refuse(calls, exchange, caller, op, m, &err);
		return;
	}
	if (m->progress_token || mcp_tool_is_slow(op))
		mcp_exchange_stream(exchange);

	call = xcalloc(1, sizeof(*call));
	op_call_init(&call->op, op, calls->core, &caller->who, OP_SURFACE_MCP, caller->request_id);
	call->op.args = args;
	call->op.finished = call_finished;
	call->op.surface_state = call;
	call->calls = calls;
	call->exchange = mcp_exchange_ref(exchange);
	call->caller = *caller;
	call->caller.request_id = NULL; /* its own copy is in op */
	call->era = m->era;
	call->id = json_incref(m->id);
	call->started_ms = call->reported_ms = clock_boottime_ms();
	atomic_init(&call->refs, 1);
	if (m->progress_token && mcp_exchange_is_stream(exchange)) {
		call->progress_token = json_incref(m->progress_token);
		call->op.progress = call_progress;
	}
	pthread_mutex_lock(&calls->lock);
	LIST_INSERT_HEAD(&calls->live, call, link);
	pthread_mutex_unlock(&calls->lock);
	if (m->era == MCP_MODERN)
		http_on_disconnect(req, client_gone, call);
	op_call_run(&call->op);
}

/* ---- the list ---- */

static void start_timer(void *arg)
{
	struct mcp_calls *calls = arg;

	calls->timer = loop_timer_add(calls->loop, clock_boottime_ms() + TICK_MS, tick, calls);
}

static void stop_timer(void *arg)
{
	struct mcp_calls *calls = arg;

	loop_timer_remove(calls->timer);
}

struct mcp_calls *mcp_calls_new(struct core *core, struct loop *loop)
{
	struct mcp_calls *calls = xcalloc(1, sizeof(*calls));

	calls->core = core;
	calls->loop = loop;
	pthread_mutex_init(&calls->lock, NULL);
	LIST_INIT(&calls->live);
	loop_post(loop, start_timer, calls);
	return calls;
}

void mcp_calls_free(struct mcp_calls *calls)
{
	if (!calls)
		return;
	loop_call(calls->loop, stop_timer, calls);
	pthread_mutex_destroy(&calls->lock);
	free(calls);
}
