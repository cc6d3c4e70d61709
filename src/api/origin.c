/* Hosts and origins. See origin.h. */
#include "api/origin.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

/* Splits "name", "name:port", "[v6]" or "[v6]:port"; name keeps its brackets. */
static bool split_host(const char *host, char name[ORIGIN_HOST_MAX + 1])
{
	size_t len, digits;
	const char *rest;

	if (!host || strlen(host) > ORIGIN_HOST_MAX)
		return false;
	if (host[0] == '[') {
		len = strspn(host + 1, "0123456789abcdefABCDEF:.") + 1;
		if (len < 3 || host[len] != ']')
			return false;
		len++;
	} else {
		len = strspn(host, "0123456789abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._");
	}
	if (len == 0)
		return false;
	rest = host + len;
	if (*rest == ':') {
		digits = strspn(rest + 1, "0123456789");
		if (digits < 1 || digits > 5)
			return false;
		rest += 1 + digits;
	}
	if (*rest)
		return false;
	memcpy(name, host, len);
	name[len] = '\0';
	return true;
}

bool origin_host_valid(const char *host)
{
	char name[ORIGIN_HOST_MAX + 1];

	return split_host(host, name);
}

bool origin_host_is_loopback(const char *host)
{
	char name[ORIGIN_HOST_MAX + 1];

	return split_host(host, name) && (strcasecmp(name, "localhost") == 0 ||
					  str_eq(name, "127.0.0.1") || str_eq(name, "[::1]"));
}

bool origin_is_same(const char *origin, const char *host, bool tls)
{
	const char *scheme = tls ? "https://" : "http://";

	return origin_host_valid(host) && strncasecmp(origin, scheme, strlen(scheme)) == 0 &&
	       strcasecmp(origin + strlen(scheme), host) == 0;
}

bool origin_host_is_one_of(const char *host, const char *const *names)
{
	char name[ORIGIN_HOST_MAX + 1];

	if (!split_host(host, name))
		return false;
	for (size_t i = 0; names && names[i]; i++) {
		if (strcasecmp(names[i], name) == 0)
			return true;
	}
	return false;
}
