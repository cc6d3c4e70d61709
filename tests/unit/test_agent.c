/*
 * The host's channel against a guest that is played by a thread: one that keeps to the protocol,
 * and ones that do everything else. A bad guest costs its own channel, nothing more.
 */
#include "fake_guest.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

#define IN_MS(n) (clock_boottime_ms() + (n))
#define CREDIT	 1000

/* ---- the fixture ---- */

struct fixture {
	char dir[SCRATCH_SIZE];
	struct loop *loop;
	struct peer peer;
	struct agent *agent;
	struct agent_info info;
	atomic_int closed;
	struct err why;
};

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	struct err err = ERR_INIT;

	scratch_make(f->dir);
	assert_int_equal(loop_new(&f->loop, &err), 0);
	assert_int_equal(loop_start(f->loop, "test", &err), 0);
	snprintf(f->peer.path, sizeof(f->peer.path), "%s/agent", f->dir);
	f->peer.fd = -1;
	f->peer.listen_fd = unix_listen(f->peer.path, 0600);
	assert_true(f->peer.listen_fd >= 0);
	frame_decoder_init(&f->peer.in, PROTO_TO_GUEST_MAX);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	agent_close(f->agent);
	atomic_store(&f->peer.stop, true);
	if (f->peer.script)
		pthread_join(f->peer.thread, NULL);
	frame_decoder_clear(&f->peer.in);
	buf_clear(&f->peer.out);
	close(f->peer.listen_fd);
	loop_free(f->loop);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

static void play(struct fixture *f, void (*script)(struct peer *))
{
	f->peer.script = script;
	assert_int_equal(pthread_create(&f->peer.thread, NULL, peer_thread, &f->peer), 0);
}

static void on_closed(void *arg, const struct err *why)
{
	struct fixture *f = arg;

	f->why = *why;
	atomic_fetch_add(&f->closed, 1);
}

static int open_agent(struct fixture *f, int timeout_ms, struct err *err)
{
	const struct agent_identity identity = {
		.apply = true,
		.epoch = 3,
		.hostname = "sbx-1",
		.machine_id = "00112233445566778899aabbccddeeff",
	};

	return agent_open(f->loop, f->peer.path, &identity, IN_MS(timeout_ms), on_closed, f,
			  &f->agent, &f->info, err);
}

static void must_open(struct fixture *f)
{
	struct err err = ERR_INIT;

	if (open_agent(f, 5000, &err) < 0)
		fail_msg("%s", err.message);
}

static void wait_for(atomic_int *value, int wanted)
{
	int64_t deadline = IN_MS(10000);

	while (atomic_load(value) < wanted) {
		assert_true(clock_boottime_ms() < deadline);
		usleep(1000);
	}
}

/* ---- an exec as its owner sees it ---- */

struct owner {
	struct fixture *f;
	struct agent_exec *exec;
	atomic_int n_started, n_state, n_data, n_gap, n_eof, n_exited, n_failed, n_lost;
	struct buf data;
	struct agent_exit exit;
	struct err err;
	uint64_t gap_to;
	bool free_in_callback, close_in_callback;
};

static void on_started(void *arg, uint32_t pid)
{
	struct owner *o = arg;

	assert_int_equal(pid, 77);
	atomic_fetch_add(&o->n_started, 1);
}

static void on_state(void *arg, const struct agent_exec_state *s)
{
	struct owner *o = arg;

	assert_true(s->running);
	assert_int_equal(s->stdout_bytes, 5000);
	atomic_fetch_add(&o->n_state, 1);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct owner *o = arg;

	buf_append(&o->data, data, len);
	if (o->free_in_callback)
		agent_exec_free(STEAL(o->exec));
	if (o->close_in_callback)
		agent_close(STEAL(o->f->agent));
	atomic_fetch_add(&o->n_data, 1);
}

static void on_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
	struct owner *o = arg;

	o->gap_to = to;
	atomic_fetch_add(&o->n_gap, 1);
}

static void on_eof(void *arg, int stream, uint64_t total)
{
	atomic_fetch_add(&((struct owner *)arg)->n_eof, 1);
}

static void on_exited(void *arg, const struct agent_exit *ended)
{
	struct owner *o = arg;

	o->exit = *ended;
	atomic_fetch_add(&o->n_exited, 1);
}

static void on_failed(void *arg, const struct err *err)
{
	struct owner *o = arg;

	o->err = *err;
	if (o->free_in_callback)
		agent_exec_free(STEAL(o->exec));
	atomic_fetch_add(&o->n_failed, 1);
}

static void on_lost(void *arg, const struct err *err)
{
	struct owner *o = arg;

	o->err = *err;
	if (o->free_in_callback)
		agent_exec_free(STEAL(o->exec));
	atomic_fetch_add(&o->n_lost, 1);
}

static const struct agent_exec_events events = {
	.started = on_started,
	.state = on_state,
	.data = on_data,
	.gap = on_gap,
	.eof = on_eof,
	.exited = on_exited,
	.failed = on_failed,
	.lost = on_lost,
};

