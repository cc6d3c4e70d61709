/*
 * Operations on commands. A call that waits for a command holds no thread: the core calls back on
 * the loop's thread when the command has ended or the wait is over.
 */
#include "api/ops_exec.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "api/ops_internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/exec_list.h"

#define LARGE_RESULT_BYTES (256u * 1024)
#define ENV_BYTES_MAX	   (128u * 1024) /* all of it together, as the guest takes it */

/* ---- arguments ---- */

static int read_env(const json_t *env, struct exec_args *args, struct err *err)
{
	size_t total = 0, n = 0, at = 0;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)env, key, value)
		total += strlen(key) + json_string_length(value) + 2;
	if (total == 0)
		return 0;
	if (total > ENV_BYTES_MAX)
		return err_code(
			err, -EINVAL, "invalid_argument",
			"argument \"env\" must be at most %u bytes with all names and values, got "
			"%zu bytes",
			ENV_BYTES_MAX, total);
	args->env = xcalloc(json_object_size(env) + 1, sizeof(*args->env));
	args->env_text = xmalloc(total);
	json_object_foreach((json_t *)(uintptr_t)env, key, value) {
		args->env[n++] = args->env_text + at;
		at += (size_t)snprintf(args->env_text + at, total - at, "%s=%s", key,
				       json_string_value(value)) +
		      1;
	}
	args->req.env = args->env;
	return 0;
}

/* Bytes given as text or, in another argument, as base64. */
static int read_bytes(const json_t *args, const char *text_name, const char *base64_name,
		      struct buf *out, bool *ret_given, struct err *err)
{
	const json_t *text = json_object_get(args, text_name);
	const json_t *base64 = json_object_get(args, base64_name);

	if (text && base64)
		return err_code(err, -EINVAL, "invalid_argument",
				"arguments \"%s\" and \"%s\" exclude each other", text_name,
				base64_name);
	*ret_given = text || base64;
	if (text)
		buf_append(out, json_string_value(text), json_string_length(text));
	if (base64 && base64_decode(json_string_value(base64), json_string_length(base64), out) < 0)
		return err_code(
			err, -EINVAL, "invalid_argument",
			"argument \"%s\" must be base64 with padding and without blanks, got %zu "
			"bytes that are not",
			base64_name, json_string_length(base64));
	return 0;
}

static uint64_t output_max(const struct op_call *call)
{
	const struct core_limits *limits = core_limits(call->core);
	const int64_t fallback = call->surface == OP_SURFACE_MCP ? limits->output_bytes_mcp
								 : limits->output_bytes_rest;

	return (uint64_t)json_get_int(call->args, "max_output_bytes", fallback);
}

/* wait_ms < 0: to the end. */
static int64_t bounded_wait_ms(const struct op_call *call, int64_t wait_ms)
{
	if (call->patience_ms > 0 && (wait_ms < 0 || wait_ms > call->patience_ms))
		return call->patience_ms;
	return wait_ms;
}

int exec_args_read(const struct op_call *call, struct exec_args *ret, struct err *err)
{
	const json_t *command = json_object_get(call->args, "command");
	bool has_stdin = false;
	int rc;

	*ret = (struct exec_args){
		.req = {
			.command = json_string_value(command),
			.command_len = json_string_length(command),
			.cwd = json_get_str(call->args, "cwd", NULL),
			.user = json_get_str(call->args, "user", NULL),
			.timeout_ms = json_get_int(call->args, "timeout_ms", 0),
			.stdin_open = json_get_bool(call->args, "stdin_open", false),
			.max_output_bytes = output_max(call),
			.wait_ms = call->surface == OP_SURFACE_MCP ?
					   core_limits(call->core)->mcp_exec_wait_ms : -1,
		},
		.base64 = str_eq(json_get_str(call->args, "encoding", "utf8"), "base64"),
	};
	ret->req.wait_ms = bounded_wait_ms(call, ret->req.wait_ms);
	if (json_get_bool(call->args, "background", false))
		ret->req.wait_ms = 0;
	rc = read_env(json_object_get(call->args, "env"), ret, err);
	if (rc == 0)
		rc = read_bytes(call->args, "stdin", "stdin_base64", &ret->stdin_bytes, &has_stdin,
				err);
	if (rc < 0) {
		exec_args_clear(ret);
		return rc;
	}
	if (has_stdin) {
		ret->req.stdin_data = buf_str(&ret->stdin_bytes);
		ret->req.stdin_len = ret->stdin_bytes.len;
	}
	return 0;
}

void exec_args_clear(struct exec_args *args)
{
	if (args->env_text)
		explicit_bzero(args->env_text, strlen(args->env_text));
	free(args->env_text);
	free(args->env);
	buf_clear(&args->stdin_bytes);
	*args = (struct exec_args){ 0 };
}

/* ---- results ---- */

static void put_base64(json_t *json, const char *key, const struct buf *bytes)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	base64_encode(buf_str(bytes), bytes->len, &text);
	json_put_str(json, key, buf_str(&text));
}

