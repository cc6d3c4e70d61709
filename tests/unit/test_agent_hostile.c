/*
 * The host's channel against guests that do not keep to the protocol, each played by a thread. A
 * bad guest costs its own channel, nothing more.
 */
#include "agent_channel.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"

/* ---- guests that do not keep to the protocol ---- */

static atomic_int which; /* the case that misbehaving_script plays */

enum misdeed {
	BROKEN_FRAME,
	HUGE_LENGTH,
	UNKNOWN_TYPE,
	SHORT_PAYLOAD,
	SECOND_HELLO,
	NEW_MARKER,
	SAYS_LOST,
	FOREIGN_HANDLE,
	DATA_BEFORE_STARTED,
	WRONG_OFFSET,
	BEYOND_CREDIT,
	BEYOND_CREDIT_SLOWLY,
	EXIT_TWICE,
	BACKWARD_GAP,
	FOLLOWING_UNASKED,
	HANGS_UP,
	N_MISDEEDS,
};

static void misbehave(struct peer *p, enum misdeed misdeed, uint32_t handle)
{
	size_t frame;

	switch (misdeed) {
	case BROKEN_FRAME:
		buf_append(&p->out, "this is no frame at all, but long enough", 40);
		break;
	case HUGE_LENGTH:
		frame = frame_begin(&p->out, PROTO_DATA, 0, handle);
		frame_end(&p->out, frame);
		memcpy(p->out.data + frame + 12, "\xff\xff\xff\x7f", 4);
		break;
	case UNKNOWN_TYPE:
		frame_end(&p->out, frame_begin(&p->out, 200, 0, handle));
		break;
	case SHORT_PAYLOAD:
		frame_end(&p->out, frame_begin(&p->out, PROTO_EXIT, 0, handle));
		break;
	case SECOND_HELLO:
		peer_put_ack(p, PROTO_APPLIED_ALL);
		break;
	case NEW_MARKER:
		frame_put_marker(&p->out, p->in.nonce);
		break;
	case SAYS_LOST:
		frame_end(&p->out, frame_begin(&p->out, PROTO_LOST, 0, 0));
		break;
	case FOREIGN_HANDLE:
		peer_put_started(p, handle + 1);
		break;
	case DATA_BEFORE_STARTED:
		peer_put_data(p, handle, 0, 1);
		break;
	case WRONG_OFFSET:
		peer_put_started(p, handle);
		peer_put_data(p, handle, 5, 1);
		break;
	case BEYOND_CREDIT:
		peer_put_started(p, handle);
		peer_put_data(p, handle, 0, CREDIT + 1);
		break;
	case BEYOND_CREDIT_SLOWLY:
		peer_put_started(p, handle);
		for (uint64_t i = 0; i <= CREDIT; i++)
			peer_put_data(p, handle, i, 1);
		break;
	case EXIT_TWICE:
		peer_put_started(p, handle);
		peer_put_exit(p, handle);
		peer_put_exit(p, handle);
		break;
	case BACKWARD_GAP:
		peer_put_started(p, handle);
		peer_put_gap(p, handle, 10, 5);
		break;
	case FOLLOWING_UNASKED:
		peer_put_started(p, handle);
		peer_put_position(p, PROTO_FOLLOWING, handle, 0);
		break;
	case HANGS_UP:
		shutdown(p->fd, SHUT_RDWR);
		break;
	case N_MISDEEDS:
		break;
	}
}

static void misbehaving_script(struct peer *p)
{
	peer_greet(p);
	if (!peer_expect(p, PROTO_EXEC))
		return;
	misbehave(p, (enum misdeed)atomic_load(&which), p->in.header.handle);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_misdeeds_close_the_channel(void **state)
{
	for (int i = 0; i < N_MISDEEDS; i++) {
		struct fixture *f;
		struct owner o;
		struct err err = ERR_INIT;

		channel_set_up(state);
		f = *state;
		atomic_store(&which, i);
		play(f, misbehaving_script);
		must_open(f);
		owner_start(&o, f);
		wait_for(&f->closed, 1);
		assert_int_equal(o.n_lost, 1);
		assert_string_equal(err_code_of(&o.err), "agent_gone");
		assert_string_equal(err_code_of(&f->why), "agent_gone");
		assert_true(o.data.len <= CREDIT);
		/* Broken, but not closed yet: everything on it fails at once. */
		assert_int_equal(agent_ping(f->agent, IN_MS(30000), &err), -EPIPE);
		owner_clear(&o);
		owner_start(&o, f);
		wait_for(&o.n_lost, 1);
		owner_clear(&o);
		channel_tear_down(state);
	}
	*state = NULL;
}

/* A guest that sends for ever what costs no credit: the channel goes on and does not grow. */
static void endless_script(struct peer *p)
{
	peer_greet(p);
	if (!peer_expect(p, PROTO_EXEC))
		return;
	peer_put_started(p, p->in.header.handle);
	peer_flush(p);
	while (!atomic_load(&p->stop)) {
		for (int i = 0; i < 1000; i++) {
			size_t frame = frame_begin(&p->out, PROTO_PONG, 0, 0);

			frame_put_u64(&p->out, 1u << 30);
			frame_end(&p->out, frame);
		}
		peer_flush(p);
	}
}

static void test_endless_frames_cost_no_memory(void **state)
{
	struct fixture *f = *state;
	struct owner o;
	size_t before;

	play(f, endless_script);
	must_open(f);
	owner_start(&o, f);
	wait_for(&o.n_started, 1);
	usleep(200000);
	before = mallinfo2().uordblks;
	usleep(300000);
	assert_true(mallinfo2().uordblks < before + 1024 * 1024);
	/* The loop still has time for others. */
	{
		int64_t begin = clock_boottime_ms();

		loop_call(f->loop, owner_free_on_loop, NULL);
		assert_true(clock_boottime_ms() - begin < 1000);
	}
	owner_clear(&o);
	assert_int_equal(f->closed, 0);
}

/* A guest that reads nothing: what is queued for it is bounded, then it is given up. */
static void deaf_script(struct peer *p)
{
	peer_greet(p);
	while (!atomic_load(&p->stop))
		usleep(10000);
}

struct flood {
	struct owner *o;
	const char *data;
};

static void flood_on_loop(void *arg)
{
	struct flood *flood = arg;

	agent_exec_input(flood->o->exec, 0, flood->data, 1024 * 1024);
}

static void test_a_guest_that_reads_nothing(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *data = xcalloc(1, 1024 * 1024);
	struct owner o;

	play(f, deaf_script);
	must_open(f);
	owner_start(&o, f);
	for (int i = 0; i < 64 && !atomic_load(&f->closed); i++)
		loop_call(f->loop, flood_on_loop, &(struct flood){ .o = &o, .data = data });
	wait_for(&f->closed, 1);
	assert_non_null(strstr(f->why.message, "does not read"));
	assert_int_equal(o.n_lost, 1);
	owner_clear(&o);
}

static void test_ping_gives_up(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, deaf_script);
	must_open(f);
	assert_int_equal(agent_ping(f->agent, IN_MS(100), &err), -ETIMEDOUT);
	assert_string_equal(err_code_of(&err), "agent_timeout");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_misdeeds_close_the_channel),
		CHANNEL_TEST(test_endless_frames_cost_no_memory),
		CHANNEL_TEST(test_a_guest_that_reads_nothing),
		CHANNEL_TEST(test_ping_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
