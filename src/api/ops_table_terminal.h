/* The part of the operations table on terminals. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

#include "core/terminal.h"

#define TERMINAL_ID_ARG(where)                                                                     \
	{                                                                                          \
		.name = "terminal_id", .type = ARG_STRING, .flags = where, .min = 1, .max = 64,    \
		.description = "Terminal id"                                                       \
	}

static const struct op_arg open_terminal_args[] = {
	SANDBOX_ID_ARG,
	TERMINAL_ID_ARG(0),
	{ .name = "from_offset",
	  .type = ARG_INTEGER,
	  .max = INT64_MAX,
	  .description = "With terminal_id: the first byte of output to be sent; default: the "
			 "newest screens" },
	{ .name = "cols",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = CORE_TERMINAL_SIZE_MAX,
	  .description = "With rows; default: 80, or as it is" },
	{ .name = "rows",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = CORE_TERMINAL_SIZE_MAX,
	  .description = "With cols; default: 24, or as it is" },
	{ .name = "command",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = COMMAND_MAX,
	  .description = "For the shell; default: a login shell" },
	{ .name = "user",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 32,
	  .description = "Default: sandbox (has sudo)" },
	{ .name = "cwd",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 4095,
	  .description = "Default: home" },
	{ .name = "term",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = CORE_TERMINAL_TERM_MAX,
	  .description = "TERM; default: xterm-256color" },
};

static const struct op_arg terminal_args[] = {
	SANDBOX_ID_ARG,
	TERMINAL_ID_ARG(ARG_REQUIRED | ARG_IN_PATH),
};

static const struct op_result_field terminals_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "Oldest first: terminal_id, created_at, cols, rows, output_bytes, busy, attached", false,
	  false },
	{ "next_cursor", STRING_OR_NULL, "Always null", false, false },
};

static const struct op_result_field end_terminal_results[] = {
	{ "terminal_id", STRING, "", false, false },
};
