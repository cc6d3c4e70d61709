/*
 * Who may see a preview: whoever has the account's key (Authorization: Bearer KEY), or a token for
 * this port, in the URL or in the cookie that the URL was exchanged for. Neither reaches the guest.
 */
#pragma once

#include "api/http.h"
#include "api/preview_target.h"
#include "core/preview.h"

struct preview_access {
	enum { PREVIEW_BY_KEY, PREVIEW_BY_TOKEN, PREVIEW_BY_COOKIE } by;
	struct principal who;	 /* by key */
	int64_t expires_unix_ms; /* of the token; 0: by key */
	bool strip_authorization;
	bool has_query;
	struct buf query; /* without the token */
	struct buf token; /* as it was in the query */
};

/* [worker] -EACCES: "invalid_key", "preview_denied", "preview_expired"; -EPERM: "forbidden_origin",
 * "scope_denied" (by key it needs the scope that makes links); -ENOENT: not in the key's scope. */
int preview_access_check(struct core *core, const struct http_request *req,
			 const struct preview_target *target, struct preview_access *ret,
			 struct err *err);
/* Also after a failure. */
void preview_access_clear(struct preview_access *access);

/* "https://host:port", as the browser that made the request has it. */
void preview_origin(const struct http_request *req, const struct preview_target *target,
		    struct buf *out);
/* A browser that goes to a page with a token in its address: exchange it for a cookie. */
bool preview_wants_cookie(const struct http_request *req, const struct preview_access *access);
/* Answers with the cookie and the address without the token. */
void preview_give_cookie(struct http_request *req, const struct preview_target *target,
			 const struct preview_access *access);
