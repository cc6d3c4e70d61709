/* The part of the operations table on sandboxes, their life and their states: arguments and
 * results. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

/* ---- their life ---- */

static const char *const status_choices[] = { "creating", "running",	"pausing",   "paused",
					      "resuming", "destroying", "destroyed", "failed",
					      "all",	  NULL };

static const struct op_arg list_args[] = {
	{ .name = "id",
	  .mcp_name = "sandbox_id",
	  .type = ARG_STRING,
	  .flags = ARG_MCP_ONLY | ARG_SANDBOX,
	  .min = 1,
	  .max = 64,
	  .description = "Only this one, ended or not" },
	{ .name = "status",
	  .type = ARG_STRING,
	  .max = 16,
	  .choices = status_choices,
	  .description = "Default: alive" },
	{ .name = "label",
	  .type = ARG_STRING,
	  .flags = ARG_REST_ONLY,
	  .min = 1,
	  .max = 8193,
	  .description = "Only those with this label: key, or key=value" },
	{ .name = "image",
	  .type = ARG_STRING,
	  .flags = ARG_REST_ONLY,
	  .min = 1,
	  .max = 64,
	  .description = "Only those of this image" },
	{ .name = "cursor",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 256,
	  .description = "From next_cursor" },
	{ .name = "limit",
	  .type = ARG_INTEGER,
	  .flags = ARG_REST_ONLY,
	  .min = 1,
	  .max = 200,
	  .default_json = "50",
	  .description = "Items in one answer" },
};

static const struct op_result_field list_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}", "Newest first", false,
	  false },
	{ "next_cursor", STRING_OR_NULL, "Where the next answer goes on; null at the end", false,
	  false },
};

static const char *const timeout_choices[] = { "destroy", "pause", NULL };

static const struct op_arg create_args[] = {
	{ .name = "size",
	  .type = ARG_STRING,
	  .max = 15,
	  .limit_choices = "sizes",
	  .limit_default = "default_size",
	  .description = "vCPUs, memory and disk by name" },
	{ .name = "timeout_minutes",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .limit_max = "timeout_minutes_max",
	  .limit_default = "timeout_minutes_default",
	  .description = "Lifetime; extendable" },
	{ .name = "image",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = IMAGE_NAME_MAX,
	  .limit_default = "default_image",
	  .pattern = "^[a-z0-9][a-z0-9._-]*$",
	  .matches = ops_is_image_name },
	{ .name = "name",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = SANDBOX_NAME_MAX,
	  .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
	  .matches = ops_is_dns_label },
	{ .name = "labels", .type = ARG_STRING_MAP, .limit_max = "labels_max" },
	{ .name = "snapshot",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = SANDBOX_NAME_MAX,
	  .description = "Instead of size and image" },
	{ .name = "egress",
	  .type = ARG_RULES,
	  .limit_max = "egress_rules_max",
	  .value_max = RULE_TEXT_MAX,
	  .description = "What it may reach. null: the internet; []: nothing; else only this: "
			 "host, *.host, address or CIDR, each with :port" },
	{ .name = "networks",
	  .mcp_name = "network",
	  .type = ARG_STRING_LIST,
	  .max = SLOT_NETWORKS_MAX,
	  .value_max = SANDBOX_NAME_MAX,
	  .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
	  .matches = ops_is_dns_label,
	  .description = "Private networks to join" },
	{ .name = "on_timeout",
	  .type = ARG_STRING,
	  .max = 8,
	  .choices = timeout_choices,
	  .default_json = "\"destroy\"" },
	{ .name = "idle_pause_minutes",
	  .type = ARG_INTEGER,
	  .flags = ARG_REST_ONLY,
	  .min = 1,
	  .limit_max = "timeout_minutes_max",
	  .description = "Pause it after so long without a command or a call; default: never" },
	{ .name = "vcpus",
	  .type = ARG_NUMBER,
	  .limit_min = "vcpus_min_milli",
	  .limit_max = "vcpus_max_milli",
	  .description = "With memory_mb and disk_gb, instead of size" },
	{ .name = "memory_mb",
	  .type = ARG_INTEGER,
	  .limit_min = "memory_mb_min",
	  .limit_max = "memory_mb_max" },
	{ .name = "disk_gb",
	  .type = ARG_INTEGER,
	  .limit_min = "disk_gb_min",
	  .limit_max = "disk_gb_max" },
};

