/*
 * The host's channel against a guest that is played by a thread and keeps to the protocol, or
 * hardly does: opening, pings, commands. What a hostile one does is in test_agent_hostile.c.
 */
#include "agent_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"

/* ---- opening ---- */

static void good_script(struct peer *p)
{
	peer_greet(p);
	peer_be_quiet(p);
}

/* Tells of another's question first, and of a time that no guest can have been quiet for. */
static void active_script(struct peer *p)
{
	peer_greet(p);
	while (peer_next(p) == FRAME_FRAME) {
		uint64_t token = frame_get_u64(&p->in.payload);

		if (p->in.header.type != PROTO_ASK_ACTIVITY)
			continue;
		for (uint64_t i = 0; i < 2; i++) {
			size_t frame = frame_begin(&p->out, PROTO_ACTIVITY, 0, 0);

			frame_put_u64(&p->out, token + 1 - i);
			frame_put_u32(&p->out, i ? 3 : 9);
			frame_put_u64(&p->out, UINT64_MAX);
			frame_end(&p->out, frame);
		}
		peer_flush(p);
	}
}

static void test_activity(void **state)
{
	struct fixture *f = *state;
	struct agent_activity activity = { 0 };
	struct err err = ERR_INIT;

	play(f, active_script);
	must_open(f);
	assert_int_equal(agent_ask_activity(f->agent, IN_MS(30000), &activity, &err), 0);
	assert_int_equal(activity.running, 3);
	assert_true(activity.quiet_ms == INT64_MAX);
	assert_int_equal(f->closed, 0);
}

static void test_open_and_ping(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, good_script);
	must_open(f);
	assert_int_equal(f->info.epoch, 3);
	assert_int_equal(f->info.mem_total_kib, 500000);
	assert_string_equal(f->info.agent_version, "9.9");
	assert_string_equal(f->info.kernel_release, "6.1.0?-test"); /* it will be shown to people */
	assert_string_equal(f->info.os_name, "Test OS");
	assert_int_equal(f->peer.hello_flags, PROTO_HELLO_IDENTITY);
	assert_string_equal(f->peer.hostname, "sbx-1");
	assert_int_equal(agent_ping(f->agent, IN_MS(30000), &err), 0);
}

static void *late_listener(void *arg)
{
	struct peer *p = arg;

	usleep(200000);
	p->listen_fd = unix_listen(p->path, 0600);
	p->script(p);
	return NULL;
}

static void test_waits_for_the_socket(void **state)
{
	struct fixture *f = *state;

	close(f->peer.listen_fd);
	unlink(f->peer.path);
	f->peer.script = good_script;
	assert_int_equal(pthread_create(&f->peer.thread, NULL, late_listener, &f->peer), 0);
	must_open(f);
}

static void silent_script(struct peer *p)
{
	peer_accept(p);
	while (peer_next(p) != FRAME_NEED_MORE)
		;
}

static void test_silence(void **state)
{
	struct fixture *f = *state;
	int64_t begin = clock_boottime_ms();
	struct err err = ERR_INIT;

	play(f, silent_script);
	assert_int_equal(open_agent(f, 300, &err), -ETIMEDOUT);
	assert_string_equal(err_code_of(&err), "agent_timeout");
	assert_in_range(clock_boottime_ms() - begin, 290, 2000);
	assert_int_equal(f->closed, 0);
}

/* A guest that hangs in a half frame: it needs the flush, and answers the marker after it. */
static void half_frame_script(struct peer *p)
{
	char waste[4096];
	size_t left = PROTO_TO_GUEST_MAX;

	peer_accept(p);
	while (left > 0) {
		ssize_t n = recv(p->fd, waste, left < sizeof(waste) ? left : sizeof(waste), 0);

		if (n <= 0)
			return;
		left -= (size_t)n;
	}
	while (peer_next(p) != FRAME_MARKER)
		;
	frame_put_marker(&p->out, p->in.nonce);
	peer_put_ack(p, PROTO_APPLIED_ALL);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_flush(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, half_frame_script);
	must_open(f);
	assert_int_equal(agent_ping(f->agent, IN_MS(30000), &err), 0);
}

static void refusing_script(struct peer *p)
{
	peer_accept(p);
	peer_next(p);
	frame_put_marker(&p->out, p->in.nonce);
	peer_put_ack(p, PROTO_APPLIED_CLOCK);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_identity_not_taken(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, refusing_script);
	assert_int_equal(open_agent(f, 5000, &err), -EPROTO);
	assert_non_null(strstr(err.message, "identity"));
	assert_null(f->agent);
}

