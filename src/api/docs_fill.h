/*
 * Pages with what this server has filled in. In a page
 *
 *	<!-- limit:NAME -->15 min<!-- / -->	a limit, as people write it
 *	<!-- table:NAME -->			"sizes", "prices" or "operations"
 *	| …
 *	<!-- / -->
 *
 * mark what depends on the configuration; between them stands what the defaults give, so that the
 * repository reads well too. Pure; no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/limits.h"

enum docs_form {
	DOCS_SERVED, /* without marks and other comments, which are for those who write pages */
	DOCS_SOURCE, /* with all of them, as in the repository */
};

/* Appends the page to out. -EINVAL: a mark that is not closed, or names what there is not. */
int docs_fill(const char *text, size_t len, const struct core_limits *limits, enum docs_form form,
	      struct buf *out, struct err *err);

/* The reference: all operations with their arguments and results (docs_reference.c). */
void docs_reference(const struct core_limits *limits, struct buf *out);
