/*
 * What the audit is told, for every operation of the table on every surface: each that changes or
 * runs something once, with its result; none of what is secret. A new operation is tested without
 * being named here.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/ops.h"
#include "api/ops_audit.h"
#include "api/ops_internal.h"
#include "base/json.h"
#include "base/str.h"
#include "fake_audit.h"
#include "fake_core.h"

#define SECRET "hunter2"

struct fixture {
	struct loop *loop;
	struct pool *pool;
	struct core *core;
};
static struct fixture fixture;

static int set_up(void **state)
{
	struct err err = ERR_INIT;

	assert_int_equal(loop_new(&fixture.loop, &err), 0);
	assert_int_equal(loop_start(fixture.loop, "loop", &err), 0);
	assert_int_equal(pool_new(2, 64, &fixture.pool, &err), 0);
	fixture.core = fake_core_new(fixture.loop);
	return 0;
}

static int tear_down(void **state)
{
	pool_free(fixture.pool);
	loop_free(fixture.loop);
	fake_core_free(fixture.core);
	return 0;
}

/* ---- arguments that are accepted, with something secret wherever it may be ---- */

static void take_first(void *arg, const char *choice)
{
	const char **first = arg;

	if (!*first)
		*first = choice;
}

static json_t *value_of(const struct op_arg *arg)
{
	const char *choice = NULL;
	int64_t min, max;

	if (arg->flags & ARG_SECRET)
		return arg->type == ARG_STRING_MAP ? json_pack("{s:s}", "KEY", SECRET)
						   : json_string(SECRET);
	ops_arg_bounds(arg, core_limits(fixture.core), &min, &max);
	switch (arg->type) {
	case ARG_STRING:
		if (str_eq(arg->name, "id"))
			return json_string("sbx_aa");
		if (ops_arg_choices(arg, core_limits(fixture.core), take_first, &choice))
			return json_string(choice);
		return json_string("0755aa");
	case ARG_INTEGER:
		return json_integer(min);
	case ARG_NUMBER:
		return json_real((double)min / 1000);
	case ARG_BOOLEAN:
		return json_true();
	case ARG_STRING_MAP:
		return json_pack("{s:s}", "key", "value");
	case ARG_OBJECT:
		return json_object();
	case ARG_STRING_LIST:
	case ARG_RULES:
		return json_pack("[s]", "example.com");
	}
	return NULL;
}

static json_t *all_args(const struct op *op, enum op_surface surface)
{
	json_t *args = json_object();

	for (size_t i = 0; i < op->n_args; i++) {
		if (ops_arg_on(&op->args[i], surface) &&
		    ((op->args[i].flags & (ARG_REQUIRED | ARG_SECRET)) ||
		     str_eq(op->args[i].name, "command")))
			json_put(args, op->args[i].name, value_of(&op->args[i]));
	}
	return args;
}

/* ---- a call ---- */

struct done {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	char code[64];
};

static void on_finished(struct op_call *call, const struct err *err)
{
	struct done *done = call->surface_state;

	pthread_mutex_lock(&done->lock);
	done->done = true;
	str_copy(done->code, sizeof(done->code), err ? err_code_of(err) : "ok");
	pthread_cond_signal(&done->cond);
	pthread_mutex_unlock(&done->lock);
}

static void run(const struct op *op, enum op_surface surface, const struct principal *who,
		char code[64])
{
	struct done done = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };
	struct op_call call;

	op_call_init(&call, op, fixture.core, who, surface, "req_1");
	call.pool = fixture.pool;
	call.args = all_args(op, surface);
	call.surface_state = &done;
	call.finished = on_finished;
	op_call_run(&call);
	pthread_mutex_lock(&done.lock);
	while (!done.done)
		pthread_cond_wait(&done.cond, &done.lock);
	pthread_mutex_unlock(&done.lock);
	op_call_clear(&call);
	str_copy(code, 64, done.code);
}

