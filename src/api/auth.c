/* Host, Origin and key of a request. */
#include "api/auth.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/origin.h"
#include "api/session.h"
#include "base/alloc.h"
#include "base/str.h"
#include "core/session.h"

#define KEY_MAX 256

int auth_check_host(const struct http_request *req, const char *const *allowed_hosts,
		    struct err *err)
{
	const char *host = http_header(req, "Host");

	if (!origin_host_valid(host))
		return err_code(err, -EINVAL, "invalid_host", "the Host header is %s",
				host ? "not a host name or address with an optional port"
				     : "missing");
	if (http_is_loopback(req) && !origin_host_is_loopback(host) &&
	    !origin_host_is_one_of(host, allowed_hosts)) {
		err_code(err, -EPERM, "forbidden_host",
			 "host \"%.100s\" is not served on a loopback address", host);
		err_hint(err, "use localhost, 127.0.0.1 or [::1], or add the name to "
			      "allowed_hosts in section [server] of the configuration");
		return -EPERM;
	}
	return 0;
}

int auth_check_origin(const struct http_request *req, const char *const *allowed_hosts,
		      struct err *err)
{
	const char *host = http_header(req, "Host");
	const char *origin = http_header(req, "Origin");
	int rc = auth_check_host(req, allowed_hosts, err);

	if (rc < 0)
		return rc;
	if (origin && !origin_is_same(origin, host, http_is_tls(req)))
		return err_code(
			err, -EPERM, "forbidden_origin",
			"requests of web pages of other origins are not served (Origin: %.100s)",
			origin);
	return 0;
}

void auth_own_origin(const struct http_request *req, char out[AUTH_ORIGIN_SIZE])
{
	snprintf(out, AUTH_ORIGIN_SIZE, "%s://%.*s", http_is_tls(req) ? "https" : "http",
		 ORIGIN_HOST_MAX, http_header(req, "Host"));
}

int auth_check_key(struct core *core, const struct http_request *req, struct principal *ret,
		   struct err *err)
{
	static const char scheme[] = "Bearer ";
	const char *header = http_header(req, "Authorization");
	const char *key;
	size_t len;

	if (!header &&
	    session_cookie_find(http_header(req, "Cookie"), http_is_tls(req), &key, &len)) {
		int rc = session_check_origin(req, err);

		return rc < 0 ? rc : core_session_authenticate(core, key, len, ret, err);
	}
	if (!header) {
		err_code(err, -EACCES, "invalid_key", "the request has no key");
		err_hint(err, "send the header Authorization: Bearer KEY; the first key is in "
			      "admin.key of the server's state directory");
		return -EACCES;
	}
	if (strncasecmp(header, scheme, strlen(scheme)) != 0)
		return err_code(err, -EACCES, "invalid_key",
				"the Authorization header is not of the form \"Bearer KEY\"");
	key = header + strlen(scheme);
	key += strspn(key, " ");
	len = strlen(key);
	if (len < 1 || len > KEY_MAX)
		return err_code(err, -EACCES, "invalid_key", "the key is not valid");
	return core_authenticate(core, key, len, ret, err);
}

static bool is_good(const void *arg)
{
	return principal_is_good(arg);
}

static void release(void *arg)
{
	principal_clear(arg);
	free(arg);
}

void auth_hold(struct http_request *req, const struct principal *who)
{
	struct principal *held = xcalloc(1, sizeof(*held));
	const struct http_holder holder = { .good = is_good, .release = release, .arg = held };

	principal_copy(held, who);
	http_hold(req, &holder);
}

bool auth_has_ended(struct http_request *req, struct err *err)
{
	if (http_held_by_good(req))
		return false;
	err_code(err, -EACCES, "invalid_key", "the key was revoked, or has expired");
	err_hint(err, "commands in sandboxes go on; come back with a key that is good");
	return true;
}
