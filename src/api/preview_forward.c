/*
 * What of a request is passed on: everything but what is about the client's own connection, what
 * the daemon says itself (Host, lengths, X-Forwarded-*), and what was for the daemon alone: the
 * key, the token, its cookies.
 *
 * The guest sees the client's Host, so that what it compares with Origin fits. A client's own
 * X-Forwarded-* are dropped: a guest could not tell them from ours.
 */
#include "api/preview_forward.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/preview_cookie.h"
#include "api/preview_head.h"
#include "base/str.h"

/* Leaves room in the connection's memory for the largest head of an answer. */
#define FORWARD_HEAD_MAX_BYTES (24u * 1024)

struct build {
	const struct http_request *req;
	struct preview_forward *forward;
	bool strip_authorization;
	bool bad_value;
};

static bool is_dropped(const struct build *build, const char *name)
{
	static const char *const names[] = { "Host", "Content-Length", "Expect", "Forwarded",
					     "X-Real-IP" };
	const char *connection = http_header(build->req, "Connection");

	if (preview_is_hop_by_hop(name, strlen(name)) ||
	    strncasecmp(name, "X-Forwarded-", strlen("X-Forwarded-")) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcasecmp(name, names[i]) == 0)
			return true;
	}
	if (strcasecmp(name, "Authorization") == 0)
		return build->strip_authorization;
	return connection && preview_list_has(connection, strlen(connection), name, strlen(name));
}

static void add_header(void *arg, const char *name, const char *value)
{
	struct build *build = arg;
	struct buf *out = &build->forward->head;
	size_t before = out->len;

	if (!preview_is_value(value, strlen(value)))
		build->bad_value = true;
	if (build->bad_value || out->len > FORWARD_HEAD_MAX_BYTES || is_dropped(build, name))
		return;
	/* The address of a page that was opened with its token. */
	if (strcasecmp(name, "Referer") == 0 && strstr(value, PREVIEW_QUERY "="))
		return;
	buf_printf(out, "%s: ", name);
	if (strcasecmp(name, "Cookie") != 0) {
		buf_printf(out, "%s\r\n", value);
		return;
	}
	preview_cookie_strip(value, strlen(value), out);
	if (out->data[out->len - 1] == ' ')
		out->len = before; /* none is left */
	else
		buf_append_str(out, "\r\n");
}

static void add_own(struct build *build, const struct preview_target *target)
{
	const struct http_request *req = build->req;
	struct buf *out = &build->forward->head;
	const char *host = http_header(req, "Host"), *length;

	buf_printf(out, "X-Forwarded-For: %s\r\nX-Forwarded-Host: %s\r\nX-Forwarded-Proto: %s\r\n",
		   http_peer(req), host,
		   target->scheme     ? target->scheme
		   : http_is_tls(req) ? "https"
				      : "http");
	if (target->prefix[0])
		buf_printf(out, "X-Forwarded-Prefix: %s\r\n", target->prefix);
	length = http_header(req, "Content-Length");
	if (build->forward->chunked)
		buf_append_str(out, "Transfer-Encoding: chunked\r\n");
	else if (length)
		buf_printf(out, "Content-Length: %s\r\n", length);
	if (build->forward->upgrade[0])
		buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
			   build->forward->upgrade);
	else
		buf_append_str(out, "Connection: close\r\n\r\n");
}

/* One protocol, asked for as RFC 9110 wants it. */
static void find_upgrade(const struct http_request *req, struct preview_forward *forward)
{
	const char *connection = http_header(req, "Connection");
	const char *upgrade = http_header(req, "Upgrade");

	if (!connection || !upgrade || http_has_body(req) || !str_eq(http_method(req), "GET") ||
	    http_header_count(req, "Upgrade") != 1 ||
	    !preview_list_has(connection, strlen(connection), "upgrade", strlen("upgrade")) ||
	    !preview_is_token(upgrade, strlen(upgrade)) ||
	    strlen(upgrade) >= sizeof(forward->upgrade))
		return;
	str_copy(forward->upgrade, sizeof(forward->upgrade), upgrade);
}

static bool is_target_fit(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text <= 0x20 || *text == 0x7f)
			return false;
	}
	return true;
}

int preview_forward_make(const struct http_request *req, const struct preview_target *target,
			 const char *query, bool strip_authorization, struct preview_forward *ret,
			 struct err *err)
{
	struct build build = { .req = req,
			       .forward = ret,
			       .strip_authorization = strip_authorization };

	*ret = (struct preview_forward){ .head_request = str_eq(http_method(req), "HEAD"),
					 .chunked = http_header(req, "Transfer-Encoding") };
	if (!is_target_fit(target->rest) || (query && !is_target_fit(query)) ||
	    !preview_is_token(http_method(req), strlen(http_method(req))))
		return err_code(err, -EINVAL, "bad_request",
				"the request line has bytes that do not belong there");
	find_upgrade(req, ret);
	buf_printf(&ret->head, "%s %s%s%s HTTP/1.1\r\nHost: %s\r\n", http_method(req), target->rest,
		   query && *query ? "?" : "", query ? query : "", http_header(req, "Host"));
	http_header_each(req, add_header, &build);
	if (build.bad_value)
		return err_code(err, -EINVAL, "bad_request",
				"a header of the request has control bytes");
	add_own(&build, target);
	if (ret->head.len > FORWARD_HEAD_MAX_BYTES)
		return err_code(err, -E2BIG, "headers_too_large",
				"the headers of the request are larger than %u bytes",
				FORWARD_HEAD_MAX_BYTES);
	return 0;
}

void preview_forward_clear(struct preview_forward *forward)
{
	buf_clear(&forward->head);
}
