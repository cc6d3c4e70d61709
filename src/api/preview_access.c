/*
 * A page of another origin can make a browser send the cookie along, though SameSite=Lax leaves
 * only navigations for pages of other sites. Pages of other previews below the same domain are of
 * the same site, so a request with an Origin must have the preview's own. A key or a token in the
 * URL needs no such check: no page has them that was not given them.
 */
#include "api/preview_access.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/preview_cookie.h"
#include "base/clock.h"
#include "base/str.h"

#define COOKIES_LOOKED_AT 8
#define KEY_PREFIX	  "Bearer sk_"

static const char open_hint[] = "open the URL that expose gave, or send the header Authorization: "
				"Bearer KEY";

static int denied(struct err *err, const char *code, const char *what)
{
	err_code(err, -EACCES, code, "%s", what);
	err_hint(err, "%s", open_hint);
	return -EACCES;
}

void preview_origin(const struct http_request *req, const struct preview_target *target,
		    struct buf *out)
{
	const char *scheme = target->scheme ? target->scheme : http_is_tls(req) ? "https" : "http";

	buf_printf(out, "%s://%s", scheme, http_header(req, "Host"));
}

static int check_cookie_origin(const struct http_request *req, const struct preview_target *target,
			       struct err *err)
{
	const char *origin = http_header(req, "Origin");
	_cleanup_buf_ struct buf own = BUF_INIT;

	preview_origin(req, target, &own);
	if (!origin || strcasecmp(origin, buf_str(&own)) == 0)
		return 0;
	return err_code(err, -EPERM, "forbidden_origin",
			"a page of another origin cannot use this preview's cookie (Origin: "
			"%.100s)",
			origin);
}

/* Of several cookies (a page can set more for its parent domain) any that is valid will do. */
static int check_cookies(struct core *core, const struct http_request *req,
			 const struct preview_target *target, struct preview_access *access,
			 struct err *err)
{
	const char *header = http_header(req, "Cookie"), *value;
	size_t len, at = 0;
	int rc = -ENOENT;

	for (int i = 0; header && i < COOKIES_LOOKED_AT && rc < 0 &&
			preview_cookie_next(header, strlen(header), &at, &value, &len);
	     i++)
		rc = core_preview_check(core, target->id, target->port, value, len,
					&access->expires_unix_ms, err);
	if (rc == -ENOENT)
		return denied(err, "preview_denied", "this preview needs a key or a link");
	if (rc < 0)
		return rc;
	access->by = PREVIEW_BY_COOKIE;
	return check_cookie_origin(req, target, err);
}

static int check_key(struct core *core, const struct http_request *req,
		     const struct preview_target *target, struct principal *who, struct err *err)
{
	const struct core_action action = {
		.scope = "sandbox:expose",
		.operation = "open_preview",
		.sandbox_id = target->id,
	};
	int rc = auth_check_key(core, req, who, err);

	return rc < 0 ? rc : core_authorize(core, who, &action, err);
}

int preview_access_check(struct core *core, const struct http_request *req,
			 const struct preview_target *target, struct preview_access *ret,
			 struct err *err)
{
	const char *authorization = http_header(req, "Authorization");

	*ret = (struct preview_access){ 0 };
	ret->has_query = http_query(req) != NULL;
	if (authorization && strncasecmp(authorization, KEY_PREFIX, strlen(KEY_PREFIX)) == 0) {
		preview_query_split(http_query(req), &ret->query, &ret->token);
		ret->by = PREVIEW_BY_KEY;
		ret->strip_authorization = true;
		return check_key(core, req, target, &ret->who, err);
	}
	if (preview_query_split(http_query(req), &ret->query, &ret->token)) {
		ret->by = PREVIEW_BY_TOKEN;
		return core_preview_check(core, target->id, target->port, buf_str(&ret->token),
					  ret->token.len, &ret->expires_unix_ms, err);
	}
	return check_cookies(core, req, target, ret, err);
}

void preview_access_clear(struct preview_access *access)
{
	buf_clear(&access->query);
	buf_clear(&access->token);
	principal_clear(&access->who);
}

/* ---- a token in the address of a page ---- */

/* Programs ask for anything, or for what they want; browsers ask for a page where they go to one.
 */
bool preview_wants_cookie(const struct http_request *req, const struct preview_access *access)
{
	const char *accept = http_header(req, "Accept");

	return access->by == PREVIEW_BY_TOKEN && str_eq(http_method(req), "GET") && accept &&
	       strstr(accept, "text/html") && !http_header(req, "Upgrade");
}

void preview_give_cookie(struct http_request *req, const struct preview_target *target,
			 const struct preview_access *access)
{
	int64_t left_s = (access->expires_unix_ms - clock_unix_ms()) / 1000;
	_cleanup_buf_ struct buf location = BUF_INIT, cookie = BUF_INIT;
	bool secure;

	preview_origin(req, target, &location);
	secure = str_starts(buf_str(&location), "https");
	buf_printf(&location, "%s%s%s%s", target->prefix, target->rest,
		   access->query.len ? "?" : "", buf_str(&access->query));
	buf_printf(&cookie,
		   PREVIEW_COOKIE "=%s; Path=%s/; Max-Age=%" PRId64 "; HttpOnly; SameSite=Lax%s",
		   buf_str(&access->token), target->prefix, left_s > 0 ? left_s : 0,
		   secure ? "; Secure" : "");
	http_respond(req, 303, NULL, NULL,
		     (const struct http_extra_header[]){
			     { "Location", buf_str(&location) },
			     { "Set-Cookie", buf_str(&cookie) },
			     { "Referrer-Policy", "no-referrer" },
		     },
		     3);
}
