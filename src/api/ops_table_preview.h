/* The part of the operations table on previews. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

static const struct op_arg expose_args[] = {
	SANDBOX_ID_ARG,
	{ .name = "port", .type = ARG_INTEGER, .flags = ARG_REQUIRED, .min = 1, .max = 65535 },
	{ .name = "ttl_minutes",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .limit_max = "preview_ttl_minutes_max",
	  .limit_default = "preview_ttl_minutes_default" },
};

static const struct op_result_field expose_results[] = {
	{ "url", STRING, "Whoever has it reaches the port until expires_at", false, false },
	{ "expires_at", TIME, "", false, false },
};
