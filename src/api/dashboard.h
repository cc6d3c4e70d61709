/*
 * The dashboard: a page and its files, the same for everybody, without a key. All that it shows it
 * asks the API for, with the cookie of a session (api/session.h).
 */
#pragma once

#include <stdbool.h>

#include "api/http.h"

/* Whether a path is the dashboard's. */
bool dashboard_takes(const struct http_request *req);
/* [libmicrohttpd's thread] Answers a GET or HEAD at once, from memory. */
void dashboard_serve(struct http_request *req);
