/*
 * Handles: one consumer of one exec in the guest. See agent.h.
 *
 * A handle's number is a generation and a slot, so that a frame is matched to its exec in one step,
 * and a frame that was under way when its handle was freed is told from one that never was issued.
 *
 * The guest may send DATA only against credit. Credit that a handle or an earlier position of it
 * still had when it was given up goes into agent->stale_credit: late DATA is taken from there, and
 * beyond it ends the channel like any other DATA beyond credit.
 */
#include "agent/internal.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

#define MESSAGE_MAX 512

enum phase {
	PHASE_OPENING, /* before STARTED, STATE or FAILED */
	PHASE_OPEN,
	PHASE_ENDED, /* failed or lost: the guest does not know the handle (any more) */
};

struct stream {
	bool following;
	unsigned int unanswered; /* FOLLOWs without their FOLLOWING */
	uint64_t asked;		 /* offset of the last FOLLOW */
	uint64_t next;		 /* where the next DATA, GAP or EOF must begin */
	uint64_t credit;	 /* bytes the guest may still send */
};

struct agent_exec {
	struct agent *agent; /* NULL once lost */
	struct loop *loop;
	struct agent_exec *next, **link; /* in agent->execs */
	struct agent_exec_events events;
	void *arg;
	enum phase phase;
	bool has_slot;
	bool attached; /* by agent_exec_attach: STATE instead of STARTED */
	bool exited;
	uint32_t handle;
	struct stream streams[2];
	struct loop_timer *refusal_timer; /* what could not even be sent */
	struct err refusal;
};

