/* The list of commands on the channel, from guests that keep to the protocol and from those that do
 * not. */
#include "agent_channel.h"

#include <errno.h>
#include <string.h>

struct entry {
	const char *id;
	size_t id_len;
	const char *command;
	size_t command_len;
	uint8_t whole, running;
	uint32_t exit_code, signal;
};

static const struct entry ended = { "exec_a", 6, "false", 5, 1, 0, 1, 0 };

static void put_entry(struct peer *p, const struct entry *e)
{
	frame_put_string(&p->out, e->id, e->id_len);
	frame_put_string(&p->out, e->command, e->command_len);
	frame_put_u8(&p->out, e->whole);
	frame_put_u8(&p->out, e->running);
	frame_put_u64(&p->out, 5000);
	frame_put_u32(&p->out, e->exit_code);
	frame_put_u32(&p->out, e->signal);
	frame_put_u32(&p->out, PROTO_EXIT_TIMED_OUT);
	frame_put_u64(&p->out, 1234);
	frame_put_u64(&p->out, 11);
	frame_put_u64(&p->out, 22);
}

/* Answers once: as many entries as it says, or fewer. */
static void answer(struct peer *p, uint32_t says, uint32_t n, const struct entry *entry)
{
	uint64_t token;
	size_t frame;

	peer_greet(p);
	if (!peer_expect(p, PROTO_ASK_EXECS))
		return;
	token = frame_get_u64(&p->in.payload);
	frame = frame_begin(&p->out, PROTO_EXECS, 0, 0);
	frame_put_u64(&p->out, token);
	frame_put_u32(&p->out, says);
	for (uint32_t i = 0; i < n; i++)
		put_entry(p, entry);
	frame_end(&p->out, frame);
	peer_flush(p);
	peer_be_quiet(p);
}

static int list(struct fixture *f, struct agent_exec_info **ret, size_t *ret_n)
{
	struct err err = ERR_INIT;

	return agent_list_execs(f->agent, IN_MS(30000), ret, ret_n, &err);
}

static void none_script(struct peer *p)
{
	answer(p, 0, 0, NULL);
}

static void test_none(void **state)
{
	struct fixture *f = *state;
	struct agent_exec_info *all = NULL;
	size_t n = 7;

	play(f, none_script);
	must_open(f);
	assert_int_equal(list(f, &all, &n), 0);
	assert_int_equal(n, 0);
	free(all);
}

static void full_script(struct peer *p)
{
	answer(p, PROTO_EXECS_MAX, PROTO_EXECS_MAX, &ended);
}

static void test_full(void **state)
{
	struct fixture *f = *state;
	struct agent_exec_info *all = NULL;
	size_t n;

	play(f, full_script);
	must_open(f);
	assert_int_equal(list(f, &all, &n), 0);
	assert_int_equal(n, PROTO_EXECS_MAX);
	assert_string_equal(all[n - 1].exec_id, "exec_a");
	assert_string_equal(all[n - 1].command, "false");
	assert_true(all[n - 1].command_whole);
	assert_false(all[n - 1].running);
	assert_int_equal(all[n - 1].age_ms, 5000);
	assert_int_equal(all[n - 1].exit.exit_code, 1);
	assert_true(all[n - 1].exit.timed_out);
	assert_false(all[n - 1].exit.out_of_memory);
	assert_int_equal(all[n - 1].exit.duration_ms, 1234);
	assert_int_equal(all[n - 1].exit.stderr_bytes, 22);
	assert_int_equal(f->closed, 0);
	free(all);
}

static void running_script(struct peer *p)
{
	const struct entry e = { "exec_b", 6, "", 0, 0, 1, UINT32_MAX, 0 };

	answer(p, 1, 1, &e);
}

static void test_running(void **state)
{
	struct fixture *f = *state;
	struct agent_exec_info *all = NULL;
	size_t n;

	play(f, running_script);
	must_open(f);
	assert_int_equal(list(f, &all, &n), 0);
	assert_int_equal(n, 1);
	assert_true(all[0].running);
	assert_false(all[0].command_whole);
	assert_int_equal(all[0].exit.exit_code, -1);
	free(all);
}

/* The longest entries that there may be fit into one frame. */
static void test_longest_fits(void **state)
{
	const size_t entry =
		4 + PROTO_EXEC_ID_MAX + 4 + PROTO_COMMAND_SHOWN_MAX + 2 + 8 + 3 * 4 + 3 * 8;

	assert_true(12 + PROTO_EXECS_MAX * entry <= PROTO_TO_HOST_MAX);
}

/* ---- what a guest must not say: each breaks the channel, and the call with it ---- */

static void missing_script(struct peer *p)
{
	answer(p, 2, 1, &ended);
}

static void more_script(struct peer *p)
{
	answer(p, 1, 2, &ended);
}

static void endless_script(struct peer *p)
{
	answer(p, PROTO_EXECS_MAX + 1, PROTO_EXECS_MAX + 1, &ended);
}

static void long_id_script(struct peer *p)
{
	const struct entry e = { "exec_0123456789012345678901234567890", 36, "x", 1, 1, 0, 0, 0 };

	answer(p, 1, 1, &e);
}

static void nul_id_script(struct peer *p)
{
	const struct entry e = { "ex\0ec", 5, "x", 1, 1, 0, 0, 0 };

	answer(p, 1, 1, &e);
}

static void nul_command_script(struct peer *p)
{
	const struct entry e = { "exec_a", 6, "x\0y", 3, 1, 0, 0, 0 };

	answer(p, 1, 1, &e);
}

static void long_command_script(struct peer *p)
{
	char text[PROTO_COMMAND_SHOWN_MAX + 1];
	struct entry e = ended;

	memset(text, 'x', sizeof(text));
	e.command = text;
	e.command_len = sizeof(text);
	answer(p, 1, 1, &e);
}

static void running_maybe_script(struct peer *p)
{
	struct entry e = ended;

	e.running = 2;
	answer(p, 1, 1, &e);
}

static void odd_signal_script(struct peer *p)
{
	struct entry e = ended;

	e.signal = 128;
	answer(p, 1, 1, &e);
}

static void refuse(void **state, void (*script)(struct peer *))
{
	struct fixture *f = *state;
	struct agent_exec_info *all = NULL;
	size_t n = 0;

	play(f, script);
	must_open(f);
	assert_int_equal(list(f, &all, &n), -EPROTO);
	assert_null(all);
	wait_for(&f->closed, 1);
}

#define REFUSED(name)                                                                              \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		refuse(state, name##_script);                                                      \
	}
REFUSED(missing)
REFUSED(more)
REFUSED(endless)
REFUSED(long_id)
REFUSED(nul_id)
REFUSED(nul_command)
REFUSED(long_command)
REFUSED(running_maybe)
REFUSED(odd_signal)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANNEL_TEST(test_none),	 CHANNEL_TEST(test_full),
		CHANNEL_TEST(test_running),	 cmocka_unit_test(test_longest_fits),
		CHANNEL_TEST(test_missing),	 CHANNEL_TEST(test_more),
		CHANNEL_TEST(test_endless),	 CHANNEL_TEST(test_long_id),
		CHANNEL_TEST(test_nul_id),	 CHANNEL_TEST(test_nul_command),
		CHANNEL_TEST(test_long_command), CHANNEL_TEST(test_running_maybe),
		CHANNEL_TEST(test_odd_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
