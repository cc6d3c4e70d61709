/* Operations on sandboxes as a whole: list, create, get, extend, destroy. */
#include "api/ops_internal.h"

#include <errno.h>
#include <math.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

#define _cleanup_sandbox_ _cleanup_(sandbox_info_clear)

static void put_shape(json_t *json, const struct sandbox_info *info)
{
	json_put_str(json, "size", info->size);
	if (info->milli_vcpus % 1000 == 0)
		json_put_int(json, "vcpus", info->milli_vcpus / 1000);
	else
		json_put(json, "vcpus", json_real(info->milli_vcpus / 1000.0));
	json_put_int(json, "memory_mb", info->memory_mb);
	json_put_int(json, "disk_gb", info->disk_gb);
}

/* A paused one has no deadline, but a rest. */
static void put_deadline(json_t *json, const struct sandbox_info *info)
{
	if (info->status != SANDBOX_PAUSED) {
		json_put_time(json, "expires_at", info->expires_unix_ms);
		return;
	}
	json_put_str(json, "expires_at", NULL);
	json_put_int(json, "remaining_seconds", info->remaining_ms / 1000);
}

static void put_end(json_t *json, const struct sandbox_info *info)
{
	if (!info->ended_unix_ms && !info->reason[0])
		return;
	json_put_time(json, "ended_at", info->ended_unix_ms);
	json_put_str(json, "reason", info->reason);
	json_put_str(json, "reason_text", info->reason_text);
}

static void put_network(json_t *json, const struct sandbox_info *info)
{
	json_t *traffic = json_object();

	json_put(json, "egress", info->egress ? json_incref(info->egress) : json_array());
	json_put(json, "networks", info->networks ? json_incref(info->networks) : json_array());
	json_put_str(json, "address", info->address[0] ? info->address : NULL);
	json_put_int(traffic, "out_bytes", (json_int_t)info->out_bytes);
	json_put_int(traffic, "out_packets", (json_int_t)info->out_packets);
	json_put_int(traffic, "in_bytes", (json_int_t)info->in_bytes);
	json_put_int(traffic, "in_packets", (json_int_t)info->in_packets);
	json_put_int(traffic, "denied_packets", (json_int_t)info->denied_packets);
	json_put(json, "traffic", traffic);
}

json_t *ops_sandbox_json(const struct sandbox_info *info)
{
	json_t *json = json_object();

	json_put_str(json, "id", info->id);
	json_put_str(json, "name", info->name[0] ? info->name : NULL);
	json_put_str(json, "status", sandbox_status_name(info->status));
	put_shape(json, info);
	json_put_str(json, "image", info->image);
	json_put_str(json, "isolation", info->isolation);
	json_put_time(json, "created_at", info->created_unix_ms);
	put_deadline(json, info);
	json_put_str(json, "on_timeout", info->pause_on_timeout ? "pause" : "destroy");
	if (info->idle_pause_minutes)
		json_put_int(json, "idle_pause_minutes", info->idle_pause_minutes);
	json_put_str(json, "parent_id", info->parent_id[0] ? info->parent_id : NULL);
	json_put(json, "labels", info->labels ? json_incref(info->labels) : json_object());
	json_put_int(json, "generation", (json_int_t)info->generation);
	put_network(json, info);
	put_end(json, info);
	return json;
}

/* In a list for a model: what it needs to choose and to go on. */
static json_t *sandbox_line(const struct sandbox_info *info)
{
	json_t *json = json_object();

	json_put_str(json, "id", info->id);
	if (info->name[0])
		json_put_str(json, "name", info->name);
	json_put_str(json, "status", sandbox_status_name(info->status));
	json_put_str(json, "size", info->size);
	json_put_str(json, "image", info->image);
	put_deadline(json, info);
	if (json_object_size(info->labels) > 0)
		json_put(json, "labels", json_incref(info->labels));
	put_end(json, info);
	return json;
}

json_t *ops_sandbox_item(const struct op_call *call, const struct sandbox_info *info)
{
	return call->surface == OP_SURFACE_MCP ? sandbox_line(info) : ops_sandbox_json(info);
}

static const char *sandbox_id(const struct op_call *call)
{
	return json_get_str(call->args, "id", "");
}

static int list_one(struct op_call *call, json_t *items, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	int rc = core_get(call->core, &call->who, sandbox_id(call), &info, err);

	if (rc == 0)
		json_array_append_new(items, ops_sandbox_item(call, &info));
	return rc;
}

