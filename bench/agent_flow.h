/*
 * What an agent's channel carries by itself: bytes of one command, as fast as they come, with
 * nothing of the daemon's. Baseline of output streaming and of files.
 */
#pragma once

#include <stdint.h>

#include "agent/agent.h"
#include "loop/loop.h"

#define AGENT_FLOW_BYTES (16u << 20)

/* From the request to the last byte that a command prints. */
int agent_flow_out(struct loop *loop, struct agent *agent, int64_t *ret_us, struct err *err);
/* From the request to the end of a command that reads as much. */
int agent_flow_in(struct loop *loop, struct agent *agent, int64_t *ret_us, struct err *err);
