/*
 * A stream that may be compressed: gzip, zstd, or neither, told by its first bytes. Memory is
 * bounded whatever the stream says (zstd windows of 128 MiB at most).
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct inflate;

struct inflate *inflate_new(int fd);   /* borrowed; read from where it stands */
void inflate_free(struct inflate *in); /* NULL is fine */
/* The next bytes; 0 at the end; -EBADMSG for a stream that is damaged or of another kind. */
ssize_t inflate_read(struct inflate *in, void *out, size_t size, struct err *err);
