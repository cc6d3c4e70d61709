/*
 * Files of the dashboard as answers.
 *
 * What the page may do is said in its headers: it runs scripts and styles of this server alone,
 * none within the page, sends data nowhere else, and is shown in nobody's frame. So text of a guest
 * that got into the page as markup would be markup and nothing more.
 */
#include "api/dashboard.h"

#include <errno.h>
#include <string.h>

#include "api/problem.h"
#include "base/str.h"
#include "base/ws.h"
#include "dashboard/dashboard.h"

#define PREFIX "/dashboard/"

#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "                \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "        \
	"require-trusted-types-for 'script'; trusted-types 'none'"

bool dashboard_takes(const struct http_request *req)
{
	return str_eq(http_path(req), "/") || str_starts(http_path(req), PREFIX);
}

static const struct dashboard_file *find(const char *path)
{
	for (size_t i = 0; i < n_dashboard_files; i++) {
		if (str_eq(dashboard_files[i].path, path))
			return &dashboard_files[i];
	}
	return NULL;
}

static void respond_unknown(struct http_request *req)
{
	struct err err = ERR_INIT;

	err_code(&err, -ENOENT, "not_found", "the dashboard has no file %.100s", http_path(req));
	err_hint(&err, "it may be of another version: load the page / again");
	problem_respond(req, &err);
}

void dashboard_serve(struct http_request *req)
{
	const struct dashboard_file *file = find(http_path(req));
	const char *wanted = http_header(req, "If-None-Match");
	struct http_extra_header headers[8];
	struct buf body = BUF_INIT;
	const char *etag;
	bool packed;
	size_t n = 0;

	if (!file) {
		respond_unknown(req);
		return;
	}
	packed = ws_list_has(http_header(req, "Accept-Encoding"), "gzip");
	etag = packed ? file->gzip_etag : file->etag;
	headers[n++] = (struct http_extra_header){ "ETag", etag };
	headers[n++] = (struct http_extra_header){ "Vary", "Accept-Encoding" };
	headers[n++] = (struct http_extra_header){
		"Cache-Control",
		str_eq(file->path, "/") ? "no-cache" : "public, max-age=31536000, immutable"
	};
	headers[n++] = (struct http_extra_header){ "Cross-Origin-Resource-Policy", "same-origin" };
	if (str_eq(file->path, "/")) {
		headers[n++] = (struct http_extra_header){ "Content-Security-Policy", POLICY };
		headers[n++] =
			(struct http_extra_header){ "Cross-Origin-Opener-Policy", "same-origin" };
		headers[n++] = (struct http_extra_header){ "Referrer-Policy", "same-origin" };
	}
	if (wanted && strstr(wanted, etag)) {
		http_respond(req, 304, NULL, NULL, headers, n);
		return;
	}
	if (packed)
		headers[n++] = (struct http_extra_header){ "Content-Encoding", "gzip" };
	buf_append(&body, packed ? file->gzip : file->plain,
		   packed ? file->gzip_len : file->plain_len);
	http_respond(req, 200, file->type, &body, headers, n);
}