void exec_put_signal(json_t *json, int number)
{
	const char *name = number > 0 ? sigabbrev_np(number) : NULL;
	char text[16];

	if (number <= 0) {
		json_put(json, "signal", json_null());
		return;
	}
	if (name)
		snprintf(text, sizeof(text), "SIG%s", name);
	else
		snprintf(text, sizeof(text), "%d", number);
	json_put_str(json, "signal", text);
}

json_t *exec_result_json(const struct core_exec_result *result, enum exec_output output)
{
	json_t *json = json_object();

	json_put_str(json, "exec_id", result->exec_id);
	json_put(json, "running", json_boolean(result->running));
	if (output == EXEC_OUTPUT_TEXT) {
		json_put(json, "stdout", json_from_bytes(buf_str(&result->out), result->out.len));
		json_put(json, "stderr", json_from_bytes(buf_str(&result->err), result->err.len));
	} else if (output == EXEC_OUTPUT_BASE64) {
		put_base64(json, "stdout_base64", &result->out);
		put_base64(json, "stderr_base64", &result->err);
	}
	json_put(json, "exit_code",
		 result->running ? json_null() : json_integer(result->exit_code));
	exec_put_signal(json, result->running ? 0 : result->signal);
	json_put_int(json, "duration_ms", result->duration_ms);
	json_put(json, "timed_out", json_boolean(result->timed_out));
	json_put(json, "truncated", json_boolean(result->truncated));
	json_put(json, "out_of_memory", json_boolean(result->out_of_memory));
	json_put_int(json, "stdout_bytes", (json_int_t)result->stdout_bytes);
	json_put_int(json, "stderr_bytes", (json_int_t)result->stderr_bytes);
	json_put_int(json, "next_offset", (json_int_t)result->out_to);
	json_put_int(json, "next_stderr_offset", (json_int_t)result->err_to);
	if (result->egress_denied)
		json_put(json, "egress_denied", json_incref(result->egress_denied));
	return json;
}

/* ---- waiting ---- */

/* Shared by the handler, which learns the core's call after the fact, and by done or cancel, of
 * which exactly one runs. */
struct exec_wait {
	atomic_uint refs;
	struct op_call *call;
	struct core *core;
	struct core_exec_call
		*waiting; /* set by the handler before it returns; read by cancel, later */
	bool base64;
};

static struct exec_wait *exec_wait_new(struct op_call *call)
{
	struct exec_wait *wait = xcalloc(1, sizeof(*wait));

	wait->refs = 2;
	wait->call = call;
	wait->core = call->core;
	wait->base64 = str_eq(json_get_str(call->args, "encoding", "utf8"), "base64");
	return wait;
}

static void exec_wait_unref(struct exec_wait *wait)
{
	if (atomic_fetch_sub(&wait->refs, 1) == 1)
		free(wait);
}

static json_t *result_of(const struct exec_wait *wait, const struct core_exec_result *result)
{
	return exec_result_json(result, wait->base64 ? EXEC_OUTPUT_BASE64 : EXEC_OUTPUT_TEXT);
}

/* A large result on its way to a worker: making text of it would hold up every other sandbox. */
struct large_result {
	struct exec_wait *wait;
	struct core_exec_result result;
};

static void finish_large(void *arg)
{
	struct large_result *large = arg;

	op_call_finish(large->wait->call, result_of(large->wait, &large->result), NULL);
	exec_wait_unref(large->wait);
	buf_clear(&large->result.out);
	buf_clear(&large->result.err);
	json_decref(large->result.egress_denied);
	free(large);
}

/* false: no worker took it, and nothing was changed. */
static bool hand_to_worker(struct exec_wait *wait, struct core_exec_result *result)
{
	struct large_result *large;

	if (!wait->call->pool || result->out.len + result->err.len < LARGE_RESULT_BYTES)
		return false;
	large = xcalloc(1, sizeof(*large));
	*large = (struct large_result){ .wait = wait, .result = *result };
	json_incref(large->result.egress_denied);
	if (pool_submit(wait->call->pool, finish_large, large) < 0) {
		json_decref(large->result.egress_denied);
		free(large);
		return false;
	}
	result->out = BUF_INIT; /* taken over */
	result->err = BUF_INIT;
	return true;
}

static void exec_done(void *arg, struct core_exec_result *result, const struct err *err)
{
	struct exec_wait *wait = arg;

	if (result && hand_to_worker(wait, result))
		return;
	op_call_finish(wait->call, result ? result_of(wait, result) : NULL, err);
	exec_wait_unref(wait);
}

static bool exec_cancel(struct op_call *call)
{
	struct exec_wait *wait = call->handler_state;

	if (!core_exec_cancel(wait->core, wait->waiting))
		return false;
	exec_wait_unref(wait);
	return true;
}

/* Ends a handler that called core_exec or core_exec_wait. */
static int exec_wait_return(struct exec_wait *wait, int rc)
{
	if (rc < 0) {
		free(wait); /* done will not run */
		return rc;
	}
	exec_wait_unref(wait);
	return OP_PENDING;
}