static struct stream *stream_of(struct agent_exec *exec, int stream)
{
	return &exec->streams[stream == PROTO_STDERR];
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* ---- handles ---- */

static bool take_slot(struct agent *agent, struct agent_exec *exec)
{
	for (uint32_t i = 0; i < PROTO_HANDLES_MAX; i++) {
		uint32_t slot = (agent->next_slot + i) % PROTO_HANDLES_MAX;

		if (agent->slots[slot])
			continue;
		agent->slots[slot] = exec;
		agent->next_slot = slot + 1;
		agent->generations[slot]++;
		exec->handle = agent->generations[slot] << SLOT_BITS | slot;
		exec->has_slot = true;
		return true;
	}
	return false;
}

static void give_up_stream(struct agent *agent, struct stream *s)
{
	agent->stale_credit = add_saturated(agent->stale_credit, s->credit);
	s->credit = 0;
}

/* The exec forgets its slot; frames of it are stale from now on. */
static void release_slot(struct agent_exec *exec)
{
	struct agent *agent = exec->agent;

	if (!exec->has_slot)
		return;
	give_up_stream(agent, &exec->streams[0]);
	give_up_stream(agent, &exec->streams[1]);
	agent->slots[exec->handle % PROTO_HANDLES_MAX] = NULL;
	exec->has_slot = false;
}

static void unlink_exec(struct agent_exec *exec)
{
	release_slot(exec);
	*exec->link = exec->next;
	if (exec->next)
		exec->next->link = exec->link;
	exec->agent = NULL;
	exec->phase = PHASE_ENDED;
	loop_timer_remove(STEAL(exec->refusal_timer));
}

void agent_exec_lose_all(struct agent *agent, const struct err *why)
{
	while (agent->execs) {
		struct agent_exec *exec = agent->execs;

		unlink_exec(exec);
		if (exec->events.lost)
			exec->events.lost(exec->arg, why);
	}
}

static void on_refusal(void *arg)
{
	struct agent_exec *exec = arg;
	struct agent *agent = exec->agent;
	bool lost = agent->broken;

	agent_enter(agent);
	unlink_exec(exec);
	if (lost && exec->events.lost)
		exec->events.lost(exec->arg, &exec->refusal);
	else if (!lost && exec->events.failed)
		exec->events.failed(exec->arg, &exec->refusal);
	agent_leave(agent);
}

/* The owner hears of it from the loop, because it does not expect callbacks from within its call.
 */
static void refuse(struct agent_exec *exec)
{
	exec->refusal_timer = loop_timer_add(exec->loop, clock_boottime_ms(), on_refusal, exec);
}

static struct agent_exec *new_exec(struct agent *agent, const struct agent_exec_events *events,
				   void *arg)
{
	struct agent_exec *exec = xcalloc(1, sizeof(*exec));

	exec->agent = agent;
	exec->loop = agent->loop;
	exec->events = *events;
	exec->arg = arg;
	exec->next = agent->execs;
	exec->link = &agent->execs;
	if (exec->next)
		exec->next->link = &exec->next;
	agent->execs = exec;
	if (agent->broken)
		err_code(&exec->refusal, -EPIPE, "agent_gone",
			 "the channel to the sandbox's agent is broken");
	else if (!take_slot(agent, exec))
		err_code(&exec->refusal, -EMFILE, "exec_limit",
			 "%u commands of this sandbox are being looked at, which is the limit",
			 PROTO_HANDLES_MAX);
	return exec;
}

/* ---- requests ---- */

static int check_spec(const struct agent_exec_spec *spec, size_t *ret_n_env, struct err *err)
{
	size_t env_len = 0, n = 0;

	if (strlen(spec->command) > PROTO_COMMAND_MAX)
		return err_code(err, -E2BIG, "invalid_argument",
				"command is %zu bytes long, the limit is %u", strlen(spec->command),
				PROTO_COMMAND_MAX);
	for (; spec->env && spec->env[n]; n++)
		env_len += strlen(spec->env[n]) + 1;
	if (env_len > PROTO_ENV_MAX)
		return err_code(err, -E2BIG, "invalid_argument",
				"env is %zu bytes long, the limit is %u", env_len, PROTO_ENV_MAX);
	if (strlen(spec->exec_id) > PROTO_EXEC_ID_MAX || (spec->cwd && strlen(spec->cwd) > 4095) ||
	    (spec->user && strlen(spec->user) > 255))
		return err_code(err, -E2BIG, "invalid_argument",
				"exec id, cwd or user is longer than 32, 4095 or 255 bytes");
	*ret_n_env = n;
	return 0;
}

static void put_text(struct buf *out, const char *s)
{
	frame_put_string(out, s ? s : "", s ? strlen(s) : 0);
}

struct agent_exec *agent_exec_start(struct agent *agent, const struct agent_exec_spec *spec,
				    const struct agent_exec_events *events, void *arg)
{
	struct agent_exec *exec = new_exec(agent, events, arg);
	uint16_t flags = (uint16_t)((spec->stdin_open ? PROTO_EXEC_STDIN : 0) |
				    (spec->confined ? PROTO_EXEC_CONFINED : 0) |
				    (spec->backpressure ? PROTO_FOLLOW_BACKPRESSURE : 0) |
				    (spec->tty ? PROTO_EXEC_TTY : 0));
	struct buf *out = &agent->out;
	size_t frame, n_env = 0;

	if (exec->refusal.num < 0 || check_spec(spec, &n_env, &exec->refusal) < 0) {
		refuse(exec);
		return exec;
	}
	frame = frame_begin(out, PROTO_EXEC, flags, exec->handle);
	put_text(out, spec->exec_id);
	frame_put_u64(out, spec->timeout_ms);
	put_text(out, spec->user);
	put_text(out, spec->cwd);
	put_text(out, spec->command);
	frame_put_u64(out, spec->log_cap_bytes ? spec->log_cap_bytes : PROTO_LOG_CAP_DEFAULT);
	frame_put_u64(out, spec->stdout_credit);
	frame_put_u64(out, spec->stderr_credit);
	frame_put_u32(out, (uint32_t)n_env);
	for (size_t i = 0; i < n_env; i++)
		put_text(out, spec->env[i]);
	if (spec->tty) {
		frame_put_u32(out, spec->tty->cols);
		frame_put_u32(out, spec->tty->rows);
		frame_put_u32(out, spec->tty->max);
	}
	frame_end(out, frame);
	exec->streams[0] = (struct stream){ .following = true, .credit = spec->stdout_credit };
	exec->streams[1] = (struct stream){ .following = true, .credit = spec->stderr_credit };
	agent_flush(agent);
	return exec;
}

struct agent_exec *agent_file_start(struct agent *agent, const struct agent_file_spec *spec,
				    const struct agent_exec_events *events, void *arg)
{
	struct agent_exec *exec = new_exec(agent, events, arg);
	struct buf *out = &agent->out;
	size_t frame;

	if (exec->refusal.num == 0 && (spec->request_len > PROTO_FILE_REQUEST_MAX ||
				       (spec->user && strlen(spec->user) > 255)))
		err_code(&exec->refusal, -E2BIG, "invalid_argument",
			 "the request, or its user's name, is too long");
	if (exec->refusal.num < 0) {
		refuse(exec);
		return exec;
	}
	frame = frame_begin(out, PROTO_FILE,
			    (uint16_t)((spec->stdin_open ? PROTO_EXEC_STDIN : 0) |
				       (spec->confined ? PROTO_EXEC_CONFINED : 0)),
			    exec->handle);
	put_text(out, spec->exec_id);
	put_text(out, spec->user);
	frame_put_u64(out, spec->stdout_credit);
	frame_put_u64(out, spec->stderr_credit);
	frame_put_string(out, spec->request, spec->request_len);
	frame_end(out, frame);
	exec->streams[0] = (struct stream){ .following = true, .credit = spec->stdout_credit };
	exec->streams[1] = (struct stream){ .following = true, .credit = spec->stderr_credit };
	agent_flush(agent);
	return exec;
}

struct agent_exec *agent_exec_attach(struct agent *agent, const char *exec_id,
				     const struct agent_exec_events *events, void *arg)
{
	struct agent_exec *exec = new_exec(agent, events, arg);
	size_t frame;

	exec->attached = true;
	if (exec->refusal.num == 0 && strlen(exec_id) > PROTO_EXEC_ID_MAX)
		err_code(&exec->refusal, -ENOENT, "exec_not_found", "no exec has an id that long");
	if (exec->refusal.num < 0) {
		refuse(exec);
		return exec;
	}
	frame = frame_begin(&agent->out, PROTO_ATTACH, 0, exec->handle);
	put_text(&agent->out, exec_id);
	frame_end(&agent->out, frame);
	agent_flush(agent);
	return exec;
}

void agent_exec_follow(struct agent_exec *exec, int stream, uint64_t offset, uint64_t credit,
		       bool backpressure)
{
	struct stream *s = stream_of(exec, stream);
	struct buf *out;
	size_t frame;

	if (!exec->has_slot)
		return;
	give_up_stream(exec->agent, s);
	s->following = true;
	s->unanswered++;
	s->asked = offset;
	s->credit = credit;
	out = &exec->agent->out;
	frame = frame_begin(out, PROTO_FOLLOW, backpressure ? PROTO_FOLLOW_BACKPRESSURE : 0,
			    exec->handle);
	frame_put_u8(out, (uint8_t)stream);
	frame_put_u64(out, offset);
	frame_put_u64(out, credit);
	frame_end(out, frame);
	agent_flush(exec->agent);
}

void agent_exec_credit(struct agent_exec *exec, int stream, uint64_t bytes)
{
	struct stream *s = stream_of(exec, stream);
	struct buf *out;
	size_t frame;

	if (!exec->has_slot || bytes == 0)
		return;
	s->credit = add_saturated(s->credit, bytes);
	out = &exec->agent->out;
	frame = frame_begin(out, PROTO_CREDIT, 0, exec->handle);
	frame_put_u8(out, (uint8_t)stream);
	frame_put_u64(out, bytes);
	frame_end(out, frame);
	agent_flush(exec->agent);
}

void agent_exec_input(struct agent_exec *exec, uint64_t offset, const void *data, size_t len)
{
	const char *at = data;

	if (!exec->has_slot)
		return;
	while (len > 0) {
		size_t n = len < PROTO_DATA_MAX ? len : PROTO_DATA_MAX;
		struct buf *out = &exec->agent->out;
		size_t frame = frame_begin(out, PROTO_INPUT, 0, exec->handle);

		frame_put_u64(out, offset);
		frame_put_bytes(out, at, n);
		frame_end(out, frame);
		offset += n;
		at += n;
		len -= n;
	}
	agent_flush(exec->agent);
}

static void send_plain(struct agent_exec *exec, uint8_t type)
{
	frame_end(&exec->agent->out, frame_begin(&exec->agent->out, type, 0, exec->handle));
	agent_flush(exec->agent);
}

void agent_exec_input_close(struct agent_exec *exec)
{
	if (exec->has_slot)
		send_plain(exec, PROTO_INPUT_CLOSE);
}

void agent_exec_resize(struct agent_exec *exec, uint32_t cols, uint32_t rows)
{
	size_t frame;

	if (!exec->has_slot)
		return;
	frame = frame_begin(&exec->agent->out, PROTO_RESIZE, 0, exec->handle);
	frame_put_u32(&exec->agent->out, cols);
	frame_put_u32(&exec->agent->out, rows);
	frame_end(&exec->agent->out, frame);
	agent_flush(exec->agent);
}

void agent_exec_signal(struct agent_exec *exec, int signal)
{
	size_t frame;

	if (!exec->has_slot)
		return;
	frame = frame_begin(&exec->agent->out, PROTO_SIGNAL, 0, exec->handle);
	frame_put_u32(&exec->agent->out, (uint32_t)signal);
	frame_end(&exec->agent->out, frame);
	agent_flush(exec->agent);
}

void agent_exec_free(struct agent_exec *exec)
{
	if (!exec)
		return;
	if (exec->has_slot && exec->phase != PHASE_ENDED)
		send_plain(exec, PROTO_DETACH);
	if (exec->agent)
		unlink_exec(exec);
	free(exec);
}

/* ---- answers ---- */

static int take_failed(struct agent_exec *exec, const struct agent_message *m)
{
	static const struct {
		int num;
		const char *code;
	} reasons[] = {
		[PROTO_FAIL_BAD_REQUEST] = { -EINVAL, "invalid_argument" },
		[PROTO_FAIL_CWD] = { -ENOENT, "cwd_not_found" },
		[PROTO_FAIL_USER] = { -ENOENT, "user_not_found" },
		[PROTO_FAIL_NOT_EXECUTABLE] = { -ENOEXEC, "not_executable" },
		[PROTO_FAIL_LIMIT] = { -EAGAIN, "exec_limit" },
		[PROTO_FAIL_EXISTS] = { -EEXIST, "exec_exists" },
		[PROTO_FAIL_UNKNOWN_EXEC] = { -ENOENT, "exec_not_found" },
		[PROTO_FAIL_RESOURCES] = { -ENOMEM, "guest_resources" },
		[PROTO_FAIL_DENIED] = { -EPERM, "scope_denied" },
	};
	uint32_t reason = m->failed.reason;
	struct err err = ERR_INIT;
	char text[MESSAGE_MAX];
	size_t len =
		m->failed.message.len < sizeof(text) - 1 ? m->failed.message.len : sizeof(text) - 1;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)m->failed.message.data[i];

