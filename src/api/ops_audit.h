/*
 * What the audit is told of calls (core/audit.h): which of them, and what of their arguments and
 * results. All of it follows from the operations table, so that a new operation is in the audit
 * without being asked for.
 *
 * What becomes of sandboxes is told by events too, in the transaction that changes them; so it does
 * not wait for the disk before it begins.
 *
 * In it are operations that change something or run something, with their arguments but for those
 * that are secret (ARG_SECRET); and refusals for want of a right, of whatever operation.
 */
#pragma once

#include "api/ops.h"

enum ops_audit_mode {
	OPS_AUDIT_NONE,
	OPS_AUDIT_COMMAND, /* noted while it runs; its answer waits for that */
	OPS_AUDIT_BYTES,   /* noted before it begins */
	OPS_AUDIT_LIFE, /* of sandboxes: noted while it is done; its answer waits for its record */
	OPS_AUDIT_CHANGE, /* noted before it begins; its answer waits for its record */
};
/* args: validated. */
enum ops_audit_mode ops_audit_mode(const struct op *op, const json_t *args);

/* Whether it is answered only when its record is on the disk. */
bool ops_audit_waits_after(const struct op *op, const json_t *args);

/* What of them is kept; owned by the caller. */
json_t *ops_audit_args(const struct op *op, const json_t *args);
json_t *ops_audit_outcome(const json_t *result);

/* [worker] An operation begins, if it is one for the audit. */
int ops_audit_begin(struct op_call *call, struct err *err);
/* Any thread. It has ended (err NULL: well). then: when it may be answered; at once, or later on
 * the loop's thread. */
void ops_audit_end(struct op_call *call, const struct err *err, void (*then)(void *arg), void *arg);
/* [worker] The same, and it may be answered when this returns. */
void ops_audit_end_wait(struct op_call *call, const struct err *err);
/* What was done, or refused, and is over already. */
void ops_audit_note(const struct op_call *call, const struct op *op, const char *sandbox_id,
		    const struct err *err);
