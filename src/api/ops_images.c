/* Operations on images. */
#include "api/ops_internal.h"

#include <string.h>

#include "base/json.h"

/* Where it was imported from; null of one that was built here. */
static void put_origin(json_t *json, const struct image_info *info)
{
	bool imported = info->source[0];
	json_t *warnings = NULL;

	json_put_str(json, "source", imported ? info->source : NULL);
	json_put_str(json, "source_digest", imported ? info->source_digest : NULL);
	json_put_time(json, "imported_at", imported ? info->created_unix_ms : 0);
	if (info->warnings[0])
		(void)json_parse(info->warnings, strlen(info->warnings), &warnings, NULL);
	json_put(json, "warnings", warnings ? warnings : json_array());
}

static json_t *image_json(const struct image_info *info)
{
	json_t *json = json_object();

	json_put_str(json, "name", info->name);
	json_put_str(json, "digest", info->digest);
	json_put_int(json, "size_bytes", info->size_bytes);
	json_put_int(json, "allocated_bytes", info->allocated_bytes);
	json_put_time(json, "created_at", info->created_unix_ms);
	json_put_str(json, "user", info->user);
	json_put_str(json, "workdir", info->workdir);
	put_origin(json, info);
	return json;
}

int op_list_images(struct op_call *call, struct err *err)
{
	_cleanup_free_ struct image_info *infos = NULL;
	json_t *items;
	size_t n = 0;
	int rc = core_image_list(call->core, &infos, &n, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, image_json(&infos[i]));
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put_str(call->result, "next_cursor", NULL);
	return 0;
}

static void relay_progress(void *arg, int percent, const char *what)
{
	struct op_call *call = arg;

	if (call->progress)
		call->progress(call, percent, what);
}

int op_build_image(struct op_call *call, struct err *err)
{
	struct image_info info = { 0 };
	int rc = core_image_build(call->core, &call->who, json_get_str(call->args, "name", ""),
				  json_get_bool(call->args, "rebuild", false), relay_progress, call,
				  &info, err);

	if (rc == 0)
		call->result = image_json(&info);
	return rc;
}

int op_import_image(struct op_call *call, struct err *err)
{
	const struct core_image_import req = {
		.source = json_get_str(call->args, "source", ""),
		.name = json_get_str(call->args, "name", NULL),
		.replace = json_get_bool(call->args, "replace", false),
		.any_certificate = !json_get_bool(call->args, "tls_verify", true),
	};
	struct image_info info = { 0 };
	int rc = core_image_import(call->core, &call->who, &req, relay_progress, call, &info, err);

	if (rc == 0)
		call->result = image_json(&info);
	return rc;
}

int op_remove_image(struct op_call *call, struct err *err)
{
	const char *name = json_get_str(call->args, "name", "");
	int rc = core_image_remove(call->core, &call->who, name, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "name", name);
	return 0;
}