		text[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
	}
	text[len] = '\0';
	if (reason < 1 || reason >= ARRAY_SIZE(reasons))
		reason = PROTO_FAIL_RESOURCES;
	err_code(&err, reasons[reason].num, reasons[reason].code, "%s", text);
	unlink_exec(exec);
	if (exec->events.failed)
		exec->events.failed(exec->arg, &err);
	return 0;
}

static int take_state(struct agent_exec *exec, const struct agent_message *m)
{
	const struct agent_exec_state state = {
		.running = m->state.running,
		.stdout_bytes = m->state.stdout_total,
		.stderr_bytes = m->state.stderr_total,
		.input_offset = m->state.input_offset,
		.duration_ms = m->state.duration_ms,
	};

	exec->phase = PHASE_OPEN;
	if (exec->events.state)
		exec->events.state(exec->arg, &state);
	return 0;
}

static int take_exit(struct agent_exec *exec, const struct agent_message *m, struct err *err)
{
	const struct agent_exit ended = {
		.exit_code = m->exit.exit_code,
		.signal = (int)m->exit.signal,
		.timed_out = m->exit.bits & PROTO_EXIT_TIMED_OUT,
		.out_of_memory = m->exit.bits & PROTO_EXIT_OOM,
		.duration_ms = m->exit.duration_ms,
		.stdout_bytes = m->exit.stdout_total,
		.stderr_bytes = m->exit.stderr_total,
	};

	if (exec->exited)
		return err_set(err, -EPROTO, "the guest reported an exit twice");
	exec->exited = true;
	if (exec->events.exited)
		exec->events.exited(exec->arg, &ended);
	return 0;
}

