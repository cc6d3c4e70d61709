/* What the router and those who answer a request share: the call that is under way, and events. */
#include <stdlib.h>

#include "api/rest_internal.h"
#include "base/json.h"

void rest_call_free(struct rest_call *rc)
{
	op_call_clear(&rc->call);
	free(rc->idempotency_key);
	free(rc);
}

int64_t rest_heartbeat_ms(const struct rest_call *rc)
{
	return core_limits(rc->call.core)->stream_heartbeat_ms;
}

void rest_append_event(struct buf *out, const char *name, const json_t *data)
{
	buf_printf(out, "event: %s\ndata: ", name);
	json_write(data, out);
	buf_append_str(out, "\n\n");
}
