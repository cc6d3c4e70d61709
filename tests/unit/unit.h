/* What every unit test includes: cmocka with the headers it wants before it, and a scratch folder.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

#define SCRATCH_SIZE 256

/* Makes a folder of its own under TMPDIR. */
static inline void scratch_make(char out[SCRATCH_SIZE])
{
	const char *base = getenv("TMPDIR");

	snprintf(out, SCRATCH_SIZE, "%s/skerry-unit-XXXXXX", base ? base : "/tmp");
	assert_non_null(mkdtemp(out));
}

static inline void scratch_remove(const char *path)
{
	assert_int_equal(tree_remove(path), 0);
	assert_int_equal(access(path, F_OK), -1);
}