static int take_data(struct agent_exec *exec, const struct agent_message *m, struct err *err)
{
	struct stream *s = stream_of(exec, m->data.stream);
	struct frame_slice bytes = m->data.bytes;
	uint64_t *credit = s->unanswered ? &exec->agent->stale_credit : &s->credit;

	if (bytes.len > *credit)
		return err_set(err, -EPROTO, "the guest sent output beyond its credit");
	*credit -= bytes.len;
	if (s->unanswered)
		return 0;
	if (!s->following || m->data.offset != s->next)
		return err_set(err, -EPROTO, "the guest sent output of a wrong offset");
	s->next += bytes.len;
	if (exec->events.data)
		exec->events.data(exec->arg, m->data.stream, m->data.offset, bytes.data, bytes.len);
	return 0;
}

static int take_gap(struct agent_exec *exec, const struct agent_message *m, struct err *err)
{
	struct stream *s = stream_of(exec, m->gap.stream);

	if (s->unanswered)
		return 0;
	if (!s->following || m->gap.from != s->next)
		return err_set(err, -EPROTO, "the guest reported a gap at a wrong offset");
	s->next = m->gap.to;
	if (exec->events.gap)
		exec->events.gap(exec->arg, m->gap.stream, m->gap.from, m->gap.to);
	return 0;
}

