/*
 * Commands for the surfaces that stream them: the arguments of exec as the core takes them, and a
 * result as JSON.
 */
#pragma once

#include <stdbool.h>

#include "api/ops.h"
#include "base/buf.h"

struct exec_args {
	struct core_exec_request req; /* borrows from the rest, and from the JSON arguments */
	const char **env;
	char *env_text;
	struct buf stdin_bytes;
	bool base64; /* of the answer */
};

/* From validated arguments, which must outlive it. */
int exec_args_read(const struct op_call *call, struct exec_args *ret, struct err *err);
void exec_args_clear(struct exec_args *args);

/* "signal": "SIGKILL", or null for 0. */
void exec_put_signal(json_t *json, int number);

enum exec_output { EXEC_OUTPUT_NONE, EXEC_OUTPUT_TEXT, EXEC_OUTPUT_BASE64 };
json_t *exec_result_json(const struct core_exec_result *result, enum exec_output output);
