/*
 * The REST surface, and the router in front of every surface: Host and Origin, the fixed routes
 * (/healthz, /readyz, /metrics, /openapi.json, /.well-known, the dashboard, the docs), /mcp, /v1
 * from the operations table, and previews of what sandboxes serve.
 */
#pragma once

#include "api/http.h"
#include "api/preview_target.h"
#include "core/core.h"

struct rest;

struct rest_config {
	struct loop *loop; /* borrowed */
	struct pool *pool; /* borrowed */
	struct core *core; /* borrowed */
	const char *const
		*allowed_hosts; /* more names on loopback; NULL-terminated, may be NULL; borrowed */
	http_handler_fn mcp;	/* for /mcp and /mcp/ */
	void *mcp_arg;
	const struct preview_domain *preview_domain; /* borrowed; NULL: none */
	bool metrics_open;			     /* /metrics takes no key */
};

struct rest *rest_new(const struct rest_config *config);
void rest_free(struct rest *rest); /* after the HTTP server; NULL is fine */

/* [worker] The server's handler; arg is the struct rest. */
void rest_handle(void *arg, struct http_request *req);
/* The server's passes: previews are. */
bool rest_passes(void *arg, const struct http_request *req);
/* The server's is_quick: short reads are. */
bool rest_is_quick(void *arg, struct http_request *req);
