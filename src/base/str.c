/* Strings, UTF-8, hex and base64. Everything takes (pointer, length) where outsiders supply it. */
#include "base/str.h"

#include <errno.h>
#include <string.h>

bool str_eq(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_copy(char *out, size_t out_size, const char *s)
{
	size_t len = strlen(s);
	bool fits = len < out_size;

	if (out_size == 0)
		return false;
	if (!fits)
		len = utf8_whole_prefix(s, out_size - 1);
	memcpy(out, s, len);
	out[len] = '\0';
	return fits;
}

int str_to_i64(const char *s, int64_t *ret_value)
{
	bool negative = *s == '-';
	int64_t value = 0;

	s += negative;
	if (*s == '\0')
		return -EINVAL;
	for (const char *p = s; *p; p++) {
		if (*p < '0' || *p > '9')
			return -EINVAL;
	}
	for (; *s; s++) {
		int digit = *s - '0';

		/* Towards the sign, because INT64_MIN has no positive twin. */
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, negative ? -digit : digit, &value))
			return -ERANGE;
	}
	*ret_value = value;
	return 0;
}

int utf8_next(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint8_t low = 0x80, high = 0xbf; /* bounds of the second byte */
	int need;

	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		need = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		need = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		need = 4;
	else
		return -1;
	/* The tighter bounds refuse overlong forms, surrogates and what is above U+10FFFF. */
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (int i = 1; i < need; i++) {
		if ((size_t)i >= len)
			return 0;
		if (p[i] < low || p[i] > high)
			return -1;
		low = 0x80;
		high = 0xbf;
	}
	return need;
}

bool utf8_valid(const void *data, size_t len)
{
	const uint64_t high_bits = 0x8080808080808080;
	const uint8_t *p = data;

	while (len > 0) {
		uint64_t eight;
		int n;

		/* Most text is ASCII, and most of that in long runs. */
		if (len >= sizeof(eight)) {
			memcpy(&eight, p, sizeof(eight));
			if (!(eight & high_bits)) {
				p += sizeof(eight);
				len -= sizeof(eight);
				continue;
			}
		}
		n = utf8_next(p, len);
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

size_t utf8_whole_prefix(const void *data, size_t len)
{
	const uint8_t *p = data;

	/* Only the last three bytes can begin a character that is not complete. */
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		uint8_t c = p[len - back];

		if (c >= 0x80 && c <= 0xbf)
			continue;
		return utf8_next(p + len - back, back) == 0 ? len - back : len;
	}
	return len;
}

void hex_encode(const void *data, size_t len, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		out[2 * i] = digits[p[i] >> 4];
		out[2 * i + 1] = digits[p[i] & 0xf];
	}
	out[2 * len] = '\0';
}

static const char base64_alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *data, size_t len, struct buf *out)
{
	const uint8_t *p = data;

	buf_reserve(out, len / 3 * 4 + 4);
	for (; len > 0; p += 3) {
		uint32_t group = (uint32_t)p[0] << 16;
		char text[4] = { 0, 0, '=', '=' };

		if (len > 1)
			group |= (uint32_t)p[1] << 8;
		if (len > 2)
			group |= p[2];
		text[0] = base64_alphabet[group >> 18];
		text[1] = base64_alphabet[group >> 12 & 63];
		if (len > 1)
			text[2] = base64_alphabet[group >> 6 & 63];
		if (len > 2)
			text[3] = base64_alphabet[group & 63];
		buf_append(out, text, sizeof(text));
		len = len > 3 ? len - 3 : 0;
	}
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

/* Decodes one group of four characters, the last `pad` of them '='; the bits that padding cuts off
 * must be zero, so that every value has one spelling only. */
static int base64_decode_group(const char *text, size_t pad, uint8_t out[3])
{
	uint32_t group = 0;

	for (size_t i = 0; i < 4; i++) {
		int value = i < 4 - pad ? base64_value(text[i]) : 0;

		if (value < 0)
			return -EINVAL;
		group = group << 6 | (uint32_t)value;
	}
	if ((pad == 1 && (group & 0xff)) || (pad == 2 && (group & 0xffff)))
		return -EINVAL;
	out[0] = (uint8_t)(group >> 16);
	out[1] = (uint8_t)(group >> 8);
	out[2] = (uint8_t)group;
	return 0;
}

int base64_decode(const char *text, size_t len, struct buf *out)
{
	size_t start = out->len;

	if (len % 4 != 0)
		return -EINVAL;
	buf_reserve(out, len / 4 * 3);
	for (size_t i = 0; i < len; i += 4) {
		size_t pad = 0;
		uint8_t bytes[3];

		if (i + 4 == len && text[i + 3] == '=')
			pad = text[i + 2] == '=' ? 2 : 1;
		if (base64_decode_group(text + i, pad, bytes) < 0) {
			out->len = start;
			out->data[start] = '\0';
			return -EINVAL;
		}
		buf_append(out, bytes, 3 - pad);
	}
	return 0;
}
