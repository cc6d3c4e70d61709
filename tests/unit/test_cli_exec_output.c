/* Events of a command become its bytes, each once and in order, also when they come again. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "cli/exec_live.h"
#include "cli/exec_output.h"

struct written {
	struct buf bytes[2];
	uint64_t missing;
	int answer;
};

static int on_write(void *arg, enum exec_stream stream, const void *data, size_t len)
{
	struct written *written = arg;

	if (written->answer == 0)
		buf_append(&written->bytes[stream], data, len);
	return written->answer;
}

static void on_gap(void *arg, enum exec_stream stream, uint64_t missing)
{
	struct written *written = arg;

	(void)stream;
	written->missing += missing;
}

static int setup(void **state)
{
	struct written *written = calloc(1, sizeof(*written));
	struct exec_output *output = calloc(1, sizeof(*output));

	output->write = on_write;
	output->gap = on_gap;
	output->arg = written;
	*state = output;
	return 0;
}

static int teardown(void **state)
{
	struct exec_output *output = *state;
	struct written *written = output->arg;

	exec_output_clear(output);
	buf_clear(&written->bytes[0]);
	buf_clear(&written->bytes[1]);
	free(written);
	free(output);
	return 0;
}

static int event(struct exec_output *output, const char *name, const char *data)
{
	return exec_output_event(output, name, data, strlen(data));
}

static void bytes_in_order(void **state)
{
	struct exec_output *output = *state;
	struct written *written = output->arg;

	assert_int_equal(event(output, "started", "{\"exec_id\":\"exe_12ab\"}"), 0);
	assert_string_equal(output->exec_id, "exe_12ab");
	assert_int_equal(event(output, "stdout", "{\"offset\":0,\"data\":\"one \"}"), 0);
	assert_int_equal(event(output, "stderr", "{\"offset\":0,\"data\":\"oops\"}"), 0);
	assert_int_equal(event(output, "stdout", "{\"offset\":4,\"data\":\"tw\\u0000o\"}"), 0);
	assert_int_equal(event(output, "stdout", "{\"offset\":8,\"data_base64\":\"AP+A\"}"), 0);
	assert_int_equal(written->bytes[EXEC_STDOUT].len, 11);
	assert_memory_equal(written->bytes[EXEC_STDOUT].data, "one tw\0o\0\xff\x80", 11);
	assert_string_equal(buf_str(&written->bytes[EXEC_STDERR]), "oops");
	assert_int_equal(output->next[EXEC_STDOUT], 11);
	assert_int_equal(output->next[EXEC_STDERR], 4);
	assert_int_equal(written->missing, 0);
}

static void nothing_twice(void **state)
{
	struct exec_output *output = *state;
	struct written *written = output->arg;

	assert_int_equal(event(output, "stdout", "{\"offset\":0,\"data\":\"abcd\"}"), 0);
	assert_int_equal(event(output, "stdout", "{\"offset\":0,\"data\":\"abcd\"}"), 0);
	assert_int_equal(event(output, "stdout", "{\"offset\":2,\"data\":\"cdef\"}"), 0);
	assert_int_equal(event(output, "stdout", "{\"offset\":1,\"data\":\"b\"}"), 0);
	assert_string_equal(buf_str(&written->bytes[EXEC_STDOUT]), "abcdef");
	assert_int_equal(written->missing, 0);
}

static void gaps_are_told(void **state)
{
	struct exec_output *output = *state;
	struct written *written = output->arg;

	assert_int_equal(event(output, "stdout", "{\"offset\":100,\"data\":\"late\"}"), 0);
	assert_int_equal(written->missing, 100);
	assert_string_equal(buf_str(&written->bytes[EXEC_STDOUT]), "late");
	assert_int_equal(output->next[EXEC_STDOUT], 104);

	/* The server says so itself, perhaps again, and before the bytes that follow. */
	written->missing = 0;
	assert_int_equal(event(output, "gap", "{\"stream\":\"stdout\",\"from\":104,\"to\":110}"),
			 0);
	assert_int_equal(event(output, "gap", "{\"stream\":\"stdout\",\"from\":90,\"to\":110}"), 0);
	assert_int_equal(event(output, "stdout", "{\"offset\":110,\"data\":\"!\"}"), 0);
	assert_int_equal(event(output, "gap", "{\"stream\":\"stderr\",\"from\":0,\"to\":5}"), 0);
	assert_int_equal(event(output, "gap", "{\"stream\":\"stderr\"}"), -EBADMSG);
	assert_int_equal(written->missing, 11);
	assert_string_equal(buf_str(&written->bytes[EXEC_STDOUT]), "late!");
}

static void a_failed_write_moves_nothing(void **state)
{
	struct exec_output *output = *state;
	struct written *written = output->arg;

	written->answer = -EPIPE;
	assert_int_equal(event(output, "stdout", "{\"offset\":0,\"data\":\"abcd\"}"), -EPIPE);
	assert_int_equal(output->next[EXEC_STDOUT], 0);
}

static void bad_events_are_refused(void **state)
{
	static const struct {
		const char *name, *data;
	} cases[] = {
		{ "stdout", "" },
		{ "stdout", "[]" },
		{ "stdout", "{}" },
		{ "stdout", "{\"offset\":0}" },
		{ "stdout", "{\"offset\":-1,\"data\":\"x\"}" },
		{ "stdout", "{\"offset\":\"0\",\"data\":\"x\"}" },
		{ "stdout", "{\"offset\":0,\"data_base64\":\"A\"}" },
		{ "stdout", "{\"offset\":0,\"data_base64\":7}" },
		{ "started", "{}" },
		{ "started", "{\"exec_id\":\"\"}" },
		{ "started", "{\"exec_id\":\"../../x\"}" },
		{ "started", "{\"exec_id\":\"a b\"}" },
		{ "exit", "nonsense" },
	};
	struct exec_output *output = *state;
	struct written *written = output->arg;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (event(output, cases[i].name, cases[i].data) != -EBADMSG)
			fail_msg("%s %s was accepted", cases[i].name, cases[i].data);
	assert_int_equal(written->bytes[EXEC_STDOUT].len, 0);
	assert_int_equal(event(output, "of a later version", "{}"), 0);
}

static void ends(void **state)
{
	struct exec_output *output = *state;

	assert_int_equal(event(output, "exit", "{\"exit_code\":3,\"signal\":null}"), 0);
	assert_int_equal(exec_exit_code(output->result), 3);
	assert_int_equal(event(output, "error", "{\"code\":\"sandbox_ended\",\"status\":410}"), 0);
	assert_string_equal(json_get_str(output->problem, "code", ""), "sandbox_ended");
}

static void exit_codes(void **state)
{
	static const struct {
		const char *result;
		int code;
	} cases[] = {
		{ "{\"exit_code\":0}", 0 },
		{ "{\"exit_code\":255}", 255 },
		{ "{\"exit_code\":137,\"signal\":\"SIGKILL\"}", 137 },
		{ "{\"exit_code\":124,\"timed_out\":true}", 124 },
		{ "{\"exit_code\":null,\"signal\":9}", 137 },
		{ "{\"exit_code\":256}", 1 },
		{ "{}", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_json_ json_t *result = json_loads(cases[i].result, 0, NULL);

		assert_int_equal(exec_exit_code(result), cases[i].code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bytes_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(gaps_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_write_moves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_events_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(ends, setup, teardown),
		cmocka_unit_test(exit_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