static void without_generation_script(struct peer *p)
{
	peer_accept(p);
	peer_next(p);
	frame_put_marker(&p->out, p->in.nonce);
	peer_put_ack(p, PROTO_APPLIED_ALL & ~PROTO_APPLIED_GENERATION);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_a_guest_that_tells_nobody(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;

	play(f, without_generation_script);
	assert_int_equal(open_agent(f, 5000, &err), -EPROTO);
	assert_null(f->agent);
}

/* ---- execs ---- */

static void exec_script(struct peer *p)
{
	uint32_t handle;

	peer_greet(p);
	if (!peer_expect(p, PROTO_EXEC))
		return;
	handle = p->in.header.handle;
	peer_put_started(p, handle);
	peer_put_data(p, handle, 0, 5);
	peer_put_data(p, handle, 5, 3);
	peer_put_exit(p, handle);
	peer_put_position(p, PROTO_EOF, handle, 8);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_exec(void **state)
{
	struct fixture *f = *state;
	struct owner o;

	play(f, exec_script);
	must_open(f);
	owner_start(&o, f);
	wait_for(&o.n_eof, 1);
	assert_int_equal(o.n_started, 1);
	assert_string_equal(buf_str(&o.data), "dddddddd");
	assert_int_equal(o.exit.exit_code, -1);
	assert_int_equal(o.exit.signal, 9);
	assert_true(o.exit.timed_out);
	assert_false(o.exit.out_of_memory);
	assert_int_equal(o.exit.duration_ms, 250);
	assert_int_equal(o.exit.stdout_bytes, 8);
	owner_clear(&o);
	assert_int_equal(f->closed, 0);
}

static void failing_script(struct peer *p)
{
	size_t frame;

	peer_greet(p);
	if (!peer_expect(p, PROTO_EXEC))
		return;
	frame = frame_begin(&p->out, PROTO_FAILED, 0, p->in.header.handle);
	frame_put_u32(&p->out, PROTO_FAIL_USER);
	frame_put_string(&p->out, "no such\x1b[31m user", 17);
	frame_end(&p->out, frame);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_failure(void **state)
{
	struct fixture *f = *state;
	struct owner o;

	play(f, failing_script);
	must_open(f);
	owner_start(&o, f);
	wait_for(&o.n_failed, 1);
	assert_string_equal(err_code_of(&o.err), "user_not_found");
	assert_string_equal(o.err.message, "no such?[31m user");
	owner_clear(&o);
	assert_int_equal(o.n_lost, 0);
}

static void attach_script(struct peer *p)
{
	uint32_t handle;
	size_t frame;

	peer_greet(p);
	if (!peer_expect(p, PROTO_ATTACH))
		return;
	handle = p->in.header.handle;
	frame = frame_begin(&p->out, PROTO_STATE, 0, handle);
	frame_put_u8(&p->out, 1);
	frame_put_u64(&p->out, 5000);
	frame_put_u64(&p->out, 0);
	frame_put_u64(&p->out, 0);
	frame_put_u64(&p->out, 99);
	frame_end(&p->out, frame);
	if (!peer_expect(p, PROTO_FOLLOW))
		return;
	peer_put_position(p, PROTO_FOLLOWING, handle, 4000);
	frame = frame_begin(&p->out, PROTO_GAP, 0, handle);
	frame_put_u8(&p->out, PROTO_STDOUT);
	frame_put_u64(&p->out, 4000);
	frame_put_u64(&p->out, 4500);
	frame_end(&p->out, frame);
	peer_put_data(p, handle, 4500, 4);
	peer_flush(p);
	/* A second FOLLOW: what is under way for the first is not delivered. */
	if (!peer_expect(p, PROTO_FOLLOW))
		return;
	peer_put_data(p, handle, 4504, 100);
	peer_put_position(p, PROTO_FOLLOWING, handle, 4000);
	peer_put_data(p, handle, 4000, 2);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_attach_and_follow(void **state)
{
	struct fixture *f = *state;
	struct owner o = { .f = f };

	play(f, attach_script);
	must_open(f);
	loop_call(f->loop, owner_attach_on_loop, &o);
	loop_call(f->loop, owner_follow_on_loop, &o);
	wait_for(&o.n_data, 1);
	assert_int_equal(o.n_state, 1);
	assert_int_equal(o.gap_to, 4500);
	assert_string_equal(buf_str(&o.data), "dddd");
	loop_call(f->loop, owner_follow_on_loop, &o);
	wait_for(&o.n_data, 2);
	assert_string_equal(buf_str(&o.data), "dddddd");
	owner_clear(&o);
	assert_int_equal(f->closed, 0);
}

/* Data that was under way when the handle was freed is ignored; a second exec is not disturbed. */
static void late_data_script(struct peer *p)
{
	uint32_t first;

	peer_greet(p);
	if (!peer_expect(p, PROTO_EXEC))
		return;
	first = p->in.header.handle;
	peer_put_started(p, first);
	peer_put_data(p, first, 0, 10);
	peer_flush(p);
	if (!peer_expect(p, PROTO_DETACH) || p->in.header.handle != first ||
	    !peer_expect(p, PROTO_EXEC))
		return;
	peer_put_data(p, first, 10, 100);
	peer_put_started(p, p->in.header.handle);
	peer_put_data(p, p->in.header.handle, 0, 4);
	peer_flush(p);
	peer_be_quiet(p);
}

static void test_free_in_a_callback(void **state)
{
	struct fixture *f = *state;
	struct owner first = { .f = f, .free_in_callback = true }, second;

	play(f, late_data_script);
	must_open(f);
	loop_call(f->loop, owner_start_on_loop, &first);
	wait_for(&first.n_data, 1);
	owner_start(&second, f);
	wait_for(&second.n_data, 1);
	assert_int_equal(second.data.len, 4);
	owner_clear(&first);
	owner_clear(&second);
	assert_int_equal(f->closed, 0);
}

static void test_close_in_a_callback(void **state)
{
	struct fixture *f = *state;
	struct owner o = { .f = f, .close_in_callback = true };

	play(f, late_data_script);
	must_open(f);
	loop_call(f->loop, owner_start_on_loop, &o);
	wait_for(&o.n_lost, 1);
	assert_int_equal(f->closed, 0); /* on_closed is for a channel that broke */
	owner_clear(&o);
}

static void test_close_loses_execs(void **state)
{
	struct fixture *f = *state;
	struct owner o;

	play(f, good_script);
	must_open(f);
	owner_start(&o, f);
	agent_close(STEAL(f->agent));
	assert_int_equal(o.n_lost, 1);
	assert_string_equal(err_code_of(&o.err), "agent_gone");
	owner_clear(&o);
}

struct large {
	struct owner *o;
	const struct agent_exec_spec *spec;
	int failed_at_once;
};

static void start_large_on_loop(void *arg)
{
	struct large *large = arg;

	large->o->exec = agent_exec_start(large->o->f->agent, large->spec, &owner_events, large->o);
	large->failed_at_once = atomic_load(&large->o->n_failed);
}

static void test_too_large_a_request(void **state)
{
	struct fixture *f = *state;
	struct owner o = { .f = f, .free_in_callback = true };
	_cleanup_free_ char *command = xmalloc(PROTO_COMMAND_MAX + 2);
	const struct agent_exec_spec spec = { .exec_id = "e", .command = command };
	struct large large = { .o = &o, .spec = &spec };
	struct err err = ERR_INIT;

	memset(command, 'x', PROTO_COMMAND_MAX + 1);
	command[PROTO_COMMAND_MAX + 1] = '\0';
	play(f, good_script);
	must_open(f);
	loop_call(f->loop, start_large_on_loop, &large);
	assert_int_equal(large.failed_at_once, 0); /* never from within the call */
	wait_for(&o.n_failed, 1);
	assert_string_equal(err_code_of(&o.err), "invalid_argument");
	assert_int_equal(agent_ping(f->agent, IN_MS(30000), &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHANNEL_TEST(test_open_and_ping),
		CHANNEL_TEST(test_activity),
		CHANNEL_TEST(test_waits_for_the_socket),
		CHANNEL_TEST(test_silence),
		CHANNEL_TEST(test_flush),
		CHANNEL_TEST(test_identity_not_taken),
		CHANNEL_TEST(test_a_guest_that_tells_nobody),
		CHANNEL_TEST(test_exec),
		CHANNEL_TEST(test_failure),
		CHANNEL_TEST(test_attach_and_follow),
		CHANNEL_TEST(test_free_in_a_callback),
		CHANNEL_TEST(test_close_in_a_callback),
		CHANNEL_TEST(test_close_loses_execs),
		CHANNEL_TEST(test_too_large_a_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
