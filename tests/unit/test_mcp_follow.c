/* How the wait for a command is cut into steps: what is asked next, and what is news. */
#include "unit.h"

#include <string.h>

#include "api/mcp_follow.h"
#include "base/json.h"

static const struct op exec_op = { .name = "exec" }, wait_op = { .name = "exec_wait" };
static const struct op list_op = { .name = "list_sandboxes" };
static const struct core_limits limits = { .mcp_exec_wait_ms = 45000 };

static json_t *parse(const char *text)
{
	json_t *value;

	assert_int_equal(json_parse(text, strlen(text), &value, NULL), 0);
	return value;
}

static void begin(struct mcp_follow *follow, const struct op *op, const char *args)
{
	_cleanup_json_ json_t *parsed = parse(args);

	mcp_follow_init(follow, op, parsed, &limits, 1000);
}

/* result NULL: the step failed; expected NULL: the end; news NULL: none. */
static void step(struct mcp_follow *follow, const char *result, int64_t now_ms,
		 const char *expected, const char *news)
{
	_cleanup_json_ json_t *parsed = result ? parse(result) : NULL;
	_cleanup_json_ json_t *next = NULL, *wanted = expected ? parse(expected) : NULL;
	const json_t *said;

	next = mcp_follow_next(follow, parsed, now_ms, &said);
	assert_true(expected ? json_equal(next, wanted) : !next);
	if (news)
		assert_string_equal(json_string_value(said), news);
	else
		assert_null(said);
}

#define RUNNING	  "{\"running\":true,\"exec_id\":\"exec_1\",\"stdout_bytes\":0,\"stderr_bytes\":0}"
#define ASK(more) "{\"id\":\"sbx_1\",\"exec_id\":\"exec_1\"," more "}"
#define ASK_TOTAL                                                                                  \
	ASK("\"wait_ms\":0,\"from_offset\":9223372036854775807,"                                   \
	    "\"from_stderr_offset\":9223372036854775807,\"max_output_bytes\":1")

static void test_other_operations_are_not_followed(void **state)
{
	struct mcp_follow follow;

	begin(&follow, &list_op, "{}");
	step(&follow, RUNNING, 2000, NULL, NULL);
	mcp_follow_clear(&follow);
	begin(&follow, &exec_op, "{\"id\":\"sbx_1\",\"background\":true}");
	step(&follow, RUNNING, 2000, NULL, NULL);
	mcp_follow_clear(&follow);
}

static void test_a_short_command_takes_one_step(void **state)
{
	struct mcp_follow follow;

	begin(&follow, &exec_op, "{\"id\":\"sbx_1\",\"command\":\"true\"}");
	step(&follow, "{\"running\":false,\"exec_id\":\"exec_1\"}", 1010, NULL, NULL);
	mcp_follow_clear(&follow);
	begin(&follow, &exec_op, "{\"id\":\"sbx_1\",\"command\":\"true\"}");
	step(&follow, NULL, 1010, NULL, NULL);
	mcp_follow_clear(&follow);
}

static void test_a_long_command_is_followed_to_the_deadline(void **state)
{
	struct mcp_follow follow;

	begin(&follow, &exec_op, "{\"id\":\"sbx_1\",\"command\":\"x\",\"max_output_bytes\":99}");
	step(&follow, RUNNING, 6000, ASK_TOTAL, NULL);
	step(&follow, "{\"running\":true,\"stdout_bytes\":1000,\"stderr_bytes\":7}", 6010,
	     ASK("\"wait_ms\":0,\"from_offset\":600,\"from_stderr_offset\":0,"
		 "\"max_output_bytes\":800"),
	     NULL);
	step(&follow,
	     "{\"running\":true,\"stdout_bytes\":1000,\"stderr_bytes\":7,\"stdout\":\"o\"}", 6020,
	     ASK("\"wait_ms\":5000,\"max_output_bytes\":99"), "o");
	/* only stderr grew */
	step(&follow, RUNNING, 11020, ASK_TOTAL, NULL);
	step(&follow, "{\"running\":true,\"stdout_bytes\":1000,\"stderr_bytes\":8}", 11030,
	     ASK("\"wait_ms\":0,\"from_offset\":600,\"from_stderr_offset\":0,"
		 "\"max_output_bytes\":800"),
	     NULL);
	step(&follow,
	     "{\"running\":true,\"stdout_bytes\":1000,\"stderr_bytes\":8,\"stdout\":\"o\","
	     "\"stderr\":\"e\"}",
	     11040, ASK("\"wait_ms\":5000,\"max_output_bytes\":99"), "e");
	/* nothing new, and less than a step is left */
	step(&follow, RUNNING, 44000, ASK_TOTAL, NULL);
	step(&follow, "{\"running\":true,\"stdout_bytes\":1000,\"stderr_bytes\":8}", 44000,
	     ASK("\"wait_ms\":0,\"from_offset\":600,\"from_stderr_offset\":0,"
		 "\"max_output_bytes\":800"),
	     NULL);
	step(&follow, "{\"running\":true,\"stdout_bytes\":1000,\"stderr_bytes\":8}", 44000,
	     ASK("\"wait_ms\":2000,\"max_output_bytes\":99"), NULL);
	step(&follow, RUNNING, 46000, NULL, NULL);
	mcp_follow_clear(&follow);
}

static void test_the_callers_offsets_and_wait_are_kept(void **state)
{
	struct mcp_follow follow;

	begin(&follow, &wait_op,
	      "{\"id\":\"sbx_1\",\"exec_id\":\"exec_1\",\"wait_ms\":9000,\"from_offset\":5,"
	      "\"from_stderr_offset\":6,\"stdin\":\"once\",\"signal\":\"SIGINT\"}");
	step(&follow, RUNNING, 6000, ASK_TOTAL, NULL);
	/* what fails on the way is left for the next wait */
	step(&follow, NULL, 6000,
	     ASK("\"wait_ms\":4000,\"from_offset\":5,\"from_stderr_offset\":6"), NULL);
	step(&follow, RUNNING, 10000, NULL, NULL);
	mcp_follow_clear(&follow);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_other_operations_are_not_followed),
		cmocka_unit_test(test_a_short_command_takes_one_step),
		cmocka_unit_test(test_a_long_command_is_followed_to_the_deadline),
		cmocka_unit_test(test_the_callers_offsets_and_wait_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
