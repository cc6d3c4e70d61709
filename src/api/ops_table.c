/*
 * The table. One entry an operation; the order is that of MCP's tools/list. Descriptions are read
 * by models and count against the size of all tool definitions together (under 2,000 tokens), so
 * they say only what name, type and bounds do not.
 */
#include "api/ops_internal.h"

#include "base/str.h"

#define LIST(array)    .args = array, .n_args = ARRAY_SIZE(array)
#define RESULTS(array) .results = array, .n_results = ARRAY_SIZE(array)

#define STRING		"{\"type\":\"string\"}"
#define INTEGER		"{\"type\":\"integer\"}"
#define NUMBER		"{\"type\":\"number\"}"
#define BOOLEAN		"{\"type\":\"boolean\"}"
#define OBJECT		"{\"type\":\"object\"}"
#define STRING_OR_NULL	"{\"type\":[\"string\",\"null\"]}"
#define INTEGER_OR_NULL "{\"type\":[\"integer\",\"null\"]}"
#define TIME		"{\"type\":\"string\",\"format\":\"date-time\"}"
#define TIME_OR_NULL	"{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"

/* Long enough for every id; whether it names anything is the core's to say. */
#define SANDBOX_ID_ARG                                                                             \
	{                                                                                          \
		.name = "id", .mcp_name = "sandbox_id", .type = ARG_STRING,                        \
		.flags = ARG_REQUIRED | ARG_IN_PATH, .min = 1, .max = 64,                          \
		.description = "Sandbox id"                                                        \
	}
#define EXEC_ID_ARG                                                                                \
	{                                                                                          \
		.name = "exec_id", .type = ARG_STRING, .flags = ARG_REQUIRED | ARG_IN_PATH,        \
		.min = 1, .max = 64, .description = "From exec"                                    \
	}

/* ---- sandboxes ---- */

static const char *const status_choices[] = { "creating", "running",	"pausing",   "paused",
					      "resuming", "destroying", "destroyed", "failed",
					      "all",	  NULL };

static const struct op_arg list_args[] = {
	{ .name = "id",
	  .mcp_name = "sandbox_id",
	  .type = ARG_STRING,
	  .flags = ARG_MCP_ONLY,
	  .min = 1,
	  .max = 64,
	  .description = "Only this one, also when it has ended" },
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
	  .description = "next_cursor of the last answer" },
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

/* ---- the state of sandboxes ---- */

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

/* ---- commands ---- */

static const char *const encoding_choices[] = { "utf8", "base64", NULL };
static const char *const signal_choices[] = { "SIGHUP",	 "SIGINT",  "SIGQUIT",	"SIGKILL",
					      "SIGUSR1", "SIGUSR2", "SIGTERM",	"SIGCONT",
					      "SIGSTOP", "SIGTSTP", "SIGWINCH", NULL };

#define COMMAND_MAX 131071     /* Linux: MAX_ARG_STRLEN, one argument of execve */
#define STDIN_MAX   (64 << 20) /* the body's cap is the bound that counts */
#define MAX_OUTPUT_ARG                                                                             \
	{                                                                                          \
		.name = "max_output_bytes", .type = ARG_INTEGER, .min = 1,                         \
		.limit_max = "output_bytes_max",                                                   \
		.description = "Per stream; head and tail are kept"                                \
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

/* ---- images and the server ---- */

static const struct op_result_field image_results[] = {
	{ "name", STRING, "", false, false },
	{ "digest", STRING, "Of its content", false, false },
	{ "size_bytes", INTEGER, "", false, false },
	{ "allocated_bytes", INTEGER, "On the server's disk", false, false },
	{ "created_at", TIME, "", false, false },
	{ "user", STRING, "Commands run as this user", false, false },
	{ "workdir", STRING, "", false, false },
};

static const struct op_arg image_build_args[] = {
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = IMAGE_NAME_MAX,
	  .pattern = "^[a-z0-9][a-z0-9._-]*$",
	  .matches = ops_is_image_name,
	  .description = "Of a recipe: base, dev …" },
	{ .name = "rebuild",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "Also when it is already built from the same recipe" },
};

static const struct op_arg image_name_args[] = {
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED | ARG_IN_PATH,
	  .min = 1,
	  .max = IMAGE_NAME_MAX,
	  .description = "Image" },
};

static const struct op_result_field image_remove_results[] = {
	{ "name", STRING, "", false, false },
};

