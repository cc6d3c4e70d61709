/* Operations on accounts and keys. The text of a key is in the answer that makes it, and nowhere
 * else. */
#include <errno.h>
#include <string.h>

#include "api/ops_internal.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "core/keys.h"

static const char *status_of(const struct core_key_info *info)
{
	if (info->revoked_unix_ms)
		return "revoked";
	return info->expires_unix_ms && info->expires_unix_ms <= clock_unix_ms() ? "expired"
										 : "valid";
}

/* text NULL: not given. */
static json_t *key_json(const struct op_call *call, const struct core_key_info *info,
			const char *text)
{
	json_t *json = json_object();

	json_put_str(json, "id", info->id);
	json_put_str(json, "account_id", info->account_id);
	json_put_str(json, "label", info->label);
	json_put_str(json, "prefix", info->prefix);
	json_put_str(json, "status", status_of(info));
	json_put(json, "admin", json_boolean(info->admin));
	json_put(json, "scopes", json_incref(info->scopes));
	json_put(json, "current", json_boolean(str_eq(info->id, call->who.key_id)));
	json_put_time(json, "created_at", info->created_unix_ms);
	json_put_str(json, "created_by", info->created_by[0] ? info->created_by : NULL);
	json_put_time(json, "expires_at", info->expires_unix_ms);
	json_put_time(json, "rotated_at", info->rotated_unix_ms);
	json_put_time(json, "revoked_at", info->revoked_unix_ms);
	if (text)
		json_put_str(json, "key", text);
	return json;
}

/* ---- what a scope names ---- */

static bool is_scope(const char *name)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		if (str_eq(ops[i].scope, name))
			return true;
	}
	return false;
}

static void append_scopes(struct buf *text)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		bool known = false;

		for (size_t k = 0; k < i; k++)
			known |= str_eq(ops[k].scope, ops[i].scope);
		if (!known)
			buf_printf(text, "%s%s", text->len ? ", " : "", ops[i].scope);
	}
}

/* A name that means nothing would make a key that does less than its maker thinks. */
static int check_operations(const json_t *scopes, struct err *err)
{
	_cleanup_buf_ struct buf known = BUF_INIT;
	const json_t *value;
	size_t i;

	json_array_foreach(json_object_get(scopes, "operations"), i, value) {
		const char *name = json_string_value(value);

		if (is_scope(name) || ops_find(name))
			continue;
		append_scopes(&known);
		err_code(err, -EINVAL, "invalid_argument",
			 "argument \"scopes.operations\": there is no scope or operation '%.64s'",
			 name);
		err_hint(err, "scopes are %s; operations are named as in /openapi.json",
			 buf_str(&known));
		return -EINVAL;
	}
	return 0;
}

static int check_sizes(const struct op_call *call, const json_t *scopes, struct err *err)
{
	const json_t *value;
	size_t i;

	json_array_foreach(json_object_get(scopes, "sizes"), i, value) {
		const char *name = json_string_value(value);

		if (!str_eq(name, "custom") && !core_limits_size(core_limits(call->core), name))
			return err_code(err, -EINVAL, "invalid_argument",
					"argument \"scopes.sizes\": there is no size '%.64s'",
					name);
	}
	return 0;
}

/* ---- keys ---- */

int op_create_key(struct op_call *call, struct err *err)
{
	const json_t *scopes = json_object_get(call->args, "scopes");
	const struct core_key_request req = {
		.account_id = json_get_str(call->args, "account_id", NULL),
		.label = json_get_str(call->args, "label", ""),
		.admin = json_get_bool(call->args, "admin", false),
		.scopes = scopes,
		.ttl_minutes = json_get_int(call->args, "ttl_minutes", 0),
	};
	char text[CORE_KEY_TEXT_SIZE];
	struct core_key_info info = { 0 };
	int rc = check_operations(scopes, err);

	if (rc == 0)
		rc = check_sizes(call, scopes, err);
	if (rc == 0)
		rc = core_key_create(call->core, &call->who, &req, text, &info, err);
	if (rc < 0)
		return rc;
	call->result = key_json(call, &info, text);
	explicit_bzero(text, sizeof(text));
	core_key_info_clear(&info);
	return 0;
}

int op_list_keys(struct op_call *call, struct err *err)
{
	const struct core_key_list_request req = {
		.account_id = json_get_str(call->args, "account_id", NULL),
		.all = str_eq(json_get_str(call->args, "status", "valid"), "all"),
		.cursor = json_get_str(call->args, "cursor", NULL),
		.limit = (uint32_t)json_get_int(call->args, "limit", 0),
	};
	_cleanup_free_ char *next = NULL;
	struct core_key_info *infos = NULL;
	json_t *items;
	size_t n = 0;
	int rc = core_key_list(call->core, &call->who, &req, &infos, &n, &next, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, key_json(call, &infos[i], NULL));
	core_key_infos_free(infos, n);
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put_str(call->result, "next_cursor", next);
	return 0;
}

int op_rotate_key(struct op_call *call, struct err *err)
{
	char text[CORE_KEY_TEXT_SIZE];
	struct core_key_info info = { 0 };
	int rc = core_key_rotate(call->core, &call->who,
				 json_get_str(call->args, "account_id", NULL),
				 json_get_str(call->args, "id", ""),
				 json_get_int(call->args, "overlap_seconds", 0), text, &info, err);

	if (rc < 0)
		return rc;
	call->result = key_json(call, &info, text);
	explicit_bzero(text, sizeof(text));
	core_key_info_clear(&info);
	return 0;
}

int op_revoke_key(struct op_call *call, struct err *err)
{
	struct core_key_info info = { 0 };
	int rc = core_key_revoke(call->core, &call->who,
				 json_get_str(call->args, "account_id", NULL),
				 json_get_str(call->args, "id", ""), &info, err);

	if (rc < 0)
		return rc;
	call->result = key_json(call, &info, NULL);
	core_key_info_clear(&info);
	return 0;
}

/* ---- accounts ---- */

static json_t *account_json(const struct core_account_info *info)
{
	json_t *json = json_object();

	json_put_str(json, "id", info->id);
	json_put_str(json, "name", info->name);
	json_put(json, "admin", json_boolean(info->admin));
	json_put_time(json, "created_at", info->created_unix_ms);
	return json;
}

int op_create_account(struct op_call *call, struct err *err)
{
	char text[CORE_KEY_TEXT_SIZE];
	struct core_account_info account;
	struct core_key_info key = { 0 };
	int rc = core_account_create(call->core, &call->who, json_get_str(call->args, "name", ""),
				     json_get_bool(call->args, "admin", false), &account, text,
				     &key, err);

	if (rc < 0)
		return rc;
	call->result = account_json(&account);
	json_put(call->result, "key", key_json(call, &key, text));
	explicit_bzero(text, sizeof(text));
	core_key_info_clear(&key);
	return 0;
}

int op_list_accounts(struct op_call *call, struct err *err)
{
	_cleanup_free_ struct core_account_info *infos = NULL;
	_cleanup_free_ char *next = NULL;
	json_t *items;
	size_t n = 0;
	int rc = core_account_list(call->core, &call->who, json_get_str(call->args, "cursor", NULL),
				   (uint32_t)json_get_int(call->args, "limit", 0), &infos, &n,
				   &next, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, account_json(&infos[i]));
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put_str(call->result, "next_cursor", next);
	return 0;
}
