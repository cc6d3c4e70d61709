/* Addresses and prefixes. */
#include "net/prefix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static int bad(const char **ret_why, const char *why)
{
	if (ret_why)
		*ret_why = why;
	return -EINVAL;
}

/* Decimal without sign or leading zero, at most max; -1 otherwise. Advances *at behind it. */
static int small_number(const char *text, size_t len, size_t *at, int max)
{
	size_t start = *at;
	int value = 0;

	while (*at < len && text[*at] >= '0' && text[*at] <= '9') {
		value = value * 10 + (text[*at] - '0');
		if (value > max)
			return -1;
		(*at)++;
	}
	if (*at == start || (*at - start > 1 && text[start] == '0'))
		return -1;
	return value;
}

static int parse_ipv4(const char *text, size_t len, struct net_prefix *out, const char **ret_why)
{
	size_t at = 0;

	for (int i = 0; i < 4; i++) {
		size_t start;
		int value;

		if (i > 0 && (at >= len || text[at++] != '.'))
			return bad(ret_why, "is not four numbers with dots between them");
		start = at;
		value = small_number(text, len, &at, 255);
		if (value < 0 && at - start > 1 && text[start] == '0')
			return bad(ret_why, "has a number with a leading zero, which some programs "
					    "read as octal");
		if (value < 0)
			return bad(ret_why, "is not four numbers from 0 to 255");
		out->bytes[i] = (uint8_t)value;
	}
	if (at != len)
		return bad(ret_why, "is not four numbers with dots between them");
	out->family = 4;
	return 0;
}

static int parse_ipv6(const char *text, size_t len, struct net_prefix *out, const char **ret_why)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char copy[INET6_ADDRSTRLEN];

	if (memchr(text, '%', len))
		return bad(ret_why, "has a zone ('%'), which no rule can have");
	if (len >= sizeof(copy) || memchr(text, '\0', len))
		return bad(ret_why, "is not an IPv6 address");
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (inet_pton(AF_INET6, copy, out->bytes) != 1)
		return bad(ret_why, "is not an IPv6 address");
	if (memcmp(out->bytes, mapped, sizeof(mapped)) == 0)
		return bad(ret_why, "is an IPv4 address in IPv6 clothes; write it as IPv4");
	out->family = 6;
	return 0;
}

int prefix_parse(const char *text, size_t len, struct net_prefix *ret, const char **ret_why)
{
	const char *slash = memchr(text, '/', len);
	size_t address_len = slash ? (size_t)(slash - text) : len;
	struct net_prefix prefix = { 0 };
	int r, bits, max;

	if (memchr(text, ':', address_len))
		r = parse_ipv6(text, address_len, &prefix, ret_why);
	else
		r = parse_ipv4(text, address_len, &prefix, ret_why);
	if (r < 0)
		return r;
	bits = max = prefix.family == 4 ? 32 : 128;
	if (slash) {
		size_t at = address_len + 1;

		bits = small_number(text, len, &at, max);
		if (bits < 0 || at != len)
			return bad(ret_why, prefix.family == 4
						    ? "has a prefix length that is not 0 to 32"
						    : "has a prefix length that is not 0 to 128");
	}
	prefix.bits = (uint8_t)bits;
	if (prefix_mask(&prefix))
		return bad(ret_why, "has bits set behind its prefix length");
	*ret = prefix;
	return 0;
}

const char *prefix_print(const struct net_prefix *prefix, char out[PREFIX_TEXT_SIZE])
{
	size_t len;

	inet_ntop(prefix->family == 4 ? AF_INET : AF_INET6, prefix->bytes, out, PREFIX_TEXT_SIZE);
	len = strlen(out);
	if (!prefix_is_address(prefix))
		snprintf(out + len, PREFIX_TEXT_SIZE - len, "/%d", prefix->bits);
	return out;
}

struct net_prefix prefix_of_ipv4(struct in_addr address)
{
	struct net_prefix prefix = { .family = 4, .bits = 32 };

	memcpy(prefix.bytes, &address, 4);
	return prefix;
}

bool prefix_is_address(const struct net_prefix *prefix)
{
	return prefix->bits == (prefix->family == 4 ? 32 : 128);
}

bool prefix_contains(const struct net_prefix *outer, const struct net_prefix *inner)
{
	struct net_prefix cut = *inner;

	if (outer->family != inner->family || outer->bits > inner->bits)
		return false;
	cut.bits = outer->bits;
	prefix_mask(&cut);
	return memcmp(cut.bytes, outer->bytes, sizeof(cut.bytes)) == 0;
}

bool prefix_equal(const struct net_prefix *a, const struct net_prefix *b)
{
	return a->family == b->family && a->bits == b->bits &&
	       memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool prefix_mask(struct net_prefix *prefix)
{
	uint8_t lost = 0;

	for (unsigned i = 0; i < sizeof(prefix->bytes); i++) {
		unsigned first = i * 8; /* number of this byte's first bit */
		uint8_t keep = 0xff;

		if (first >= prefix->bits)
			keep = 0;
		else if (prefix->bits - first < 8)
			keep = (uint8_t)(0xff << (8 - (prefix->bits - first)));
		lost |= prefix->bytes[i] & (uint8_t)~keep;
		prefix->bytes[i] &= keep;
	}
	return lost != 0;
}
