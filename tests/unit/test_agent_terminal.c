/* Terminals on the channel: what a start and a resize look like on the wire, and the list of those
 * that are open, from guests that keep to the protocol and from those that do not. */
#include "agent_channel.h"

#include <errno.h>
#include <string.h>

/* ---- starting ---- */

static atomic_int n_started, n_resized, last_cols, last_rows, last_max, last_flags;

static void skip_text(struct frame_reader *r)
{
	(void)frame_get_string(r, PROTO_COMMAND_MAX);
}

static void start_script(struct peer *p)
{
	struct frame_reader *r = &p->in.payload;

	peer_greet(p);
	if (!peer_expect(p, PROTO_EXEC))
		return;
	last_flags = p->in.header.flags;
	skip_text(r); /* id */
	(void)frame_get_u64(r);
	for (int i = 0; i < 3; i++)
		skip_text(r); /* user, cwd, command */
	for (int i = 0; i < 3; i++)
		(void)frame_get_u64(r);
	for (uint32_t n = frame_get_u32(r); n > 0; n--)
		skip_text(r);
	last_cols = (int)frame_get_u32(r);
	last_rows = (int)frame_get_u32(r);
	last_max = (int)frame_get_u32(r);
	if (frame_done(r))
		n_started++;
	peer_put_started(p, p->in.header.handle);
	peer_flush(p);
	if (!peer_expect(p, PROTO_RESIZE))
		return;
	last_cols = (int)frame_get_u32(r);
	last_rows = (int)frame_get_u32(r);
	if (frame_done(r))
		n_resized++;
	peer_be_quiet(p);
}

static void start_on_loop(void *arg)
{
	static const char *const env[] = { "TERM=vt220", NULL };
	static const struct agent_tty tty = { .cols = 132, .rows = 43, .max = 3 };
	struct owner *o = arg;
	const struct agent_exec_spec spec = {
		.exec_id = "term_1",
		.command = "",
		.env = env,
		.stdin_open = true,
		.backpressure = true,
		.tty = &tty,
	};

	o->exec = agent_exec_start(o->f->agent, &spec, &owner_events, o);
}

static void resize_on_loop(void *arg)
{
	struct owner *o = arg;

	agent_exec_resize(o->exec, 80, 24);
}

static void test_start_and_resize(void **state)
{
	struct fixture *f = *state;
	struct owner o = { .f = f };

	play(f, start_script);
	must_open(f);
	loop_call(f->loop, start_on_loop, &o);
	wait_for(&o.n_started, 1);
	wait_for(&n_started, 1);
	assert_int_equal(last_flags, PROTO_EXEC_STDIN | PROTO_FOLLOW_BACKPRESSURE | PROTO_EXEC_TTY);
	assert_int_equal(last_cols, 132);
	assert_int_equal(last_rows, 43);
	assert_int_equal(last_max, 3);
	loop_call(f->loop, resize_on_loop, &o);
	wait_for(&n_resized, 1);
	assert_int_equal(last_cols, 80);
	assert_int_equal(last_rows, 24);
	owner_clear(&o);
	assert_int_equal(f->closed, 0);
}

/* ---- the list ---- */

static void put_terminal(struct peer *p, const char *id, size_t id_len, uint32_t cols, uint8_t busy)
{
	frame_put_string(&p->out, id, id_len);
	frame_put_u64(&p->out, 5000);
	frame_put_u64(&p->out, 777);
	frame_put_u32(&p->out, cols);
	frame_put_u32(&p->out, 24);
	frame_put_u8(&p->out, busy);
}

static size_t begin_answer(struct peer *p, uint32_t n)
{
	uint64_t token = frame_get_u64(&p->in.payload);
	size_t frame = frame_begin(&p->out, PROTO_TERMINALS, 0, 0);

	frame_put_u64(&p->out, token);
	frame_put_u32(&p->out, n);
	return frame;
}

