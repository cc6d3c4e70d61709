/* The part of the operations table on accounts and keys: arguments and results. Included by
 * ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

#include "base/str.h"
#include "core/keys.h"

#define ACCOUNT_ARG                                                                                \
	{                                                                                          \
		.name = "account_id", .type = ARG_STRING, .min = 1, .max = 64,                     \
		.description = "Another account than the key's own: for administrators"            \
	}
#define KEY_ID_ARG                                                                                 \
	{                                                                                          \
		.name = "id", .type = ARG_STRING, .flags = ARG_REQUIRED | ARG_IN_PATH, .min = 1,   \
		.max = 64, .description = "Key id"                                                 \
	}
#define NAMES_ARG(arg_name, arg_max, text)                                                         \
	{                                                                                          \
		.name = arg_name, .type = ARG_STRING_LIST, .max = arg_max,                         \
		.value_max = SCOPE_NAME_MAX, .description = text                                   \
	}

static const struct op_arg scope_fields[] = {
	NAMES_ARG("operations", SCOPE_OPERATIONS_MAX,
		  "Only these: scopes (exec, files, sandbox:read …) or operations by name"),
	NAMES_ARG("sandboxes", SCOPE_SANDBOXES_MAX,
		  "Only these, by id; others are not there for the key"),
	{ .name = "labels",
	  .type = ARG_STRING_MAP,
	  .limit_max = "labels_max",
	  .description = "Only sandboxes with all of these labels, which what it makes gets" },
	NAMES_ARG("sizes", CORE_SIZES_MAX + 1,
		  "Only of these sizes can it make sandboxes; custom: of any shape"),
	{ .name = "lifetime_minutes_max",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .limit_max = "timeout_minutes_max",
	  .description = "In total, of what it makes or extends" },
	{ .name = "egress_loosen",
	  .type = ARG_BOOLEAN,
	  .description = "false: what it makes reaches nothing, other sandboxes no more than now" },
	{ .name = "root",
	  .type = ARG_BOOLEAN,
	  .description = "false: it does nothing as root in a sandbox, sudo included" },
	{ .name = "spend_credits_max",
	  .type = ARG_INTEGER,
	  .max = 1000000000,
	  .description = "What all that it makes may cost together" },
};

static const struct op_arg create_key_args[] = {
	{ .name = "label",
	  .type = ARG_STRING,
	  .max = CORE_KEY_LABEL_MAX,
	  .description = "What it is for" },
	{ .name = "scopes",
	  .type = ARG_OBJECT,
	  .fields = scope_fields,
	  .n_fields = ARRAY_SIZE(scope_fields),
	  .description = "What it may do less than its account; what is absent is as of the key "
			 "that makes it" },
	{ .name = "ttl_minutes",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = 10 * 525600,
	  .description = "It expires then; default: with the key that makes it" },
	{ .name = "admin",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "It may administer the server, as the key that makes it" },
	ACCOUNT_ARG,
};

#define KEY_RESULTS                                                                                \
	{ "id", STRING, "", false, false }, { "account_id", STRING, "", false, false },            \
		{ "label", STRING, "", false, false },                                             \
		{ "prefix", STRING, "How its text begins", false, false },                         \
		{ "status", STRING, "valid, expired or revoked", false, false },                   \
		{ "admin", BOOLEAN, "It may administer the server", false, false },                \
		{ "scopes", OBJECT, "{} when nothing narrows it", false, false },                  \
		{ "current", BOOLEAN, "It is the key of this request", false, false },             \
		{ "created_at", TIME, "", false, false },                                          \
		{ "created_by", STRING_OR_NULL, "The key that made it", false, false },            \
		{ "expires_at", TIME_OR_NULL, "null: never", false, false },                       \
		{ "rotated_at", TIME_OR_NULL, "", false, false },                                  \
	{                                                                                          \
		"revoked_at", TIME_OR_NULL, "", false, false                                       \
	}

static const struct op_result_field new_key_results[] = {
	KEY_RESULTS,
	{ "key", STRING, "Its text: shown here and never again", false, false },
};
static const struct op_result_field key_results[] = { KEY_RESULTS };

static const char *const key_status_choices[] = { "valid", "all", NULL };

#define LIST_ARGS                                                                                  \
	{ .name = "cursor",                                                                        \
	  .type = ARG_STRING,                                                                      \
	  .min = 1,                                                                                \
	  .max = 64,                                                                               \
	  .description = "next_cursor of the last answer" },                                       \
	{                                                                                          \
		.name = "limit", .type = ARG_INTEGER, .min = 1, .max = 200, .default_json = "50"   \
	}

static const struct op_arg list_keys_args[] = {
	{ .name = "status",
	  .type = ARG_STRING,
	  .max = 8,
	  .choices = key_status_choices,
	  .default_json = "\"valid\"",
	  .description = "all: revoked and expired ones too" },
	ACCOUNT_ARG,
	LIST_ARGS,
};

static const struct op_arg revoke_key_args[] = { KEY_ID_ARG, ACCOUNT_ARG };
static const struct op_arg rotate_key_args[] = {
	KEY_ID_ARG,
	{ .name = "overlap_seconds",
	  .type = ARG_INTEGER,
	  .limit_max = "key_overlap_seconds_max",
	  .default_json = "0",
	  .description = "The old text is good for that long" },
	ACCOUNT_ARG,
};

static const struct op_arg create_account_args[] = {
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = 63,
	  .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
	  .matches = ops_is_dns_label,
	  .description = "Of its own" },
	{ .name = "admin",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "It may administer the server" },
};
static const struct op_arg list_accounts_args[] = { LIST_ARGS };

static const struct op_result_field account_results[] = {
	{ "id", STRING, "", false, false },
	{ "name", STRING, "", false, false },
	{ "admin", BOOLEAN, "", false, false },
	{ "created_at", TIME, "", false, false },
	{ "key", OBJECT, "Its first key, with its text: shown here and never again", false, false },
};
