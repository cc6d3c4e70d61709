/* The life of a sandbox as a table of allowed moves; the words of enum sandbox_status. */
#pragma once

#include <stdbool.h>

#include "core/core.h"

bool sandbox_move_allowed(enum sandbox_status from, enum sandbox_status to);
/* Whether nothing of it may run any more. */
bool sandbox_status_ended(enum sandbox_status status);