static const struct op_result_field sandbox_results[] = {
	{ "id", STRING, "sbx_ and hex digits", false, false },
	{ "name", STRING_OR_NULL, "", false, true },
	{ "status", STRING, "creating, running, paused, destroyed, failed …", false, false },
	{ "size", STRING, "Name of the size, or custom", false, false },
	{ "vcpus", NUMBER, "", false, true },
	{ "memory_mb", INTEGER, "", false, true },
	{ "disk_gb", INTEGER, "", false, true },
	{ "image", STRING, "", false, true },
	{ "isolation", STRING, "kvm: hardware virtualization; emulated: no hardware boundary",
	  false, true },
	{ "created_at", TIME, "", false, true },
	{ "expires_at", TIME_OR_NULL,
	  "Never outlived (on_timeout pause: by 45 s); null while it is paused", false, false },
	{ "remaining_seconds", INTEGER, "Only while it is paused: what is left of its lifetime",
	  true, true },
	{ "on_timeout", STRING, "destroy or pause", false, true },
	{ "idle_pause_minutes", INTEGER, "Only where it was asked for", true, true },
	{ "parent_id", STRING_OR_NULL, "The sandbox that it was forked from", false, true },
	{ "labels", "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}", "",
	  false, true },
	{ "generation", INTEGER, "Counts restores of its state", false, true },
	{ "egress", RULES, "What it may reach: null is everything, [] nothing", false, true },
	{ "networks", STRINGS, "Private networks that it is in", false, true },
	{ "address", STRING_OR_NULL, "In private networks; null while it has none", false, true },
	{ "traffic", OBJECT, "Bytes and packets out and in, and packets denied", false, true },
	{ "ended_at", TIME, "Only when it has ended", true, true },
	{ "reason", STRING, "Why it ended: destroyed_by_user, expired, guest_crashed …", true,
	  true },
	{ "reason_text", STRING, "The same as a sentence", true, true },
};

static const struct op_arg id_args[] = { SANDBOX_ID_ARG };

static const struct op_arg extend_args[] = {
	SANDBOX_ID_ARG,
	{ .name = "additional_minutes",
	  .type = ARG_INTEGER,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .limit_max = "timeout_minutes_max" },
};

static const struct op_result_field extend_results[] = {
	{ "id", STRING, "", false, false },
	{ "expires_at", TIME, "The new deadline", false, false },
};

static const struct op_result_field destroy_results[] = {
	{ "id", STRING, "", false, false },
	{ "status", STRING, "destroyed", false, false },
};

/* ---- their state ---- */

static const struct op_arg fork_args[] = {
	SANDBOX_ID_ARG,
	{ .name = "count",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = FORK_COUNT_MAX,
	  .default_json = "1" },
	{ .name = "name",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = SANDBOX_NAME_MAX - 3,
	  .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
	  .matches = ops_is_dns_label,
	  .description = "Children are NAME-1 …" },
	{ .name = "timeout_minutes",
	  .type = ARG_INTEGER,
	  .flags = ARG_REST_ONLY,
	  .min = 1,
	  .limit_max = "timeout_minutes_max",
	  .description = "Lifetime of the children; default: what the source has left" },
	{ .name = "labels",
	  .type = ARG_STRING_MAP,
	  .flags = ARG_REST_ONLY,
	  .limit_max = "labels_max",
	  .description = "Default: the source's" },
};

static const struct op_result_field fork_results[] = {
	{ "sandboxes", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}", "The children",
	  false, false },
	{ "fork_report", OBJECT, "What was made distinct, and what cannot be", false, false },
};

static const struct op_arg snapshot_args[] = {
	SANDBOX_ID_ARG,
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = SANDBOX_NAME_MAX,
	  .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
	  .matches = ops_is_dns_label,
	  .description = "For create" },
};

static const struct op_result_field snapshot_results[] = {
	{ "name", STRING, "", false, false },
	{ "source_id", STRING, "The sandbox it is of", false, false },
	{ "size", STRING, "Name of the size, or custom", false, false },
	{ "vcpus", NUMBER, "", false, false },
	{ "memory_mb", INTEGER, "", false, false },
	{ "disk_gb", INTEGER, "", false, false },
	{ "image", STRING, "", false, false },
	{ "size_bytes", INTEGER, "On the server's disk", false, false },
	{ "created_at", TIME, "", false, false },
};

static const struct op_arg snapshot_name_args[] = {
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED | ARG_IN_PATH,
	  .min = 1,
	  .max = SANDBOX_NAME_MAX,
	  .description = "Snapshot" },
};

static const struct op_result_field snapshot_remove_results[] = {
	{ "name", STRING, "", false, false },
};
