/*
 * Cookies at the border between browser, daemon and guest. Names that begin with "skerry_" (also
 * behind the prefixes __Host- and __Secure-) are the daemon's: they are not shown to a guest, and a
 * guest cannot set them. What a guest sets is confined to its own host, and on a host that it
 * shares with the API, to its own path. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define PREVIEW_COOKIE "skerry_preview"

/* The next value of the access cookie at or after *at (which moves on); a browser may have several.
 * false: no more. */
bool preview_cookie_next(const char *header, size_t len, size_t *at, const char **ret_value,
			 size_t *ret_len);
/* Appends a Cookie header's value without the daemon's cookies; nothing when none is left. */
void preview_cookie_strip(const char *header, size_t len, struct buf *out);
/* Appends a guest's Set-Cookie value without Domain, and with its Path below prefix ("" when the
 * host is its own). false, with nothing appended: it must not be set. */
bool preview_set_cookie_confine(const char *value, size_t len, const char *prefix, struct buf *out);
/* Appends a Location below prefix where it is on the request's own host; otherwise as it is. */
void preview_location_confine(const char *value, size_t len, const char *prefix, const char *host,
			      struct buf *out);