static int list_some(struct op_call *call, json_t *items, char **ret_cursor, struct err *err)
{
	const struct core_list_request req = {
		.status = json_get_str(call->args, "status", NULL),
		.image = json_get_str(call->args, "image", NULL),
		.label = json_get_str(call->args, "label", NULL),
		.cursor = json_get_str(call->args, "cursor", NULL),
		.limit = (uint32_t)json_get_int(call->args, "limit", 0),
	};
	struct sandbox_info *infos = NULL;
	size_t n = 0;
	int rc = core_list(call->core, &call->who, &req, &infos, &n, ret_cursor, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, ops_sandbox_item(call, &infos[i]));
	core_list_clear(infos, n);
	return 0;
}

int op_list_sandboxes(struct op_call *call, struct err *err)
{
	_cleanup_json_ json_t *items = json_array();
	_cleanup_free_ char *cursor = NULL;
	int rc;

	if (json_object_get(call->args, "id"))
		rc = list_one(call, items, err);
	else
		rc = list_some(call, items, &cursor, err);
	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put(call->result, "items", STEAL(items));
	json_put_str(call->result, "next_cursor", cursor);
	return 0;
}

/* The same arguments in any order and spelling have the same hash. */
static void hash_args(const json_t *args, char out[65])
{
	char *text = json_dumps(args, JSON_COMPACT | JSON_SORT_KEYS);
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	if (!text || EVP_Digest(text, strlen(text), digest, &len, EVP_sha256(), NULL) != 1 ||
	    len != 32) {
		log_error("arguments cannot be hashed", "%s", "");
		abort();
	}
	free(text);
	hex_encode(digest, len, out);
}

static int check_shape(const struct op_call *call, struct err *err)
{
	static const char *const parts[] = { "vcpus", "memory_mb", "disk_gb" };
	size_t given = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		given += json_object_get(call->args, parts[i]) != NULL;
	if (given == 0)
		return 0;
	if (json_object_get(call->args, "size"))
		return err_code(
			err, -EINVAL, "invalid_argument",
			"arguments \"size\" and \"vcpus\", \"memory_mb\", \"disk_gb\" exclude each "
			"other: give a size, or all three of the others");
	if (given < ARRAY_SIZE(parts))
		return err_code(err, -EINVAL, "invalid_argument",
				"arguments \"vcpus\", \"memory_mb\" and \"disk_gb\" belong "
				"together: %zu of "
				"the three were given",
				given);
	return 0;
}

static void relay_progress(void *arg, int percent, const char *what)
{
	struct op_call *call = arg;

	if (call->progress)
		call->progress(call, percent, what);
}

int op_create_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	char hash[65];
	const double vcpus = json_number_value(json_object_get(call->args, "vcpus"));
	const struct core_create_request req = {
		.size = json_get_str(call->args, "size", NULL),
		.milli_vcpus = (uint32_t)lround(vcpus * 1000),
		.memory_mb = (uint32_t)json_get_int(call->args, "memory_mb", 0),
		.disk_gb = (uint32_t)json_get_int(call->args, "disk_gb", 0),
		.timeout_minutes = (uint32_t)json_get_int(call->args, "timeout_minutes", 0),
		.image = json_get_str(call->args, "image", NULL),
		.name = json_get_str(call->args, "name", NULL),
		.labels = json_object_get(call->args, "labels"),
		.snapshot = json_get_str(call->args, "snapshot", NULL),
		.egress = json_object_get(call->args, "egress"),
		.networks = json_object_get(call->args, "networks"),
		.pause_on_timeout =
			str_eq(json_get_str(call->args, "on_timeout", "destroy"), "pause"),
		.idle_pause_minutes = (uint32_t)json_get_int(call->args, "idle_pause_minutes", 0),
		.idempotency_key = call->idempotency_key,
		.request_hash = call->idempotency_key ? hash : NULL,
	};
	int rc = check_shape(call, err);

	if (rc < 0)
		return rc;
	hash_args(call->args, hash);
	rc = core_create(call->core, &call->who, &req, relay_progress, call, &info, err);
	if (rc < 0)
		return rc;
	call->result = ops_sandbox_json(&info);
	return 0;
}

int op_get_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	int rc = core_get(call->core, &call->who, sandbox_id(call), &info, err);

	if (rc == 0)
		call->result = ops_sandbox_json(&info);
	return rc;
}

int op_extend_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	const uint32_t minutes = (uint32_t)json_get_int(call->args, "additional_minutes", 0);
	int rc = core_extend(call->core, &call->who, sandbox_id(call), minutes, &info, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "id", info.id);
	json_put_time(call->result, "expires_at", info.expires_unix_ms);
	return 0;
}

int op_destroy_sandbox(struct op_call *call, struct err *err)
{
	_cleanup_sandbox_ struct sandbox_info info = { 0 };
	int rc = core_destroy(call->core, &call->who, sandbox_id(call), &info, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "id", info.id);
	json_put_str(call->result, "status", sandbox_status_name(info.status));
	return 0;
}