static int take_eof(struct agent_exec *exec, const struct agent_message *m, struct err *err)
{
	struct stream *s = stream_of(exec, m->position.stream);

	if (s->unanswered)
		return 0;
	/* A follower that began beyond the end is told where the end is. */
	if (!s->following || m->position.offset > s->next ||
	    (m->position.offset < s->next && s->next != s->asked))
		return err_set(err, -EPROTO,
			       "the guest reported the end of output at a wrong offset");
	s->following = false;
	if (exec->events.eof)
		exec->events.eof(exec->arg, m->position.stream, m->position.offset);
	return 0;
}

static int take_following(struct agent_exec *exec, const struct agent_message *m, struct err *err)
{
	struct stream *s = stream_of(exec, m->position.stream);

	if (s->unanswered == 0)
		return err_set(err, -EPROTO, "the guest answered a request that was not made");
	if (--s->unanswered > 0)
		return 0;
	if (m->position.offset != s->asked)
		return err_set(err, -EPROTO, "the guest follows from a wrong offset");
	s->next = s->asked;
	return 0;
}

static int dispatch_open(struct agent_exec *exec, const struct agent_message *m, struct err *err)
{
	switch (m->type) {
	case PROTO_DATA:
		return take_data(exec, m, err);
	case PROTO_GAP:
		return take_gap(exec, m, err);
	case PROTO_EOF:
		return take_eof(exec, m, err);
	case PROTO_FOLLOWING:
		return take_following(exec, m, err);
	case PROTO_EXIT:
		return take_exit(exec, m, err);
	case PROTO_INPUT_WINDOW_FRAME:
		if (exec->events.input_window)
			exec->events.input_window(exec->arg, m->input_window);
		return 0;
	default:
		return err_set(err, -EPROTO, "the guest sent a frame of type %u out of order",
			       m->type);
	}
}

static int dispatch_stale(struct agent *agent, const struct agent_message *m, struct err *err)
{
	if (m->type != PROTO_DATA)
		return 0;
	if (m->data.bytes.len > agent->stale_credit)
		return err_set(err, -EPROTO, "the guest sent output beyond its credit");
	agent->stale_credit -= m->data.bytes.len;
	return 0;
}

int agent_exec_dispatch(struct agent *agent, const struct agent_message *m, struct err *err)
{
	uint32_t slot = m->handle % PROTO_HANDLES_MAX;
	struct agent_exec *exec = agent->slots[slot];
	uint32_t generation = m->handle >> SLOT_BITS;

	if (generation == 0 || generation > agent->generations[slot])
		return err_set(err, -EPROTO, "the guest used a handle that was never given");
	if (!exec || exec->handle != m->handle)
		return dispatch_stale(agent, m, err);
	if (exec->phase == PHASE_OPEN)
		return dispatch_open(exec, m, err);
	if (m->type == PROTO_FAILED)
		return take_failed(exec, m);
	if (m->type == PROTO_STATE && exec->attached)
		return take_state(exec, m);
	if (m->type != PROTO_STARTED || exec->attached)
		return err_set(err, -EPROTO, "the guest sent a frame of type %u out of order",
			       m->type);
	exec->phase = PHASE_OPEN;
	if (exec->events.started)
		exec->events.started(exec->arg, m->started_pid);
	return 0;
}
