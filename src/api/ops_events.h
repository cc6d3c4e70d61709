/* What the two ways to read events, as pages and as a stream, share. */
#pragma once

#include "api/ops.h"

/* {id, at, type, sandbox_id, data}; owned. */
json_t *event_json(const struct core_event *event);
/* {from, to}; owned. */
json_t *event_gap_json(const struct core_event_gap *gap);
/* Borrows from the call's arguments. */
struct core_event_filter event_filter_of(const struct op_call *call);
