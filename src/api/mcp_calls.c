/*
 * Life of a call: started on a worker, linked into the list of calls under way, done in one step
 * or, where a command is followed for progress, in several, each of them an operation of its own.
 * Whatever thread ends the last step answers. A call has one reference of its steps, dropped with
 * the answer; a step has one of its operation, dropped at the end of `finished`; those who cancel
 * take short ones.
 *
 * Cancelling ends the wait and silences the answer; the command goes on in its sandbox and can be
 * picked up by exec_wait. Sandboxes that were made for a caller who has gone are destroyed again,
 * as nobody learned their ids. Modern clients cancel by disconnecting. Legacy clients send a
 * notification with the request's id; as there are no sessions and clients count their ids from 0,
 * a call is taken for the one meant only if key, address and user agent agree and no other call
 * matches as well.
 */
#include "api/mcp_calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "api/mcp_follow.h"
#include "api/mcp_tools.h"
#include "api/ops_audit.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

#define TICK_MS		1000
#define PROGRESS_GAP_MS 1000 /* news is sent this often at most */

struct mcp_step {
	struct op_call op;
	struct mcp_call *call;
	atomic_uint refs;
};

struct mcp_call {
	LIST_ENTRY(mcp_call) link;
	struct mcp_calls *calls;
	struct mcp_exchange *exchange;
	struct mcp_caller caller;
	const struct op *op; /* what was asked for */
	enum mcp_era era;
	json_t *id;
	json_t *progress_token; /* NULL: nobody asked, or nowhere to send it */
	atomic_uint refs;

	/* between steps, by one thread at a time */
	struct mcp_follow follow;
	json_t *next_args;
	json_t *latest; /* the last answer that could be the caller's */

	/* under calls->lock */
	struct mcp_step *step; /* under way */
	bool silent;
	int64_t started_ms;
	int64_t reported_ms;
	int64_t reported_value; /* milliseconds since the start, strictly increasing */
	bool has_news;
	char news[512];
};

struct mcp_calls {
	struct core *core;
	struct loop *loop;
	struct pool *pool;
	struct loop_timer *timer; /* loop's thread */
	int64_t silence_ms;	  /* without news, progress is sent this often */
	pthread_mutex_t lock;
	LIST_HEAD(, mcp_call) live;
};

static void call_unref(struct mcp_call *call)
{
	if (atomic_fetch_sub(&call->refs, 1) > 1)
		return;
	mcp_follow_clear(&call->follow);
	principal_clear(&call->caller.who);
	mcp_exchange_unref(call->exchange);
	json_decref(call->id);
	json_decref(call->progress_token);
	json_decref(call->next_args);
	json_decref(call->latest);
	free(call);
}

