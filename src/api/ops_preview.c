/* The operation that makes a link to a port of a sandbox. */
#include "api/ops_internal.h"

#include "api/preview_target.h"
#include "base/json.h"
#include "core/preview.h"

int op_expose_port(struct op_call *call, struct err *err)
{
	const char *id = json_get_str(call->args, "id", "");
	uint16_t port = (uint16_t)json_get_int(call->args, "port", 0);
	char token[CORE_PREVIEW_TOKEN_SIZE];
	_cleanup_buf_ struct buf url = BUF_INIT;
	int64_t expires_unix_ms;
	int rc = core_preview_sign(call->core, &call->who, id, port,
				   (uint32_t)json_get_int(call->args, "ttl_minutes", 0), token,
				   &expires_unix_ms, err);

	if (rc < 0)
		return rc;
	preview_url(call->preview_domain, call->origin, id, port, token, &url);
	call->result = json_object();
	json_put_str(call->result, "url", buf_str(&url));
	json_put_time(call->result, "expires_at", expires_unix_ms);
	return 0;
}
