/*
 * The documentation as answers: pages of docs/ below /docs/, their index at /llms.txt, all of them
 * at /llms-full.txt. Plain text, without a key, with the limits, sizes and prices of this server.
 */
#pragma once

#include <stdbool.h>

#include "api/http.h"
#include "core/limits.h"

struct docs;

struct docs *docs_new(const struct core_limits *limits);
void docs_free(struct docs *docs); /* NULL is fine */

/* Whether a path is the documentation's. */
bool docs_takes(const struct http_request *req);
/* [libmicrohttpd's thread] Answers a GET or HEAD at once, from memory. */
void docs_serve(const struct docs *docs, struct http_request *req);
