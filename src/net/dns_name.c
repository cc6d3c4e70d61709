/* Names on the wire. */
#include "net/dns_name.h"

#include <errno.h>
#include <string.h>

void dns_name_of_host(const char *host, struct dns_name *ret)
{
	size_t at = 0;

	while (*host) {
		size_t n = strcspn(host, ".");

		ret->wire[at++] = (uint8_t)n;
		memcpy(ret->wire + at, host, n);
		at += n;
		host += n;
		if (*host == '.')
			host++;
	}
	ret->wire[at++] = 0;
	ret->len = (uint8_t)at;
}

int dns_name_of_wire(const uint8_t *data, size_t len, struct dns_name *ret)
{
	size_t at = 0;

	if (len == 0 || len > DNS_NAME_MAX)
		return -EINVAL;
	while (at < len && data[at] != 0) {
		if (data[at] > HOSTNAME_LABEL_MAX)
			return -EINVAL;
		at += (size_t)data[at] + 1;
	}
	if (at != len - 1)
		return -EINVAL;
	memcpy(ret->wire, data, len);
	ret->len = (uint8_t)len;
	return 0;
}

int dns_name_to_host(const struct dns_name *name, char out[HOSTNAME_MAX + 1])
{
	char text[DNS_NAME_MAX];
	size_t len = 0;

	for (size_t at = 0; name->wire[at] != 0; at += (size_t)name->wire[at] + 1) {
		size_t n = name->wire[at];

		if (memchr(name->wire + at + 1, '.', n))
			return -EINVAL;
		if (len > 0)
			text[len++] = '.';
		memcpy(text + len, name->wire + at + 1, n);
		len += n;
	}
	return hostname_canon(text, len, out, NULL);
}

/* Lengths are at most 63 and so below every letter: they need no care of their own. */
static uint8_t fold(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

bool dns_name_equal(const struct dns_name *a, const struct dns_name *b)
{
	if (a->len != b->len)
		return false;
	for (size_t i = 0; i < a->len; i++) {
		if (fold(a->wire[i]) != fold(b->wire[i]))
			return false;
	}
	return true;
}
