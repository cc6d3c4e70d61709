/* The life of a sandbox. */
#include "core/status.h"

#include <assert.h>
#include <errno.h>

#include "base/str.h"

static const char *const names[] = {
	[SANDBOX_CREATING] = "creating",   [SANDBOX_RUNNING] = "running",
	[SANDBOX_PAUSING] = "pausing",	   [SANDBOX_PAUSED] = "paused",
	[SANDBOX_RESUMING] = "resuming",   [SANDBOX_DESTROYING] = "destroying",
	[SANDBOX_DESTROYED] = "destroyed", [SANDBOX_FAILED] = "failed",
};

#define TO(status) (1u << SANDBOX_##status)

/* Destroying is allowed from wherever it has not ended, and so is ending by itself: a deadline, a
 * crash and a restart of the host ask nobody. An end is final. */
#define TO_THE_END (TO(DESTROYING) | TO(DESTROYED) | TO(FAILED))

static const unsigned int moves[] = {
	[SANDBOX_CREATING] = TO(RUNNING) | TO_THE_END,
	[SANDBOX_RUNNING] = TO(PAUSING) | TO_THE_END,
	[SANDBOX_PAUSING] = TO(PAUSED) | TO(RUNNING) | TO_THE_END,
	[SANDBOX_PAUSED] = TO(RESUMING) | TO_THE_END,
	[SANDBOX_RESUMING] = TO(RUNNING) | TO(PAUSED) | TO_THE_END,
	[SANDBOX_DESTROYING] = TO(DESTROYED) | TO(FAILED),
	[SANDBOX_DESTROYED] = 0,
	[SANDBOX_FAILED] = 0,
};
static_assert(ARRAY_SIZE(names) == ARRAY_SIZE(moves), "a row for every status");

const char *sandbox_status_name(enum sandbox_status status)
{
	return names[status];
}

int sandbox_status_parse(const char *name, enum sandbox_status *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(name, names[i])) {
			*ret = (enum sandbox_status)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool sandbox_move_allowed(enum sandbox_status from, enum sandbox_status to)
{
	return moves[from] & (1u << to);
}

bool sandbox_status_ended(enum sandbox_status status)
{
	return status == SANDBOX_DESTROYED || status == SANDBOX_FAILED;
}
