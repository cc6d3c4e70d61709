/*
 * The growable buffer. Capacity doubles, so that n appends cost O(n); one byte more than cap is
 * never needed, because the terminating NUL is part of cap.
 */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

#define BUF_MIN_CAP 64

void buf_clear(struct buf *b)
{
	free(b->data);
	*b = BUF_INIT;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

void buf_reserve(struct buf *b, size_t extra)
{
	size_t need, cap;

	if (__builtin_add_overflow(b->len, extra, &need) ||
	    __builtin_add_overflow(need, 1, &need)) {
		log_error("buffer size overflows", "len=%zu extra=%zu", b->len, extra);
		abort();
	}
	if (need <= b->cap)
		return;
	if (__builtin_mul_overflow(b->cap, 2, &cap) || cap < need)
		cap = need;
	if (cap < BUF_MIN_CAP)
		cap = BUF_MIN_CAP;
	b->data = xrealloc(b->data, cap);
	b->cap = cap;
	b->data[b->len] = '\0';
}

void buf_append(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_append_str(struct buf *b, const char *s)
{
	buf_append(b, s, strlen(s));
}

void buf_append_char(struct buf *b, char c)
{
	buf_append(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	size_t room;
	int len;

	va_copy(again, ap);
	buf_reserve(b, BUF_MIN_CAP);
	room = b->cap - b->len;
	len = vsnprintf(b->data + b->len, room, fmt, ap);
	assert(len >= 0);
	if ((size_t)len >= room) { /* the first try was the measure */
		buf_reserve(b, (size_t)len);
		vsnprintf(b->data + b->len, (size_t)len + 1, fmt, again);
	}
	b->len += (size_t)len;
	va_end(again);
}

void buf_drop_front(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n + 1);
	b->len -= n;
}

char *buf_take(struct buf *b)
{
	char *data = b->data ? b->data : xstrdup("");

	*b = BUF_INIT;
	return data;
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}
