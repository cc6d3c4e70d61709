/*
 * Previews on the HTTP server: requests for a port of a sandbox, by path or by host, are checked
 * and passed on to the server that listens there. docs/previews.md says what users see.
 */
#pragma once

#include "api/http.h"
#include "api/preview_target.h"
#include "core/core.h"

struct preview_config {
	struct core *core;
	struct loop *loop;
	const char *const *allowed_hosts;    /* as the API's: previews by path are on its host */
	const struct preview_domain *domain; /* NULL: none; outlives the server */
};

/* Any thread. Whether a request is for a preview: it is then to be passed on. */
bool preview_takes(const struct preview_config *config, const struct http_request *req);
/* [worker] */
void preview_handle(const struct preview_config *config, struct http_request *req);
