/* Whether this daemon should be sent work. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct core;

/* [worker] *ret_checks: an array of {name, ok, detail}, owned by the caller. What it says is for
 * anybody to read. */
bool core_is_ready(struct core *core, json_t **ret_checks);
