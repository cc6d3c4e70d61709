/*
 * Where a request says that it is for (Host) and from (Origin), as text: what is well formed, what
 * is this machine's own, what is the same. Pure: header values in, NULL where there was none.
 */
#pragma once

#include <stdbool.h>

#define ORIGIN_HOST_MAX 255

/* "name", "name:port", "address", "[v6]:port". */
bool origin_host_valid(const char *host);
/* localhost, 127.0.0.1 or [::1], with any port. */
bool origin_host_is_loopback(const char *host);
/* Its name, without the port, is one of these; NULL-terminated, NULL: none. */
bool origin_host_is_one_of(const char *host, const char *const *names);
/* "https://example.com" is the same origin as host "example.com" when tls. */
bool origin_is_same(const char *origin, const char *host, bool tls);
