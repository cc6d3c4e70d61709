/*
 * Who may speak to the server: checks of a request's headers that every surface shares. Host and
 * Origin are checked by the router before any surface sees a request; the key is checked by the
 * surface, which words the refusal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "api/http.h"
#include "base/err.h"
#include "core/core.h"

/* The value of WWW-Authenticate on every 401. */
#define AUTH_CHALLENGE "Bearer realm=\"skerry\", error=\"invalid_token\""

/* Authorization: Bearer KEY; without that header, the cookie of a session (api/session.h). -EACCES,
 * code "invalid_key" (answer 401 with AUTH_CHALLENGE); -EPERM ("forbidden_origin": 403). */
int auth_check_key(struct core *core, const struct http_request *req, struct principal *ret,
		   struct err *err);

/* What is answered may take long, or has no end: it ends, within a second, when the key of who asks
 * is revoked or expires. Once a request. */
void auth_hold(struct http_request *req, const struct principal *who);
/* Fills err and returns true where a request ended for that reason, and not because its client
 * left. */
bool auth_has_ended(struct http_request *req, struct err *err);

/* The first half of auth_check_origin: Host alone. */
int auth_check_host(const struct http_request *req, const char *const *allowed_hosts,
		    struct err *err);
/* Host and Origin. On a loopback address only localhost, 127.0.0.1, [::1] (with any port) and the
 * names in allowed_hosts (NULL-terminated, may be NULL) are served, against DNS rebinding; on
 * others any well-formed Host. An Origin must be absent or that of this very server. 0; -EINVAL
 * ("invalid_host": 400), -EPERM ("forbidden_host", "forbidden_origin": 403). */
int auth_check_origin(const struct http_request *req, const char *const *allowed_hosts,
		      struct err *err);

#define AUTH_ORIGIN_SIZE 272
/* Where the client reached this server: "https://host:port". Its Host was checked. */
void auth_own_origin(const struct http_request *req, char out[AUTH_ORIGIN_SIZE]);
