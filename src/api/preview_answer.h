/* The headers of a guest's answer as the client gets them. Pure. */
#pragma once

#include "api/http.h"
#include "api/preview_head.h"
#include "api/preview_target.h"

#define PREVIEW_ANSWER_HEADERS_MAX (PREVIEW_HEADERS_MAX + 2)

struct preview_answer {
	struct http_extra_header headers[PREVIEW_ANSWER_HEADERS_MAX];
	size_t n;

	/* private: what the headers point into, and where */
	struct buf text;
	size_t name_at[PREVIEW_ANSWER_HEADERS_MAX], value_at[PREVIEW_ANSWER_HEADERS_MAX];
};

/* host: the request's. upgrade: the protocol that the connection goes on with; "": none. */
void preview_answer_make(const struct preview_head *head, const struct preview_target *target,
			 const char *host, const char *upgrade, struct preview_answer *ret);
void preview_answer_clear(struct preview_answer *answer);