static void step_unref(struct mcp_step *step)
{
	if (atomic_fetch_sub(&step->refs, 1) > 1)
		return;
	op_call_clear(&step->op);
	free(step);
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

static void call_tell(struct mcp_call *call, int percent, const char *tail)
{
	int64_t now_ms = clock_boottime_ms();

	pthread_mutex_lock(&call->calls->lock);
	keep_news(call, percent, tail ? tail : "");
	if (now_ms - call->reported_ms >= PROGRESS_GAP_MS)
		report(call, now_ms);
	pthread_mutex_unlock(&call->calls->lock);
}

static void step_progress(struct op_call *op, int percent, const char *tail)
{
	const struct mcp_step *step = op->surface_state;

	call_tell(step->call, percent, tail);
}

static void tick(void *arg)
{
	struct mcp_calls *calls = arg;
	int64_t now_ms = clock_boottime_ms();
	struct mcp_call *call;

	pthread_mutex_lock(&calls->lock);
	LIST_FOREACH(call, &calls->live, link) {
		int64_t gap_ms = call->has_news ? PROGRESS_GAP_MS : calls->silence_ms;

		if (call->progress_token && now_ms - call->reported_ms >= gap_ms)
			report(call, now_ms);
	}
	pthread_mutex_unlock(&calls->lock);
	loop_timer_set(calls->timer, now_ms + TICK_MS);
}

/* ---- the end of a call ---- */

static void destroy_one(const struct mcp_call *call, const struct op_call *op, const json_t *made)
{
	const char *id = json_get_str(made, "id", NULL);
	struct sandbox_info info = { 0 };
	struct err err = ERR_INIT;
	int rc;

	if (!id)
		return;
	rc = core_destroy(op->core, &call->caller.who, id, &info, &err);
	ops_audit_note(op, ops_find("destroy_sandbox"), id, rc < 0 ? &err : NULL);
	if (rc < 0)
		log_warn("sandbox of a cancelled call not destroyed",
			 "sandbox=%s request=%s reason=\"%s\"", id, op->request_id, err.message);
	else
		log_info("sandbox of a cancelled call destroyed", "sandbox=%s request=%s", id,
			 op->request_id);
	sandbox_info_clear(&info);
}

static void destroy_unclaimed(const struct mcp_call *call, const struct op_call *op)
{
	const json_t *child;
	size_t i;

	if (str_eq(op->op->name, "create_sandbox"))
		destroy_one(call, op, op->result);
	if (!str_eq(op->op->name, "fork_sandbox"))
		return;
	json_array_foreach(json_object_get(op->result, "sandboxes"), i, child)
		destroy_one(call, op, child);
}

/* Nobody cancels or reports on it afterwards. Returns whether the client wants no answer. */
static bool call_unlink(struct mcp_call *call)
{
	bool silent;

	pthread_mutex_lock(&call->calls->lock);
	LIST_REMOVE(call, link);
	silent = call->silent;
	pthread_mutex_unlock(&call->calls->lock);
	return silent;
}

/* result is stolen; NULL: no answer. */
static void call_answer(struct mcp_call *call, json_t *result)
{
	if (result)
		mcp_result_seal(call->era, result);
	mcp_exchange_answer(call->exchange, 200, result ? mcp_response(call->id, result) : NULL);
	call_unref(call);
}

static void call_end(struct mcp_call *call, const struct op_call *op, const struct err *err)
{
	bool silent = call_unlink(call);
	json_t *result = NULL;

	if (silent && !err)
		destroy_unclaimed(call, op);
	else if (!silent && err)
		result = mcp_tool_failure(call->op, op->core, &op->who, op->args, err);
	else if (!silent)
		result = mcp_tool_result(call->op, op->result);
	call_answer(call, result);
}

/* A step could not follow: the caller gets what is known, and asks again by exec_wait. */
static void call_end_early(struct mcp_call *call)
{
	call_answer(call, call_unlink(call) ? NULL : mcp_tool_result(call->op, call->latest));
}

/* ---- steps ---- */

static void run_step(struct mcp_call *call, const struct op *op, json_t *args,
		     const char *request_id);

static void run_next_step(void *arg)
{
	struct mcp_call *call = arg;

	run_step(call, ops_find("exec_wait"), STEAL(call->next_args), "");
}

static void step_finished(struct op_call *op, const struct err *err)
{
	struct mcp_step *step = op->surface_state;
	struct mcp_call *call = step->call;
	const json_t *news = NULL;
	bool silent;

	pthread_mutex_lock(&call->calls->lock);
	call->step = NULL;
	silent = call->silent;
	pthread_mutex_unlock(&call->calls->lock);

	if (call->follow.phase == MCP_FOLLOW_WAIT && !err) {
		json_decref(call->latest);
		call->latest = json_incref(op->result);
	}
	/* While the daemon ends, nothing new is begun. */
	if (!silent && !(err && str_eq(err_code_of(err), "shutting_down")))
		call->next_args = mcp_follow_next(&call->follow, err ? NULL : op->result,
						  clock_boottime_ms(), &news);
	if (!call->next_args) {
		call_end(call, op, err);
	} else {
		if (news)
			call_tell(call, -1, json_string_value(news));
		if (pool_submit(call->calls->pool, run_next_step, call) < 0)
			call_end_early(call);
	}
	step_unref(step);
}

/* [worker] args is stolen. */
static void run_step(struct mcp_call *call, const struct op *op, json_t *args,
		     const char *request_id)
{
	struct mcp_step *step = xcalloc(1, sizeof(*step));
	bool silent;

	atomic_init(&step->refs, 1);
	step->call = call;
	op_call_init(&step->op, op, call->calls->core, &call->caller.who, OP_SURFACE_MCP,
		     request_id);
	str_copy(step->op.origin, sizeof(step->op.origin), call->caller.origin);
	step->op.preview_domain = call->caller.preview_domain;
	str_copy(step->op.peer, sizeof(step->op.peer), call->caller.peer);
	step->op.pool = call->calls->pool;
	step->op.args = args;
	step->op.finished = step_finished;
	step->op.surface_state = step;
	step->op.patience_ms = call->follow.on ? MCP_FOLLOW_STEP_MS : 0;
	step->op.progress = call->progress_token ? step_progress : NULL;

	pthread_mutex_lock(&call->calls->lock);
	silent = call->silent;
	call->step = silent ? NULL : step;
	pthread_mutex_unlock(&call->calls->lock);
	if (silent) {
		call_unlink(call);
		call_answer(call, NULL);
		step_unref(step);
		return;
	}
	op_call_run(&step->op);
}

/* ---- cancelling ---- */

/* The caller holds a reference. */
static void call_cancel(struct mcp_call *call)
{
	struct mcp_step *step;

	pthread_mutex_lock(&call->calls->lock);
	call->silent = true;
	step = call->step;
	if (step)
		atomic_fetch_add(&step->refs, 1);
	pthread_mutex_unlock(&call->calls->lock);
	if (!step)
		return; /* between two steps: the next one sees it */
	op_call_cancel(&step->op);
	step_unref(step);
}

/* Not called once the exchange was answered, which is before the call goes. */
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
	LIST_FOREACH(call, &calls->live, link) {
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

static struct mcp_call *call_new(struct mcp_calls *calls, struct mcp_exchange *exchange,
				 const struct mcp_caller *caller, const struct op *op,
				 const struct mcp_message *m)
{
	struct mcp_call *call = xcalloc(1, sizeof(*call));

	atomic_init(&call->refs, 1);
	call->calls = calls;
	call->exchange = mcp_exchange_ref(exchange);
	call->caller = *caller;
	principal_copy(&call->caller.who, &caller->who);
	call->caller.request_id = NULL; /* gone with the request; steps have copies */
	call->op = op;
	call->era = m->era;
	call->id = json_incref(m->id);
	call->started_ms = call->reported_ms = clock_boottime_ms();
	if (m->progress_token && mcp_exchange_is_stream(exchange))
		call->progress_token = json_incref(m->progress_token);
	return call;
}

void mcp_calls_start(struct mcp_calls *calls, struct http_request *req,
		     struct mcp_exchange *exchange, const struct mcp_caller *caller,
		     const struct op *op, const struct mcp_message *m)
{
	_cleanup_json_ json_t *none = json_object();
	const struct core_limits *limits = core_limits(calls->core);
	struct err err = ERR_INIT;
	struct mcp_call *call;
	json_t *args;

	if (ops_validate(op, OP_SURFACE_MCP, limits, m->arguments ? m->arguments : none, &args,
			 &err) < 0) {
		refuse(calls, exchange, caller, op, m, &err);
		return;
	}
	if (m->progress_token || mcp_tool_is_slow(op))
		mcp_exchange_stream(exchange);

	call = call_new(calls, exchange, caller, op, m);
	if (call->progress_token)
		mcp_follow_init(&call->follow, op, args, limits, call->started_ms);
	pthread_mutex_lock(&calls->lock);
	LIST_INSERT_HEAD(&calls->live, call, link);
	pthread_mutex_unlock(&calls->lock);
	if (m->era == MCP_MODERN)
		http_on_disconnect(req, client_gone, call);
	run_step(call, op, args, caller->request_id);
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

struct mcp_calls *mcp_calls_new(struct core *core, struct loop *loop, struct pool *pool)
{
	struct mcp_calls *calls = xcalloc(1, sizeof(*calls));

	calls->core = core;
	calls->loop = loop;
	calls->pool = pool;
	calls->silence_ms = core_limits(core)->stream_heartbeat_ms - TICK_MS;
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
