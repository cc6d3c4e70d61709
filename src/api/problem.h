/*
 * Failures as HTTP answers: RFC 9457 problem details with our stable code. The one place where a
 * code becomes a status.
 */
#pragma once

#include <jansson.h>

#include "api/http.h"
#include "base/err.h"

unsigned int problem_status(const struct err *err);
const char *problem_title(unsigned int status);

/* {"type", "title", "status", "detail", "code", "hint"?, "request_id"}; owned. Text of internal
 * failures (500) that have no code of their own is kept from the caller: it is logged instead. */
json_t *problem_json(unsigned int status, const struct err *err, const char *request_id);

/* Answers with the problem; adds WWW-Authenticate to 401 and Retry-After to 503 and
 * "rate_limited". */
void problem_respond(struct http_request *req, const struct err *err);
/* As above with a status of its own and one more header (NULL: none). */
void problem_respond_with(struct http_request *req, unsigned int status, const struct err *err,
			  const struct http_extra_header *header);
