/*
 * The cookie of a session (core/session.h). It opens what the key opens that it was given for, but
 * only to this server's own pages: SameSite=Strict keeps it from requests that pages of other sites
 * make, and because a site is more than an origin (all ports of a host, all hosts of a domain) a
 * request with it must also show where it comes from.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/http.h"
#include "base/err.h"

#define SESSION_COOKIE_SIZE 160 /* as OP_COOKIE_SIZE */

/* The session's token in a Cookie header's value (NULL: none). Under TLS its name has the prefix
 * __Host-, which keeps hosts of the same domain from setting it. Pure. */
bool session_cookie_find(const char *header, bool tls, const char **ret_token, size_t *ret_len);
/* A Set-Cookie value; max_age_s 0 takes it away. */
void session_cookie_make(const char *token, bool tls, int64_t max_age_s,
			 char ret[SESSION_COOKIE_SIZE]);
/* Whether a request with a cookie comes from a page of this server, or is a person's own going to
 * it. Origin was compared with Host already where there is one. -EPERM ("forbidden_origin"). */
int session_check_origin(const struct http_request *req, struct err *err);
