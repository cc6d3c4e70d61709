/* One request to a guest's server and its answer: between an HTTP request that is passed on and a
 * socket into the sandbox. */
#pragma once

#include "api/http.h"
#include "api/preview_forward.h"
#include "api/preview_target.h"
#include "core/preview.h"
#include "loop/loop.h"

struct preview_exchange;

struct preview_exchange_setup {
	struct core *core;
	struct loop *loop;
	struct http_request *req;
	const struct preview_target *target;
	struct preview_forward *forward; /* its contents are taken over */
	const struct principal *who;	 /* NULL: a token was checked */
	int64_t expires_unix_ms;	 /* of the token; the exchange ends then. 0: never */
};

/* [worker] Connects, passes the request on, and answers it, whatever happens. */
void preview_exchange_run(const struct preview_exchange_setup *setup);
