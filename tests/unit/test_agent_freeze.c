/* Holding a guest's commands still for a snapshot, with guests that can, cannot, and answer
 * wrongly. */
#include "agent_channel.h"

#include <errno.h>
#include <string.h>

/* Answers every FREEZE and THAW with what the script's name says, whatever was asked. */
static void answer_freezer(struct peer *p, uint64_t token_shift, bool obedient)
{
	while (peer_next(p) == FRAME_FRAME) {
		bool freeze = p->in.header.type == PROTO_FREEZE;
		uint64_t token = frame_get_u64(&p->in.payload);
		size_t frame;

		if (!freeze && p->in.header.type != PROTO_THAW)
			continue;
		if (freeze)
			atomic_store(&p->freeze_timeout_ms, (int)frame_get_u32(&p->in.payload));
		else
			atomic_fetch_add(&p->n_thaws, 1);
		frame = frame_begin(&p->out, PROTO_FREEZER, 0, 0);
		frame_put_u64(&p->out, token + token_shift);
		frame_put_u8(&p->out, freeze == obedient);
		frame_put_u8(&p->out, true);
		frame_end(&p->out, frame);
		peer_flush(p);
	}
}

static void freezing_script(struct peer *p)
{
	peer_greet(p);
	answer_freezer(p, 0, true);
}

static void unable_script(struct peer *p)
{
	peer_greet(p);
	answer_freezer(p, 0, false);
}

static void another_token_script(struct peer *p)
{
	peer_greet(p);
	answer_freezer(p, 1000, true);
}

static void test_freeze_and_thaw(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, freezing_script);
	must_open(f);
	assert_int_equal(agent_freeze(f->agent, IN_MS(4000), &err), 0);
	/* The guest gives up before the host does. */
	assert_in_range(atomic_load(&f->peer.freeze_timeout_ms), 1, 3000);
	assert_int_equal(agent_thaw(f->agent, IN_MS(30000), &err), 0);
}

static void test_a_guest_that_cannot_freeze(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT, thaw_err = ERR_INIT;

	play(f, unable_script);
	must_open(f);
	assert_int_equal(agent_freeze(f->agent, IN_MS(30000), &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "freeze_failed");
	assert_int_equal(agent_thaw(f->agent, IN_MS(30000), &thaw_err), -EBUSY);
	assert_non_null(strstr(thaw_err.message, "go on"));
}

/* An answer to nothing is ignored, and a freeze that nobody waits for any more is taken back. */
static void test_a_freeze_given_up_is_taken_back(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, another_token_script);
	must_open(f);
	assert_int_equal(agent_freeze(f->agent, IN_MS(200), &err), -ETIMEDOUT);
	assert_string_equal(err_code_of(&err), "agent_timeout");
	wait_for(&f->peer.n_thaws, 1);
	assert_int_equal(atomic_load(&f->closed), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANNEL_TEST(test_freeze_and_thaw),
		CHANNEL_TEST(test_a_guest_that_cannot_freeze),
		CHANNEL_TEST(test_a_freeze_given_up_is_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