static const struct op table[] = {
	{ .name = "list_sandboxes",
	  .title = "List sandboxes",
	  .scope = "sandbox:read",
	  .summary = "Lists your sandboxes with status and deadline.",
	  .rest_method = "GET",
	  .rest_path = "/v1/sandboxes",
	  .rest_status = 200,
	  .on_mcp = true,
	  .hints = OP_READ_ONLY | OP_IDEMPOTENT,
	  LIST(list_args),
	  RESULTS(list_results),
	  .handler = op_list_sandboxes },
	{ .name = "create_sandbox",
	  .title = "Create sandbox",
	  .scope = "sandbox:create",
	  .summary =
		  "Starts a Linux microVM of your own, ready for exec, destroyed at its deadline.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes",
	  .rest_status = 201,
	  .on_mcp = true,
	  .hints = OP_OPEN_WORLD,
	  LIST(create_args),
	  RESULTS(sandbox_results),
	  .handler = op_create_sandbox },
	{ .name = "exec",
	  .title = "Run command",
	  .scope = "exec",
	  .streams = true,
	  .summary =
		  "Runs a shell command in a sandbox; files and background processes stay between "
		  "calls.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/exec",
	  .rest_status = 200,
	  .on_mcp = true,
	  .hints = OP_DESTRUCTIVE | OP_OPEN_WORLD,
	  LIST(exec_args),
	  RESULTS(exec_results),
	  .handler = op_exec },
	{ .name = "exec_wait",
	  .title = "Wait for command",
	  .scope = "exec",
	  .streams = true,
	  .summary = "Waits for a running command, replays its output, feeds or signals it.",
	  .rest_method = "GET",
	  .rest_path = "/v1/sandboxes/{id}/exec/{exec_id}",
	  .rest_status = 200,
	  .on_mcp = true,
	  .mcp_result_open = true,
	  .hints = OP_DESTRUCTIVE | OP_OPEN_WORLD,
	  LIST(exec_wait_args),
	  RESULTS(exec_results),
	  .handler = op_exec_wait },
	{ .name = "extend_sandbox",
	  .title = "Extend sandbox",
	  .scope = "sandbox:extend",
	  .summary = "Moves a sandbox's deadline.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/extend",
	  .rest_status = 200,
	  .on_mcp = true,
	  .hints = 0,
	  LIST(extend_args),
	  RESULTS(extend_results),
	  .handler = op_extend_sandbox },
	{ .name = "destroy_sandbox",
	  .title = "Destroy sandbox",
	  .scope = "sandbox:destroy",
	  .summary = "Ends a sandbox and deletes everything in it.",
	  .rest_method = "DELETE",
	  .rest_path = "/v1/sandboxes/{id}",
	  .rest_status = 200,
	  .on_mcp = true,
	  .hints = OP_DESTRUCTIVE | OP_IDEMPOTENT,
	  LIST(id_args),
	  RESULTS(destroy_results),
	  .handler = op_destroy_sandbox },
	{ .name = "pause_sandbox",
	  .title = "Pause sandbox",
	  .scope = "sandbox:pause",
	  .summary = "Saves a sandbox with its running processes and stops its clock; the next use "
		     "resumes it.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/pause",
	  .rest_status = 200,
	  .on_mcp = true,
	  .mcp_result_open = true,
	  .hints = OP_IDEMPOTENT,
	  LIST(id_args),
	  RESULTS(sandbox_results),
	  .handler = op_pause_sandbox },
	{ .name = "resume_sandbox",
	  .title = "Resume sandbox",
	  .scope = "sandbox:pause",
	  .summary = "Resumes a paused sandbox.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/resume",
	  .rest_status = 200,
	  .on_mcp = true,
	  .mcp_result_open = true,
	  .hints = OP_IDEMPOTENT,
	  LIST(id_args),
	  RESULTS(sandbox_results),
	  .handler = op_resume_sandbox },
	{ .name = "fork_sandbox",
	  .title = "Fork sandbox",
	  .scope = "sandbox:create",
	  .summary = "Makes independent copies of a sandbox with its processes, memory and disk.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/fork",
	  .rest_status = 201,
	  .on_mcp = true,
	  .mcp_result_open = true,
	  .hints = OP_OPEN_WORLD,
	  LIST(fork_args),
	  RESULTS(fork_results),
	  .handler = op_fork_sandbox },

	{ .name = "get_sandbox",
	  .title = "Get sandbox",
	  .scope = "sandbox:read",
	  .summary = "One sandbox, or why and when it ended.",
	  .rest_method = "GET",
	  .rest_path = "/v1/sandboxes/{id}",
	  .rest_status = 200,
	  .hints = OP_READ_ONLY | OP_IDEMPOTENT,
	  LIST(id_args),
	  RESULTS(sandbox_results),
	  .handler = op_get_sandbox },
	{ .name = "create_snapshot",
	  .title = "Create snapshot",
	  .scope = "sandbox:create",
	  .summary = "Keeps the state of a sandbox under a name, to create others from.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/snapshots",
	  .rest_status = 201,
	  .hints = 0,
	  LIST(snapshot_args),
	  RESULTS(snapshot_results),
	  .handler = op_create_snapshot },
	{ .name = "list_snapshots",
	  .title = "List snapshots",
	  .scope = "sandbox:read",
	  .summary = "Your named snapshots.",
	  .rest_method = "GET",
	  .rest_path = "/v1/snapshots",
	  .rest_status = 200,
	  .hints = OP_READ_ONLY | OP_IDEMPOTENT,
	  RESULTS(list_results),
	  .handler = op_list_snapshots },
	{ .name = "remove_snapshot",
	  .title = "Remove snapshot",
	  .scope = "sandbox:destroy",
	  .summary = "Deletes a named snapshot; sandboxes made from it stay.",
	  .rest_method = "DELETE",
	  .rest_path = "/v1/snapshots/{name}",
	  .rest_status = 200,
	  .hints = OP_DESTRUCTIVE,
	  LIST(snapshot_name_args),
	  RESULTS(snapshot_remove_results),
	  .handler = op_remove_snapshot },
	{ .name = "exec_input",
	  .title = "Feed command",
	  .scope = "exec",
	  .summary = "Writes to the stdin of a command that was started with stdin_open.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/exec/{exec_id}/input",
	  .rest_status = 200,
	  .hints = OP_OPEN_WORLD,
	  LIST(exec_input_args),
	  RESULTS(exec_input_results),
	  .handler = op_exec_input },
	{ .name = "exec_signal",
	  .title = "Signal command",
	  .scope = "exec",
	  .summary = "Sends a signal to a running command.",
	  .rest_method = "POST",
	  .rest_path = "/v1/sandboxes/{id}/exec/{exec_id}/signal",
	  .rest_status = 200,
	  .hints = OP_DESTRUCTIVE,
	  LIST(exec_signal_args),
	  RESULTS(exec_signal_results),
	  .handler = op_exec_signal },
	{ .name = "list_images",
	  .title = "List images",
	  .scope = "sandbox:read",
	  .summary = "The images that sandboxes can start from.",
	  .rest_method = "GET",
	  .rest_path = "/v1/images",
	  .rest_status = 200,
	  .hints = OP_READ_ONLY | OP_IDEMPOTENT,
	  RESULTS(list_results),
	  .handler = op_list_images },
	{ .name = "build_image",
	  .title = "Build image",
	  .scope = "admin",
	  .streams = true,
	  .summary = "Builds an image by its recipe and the template of the default size.",
	  .rest_method = "POST",
	  .rest_path = "/v1/images",
	  .rest_status = 201,
	  .hints = OP_IDEMPOTENT | OP_OPEN_WORLD,
	  LIST(image_build_args),
	  RESULTS(image_results),
	  .handler = op_build_image },
	{ .name = "remove_image",
	  .title = "Remove image",
	  .scope = "admin",
	  .summary = "Removes an image that no living sandbox uses.",
	  .rest_method = "DELETE",
	  .rest_path = "/v1/images/{name}",
	  .rest_status = 200,
	  .hints = OP_DESTRUCTIVE,
	  LIST(image_name_args),
	  RESULTS(image_remove_results),
	  .handler = op_remove_image },
	{ .name = "limits",
	  .title = "Limits",
	  .scope = "sandbox:read",
	  .summary = "Every size, limit and default in force on this server.",
	  .rest_method = "GET",
	  .rest_path = "/v1/limits",
	  .rest_status = 200,
	  .hints = OP_READ_ONLY | OP_IDEMPOTENT,
	  .handler = op_limits },
	{ .name = "doctor",
	  .title = "Doctor",
	  .scope = "admin",
	  .summary = "Checks of the host: what works, what does not, and what to do.",
	  .rest_method = "GET",
	  .rest_path = "/v1/doctor",
	  .rest_status = 200,
	  .hints = OP_READ_ONLY | OP_IDEMPOTENT,
	  .handler = op_doctor },
};

const struct op *ops_all(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(table);
	return table;
}
