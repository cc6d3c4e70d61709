/* The part of the operations table on egress and private networks: arguments and results. Included
 * by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

/* ---- what a sandbox may reach ---- */

#define RULE_LIST_ARG(arg_name, text)                                                              \
	{                                                                                          \
		.name = arg_name, .type = ARG_STRING_LIST, .limit_max = "egress_rules_max",        \
		.value_max = RULE_TEXT_MAX, .description = text                                    \
	}

static const struct op_arg set_egress_args[] = {
	SANDBOX_ID_ARG,
	{ .name = "rules",
	  .type = ARG_RULES,
	  .flags = ARG_REQUIRED,
	  .limit_max = "egress_rules_max",
	  .value_max = RULE_TEXT_MAX,
	  .description = "As egress of create_sandbox" },
};

static const struct op_arg change_egress_args[] = {
	SANDBOX_ID_ARG,
	RULE_LIST_ARG("add", "Rules to add to the list"),
	RULE_LIST_ARG("remove", "Rules to take out of the list"),
};

static const struct op_result_field egress_results[] = {
	{ "id", STRING, "", false, false },
	{ "rules", RULES, "null: everything, []: nothing, else a list in canonical spelling", false,
	  false },
};

static const struct op_result_field denials_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "Newest first; repetitions are one, with a count", false, false },
	{ "next_cursor", STRING_OR_NULL, "Always null", false, false },
	{ "unreported", INTEGER, "Denied packets that came too fast to be listed", false, false },
};

/* ---- private networks ---- */

#define NETWORK_NAME_ARG(more_flags)                                                               \
	{                                                                                          \
		.name = "name", .type = ARG_STRING, .flags = ARG_REQUIRED | (more_flags),          \
		.min = 1, .max = SANDBOX_NAME_MAX, .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",   \
		.matches = ops_is_dns_label, .description = "Network"                              \
	}

static const struct op_arg create_network_args[] = { NETWORK_NAME_ARG(0) };
static const struct op_arg network_args[] = { NETWORK_NAME_ARG(ARG_IN_PATH) };
static const struct op_arg leave_network_args[] = { NETWORK_NAME_ARG(ARG_IN_PATH), SANDBOX_ID_ARG };
static const struct op_arg join_network_args[] = {
	NETWORK_NAME_ARG(ARG_IN_PATH),
	SANDBOX_ID_ARG,
	{ .name = "as",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = SANDBOX_NAME_MAX,
	  .pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
	  .matches = ops_is_dns_label,
	  .description = "Its name there; default: the sandbox's name, or its id" },
};

static const struct op_result_field network_results[] = {
	{ "name", STRING, "", false, false },
	{ "created_at", TIME, "", false, false },
	{ "members", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "id, name, host name and address of each", false, false },
};

static const struct op_result_field network_name_results[] = {
	{ "name", STRING, "", false, false },
};

static const struct op_result_field member_results[] = {
	{ "id", STRING, "", false, false },
	{ "network", STRING, "", false, false },
	{ "name", STRING, "In the network", false, false },
	{ "host", STRING, "How the other members reach it", false, false },
	{ "address", STRING_OR_NULL, "null while it is paused", false, false },
};

static const struct op_result_field leave_results[] = {
	{ "id", STRING, "", false, false },
	{ "network", STRING, "", false, false },
};
