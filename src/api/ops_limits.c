/* What the table says by name: limits of the configuration, and the forms of names. */
#include "api/ops_internal.h"

#include <stddef.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

static const struct {
	const char *name;
	size_t offset;
	int64_t scale;
} limit_table[] = {
	{ "vcpus_min_milli", offsetof(struct core_limits, vcpus_min_milli), 1 },
	{ "vcpus_max_milli", offsetof(struct core_limits, vcpus_max_milli), 1 },
	{ "memory_mb_min", offsetof(struct core_limits, memory_mb_min), 1 },
	{ "memory_mb_max", offsetof(struct core_limits, memory_mb_max), 1 },
	{ "disk_gb_min", offsetof(struct core_limits, disk_gb_min), 1 },
	{ "disk_gb_max", offsetof(struct core_limits, disk_gb_max), 1 },
	{ "timeout_minutes_default", offsetof(struct core_limits, timeout_minutes_default), 1 },
	{ "timeout_minutes_max", offsetof(struct core_limits, timeout_minutes_max), 1 },
	{ "key_overlap_seconds_max", offsetof(struct core_limits, key_overlap_seconds_max), 1 },
	{ "labels_max", offsetof(struct core_limits, labels_max), 1 },
	{ "label_bytes_max", offsetof(struct core_limits, label_bytes_max), 1 },
	{ "exec_timeout_ms_default", offsetof(struct core_limits, exec_timeout_ms_default), 1 },
	/* The longest lifetime in milliseconds; the core holds it against what remains. */
	{ "exec_timeout_ms_max", offsetof(struct core_limits, timeout_minutes_max), 60000 },
	{ "egress_rules_max", offsetof(struct core_limits, egress_rules_max), 1 },
	{ "output_bytes_max", offsetof(struct core_limits, output_bytes_max), 1 },
	{ "preview_ttl_minutes_default", offsetof(struct core_limits, preview_ttl_minutes_default),
	  1 },
	{ "preview_ttl_minutes_max", offsetof(struct core_limits, preview_ttl_minutes_max), 1 },
	{ "mcp_exec_wait_ms", offsetof(struct core_limits, mcp_exec_wait_ms), 1 },
};

int64_t ops_limit(const struct core_limits *limits, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(limit_table); i++) {
		int64_t value;

		if (!str_eq(limit_table[i].name, name))
			continue;
		memcpy(&value, (const char *)limits + limit_table[i].offset, sizeof(value));
		return value * limit_table[i].scale;
	}
	log_error("operations table names an unknown limit", "limit=%s", name);
	abort();
}

json_t *ops_limit_json(const struct core_limits *limits, const char *name)
{
	if (str_eq(name, "default_size"))
		return json_string(limits->default_size);
	if (str_eq(name, "default_image"))
		return json_string(limits->default_image);
	return json_integer(ops_limit(limits, name));
}

void ops_arg_bounds(const struct op_arg *arg, const struct core_limits *limits, int64_t *ret_min,
		    int64_t *ret_max)
{
	*ret_min = arg->limit_min ? ops_limit(limits, arg->limit_min) : arg->min;
	*ret_max = arg->limit_max ? ops_limit(limits, arg->limit_max) : arg->max;
}

int64_t ops_arg_key_max(const struct op_arg *arg, const struct core_limits *limits)
{
	return arg->key_max ? arg->key_max : ops_limit(limits, "label_bytes_max");
}

int64_t ops_arg_value_max(const struct op_arg *arg, const struct core_limits *limits)
{
	return arg->value_max ? arg->value_max : ops_limit(limits, "label_bytes_max");
}

bool ops_arg_choices(const struct op_arg *arg, const struct core_limits *limits,
		     void (*fn)(void *fn_arg, const char *choice), void *fn_arg)
{
	if (arg->limit_choices) { /* "sizes" is the only one */
		for (size_t i = 0; i < limits->n_sizes; i++)
			fn(fn_arg, limits->sizes[i].name);
		return true;
	}
	if (!arg->choices)
		return false;
	for (size_t i = 0; arg->choices[i]; i++)
		fn(fn_arg, arg->choices[i]);
	return true;
}

bool ops_arg_on(const struct op_arg *arg, enum op_surface surface)
{
	return !(arg->flags & (surface == OP_SURFACE_MCP ? ARG_REST_ONLY : ARG_MCP_ONLY));
}

const char *ops_arg_name(const struct op_arg *arg, enum op_surface surface)
{
	return surface == OP_SURFACE_MCP && arg->mcp_name ? arg->mcp_name : arg->name;
}

bool ops_is_body_arg(const struct op *op, const struct op_arg *arg)
{
	return !(arg->flags & ARG_IN_PATH) && !op->bytes && !str_eq(op->rest_method, "GET") &&
	       !str_eq(op->rest_method, "DELETE");
}

/* ---- forms of names ---- */

static bool is_lower_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool ops_is_dns_label(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!is_lower_or_digit(value[i]) && value[i] != '-')
			return false;
	}
	return len > 0 && value[0] != '-' && value[len - 1] != '-';
}

bool ops_is_image_name(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!is_lower_or_digit(value[i]) && !(i > 0 && strchr("._-", value[i])))
			return false;
	}
	return len > 0;
}

bool ops_is_env_name(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = value[i];

		if (!(c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		      (i > 0 && c >= '0' && c <= '9')))
			return false;
	}
	return len > 0;
}
