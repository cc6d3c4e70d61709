/*
 * Which port of which sandbox a request is for, and the URLs that say so. Pure.
 *
 *	by path   http://HOST/preview/<id>/<port>/…           on the API's own host
 *	by host   http://<port>-<id>.<domain>/…               a host, and so an origin, of its own
 *
 * The domain is the configured one. On a loopback address, "localhost" always is one too: browsers
 * and curl resolve every name below it to the loopback address.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define PREVIEW_PATH	  "/preview/"
#define PREVIEW_QUERY	  "skerry_preview" /* the parameter that carries a token */
#define PREVIEW_ID_SIZE	  24
#define PREVIEW_NAME_SIZE 254

struct preview_domain {		      /* of [server] preview_domain */
	char name[PREVIEW_NAME_SIZE]; /* lower case; "": none */
	char scheme[6];		      /* "": the server's own */
	char port[6];		      /* "": the scheme's own, or with no scheme the server's */
};

struct preview_target {
	bool by_host;
	const char *scheme; /* the domain's own; NULL: the server's */
	char id[PREVIEW_ID_SIZE];
	uint16_t port;
	char prefix[64]; /* of paths, without a slash at its end; "" by host */
	/* What is left of the path, within what was given: begins with a slash, or is empty. */
	const char *rest;
};

/* "previews.example.com", "https://previews.example.com", "previews.example.com:8443". -EINVAL. */
int preview_domain_parse(const char *text, struct preview_domain *ret, struct err *err);

/* host and path as a request has them. 0; -ENOENT: not a preview's; -EINVAL: the address of a
 * preview that cannot be. domain may be NULL. */
int preview_target_find(const char *host, const char *path, const struct preview_domain *domain,
			bool loopback, struct preview_target *ret);

/* Appends the origin that a preview has by host: "http://8000-sbx_aa.previews.example.com". */
void preview_own_origin(const struct preview_domain *domain, const char *origin, const char *id,
			uint16_t port, struct buf *out);
/* Appends the URL of a preview with its token. origin is that of the API ("http://127.0.0.1:7171").
 */
void preview_url(const struct preview_domain *domain, const char *origin, const char *id,
		 uint16_t port, const char *token, struct buf *out);

/* Takes the token's parameter out of a query (without its '?'; NULL: none): appends the rest, and
 * the raw value of the first such parameter to token. Whether there was one. */
bool preview_query_split(const char *query, struct buf *rest, struct buf *token);