static void assert_record(const struct op *op, enum op_surface surface, const char *code)
{
	const json_t *records = fake_audit_records(), *record;
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (json_array_size(records) != 1 || fake_audit_begun() != 1)
		fail_msg("%s: %zu records, %zu were begun", op->name, json_array_size(records),
			 fake_audit_begun());
	record = json_array_get(records, 0);
	assert_string_equal(json_get_str(record, "operation", ""), op->name);
	assert_string_equal(json_get_str(record, "result", ""), code);
	assert_string_equal(json_get_str(record, "request_id", ""), "req_1");
	assert_string_equal(json_get_str(record, "key_id", ""), "key_1");
	assert_string_equal(json_get_str(record, "surface", ""),
			    surface == OP_SURFACE_MCP ? "mcp" : "rest");
	json_write(records, &text);
	if (strstr(buf_str(&text), SECRET))
		fail_msg("%s: a secret is in the audit: %s", op->name, buf_str(&text));
}

static const struct principal admin = { .account_id = "acc_1", .key_id = "key_1", .admin = true };

static bool runs_here(const struct op *op, enum op_surface surface)
{
	return op->handler && (surface == OP_SURFACE_MCP ? op->on_mcp : op->rest_method != NULL);
}

static void test_every_operation(void **state)
{
	static const enum op_surface surfaces[] = { OP_SURFACE_REST, OP_SURFACE_MCP };
	size_t n, n_audited = 0;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n * 2; i++) {
		const struct op *op = &ops[i / 2];
		const enum op_surface surface = surfaces[i % 2];
		_cleanup_json_ json_t *args = all_args(op, surface);
		char code[64];

		if (!runs_here(op, surface))
			continue;
		fake_audit_reset();
		run(op, surface, &admin, code);
		if (ops_audit_mode(op, args) == OPS_AUDIT_NONE) {
			assert_int_equal(fake_audit_begun(), 0);
			assert_true(op->hints & OP_READ_ONLY || str_eq(op->name, "exec_wait"));
		} else {
			assert_record(op, surface, code);
			n_audited++;
		}
	}
	assert_true(n_audited > 25);
}

/* Whatever it is: that it was refused is in the audit. */
static void test_refused(void **state)
{
	const struct principal guest = { .account_id = "acc_2", .key_id = "key_1" };
	size_t n, refused = 0;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		char code[64];

		if (!str_eq(ops[i].scope, "admin") || !ops[i].handler)
			continue;
		fake_audit_reset();
		run(&ops[i], OP_SURFACE_REST, &guest, code);
		assert_string_equal(code, "forbidden");
		assert_record(&ops[i], OP_SURFACE_REST, "forbidden");
		refused++;
	}
	assert_true(refused > 0);
}

/* While it cannot be written nothing is done but what ends something. */
static void test_unwritable(void **state)
{
	char code[64];

	fake_audit_reset();
	fake_audit_fail(true);
	run(ops_find("create_sandbox"), OP_SURFACE_REST, &admin, code);
	assert_string_equal(code, "disk_full");
	run(ops_find("exec"), OP_SURFACE_MCP, &admin, code);
	assert_string_equal(code, "disk_full");
	run(ops_find("get_sandbox"), OP_SURFACE_REST, &admin, code);
	assert_string_equal(code, "ok");
	run(ops_find("destroy_sandbox"), OP_SURFACE_REST, &admin, code);
	assert_string_equal(code, "ok");
	assert_int_equal(json_array_size(fake_audit_records()), 1);
	fake_audit_reset();
}

static void test_arguments(void **state)
{
	const struct op *exec = ops_find("exec");
	const size_t long_len = 60000;
	_cleanup_free_ char *command = malloc(long_len + 1);
	_cleanup_json_ json_t *args = json_object(), *kept = NULL;

	assert_non_null(command);
	memset(command, 'x', long_len);
	command[long_len] = '\0';
	json_put_str(args, "id", "sbx_aa");
	json_put_str(args, "command", command);
	json_put(args, "background", json_false()); /* the default: not worth a word */
	json_put(args, "stdin_open", json_true());
	json_put_str(args, "stdin", SECRET);
	kept = ops_audit_args(exec, args);
	assert_int_equal(json_string_length(json_object_get(kept, "command")), 16384);
	assert_int_equal(json_get_int(kept, "command_bytes", 0), long_len);
	assert_null(json_object_get(kept, "background"));
	assert_null(json_object_get(kept, "stdin"));
	assert_true(json_get_bool(kept, "stdin_open", false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_operation),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_unwritable),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
