/*
 * From a request to its exchange: which port, who asks, what is passed on.
 *
 * The API's checks of Host and Origin keep web pages from the API. A preview is a web page's own
 * server, so that they are not for it: what stands in their place is in preview_access.c. By path
 * it is on the API's host all the same, and so the check of that host stays (DNS rebinding).
 *
 * What keeps a preview's page from the API is its origin. On the API's own, where previews by path
 * are, the cookie of somebody who is signed in at the dashboard would open the API to any script.
 * So pages are by host only: a browser that comes by path is sent there, and where there is no such
 * host it is refused. Programs, which run no scripts, get by path what they ask for.
 */
#include "api/preview.h"

#include <errno.h>
#include <string.h>

#include "api/auth.h"
#include "api/preview_access.h"
#include "api/preview_exchange.h"
#include "api/preview_forward.h"
#include "api/problem.h"
#include "base/str.h"

static int find(const struct preview_config *config, const struct http_request *req,
		struct preview_target *ret)
{
	return preview_target_find(http_header(req, "Host"), http_path(req), config->domain,
				   http_is_loopback(req), ret);
}

bool preview_takes(const struct preview_config *config, const struct http_request *req)
{
	struct preview_target target;

	return find(config, req, &target) != -ENOENT;
}

static int check_request(const struct preview_config *config, const struct http_request *req,
			 struct preview_target *target, struct err *err)
{
	const char *method = http_method(req);

	if (find(config, req, target) < 0) {
		err_code(err, -ENOENT, "not_found", "this is not the address of a preview");
		err_hint(err, "previews are at /preview/SANDBOX/PORT/; expose gives the URL");
		return -ENOENT;
	}
	if (str_eq(method, "CONNECT") || str_eq(method, "TRACE"))
		return err_code(err, -EOPNOTSUPP, "method_not_allowed", "previews take no %s",
				method);
	return target->by_host ? 0 : auth_check_host(req, config->allowed_hosts, err);
}

/* "/preview/ID/PORT" without a slash: relative addresses in the page would lead astray. */
static void add_slash(struct http_request *req, const struct preview_target *target)
{
	_cleanup_buf_ struct buf location = BUF_INIT;
	const char *query = http_query(req);

	buf_printf(&location, "%s/%s%s", target->prefix, query ? "?" : "", query ? query : "");
	http_respond(req, 308, NULL, NULL,
		     (const struct http_extra_header[]){ { "Location", buf_str(&location) },
							 { "Referrer-Policy", "no-referrer" } },
		     2);
}

/* Browsers say so: by the first two, wherever a page matters, and by the third since ever.
 * Sec-Fetch-Mode alone is said by programs too (fetch of Node). */
static bool is_browser(const struct http_request *req)
{
	const char *agent = http_header(req, "User-Agent");

	return http_header(req, "Sec-Fetch-Site") || http_header(req, "Sec-Fetch-Dest") ||
	       (agent && strstr(agent, "Mozilla/"));
}

static bool must_be_by_host(const struct http_request *req, const struct preview_target *target,
			    const struct preview_access *access)
{
	return !target->by_host && access->by != PREVIEW_BY_KEY && is_browser(req);
}

static int send_to_host(const struct preview_config *config, struct http_request *req,
			const struct preview_target *target, const struct preview_access *access,
			struct err *err)
{
	static const struct preview_domain loopback = { .name = "localhost" };
	const struct preview_domain *domain = config->domain;
	_cleanup_buf_ struct buf location = BUF_INIT;
	char origin[AUTH_ORIGIN_SIZE];

	if ((!domain || !domain->name[0]) && http_is_loopback(req))
		domain = &loopback;
	if (!domain || !domain->name[0] || access->by != PREVIEW_BY_TOKEN) {
		err_code(err, -EPERM, "preview_needs_host",
			 "a browser is not shown previews on the dashboard's own host");
		err_hint(err, "set preview_domain in section [server] of the configuration, and "
			      "expose the port again");
		return -EPERM;
	}
	auth_own_origin(req, origin);
	preview_own_origin(domain, origin, target->id, target->port, &location);
	buf_printf(&location, "%s?%s", target->rest, http_query(req));
	http_respond(req, 307, NULL, NULL,
		     (const struct http_extra_header[]){ { "Location", buf_str(&location) },
							 { "Referrer-Policy", "no-referrer" } },
		     2);
	return 0;
}

static int pass_on(const struct preview_config *config, struct http_request *req,
		   const struct preview_target *target, const struct preview_access *access,
		   struct err *err)
{
	struct preview_forward forward;
	const struct preview_exchange_setup setup = {
		.core = config->core,
		.loop = config->loop,
		.req = req,
		.target = target,
		.forward = &forward,
		.who = access->by == PREVIEW_BY_KEY ? &access->who : NULL,
		.expires_unix_ms = access->expires_unix_ms,
	};
	int rc;

	if (access->by == PREVIEW_BY_KEY)
		auth_hold(req, &access->who);
	rc = preview_forward_make(req, target, access->has_query ? buf_str(&access->query) : NULL,
				  access->strip_authorization, &forward, err);

	if (rc == 0)
		preview_exchange_run(&setup);
	preview_forward_clear(&forward);
	return rc;
}

void preview_handle(const struct preview_config *config, struct http_request *req)
{
	struct preview_target target = { 0 };
	struct preview_access access = { 0 };
	struct err err = ERR_INIT;
	int rc = check_request(config, req, &target, &err);

	if (rc < 0) {
		problem_respond(req, &err);
		return;
	}
	http_log_fields(req, "sandbox=%s port=%u", target.id, target.port);
	if (!target.rest[0]) {
		add_slash(req, &target);
		return;
	}
	rc = preview_access_check(config->core, req, &target, &access, &err);
	if (rc == 0 && must_be_by_host(req, &target, &access))
		rc = send_to_host(config, req, &target, &access, &err);
	else if (rc == 0 && preview_wants_cookie(req, &access))
		preview_give_cookie(req, &target, &access);
	else if (rc == 0)
		rc = pass_on(config, req, &target, &access, &err);
	if (rc < 0)
		problem_respond(req, &err);
	preview_access_clear(&access);
}
