/*
 * Messages for the tests, written by hand: so that they can be wrong in any way, and do not share a
 * writer with what they test.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/buf.h"

static inline void dns_put16(struct buf *b, unsigned value)
{
	buf_append_char(b, (char)(value >> 8));
	buf_append_char(b, (char)value);
}

static inline void dns_put32(struct buf *b, uint32_t value)
{
	dns_put16(b, value >> 16);
	dns_put16(b, value & 0xffff);
}

/* Labels separated by dots; "" is the root. */
static inline void dns_put_name(struct buf *b, const char *name)
{
	while (*name) {
		size_t n = strcspn(name, ".");

		buf_append_char(b, (char)n);
		buf_append(b, name, n);
		name += n;
		if (*name == '.')
			name++;
	}
	buf_append_char(b, 0);
}

static inline void dns_put_header(struct buf *b, unsigned id, unsigned flags, unsigned questions,
				  unsigned answers)
{
	dns_put16(b, id);
	dns_put16(b, flags);
	dns_put16(b, questions);
	dns_put16(b, answers);
	dns_put16(b, 0);
	dns_put16(b, 0);
}

static inline void dns_put_question(struct buf *b, const char *name, unsigned type)
{
	dns_put_name(b, name);
	dns_put16(b, type);
	dns_put16(b, 1);
}

static inline void dns_put_record(struct buf *b, const char *owner, unsigned type, uint32_t ttl_s,
				  const void *data, size_t len)
{
	dns_put_name(b, owner);
	dns_put16(b, type);
	dns_put16(b, 1);
	dns_put32(b, ttl_s);
	dns_put16(b, (unsigned)len);
	buf_append(b, data, len);
}

static inline void dns_put_a(struct buf *b, const char *owner, uint32_t ttl_s, uint32_t address)
{
	const uint8_t bytes[4] = { (uint8_t)(address >> 24), (uint8_t)(address >> 16),
				   (uint8_t)(address >> 8), (uint8_t)address };

	dns_put_record(b, owner, 1, ttl_s, bytes, 4);
}

static inline void dns_put_cname(struct buf *b, const char *owner, uint32_t ttl_s,
				 const char *target)
{
	struct buf name = BUF_INIT;

	dns_put_name(&name, target);
	dns_put_record(b, owner, 5, ttl_s, name.data, name.len);
	buf_clear(&name);
}
