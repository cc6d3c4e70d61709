/*
 * Places where a test lets the daemon die: between two steps that the world can see. In a build
 * with -Dabort_points=true the process ends without any cleaning up at the place that
 * SKERRY_ABORT_AT names; in any other build there is nothing.
 */
#pragma once

#ifdef SKERRY_ABORT_POINTS
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

#define ABORT_POINT_STATUS 77

static inline void abort_point(const char *name)
{
	const char *wanted = getenv("SKERRY_ABORT_AT");

	if (wanted && str_eq(wanted, name))
		_exit(ABORT_POINT_STATUS);
}
#else
static inline void abort_point(const char *name)
{
	(void)name;
}
#endif
