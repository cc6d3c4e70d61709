/* Cookies of sessions, and where requests with them come from. */
#include "api/session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/origin.h"
#include "base/str.h"

#define NAME	    "skerry_session"
#define SECURE_NAME "__Host-" NAME

bool session_cookie_find(const char *header, bool tls, const char **ret_token, size_t *ret_len)
{
	const char *name = tls ? SECURE_NAME : NAME;
	const size_t name_len = strlen(name);

	while (header && *header) {
		size_t len;

		header += strspn(header, " ;");
		len = strcspn(header, ";");
		if (len > name_len && header[name_len] == '=' &&
		    memcmp(header, name, name_len) == 0) {
			*ret_token = header + name_len + 1;
			*ret_len = len - name_len - 1;
			return true;
		}
		header += len;
	}
	return false;
}

void session_cookie_make(const char *token, bool tls, int64_t max_age_s,
			 char ret[SESSION_COOKIE_SIZE])
{
	snprintf(ret, SESSION_COOKIE_SIZE,
		 "%s=%s; Path=/; Max-Age=%" PRId64 "; HttpOnly; SameSite=Strict%s",
		 tls ? SECURE_NAME : NAME, token, max_age_s, tls ? "; Secure" : "");
}

/* What only looks: a page of another origin that made the browser ask cannot read the answer. */
static bool only_looks(const struct http_request *req)
{
	const char *method = http_method(req);

	return (str_eq(method, "GET") || str_eq(method, "HEAD")) && !http_header(req, "Upgrade");
}

int session_check_origin(const struct http_request *req, struct err *err)
{
	const char *origin = http_header(req, "Origin");
	const char *site = http_header(req, "Sec-Fetch-Site");
	bool own = origin && origin_is_same(origin, http_header(req, "Host"), http_is_tls(req));

	if (origin && !own)
		return err_code(err, -EPERM, "forbidden_origin",
				"a page of another origin cannot use this session (Origin: %.100s)",
				origin);
	if (site && !str_eq(site, "same-origin") && !(str_eq(site, "none") && only_looks(req)))
		return err_code(err, -EPERM, "forbidden_origin",
				"only this server's own pages can use a session (Sec-Fetch-Site: "
				"%.20s)",
				site);
	if (own || site || only_looks(req))
		return 0;
	err_code(err, -EPERM, "forbidden_origin",
		 "a request with a session's cookie that changes something must say which page it "
		 "is from");
	err_hint(err, "programs use a key: Authorization: Bearer KEY");
	return -EPERM;
}
