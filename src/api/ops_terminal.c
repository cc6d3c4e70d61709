/* Operations on terminals. Opening one is a WebSocket: terminal.c. */
#include "api/ops_internal.h"

#include <errno.h>

#include "base/json.h"
#include "core/terminal.h"

/* Whoever comes here and not to terminal_serve has not come by HTTP. */
int op_open_terminal(struct op_call *call, struct err *err)
{
	return err_code(err, -EPROTO, "upgrade_required",
			"a terminal is a WebSocket, at GET /v1/sandboxes/ID/terminal");
}

static json_t *terminal_json(const struct core_terminal_info *info)
{
	json_t *json = json_object();

	json_put_str(json, "terminal_id", info->terminal_id);
	json_put_time(json, "created_at", info->created_unix_ms);
	json_put_int(json, "cols", info->cols);
	json_put_int(json, "rows", info->rows);
	json_put_int(json, "output_bytes", (int64_t)info->output_bytes);
	json_put(json, "busy", json_boolean(info->busy));
	json_put(json, "attached", json_boolean(info->attached));
	return json;
}

int op_list_terminals(struct op_call *call, struct err *err)
{
	_cleanup_free_ struct core_terminal_info *list = NULL;
	json_t *items;
	size_t n;
	int rc = core_terminal_list(call->core, &call->who, json_get_str(call->args, "id", ""),
				    &list, &n, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, terminal_json(&list[i]));
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put(call->result, "next_cursor", json_null());
	return 0;
}

int op_end_terminal(struct op_call *call, struct err *err)
{
	const char *terminal_id = json_get_str(call->args, "terminal_id", "");
	int rc = core_terminal_end(call->core, &call->who, json_get_str(call->args, "id", ""),
				   terminal_id, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "terminal_id", terminal_id);
	return 0;
}
