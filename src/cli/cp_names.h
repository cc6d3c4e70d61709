/* The two ends of a copy, as people write them. Pure. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct cp_end {
	char *sandbox; /* NULL: on this machine */
	char *path;    /* "" in a sandbox: the home */
};
void cp_end_clear(struct cp_end *end);

/* "SANDBOX:PATH" is in a sandbox; with a slash before the first colon, or without a colon, it is
 * here ("./a:b" too). "-" is stdin or stdout. */
void cp_end_parse(const char *text, struct cp_end *ret);
/* Exactly one of them in a sandbox; -EINVAL ("usage"). */
int cp_ends_check(const struct cp_end *from, const struct cp_end *to, struct err *err);
/* The last part of a path without slashes at its end; "" for one that names a directory by where
 * it is ("/", ".", ".."). Appended. */
void cp_base_name(const char *path, struct buf *out);
/* path, a slash where there is none, name. Appended. */
void cp_join(const char *path, const char *name, struct buf *out);
