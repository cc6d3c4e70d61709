/* The head of a client's request as a guest's server gets it. */
#pragma once

#include "api/http.h"
#include "api/preview_target.h"

#define PREVIEW_UPGRADE_SIZE 64

struct preview_forward {
	struct buf head;
	char upgrade[PREVIEW_UPGRADE_SIZE]; /* the protocol that the client asks for; "": none */
	bool chunked;			    /* how the body is to be framed, if there is one */
	bool head_request;
};

/* [worker] query: without the token (NULL: none). strip_authorization: it was for us. -EINVAL, or
 * -E2BIG ("headers_too_large"). Clear with preview_forward_clear, also after a failure. */
int preview_forward_make(const struct http_request *req, const struct preview_target *target,
			 const char *query, bool strip_authorization, struct preview_forward *ret,
			 struct err *err);
void preview_forward_clear(struct preview_forward *forward);
