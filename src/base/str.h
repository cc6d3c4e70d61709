/* Strings: strict number parsing, bounded copies, name checks, UTF-8, hex and base64. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *s, const char *prefix);
/* Copies with truncation (never within a UTF-8 character), always terminated; returns false when it
 * had to cut. */
bool str_copy(char *out, size_t out_size, const char *s);
/* Whole string, decimal, no blanks or plus sign; -EINVAL or -ERANGE. */
int str_to_i64(const char *s, int64_t *ret_value);
/* Length of the valid character (1 to 4) at the start of data, 0 when data ends within it (or is
 * empty), -1 when the first byte begins none. */
int utf8_next(const void *data, size_t len);
bool utf8_valid(const void *data, size_t len);
/* Length of the longest prefix of data that does not end within a UTF-8 character. */
size_t utf8_whole_prefix(const void *data, size_t len);
void hex_encode(const void *data, size_t len, char *out); /* 2 * len + 1 bytes */
void base64_encode(const void *data, size_t len, struct buf *out);
/* Strict: padding required, no blanks, one spelling a value; -EINVAL, with out as it was. */
int base64_decode(const char *text, size_t len, struct buf *out);
