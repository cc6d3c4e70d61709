/*
 * A growable byte buffer that is also our string type. data is always NUL-terminated (the NUL is
 * not counted in len), also when empty. Small allocations that fail abort the process (see
 * alloc.h): every size that an outsider chooses is capped before it gets here.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct buf {
	char *data;
	size_t len;
	size_t cap;
};

#define BUF_INIT ((struct buf){ 0 })

void buf_clear(struct buf *b);		       /* frees the storage; b is reusable */
void buf_reset(struct buf *b);		       /* len = 0, storage kept */
void buf_reserve(struct buf *b, size_t extra); /* room for extra more bytes */
void buf_append(struct buf *b, const void *data, size_t len);
void buf_append_str(struct buf *b, const char *s);
void buf_append_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_drop_front(struct buf *b, size_t n); /* removes the first n bytes; n <= len */
char *buf_take(struct buf *b);		      /* caller frees; b is empty then; never NULL */
const char *buf_str(const struct buf *b);     /* "" when nothing was ever appended */

#define _cleanup_buf_ _cleanup_(buf_clear)
