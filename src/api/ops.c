/*
 * Calls of operations: how a handler's outcome, which may come at once or later and on any thread,
 * and the caller's change of mind become exactly one `finished`.
 *
 * An outcome is delivered once the handler has returned and the outcome is known, by whoever comes
 * last; so a call never ends under a handler that is still running.
 */
#include "api/ops.h"

#include <errno.h>
#include <string.h>

#include "api/ops_audit.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/metrics.h"

void op_call_init(struct op_call *call, const struct op *op, struct core *core,
		  const struct principal *who, enum op_surface surface, const char *request_id)
{
	*call = (struct op_call){ .op = op, .core = core, .surface = surface };
	principal_copy(&call->who, who);
	str_copy(call->request_id, sizeof(call->request_id), request_id);
	call->began_boottime_us = clock_boottime_us();
	pthread_mutex_init(&call->lock, NULL);
}

static void cancelled_error(struct err *err);

void op_call_clear(struct op_call *call)
{
	struct err err = ERR_INIT;

	if (call->audit) { /* nobody has said how it ended */
		cancelled_error(&err);
		op_call_leave(call, &err, NULL, NULL);
	}
	json_decref(STEAL(call->args));
	json_decref(STEAL(call->result));
	principal_clear(&call->who);
	pthread_mutex_destroy(&call->lock);
}

const char *op_call_sandbox(const struct op_call *call)
{
	for (size_t i = 0; i < call->op->n_args; i++) {
		if (call->op->args[i].flags & ARG_SANDBOX)
			return json_get_str(call->args, call->op->args[i].name, NULL);
	}
	return NULL;
}

int op_call_authorize(struct op_call *call, struct err *err)
{
	const struct core_action action = {
		.scope = call->op->scope,
		.operation = call->op->name,
		.sandbox_id = op_call_sandbox(call),
	};
	int rc = call->authorized ? 0 : core_authorize(call->core, &call->who, &action, err);

	call->authorized = rc == 0;
	if (rc == 0)
		return 0;
	ops_audit_note(call, call->op, action.sandbox_id, err);
	core_metrics_operation(call->core, call->op->name, err_code_of(err), -1);
	return rc;
}

int op_call_enter(struct op_call *call, struct err *err)
{
	int rc = op_call_authorize(call, err);

	if (rc == 0)
		rc = ops_audit_begin(call, err);
	call->entered = rc == 0;
	return rc;
}

static void count(const struct op_call *call, const struct err *err)
{
	core_metrics_operation(call->core, call->op->name, err ? err_code_of(err) : "ok",
			       clock_boottime_us() - call->began_boottime_us);
}

void op_call_leave(struct op_call *call, const struct err *err, void (*then)(void *arg), void *arg)
{
	if (call->entered)
		count(call, err);
	call->entered = false;
	ops_audit_end(call, err, then, arg);
}

/* What the schema of the result does not have on this surface. */
static void drop_rest_only(struct op_call *call)
{
	for (size_t i = 0; i < call->op->n_results; i++) {
		if (call->op->results[i].rest_only)
			json_object_del(call->result, call->op->results[i].name);
	}
}

static void tell_surface(void *arg)
{
	struct op_call *call = arg;

	if (call->surface == OP_SURFACE_MCP && call->result)
		drop_rest_only(call);
	call->finished(call, call->failure.num ? &call->failure : NULL);
}

/* Who has not waited is on a worker, and may wait for the disk; others are on the loop's thread. */
static void deliver(struct op_call *call)
{
	const struct err *err = call->failure.num ? &call->failure : NULL;

	if (call->entered)
		count(call, err);
	if (call->waits || !ops_audit_waits_after(call->op, call->args)) {
		ops_audit_end(call, err, tell_surface, call);
		return;
	}
	ops_audit_end_wait(call, err);
	tell_surface(call);
}

/* Lock held. Whether this caller is the one to ask the handler to stop waiting. */
static bool claim_cancel(struct op_call *call)
{
	if (!call->cancelled || call->cancelling || call->outcome || !call->cancel)
		return false;
	call->cancelling = true;
	return true;
}

static void cancelled_error(struct err *err)
{
	err_code(err, -ECANCELED, "cancelled",
		 "the wait ended early: the client left, or the server is ending");
	err_hint(err, "a command that was waited for goes on: pick it up with exec_wait");
}

void op_call_run(struct op_call *call)
{
	struct err err = ERR_INIT;
	bool stop, ready;
	int rc;

	log_request_begin(call->request_id);
	rc = op_call_enter(call, &err);
	if (rc == 0)
		rc = call->op->handler(call, &err);
	log_request_end();

	pthread_mutex_lock(&call->lock);
	call->waits = rc == OP_PENDING;
	if (rc != OP_PENDING) {
		call->outcome = true;
		if (rc < 0) {
			call->failure = err;
			call->failure.num = rc;
		}
	}
	stop = claim_cancel(call);
	if (stop) {
		/* Not marked as returned yet, so the call cannot end meanwhile. */
		pthread_mutex_unlock(&call->lock);
		stop = call->cancel(call);
		pthread_mutex_lock(&call->lock);
		if (stop) {
			call->outcome = true;
			cancelled_error(&call->failure);
		}
	}
	call->returned = true;
	ready = call->outcome;
	pthread_mutex_unlock(&call->lock);
	if (ready)
		deliver(call);
}

void op_call_cancel(struct op_call *call)
{
	struct err err = ERR_INIT;
	bool stop;

	pthread_mutex_lock(&call->lock);
	call->cancelled = true;
	stop = call->returned && claim_cancel(call);
	pthread_mutex_unlock(&call->lock);
	if (stop && call->cancel(call)) {
		cancelled_error(&err);
		op_call_finish(call, NULL, &err);
	}
}

void op_call_finish(struct op_call *call, json_t *result, const struct err *err)
{
	bool ready;

	pthread_mutex_lock(&call->lock);
	call->outcome = true;
	if (err)
		call->failure = *err;
	json_decref(call->result);
	call->result = result;
	ready = call->returned;
	pthread_mutex_unlock(&call->lock);
	if (ready)
		deliver(call);
}

const struct op *ops_find(const char *name)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		if (str_eq(ops[i].name, name))
			return &ops[i];
	}
	return NULL;
}

const char *ops_scope_of(const char *name)
{
	const struct op *op = ops_find(name);

	return op ? op->scope : NULL;
}
