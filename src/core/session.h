/*
 * Sessions of browsers. A page cannot keep a key without every other page of its origin reading it,
 * so it exchanges the key for a cookie that scripts do not see. A session is its key in other
 * words: it may what the key may, and ends with it.
 */
#pragma once

#include "core/core.h"

#define CORE_SESSION_PREFIX	"ses_"
#define CORE_SESSION_RANDOM_LEN 40
#define CORE_SESSION_TOKEN_SIZE (sizeof(CORE_SESSION_PREFIX) + CORE_SESSION_RANDOM_LEN)

/* [worker] Begins one for the key that asks, for session_minutes. Of a key SESSIONS_PER_KEY are
 * kept, the newest. "forbidden" for one who has come by a session. */
int core_session_open(struct core *core, const struct principal *who,
		      char ret_token[CORE_SESSION_TOKEN_SIZE], int64_t *ret_expires_unix_ms,
		      struct err *err);
/* [worker] Ends it; fine when there is none. */
int core_session_close(struct core *core, const char *token, size_t len, struct err *err);
/* Any thread. As core_authenticate, with the text of a cookie. */
int core_session_authenticate(struct core *core, const char *token, size_t len,
			      struct principal *ret, struct err *err);