static void list_script(struct peer *p)
{
	size_t frame;

	peer_greet(p);
	while (peer_expect(p, PROTO_ASK_TERMINALS)) {
		frame = begin_answer(p, 2);
		put_terminal(p, "term_a", 6, 80, 0);
		put_terminal(p, "term_b", 6, PROTO_TTY_SIZE_MAX, 1);
		frame_end(&p->out, frame);
		peer_flush(p);
	}
}

static int list(struct fixture *f, struct agent_terminal **ret, size_t *ret_n)
{
	struct err err = ERR_INIT;

	return agent_list_terminals(f->agent, IN_MS(30000), ret, ret_n, &err);
}

static void test_list(void **state)
{
	struct fixture *f = *state;
	struct agent_terminal *all = NULL;
	size_t n = 0;

	play(f, list_script);
	must_open(f);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(list(f, &all, &n), 0);
		assert_int_equal(n, 2);
		assert_string_equal(all[0].exec_id, "term_a");
		assert_int_equal(all[0].age_ms, 5000);
		assert_int_equal(all[0].output_bytes, 777);
		assert_int_equal(all[0].cols, 80);
		assert_false(all[0].busy);
		assert_string_equal(all[1].exec_id, "term_b");
		assert_true(all[1].busy);
		free(all);
	}
	assert_int_equal(f->closed, 0);
}

/* What a guest must not say: each breaks the channel, and the call with it. */
static void missing_script(struct peer *p)
{
	size_t frame;

	peer_greet(p);
	if (!peer_expect(p, PROTO_ASK_TERMINALS))
		return;
	frame = begin_answer(p, 2);
	put_terminal(p, "term_a", 6, 80, 0);
	frame_end(&p->out, frame);
	peer_flush(p);
	peer_be_quiet(p);
}

static void endless_script(struct peer *p)
{
	size_t frame;

	peer_greet(p);
	if (!peer_expect(p, PROTO_ASK_TERMINALS))
		return;
	frame = begin_answer(p, PROTO_TERMINALS_MAX + 1);
	for (uint32_t i = 0; i <= PROTO_TERMINALS_MAX; i++)
		put_terminal(p, "t", 1, 80, 0);
	frame_end(&p->out, frame);
	peer_flush(p);
	peer_be_quiet(p);
}

static void odd_script(struct peer *p, const char *id, size_t id_len, uint32_t cols, uint8_t busy)
{
	size_t frame;

	peer_greet(p);
	if (!peer_expect(p, PROTO_ASK_TERMINALS))
		return;
	frame = begin_answer(p, 1);
	put_terminal(p, id, id_len, cols, busy);
	frame_end(&p->out, frame);
	peer_flush(p);
	peer_be_quiet(p);
}

static void long_id_script(struct peer *p)
{
	odd_script(p, "term_0123456789012345678901234567890", 36, 80, 0);
}

static void nul_id_script(struct peer *p)
{
	odd_script(p, "te\0rm", 5, 80, 0);
}

static void size_script(struct peer *p)
{
	odd_script(p, "term_a", 6, PROTO_TTY_SIZE_MAX + 1, 0);
}

static void busy_script(struct peer *p)
{
	odd_script(p, "term_a", 6, 80, 2);
}

static void refuse_list(void **state, void (*script)(struct peer *))
{
	struct fixture *f = *state;
	struct agent_terminal *all = NULL;
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
		refuse_list(state, name##_script);                                                 \
	}
REFUSED(missing)
REFUSED(endless)
REFUSED(long_id)
REFUSED(nul_id)
REFUSED(size)
REFUSED(busy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANNEL_TEST(test_start_and_resize),
		CHANNEL_TEST(test_list),
		CHANNEL_TEST(test_missing),
		CHANNEL_TEST(test_endless),
		CHANNEL_TEST(test_long_id),
		CHANNEL_TEST(test_nul_id),
		CHANNEL_TEST(test_size),
		CHANNEL_TEST(test_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
