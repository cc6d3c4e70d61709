/*
 * Operations on sessions of browsers. The key comes as for every operation, in Authorization, so
 * that it is in no body, and a form of another page cannot sign anybody in.
 */
#include "api/ops_internal.h"

#include <string.h>

#include "api/session.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "core/session.h"

static bool has_tls(const struct op_call *call)
{
	return str_starts(call->origin, "https:");
}

static json_t *session_json(const struct op_call *call)
{
	json_t *json = json_object();

	json_put_str(json, "account_id", call->who.account_id);
	json_put_str(json, "key_id", call->who.key_id);
	json_put(json, "admin", json_boolean(call->who.admin));
	return json;
}

int op_open_session(struct op_call *call, struct err *err)
{
	char token[CORE_SESSION_TOKEN_SIZE];
	int64_t expires_unix_ms;
	int rc = core_session_open(call->core, &call->who, token, &expires_unix_ms, err);

	if (rc < 0)
		return rc;
	session_cookie_make(token, has_tls(call), (expires_unix_ms - clock_unix_ms()) / 1000,
			    call->set_cookie);
	explicit_bzero(token, sizeof(token));
	call->result = session_json(call);
	json_put_time(call->result, "expires_at", expires_unix_ms);
	return 0;
}

int op_get_session(struct op_call *call, struct err *err)
{
	call->result = session_json(call);
	return 0;
}

int op_close_session(struct op_call *call, struct err *err)
{
	const char *token;
	size_t len;
	int rc = 0;

	if (session_cookie_find(call->cookie, has_tls(call), &token, &len))
		rc = core_session_close(call->core, token, len, err);
	if (rc < 0)
		return rc;
	session_cookie_make("", has_tls(call), 0, call->set_cookie);
	call->result = json_object();
	json_put_str(call->result, "key_id", call->who.key_id);
	return 0;
}
