/* The part of the operations table on commands: arguments and results. Included by ops_table.c
 * alone.
 */
#pragma once

#include "api/ops_table_words.h"

static const char *const encoding_choices[] = { "utf8", "base64", NULL };
static const char *const signal_choices[] = { "SIGHUP",	 "SIGINT",  "SIGQUIT",	"SIGKILL",
					      "SIGUSR1", "SIGUSR2", "SIGTERM",	"SIGCONT",
					      "SIGSTOP", "SIGTSTP", "SIGWINCH", NULL };

#define COMMAND_MAX 131071     /* Linux: MAX_ARG_STRLEN, one argument of execve */
#define STDIN_MAX   (64 << 20) /* the body's cap is the bound that counts */
#define MAX_OUTPUT_ARG                                                                             \
	{                                                                                          \
		.name = "max_output_bytes", .type = ARG_INTEGER, .min = 1,                         \
		.limit_max = "output_bytes_max", .description = "Per stream: head and tail"        \
	}
#define ENCODING_ARG                                                                               \
	{                                                                                          \
		.name = "encoding", .type = ARG_STRING, .flags = ARG_REST_ONLY, .max = 8,          \
		.choices = encoding_choices, .default_json = "\"utf8\"",                           \
		.description = "base64: stdout_base64 and stderr_base64 instead of text"           \
	}

static const struct op_arg exec_args[] = {
	SANDBOX_ID_ARG,
	{ .name = "command",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = COMMAND_MAX,
	  .description = "For the shell" },
	{ .name = "timeout_ms",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .limit_max = "exec_timeout_ms_max",
	  .limit_default = "exec_timeout_ms_default",
	  .description = "Killed then" },
	{ .name = "cwd",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 4095,
	  .description = "Default: home" },
	{ .name = "env",
	  .type = ARG_STRING_MAP,
	  .flags = ARG_SECRET,
	  .max = 1024,
	  .key_max = 256,
	  .value_max = 65536,
	  .key_matches = ops_is_env_name },
	{ .name = "stdin",
	  .type = ARG_STRING,
	  .flags = ARG_SECRET | ARG_ALLOW_NUL,
	  .max = STDIN_MAX },
	{ .name = "stdin_base64",
	  .type = ARG_STRING,
	  .flags = ARG_SECRET | ARG_REST_ONLY,
	  .max = STDIN_MAX,
	  .description = "Instead of stdin, for bytes that are no text" },
	{ .name = "stdin_open",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "Keep stdin open for exec_wait" },
	{ .name = "user",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 32,
	  .description = "Default: sandbox (has sudo)" },
	{ .name = "background",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "Answer at once; see exec_wait" },
	MAX_OUTPUT_ARG,
	ENCODING_ARG,
};

static const struct op_result_field exec_results[] = {
	{ "exec_id", STRING, "", false, false },
	{ "running", BOOLEAN, "true: pick it up with exec_wait", false, false },
	{ "stdout", STRING, "", true, false },
	{ "stderr", STRING, "", true, false },
	{ "stdout_base64", STRING, "With encoding base64", true, true },
	{ "stderr_base64", STRING, "With encoding base64", true, true },
	{ "exit_code", INTEGER_OR_NULL,
	  "124: timed out; 128 + n: ended by signal n; null while running", false, false },
	{ "signal", STRING_OR_NULL, "", false, false },
	{ "duration_ms", INTEGER, "", false, false },
	{ "timed_out", BOOLEAN, "", false, false },
	{ "truncated", BOOLEAN, "Some of the output was left out", false, false },
	{ "out_of_memory", BOOLEAN, "", false, false },
	{ "stdout_bytes", INTEGER, "Written so far", false, false },
	{ "stderr_bytes", INTEGER, "Written so far", false, false },
	{ "next_offset", INTEGER, "Of stdout, for from_offset", false, false },
	{ "next_stderr_offset", INTEGER, "Of stderr, for from_stderr_offset", false, false },
	{ "egress_denied", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "What was not reached while it ran, with the rule that would allow each", true, false },
};

static const struct op_arg exec_wait_args[] = {
	SANDBOX_ID_ARG,
	EXEC_ID_ARG,
	{ .name = "wait_ms",
	  .type = ARG_INTEGER,
	  .flags = ARG_REST_ONLY,
	  .min = 0,
	  .max = 600000,
	  .default_json = "0",
	  .description = "Wait this long for its end before answering" },
	{ .name = "wait_ms",
	  .type = ARG_INTEGER,
	  .flags = ARG_MCP_ONLY,
	  .min = 0,
	  .limit_max = "mcp_exec_wait_ms",
	  .limit_default = "mcp_exec_wait_ms" },
	{ .name = "stdin",
	  .type = ARG_STRING,
	  .flags = ARG_SECRET | ARG_ALLOW_NUL | ARG_MCP_ONLY,
	  .max = STDIN_MAX,
	  .description = "Fed first" },
	{ .name = "close_stdin",
	  .type = ARG_BOOLEAN,
	  .flags = ARG_MCP_ONLY,
	  .default_json = "false" },
	{ .name = "signal",
	  .type = ARG_STRING,
	  .flags = ARG_MCP_ONLY,
	  .max = 16,
	  .choices = signal_choices },
	{ .name = "from_offset",
	  .type = ARG_INTEGER,
	  .min = 0,
	  .max = INT64_MAX,
	  .default_json = "0",
	  .description = "Byte of stdout to start at" },
	{ .name = "from_stderr_offset",
	  .type = ARG_INTEGER,
	  .min = 0,
	  .max = INT64_MAX,
	  .default_json = "0" },
	MAX_OUTPUT_ARG,
	ENCODING_ARG,
};

static const struct op_result_field execs_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "Those that run, then those that have ended, newest first: exec_id, command (its first "
	  "bytes), started_at, and as of exec_wait, without output",
	  false, false },
	{ "next_cursor", STRING_OR_NULL, "Always null", false, false },
};

static const struct op_arg exec_input_args[] = {
	SANDBOX_ID_ARG,
	EXEC_ID_ARG,
	{ .name = "data",
	  .type = ARG_STRING,
	  .flags = ARG_SECRET | ARG_ALLOW_NUL,
	  .max = STDIN_MAX,
	  .description = "Text for its stdin" },
	{ .name = "data_base64",
	  .type = ARG_STRING,
	  .flags = ARG_SECRET,
	  .max = STDIN_MAX,
	  .description = "Bytes for its stdin" },
	{ .name = "close",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "Close its stdin afterwards" },
};

static const struct op_result_field exec_input_results[] = {
	{ "exec_id", STRING, "", false, false },
	{ "accepted_bytes", INTEGER, "", false, false },
};

static const struct op_arg exec_signal_args[] = {
	SANDBOX_ID_ARG,
	EXEC_ID_ARG,
	{ .name = "signal",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .max = 16,
	  .choices = signal_choices,
	  .description = "To all its processes" },
};

static const struct op_result_field exec_signal_results[] = {
	{ "exec_id", STRING, "", false, false },
};
