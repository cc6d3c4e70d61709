/* Operations on the state of sandboxes: pause, resume, fork, named snapshots. */
#include "api/ops_internal.h"

#include "base/json.h"
#include "base/str.h"

#define _cleanup_sandbox_ _cleanup_(sandbox_info_clear)

int op_pause_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	int rc = core_pause(call->core, &call->who, json_get_str(call->args, "id", ""), &info, err);

	if (rc == 0)
		call->result = ops_sandbox_json(&info);
	return rc;
}

int op_resume_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	int rc =
		core_resume(call->core, &call->who, json_get_str(call->args, "id", ""), &info, err);

	if (rc == 0)
		call->result = ops_sandbox_json(&info);
	return rc;
}

/* ---- fork ---- */

static json_t *words(const char *const *list, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, json_string(list[i]));
	return array;
}

/* What the core guarantees of every child before it answers, and what no one can make distinct from
 * outside of the processes. */
static json_t *report_json(const struct core_fork_result *result)
{
	static const char *const distinct[] = { "id",	"hostname",	  "machine_id",
						"disk", "kernel_entropy", "clock" };
	static const char *const shared[] = { "state of random generators inside processes",
					      "connections to the outside that were open" };
	json_t *json = json_object();

	json_put(json, "distinct", words(distinct, ARRAY_SIZE(distinct)));
	json_put(json, "shared", words(shared, ARRAY_SIZE(shared)));
	json_put_int(json, "source_paused_ms", result->source_held_ms);
	return json;
}

int op_fork_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_(core_fork_result_clear) struct core_fork_result result = { 0 };
	const struct core_fork_request req = {
		.count = (uint32_t)json_get_int(call->args, "count", 1),
		.name = json_get_str(call->args, "name", NULL),
		.timeout_minutes = (uint32_t)json_get_int(call->args, "timeout_minutes", 0),
		.labels = json_object_get(call->args, "labels"),
	};
	json_t *children;
	int rc = core_fork(call->core, &call->who, json_get_str(call->args, "id", ""), &req,
			   &result, err);

	if (rc < 0)
		return rc;
	children = json_array();
	for (size_t i = 0; i < result.n; i++)
		json_array_append_new(children, ops_sandbox_item(call, &result.children[i]));
	call->result = json_object();
	json_put(call->result, "sandboxes", children);
	json_put(call->result, "fork_report", report_json(&result));
	return 0;
}

/* ---- named snapshots ---- */

static json_t *snapshot_json(const struct core_snapshot_info *info)
{
	json_t *json = json_object();

	json_put_str(json, "name", info->name);
	json_put_str(json, "source_id", info->source_id);
	json_put_str(json, "size", info->size);
	json_put(json, "vcpus", json_real(info->milli_vcpus / 1000.0));
	json_put_int(json, "memory_mb", info->memory_mb);
	json_put_int(json, "disk_gb", info->disk_gb);
	json_put_str(json, "image", info->image);
	json_put_int(json, "size_bytes", info->size_bytes);
	json_put_time(json, "created_at", info->created_unix_ms);
	return json;
}

int op_create_snapshot(struct op_call *call, struct err *err)
{
	struct core_snapshot_info info;
	int rc = core_snapshot_create(call->core, &call->who, json_get_str(call->args, "id", ""),
				      json_get_str(call->args, "name", ""), &info, err);

	if (rc == 0)
		call->result = snapshot_json(&info);
	return rc;
}

int op_list_snapshots(struct op_call *call, struct err *err)
{
	_cleanup_free_ struct core_snapshot_info *infos = NULL;
	json_t *items;
	size_t n = 0;
	int rc = core_snapshot_list(call->core, &call->who, &infos, &n, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, snapshot_json(&infos[i]));
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put_str(call->result, "next_cursor", NULL);
	return 0;
}

int op_remove_snapshot(struct op_call *call, struct err *err)
{
	const char *name = json_get_str(call->args, "name", "");
	int rc = core_snapshot_remove(call->core, &call->who, name, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "name", name);
	return 0;
}
