/* A channel to a played guest, and one of its commands. See agent_channel.h. */
#include "agent_channel.h"

#include "base/alloc.h"

/* ---- the fixture ---- */

int channel_set_up(void **state)
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

int channel_tear_down(void **state)
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

void play(struct fixture *f, void (*script)(struct peer *))
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

int open_agent(struct fixture *f, int timeout_ms, struct err *err)
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

void must_open(struct fixture *f)
{
	struct err err = ERR_INIT;

	if (open_agent(f, 5000, &err) < 0)
		fail_msg("%s", err.message);
}

void wait_for(atomic_int *value, int wanted)
{
	int64_t deadline = IN_MS(10000);

	while (atomic_load(value) < wanted) {
		assert_true(clock_boottime_ms() < deadline);
		usleep(1000);
	}
}

/* ---- an exec as its owner sees it ---- */

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

const struct agent_exec_events owner_events = {
	.started = on_started,
	.state = on_state,
	.data = on_data,
	.gap = on_gap,
	.eof = on_eof,
	.exited = on_exited,
	.failed = on_failed,
	.lost = on_lost,
};

void owner_start_on_loop(void *arg)
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

	o->exec = agent_exec_start(o->f->agent, &spec, &owner_events, o);
}

void owner_attach_on_loop(void *arg)
{
	struct owner *o = arg;

	o->exec = agent_exec_attach(o->f->agent, "e1", &owner_events, o);
}

void owner_follow_on_loop(void *arg)
{
	struct owner *o = arg;

	agent_exec_follow(o->exec, PROTO_STDOUT, 4000, CREDIT, false);
}

void owner_free_on_loop(void *arg)
{
	agent_exec_free(arg);
}

void owner_start(struct owner *o, struct fixture *f)
{
	*o = (struct owner){ .f = f };
	loop_call(f->loop, owner_start_on_loop, o);
}

void owner_clear(struct owner *o)
{
	loop_call(o->f->loop, owner_free_on_loop, o->exec);
	buf_clear(&o->data);
}
