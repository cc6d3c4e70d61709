/*
 * Which operation a method and a path ask for, by the templates of the operations table. Pure.
 */
#pragma once

#include <stdbool.h>
#include <jansson.h>

#include "api/ops.h"

#define ROUTE_ALLOW_SIZE 64

struct route {
	const struct op *op;
	json_t *params;		      /* object of the path's arguments; owned; strings that are no
					 UTF-8 become replacement characters, which no id has */
	char allow[ROUTE_ALLOW_SIZE]; /* "GET, HEAD, POST, OPTIONS": what the path would take */
};

/* The operation alone, by the shape of the path: its arguments are not looked at. NULL: none. */
const struct op *route_op(const char *method, const char *path);
/* The route to an operation that route_op has found. 0 or -ENOENT: an argument cannot be decoded.
 */
int route_take(const struct op *op, const char *path, struct route *ret);
/* Both. path as sent, percent-encoded. 0; -ENOENT: no such path; -EOPNOTSUPP: not with this method
 * (allow is set). HEAD is GET. */
int route_find(const char *method, const char *path, struct route *ret);
void route_clear(struct route *route);