static void start_on_loop(void *arg)
{
	struct owner *o = arg;
	const char *env[] = { "A=b", NULL };
	const struct agent_exec_spec spec = {
		.exec_id = "e1",
		.command = "true",
		.env = env,
		.stdout_credit = CREDIT,
		.stderr_credit = CREDIT,
	};

	o->exec = agent_exec_start(o->f->agent, &spec, &events, o);
}

static void attach_on_loop(void *arg)
{
	struct owner *o = arg;

	o->exec = agent_exec_attach(o->f->agent, "e1", &events, o);
}

static void follow_on_loop(void *arg)
{
	struct owner *o = arg;

	agent_exec_follow(o->exec, PROTO_STDOUT, 4000, CREDIT, false);
}

static void free_on_loop(void *arg)
{
	agent_exec_free(arg);
}

static void start(struct owner *o, struct fixture *f)
{
	*o = (struct owner){ .f = f };
	loop_call(f->loop, start_on_loop, o);
}

static void owner_clear(struct owner *o)
{
	loop_call(o->f->loop, free_on_loop, o->exec);
	buf_clear(&o->data);
}

/* ---- opening ---- */

static void good_script(struct peer *p)
{
	peer_greet(p);
	peer_be_quiet(p);
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
	assert_int_equal(agent_ping(f->agent, IN_MS(5000), &err), 0);
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
	assert_int_equal(agent_ping(f->agent, IN_MS(5000), &err), 0);
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
	start(&o, f);
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
	start(&o, f);
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
	loop_call(f->loop, attach_on_loop, &o);
	loop_call(f->loop, follow_on_loop, &o);
	wait_for(&o.n_data, 1);
	assert_int_equal(o.n_state, 1);
	assert_int_equal(o.gap_to, 4500);
	assert_string_equal(buf_str(&o.data), "dddd");
	loop_call(f->loop, follow_on_loop, &o);
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
	loop_call(f->loop, start_on_loop, &first);
	wait_for(&first.n_data, 1);
	start(&second, f);
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
	loop_call(f->loop, start_on_loop, &o);
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
	start(&o, f);
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

	large->o->exec = agent_exec_start(large->o->f->agent, large->spec, &events, large->o);
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
	assert_int_equal(agent_ping(f->agent, IN_MS(5000), &err), 0);
}

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

		set_up(state);
		f = *state;
		atomic_store(&which, i);
		play(f, misbehaving_script);
		must_open(f);
		start(&o, f);
		wait_for(&f->closed, 1);
		assert_int_equal(o.n_lost, 1);
		assert_string_equal(err_code_of(&o.err), "agent_gone");
		assert_string_equal(err_code_of(&f->why), "agent_gone");
		assert_true(o.data.len <= CREDIT);
		/* Broken, but not closed yet: everything on it fails at once. */
		assert_int_equal(agent_ping(f->agent, IN_MS(5000), &err), -EPIPE);
		owner_clear(&o);
		start(&o, f);
		wait_for(&o.n_lost, 1);
		owner_clear(&o);
		tear_down(state);
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
	start(&o, f);
	wait_for(&o.n_started, 1);
	usleep(200000);
	before = mallinfo2().uordblks;
	usleep(300000);
	assert_true(mallinfo2().uordblks < before + 1024 * 1024);
	/* The loop still has time for others. */
	{
		int64_t begin = clock_boottime_ms();

		loop_call(f->loop, free_on_loop, NULL);
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
	start(&o, f);
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

/* ---- freezing ---- */

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
	assert_int_equal(agent_thaw(f->agent, IN_MS(4000), &err), 0);
}

static void test_a_guest_that_cannot_freeze(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT, thaw_err = ERR_INIT;

	play(f, unable_script);
	must_open(f);
	assert_int_equal(agent_freeze(f->agent, IN_MS(4000), &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "freeze_failed");
	assert_int_equal(agent_thaw(f->agent, IN_MS(4000), &thaw_err), -EBUSY);
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

#define AGENT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		AGENT_TEST(test_open_and_ping),
		AGENT_TEST(test_waits_for_the_socket),
		AGENT_TEST(test_silence),
		AGENT_TEST(test_flush),
		AGENT_TEST(test_identity_not_taken),
		AGENT_TEST(test_exec),
		AGENT_TEST(test_failure),
		AGENT_TEST(test_attach_and_follow),
		AGENT_TEST(test_free_in_a_callback),
		AGENT_TEST(test_close_in_a_callback),
		AGENT_TEST(test_close_loses_execs),
		AGENT_TEST(test_too_large_a_request),
		cmocka_unit_test(test_misdeeds_close_the_channel),
		AGENT_TEST(test_endless_frames_cost_no_memory),
		AGENT_TEST(test_a_guest_that_reads_nothing),
		AGENT_TEST(test_ping_gives_up),
		AGENT_TEST(test_freeze_and_thaw),
		AGENT_TEST(test_a_guest_that_cannot_freeze),
		AGENT_TEST(test_a_freeze_given_up_is_taken_back),
		AGENT_TEST(test_a_guest_that_tells_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
