/*
 * First commands in a guest that nobody uses yet, so that those of its user find everything warm:
 * the page cache, and under emulation the translated code. Of the core, and of the benchmarks,
 * whose templates must be like the core's.
 */
#pragma once

#include "agent/agent.h"
#include "base/err.h"
#include "loop/loop.h"

/* From the last command to the saving of a template: what the guest's kernel still does on its own
 * account (timers of the block layer, callbacks) is over then. */
#define WARM_UP_SETTLE_MS 500

/* Runs the commands, one after the other, as this user (NULL: the guest's own). An image without a
 * shell is warm as it is. [worker] */
int warm_up(struct loop *loop, struct agent *agent, const char *user, struct err *err);