int op_exec(struct op_call *call, struct err *err)
{
	_cleanup_(exec_args_clear) struct exec_args args = { 0 };
	struct exec_wait *wait;
	int rc = exec_args_read(call, &args, err);

	if (rc < 0)
		return rc;
	wait = exec_wait_new(call);
	call->handler_state = wait;
	call->cancel = exec_cancel;
	rc = core_exec(call->core, &call->who, json_get_str(call->args, "id", ""), &args.req,
		       exec_done, wait, &wait->waiting, err);
	return exec_wait_return(wait, rc);
}

/* ---- a command that runs already ---- */

static int signal_number(const char *name)
{
	for (int number = 1; number < NSIG; number++) {
		const char *known = sigabbrev_np(number);

		if (known && str_eq(known, name + strlen("SIG")))
			return number;
	}
	log_error("operations table names an unknown signal", "signal=%s", name);
	abort();
}

static int feed_and_signal(struct op_call *call, struct err *err)
{
	const char *id = json_get_str(call->args, "id", "");
	const char *exec_id = json_get_str(call->args, "exec_id", "");
	const json_t *stdin_text = json_object_get(call->args, "stdin");
	const bool close_stdin = json_get_bool(call->args, "close_stdin", false);
	const char *signal_name = json_get_str(call->args, "signal", NULL);
	int rc = 0;

	if (stdin_text || close_stdin)
		rc = core_exec_input(call->core, &call->who, id, exec_id,
				     json_string_value(stdin_text), json_string_length(stdin_text),
				     close_stdin, err);
	if (rc == 0 && signal_name)
		rc = core_exec_signal(call->core, &call->who, id, exec_id,
				      signal_number(signal_name), err);
	return rc;
}

int op_exec_wait(struct op_call *call, struct err *err)
{
	const int64_t wait_default =
		call->surface == OP_SURFACE_MCP ? core_limits(call->core)->mcp_exec_wait_ms : 0;
	struct exec_wait *wait;
	int rc = feed_and_signal(call, err);

	if (rc < 0)
		return rc;
	wait = exec_wait_new(call);
	call->handler_state = wait;
	call->cancel = exec_cancel;
	rc = core_exec_wait(
		call->core, &call->who, json_get_str(call->args, "id", ""),
		json_get_str(call->args, "exec_id", ""),
		bounded_wait_ms(call, json_get_int(call->args, "wait_ms", wait_default)),
		(uint64_t)json_get_int(call->args, "from_offset", 0),
		(uint64_t)json_get_int(call->args, "from_stderr_offset", 0), output_max(call),
		exec_done, wait, &wait->waiting, err);
	return exec_wait_return(wait, rc);
}

int op_exec_input(struct op_call *call, struct err *err)
{
	_cleanup_buf_ struct buf data = BUF_INIT;
	const char *exec_id = json_get_str(call->args, "exec_id", "");
	const bool close_after = json_get_bool(call->args, "close", false);
	bool given = false;
	int rc = read_bytes(call->args, "data", "data_base64", &data, &given, err);

	if (rc < 0)
		return rc;
	if (!given && !close_after)
		return err_code(err, -EINVAL, "invalid_argument",
				"nothing to do: give \"data\", \"data_base64\" or \"close\": true");
	rc = core_exec_input(call->core, &call->who, json_get_str(call->args, "id", ""), exec_id,
			     buf_str(&data), data.len, close_after, err);
	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "exec_id", exec_id);
	json_put_int(call->result, "accepted_bytes", (json_int_t)data.len);
	return 0;
}

int op_exec_signal(struct op_call *call, struct err *err)
{
	const char *exec_id = json_get_str(call->args, "exec_id", "");
	const char *name = json_get_str(call->args, "signal", "");
	int rc = core_exec_signal(call->core, &call->who, json_get_str(call->args, "id", ""),
				  exec_id, signal_number(name), err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put_str(call->result, "exec_id", exec_id);
	return 0;
}

/* ---- the list ---- */

static json_t *exec_info_json(const struct core_exec_info *info)
{
	json_t *json = exec_result_json(&info->result, EXEC_OUTPUT_NONE);

	json_put(json, "command", json_from_bytes(info->command, strlen(info->command)));
	if (!info->command_whole)
		json_put(json, "command_truncated", json_true());
	json_put_time(json, "started_at", info->started_unix_ms);
	json_object_del(json, "truncated"); /* it is not looked at */
	json_object_del(json, "next_offset");
	json_object_del(json, "next_stderr_offset");
	return json;
}

int op_list_execs(struct op_call *call, struct err *err)
{
	_cleanup_free_ struct core_exec_info *list = NULL;
	json_t *items;
	size_t n;
	int rc = core_exec_list(call->core, &call->who, json_get_str(call->args, "id", ""), &list,
				&n, err);

	if (rc < 0)
		return rc;
	items = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(items, exec_info_json(&list[i]));
	call->result = json_object();
	json_put(call->result, "items", items);
	json_put(call->result, "next_cursor", json_null());
	return 0;
}
