/*
 * Pages are filled in once, when the server starts: what is in them changes with its configuration
 * alone. Their media type is text/plain, which browsers show; text/markdown they would save.
 */
#include "api/docs.h"

#include <errno.h>
#include <string.h>
#include <openssl/sha.h>

#include "api/docs_fill.h"
#include "api/problem.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "docs/docs.h"

#define FOLDER	   "/docs/"
#define INDEX	   "/llms.txt"
#define WHOLE	   "/llms-full.txt"
#define TYPE	   "text/plain; charset=utf-8"
#define ETAG_BYTES 16

struct text {
	char path[64];
	struct buf content;
	char etag[2 * ETAG_BYTES + 3]; /* with its quotes */
};

struct docs {
	struct text *texts; /* the index first, the whole last */
	size_t n;
};

/* ---- making them ---- */

static void seal(struct text *text)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)buf_str(&text->content), text->content.len, digest);
	text->etag[0] = '"';
	hex_encode(digest, ETAG_BYTES, text->etag + 1);
	str_copy(text->etag + 1 + 2 * ETAG_BYTES, 2, "\"");
}

static void fill_page(struct text *text, const struct docs_page *page,
		      const struct core_limits *limits)
{
	struct err err = ERR_INIT;

	if (docs_fill(page->text, page->len, limits, DOCS_SERVED, &text->content, &err) < 0) {
		log_error("a page of the documentation has a mark that is none",
			  "page=%s error=\"%s\"", page->name, err.message);
		abort(); /* our own text; test_docs looks at every page */
	}
}

struct docs *docs_new(const struct core_limits *limits)
{
	struct docs *docs = xcalloc(1, sizeof(*docs));
	struct text *whole;

	docs->n = n_docs_pages + 1;
	docs->texts = xcalloc(docs->n, sizeof(*docs->texts));
	whole = &docs->texts[docs->n - 1];
	str_copy(whole->path, sizeof(whole->path), WHOLE);
	for (size_t i = 0; i < n_docs_pages; i++) {
		const struct docs_page *page = &docs_pages[i];
		struct text *text = &docs->texts[i];

		snprintf(text->path, sizeof(text->path), "%s%s", i == 0 ? "/" : FOLDER, page->name);
		fill_page(text, page, limits);
		seal(text);
		buf_printf(&whole->content, "%s", i == 0 ? "" : "\n\n");
		buf_append(&whole->content, text->content.data, text->content.len);
	}
	seal(whole);
	return docs;
}

void docs_free(struct docs *docs)
{
	if (!docs)
		return;
	for (size_t i = 0; i < docs->n; i++)
		buf_clear(&docs->texts[i].content);
	free(docs->texts);
	free(docs);
}

/* ---- serving them ---- */

bool docs_takes(const struct http_request *req)
{
	const char *path = http_path(req);

	return str_eq(path, INDEX) || str_eq(path, WHOLE) || str_eq(path, "/docs") ||
	       str_starts(path, FOLDER);
}

/* "/docs/egress" is "/docs/egress.md", and "/docs" the index. */
static const struct text *find(const struct docs *docs, const char *path)
{
	if (str_eq(path, "/docs") || str_eq(path, FOLDER))
		path = INDEX;
	for (size_t i = 0; i < docs->n; i++) {
		const char *own = docs->texts[i].path;
		const size_t len = strlen(path);

		if (strncmp(own, path, len) == 0 && (!own[len] || str_eq(own + len, ".md")))
			return &docs->texts[i];
	}
	return NULL;
}

static void respond_unknown(struct http_request *req)
{
	struct err err = ERR_INIT;

	err_code(&err, -ENOENT, "not_found", "the documentation has no page %.100s",
		 http_path(req));
	err_hint(&err, "its pages are listed in " INDEX);
	problem_respond(req, &err);
}

void docs_serve(const struct docs *docs, struct http_request *req)
{
	const struct text *text = find(docs, http_path(req));
	const char *wanted = http_header(req, "If-None-Match");
	struct buf body = BUF_INIT;

	if (!text) {
		respond_unknown(req);
		return;
	}
	const struct http_extra_header headers[] = {
		{ "ETag", text->etag },
		{ "Cache-Control", "no-cache" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
	};

	if (wanted && strstr(wanted, text->etag)) {
		http_respond(req, 304, NULL, NULL, headers, ARRAY_SIZE(headers));
		return;
	}
	buf_append(&body, text->content.data, text->content.len);
	http_respond(req, 200, TYPE, &body, headers, ARRAY_SIZE(headers));
}
