/*
 * What the core counts, for GET /metrics: operations and how they ended, how long sandboxes take
 * from one state to the next, what happened to them, and what the host has left. docs/operations.md
 * says what each figure is good for.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

struct core;

/* Any thread. An operation of the table has ended. name is static; result is "ok" or the code of
 * its error; us negative: it never began. */
void core_metrics_operation(struct core *core, const char *name, const char *result, int64_t us);

/* [worker] All of them as text. */
void core_metrics_write(struct core *core, struct buf *out);
