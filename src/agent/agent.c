/*
 * The channel to one guest: connecting, synchronising, queues, teardown. See agent.h.
 *
 * Theory of operation. The socket is non-blocking and level-triggered on the loop. Frames to send
 * are appended to agent->out and written at once as far as the socket takes them; the rest goes out
 * on EPOLLOUT. A write never reports an error to its caller, because callers are owners that do not
 * expect callbacks there: the socket is shut down instead, and the next read breaks the channel.
 *
 * Opening: marker, nonce and HELLO are queued. The guest may still be booting, then they wait in
 * the socket's buffer. Only when the VMM has taken them and nothing has come back for a while does
 * the guest probably hang in a half frame of an earlier session, and the flush of guest_proto.h is
 * sent, once.
 *
 * Teardown (agent_break) closes everything at once and gives every exec its `lost`. The struct
 * lives until agent_close, and while callbacks of it are under way (depth).
 */
#include "agent/internal.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"

#define READ_SIZE	 (64u * 1024u)
#define READS_PER_ROUND	 4		     /* then other sandboxes have their turn */
#define OUT_MAX		 (32u * 1024 * 1024) /* a guest that does not read; windows alone stay far below */
#define OUT_KEEP	 (256u * 1024) /* storage kept by an idle queue */
#define CONNECT_RETRY_MS 2
#define FLUSH_TICK_MS	 100
#define CLOCK_ERROR_MS	 100 /* the clock is sent again when it was under way for longer */
#define CLOCK_TRIES	 5   /* on a machine that is too busy for that, as it was */
#define CLOCK_TOKEN	 0   /* of the ping behind the clock; agent_ping begins at 1 */

/* ---- waiters ---- */

static int waiter_init(struct agent_waiter *w, struct err *err)
{
	*w = (struct agent_waiter){ .event_fd = eventfd(0, EFD_CLOEXEC) };
	if (w->event_fd < 0)
		return err_set(err, -errno, "cannot make an eventfd: %s", strerrordesc_np(errno));
	return 0;
}

/* On the loop: result NULL means that it worked. */
static void waiter_finish(struct agent_waiter *w, const struct err *result)
{
	const uint64_t one = 1;

	if (result)
		w->err = *result;
	w->done = true;
	fd_write_all(w->event_fd, &one, sizeof(one));
}

/* On the worker: true when the loop has finished it before the deadline. The count is read, though
 * poll says all there is to know: that read is what comes after the write for tools that look for
 * races. */
static bool waiter_wait(const struct agent_waiter *w, int64_t deadline_boottime_ms)
{
	struct pollfd p = { .fd = w->event_fd, .events = POLLIN };

	for (;;) {
		int timeout_ms = clock_remaining_ms(deadline_boottime_ms);
		uint64_t count;

		if (poll(&p, 1, timeout_ms) > 0)
			return read(w->event_fd, &count, sizeof(count)) == sizeof(count);
		if (timeout_ms == 0)
			return false;
	}
}

/* ---- queue to the guest ---- */

void agent_flush(struct agent *agent)
{
	if (agent->broken)
		return;
	while (agent->sent < agent->out.len) {
		ssize_t n = send(agent->fd, agent->out.data + agent->sent,
				 agent->out.len - agent->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			shutdown(agent->fd, SHUT_RDWR);
		if (n < 0)
			break;
		agent->sent += (size_t)n;
	}
	if (agent->sent == agent->out.len) {
		buf_reset(&agent->out);
		if (agent->out.cap > OUT_KEEP)
			buf_clear(&agent->out);
		agent->sent = 0;
	} else if (agent->sent > agent->out.len / 2) {
		buf_drop_front(&agent->out, agent->sent);
		agent->sent = 0;
	}
	if (agent->out.len - agent->sent > OUT_MAX) {
		agent->overflowed = true;
		shutdown(agent->fd, SHUT_RDWR);
	}
	loop_io_set(agent->io, EPOLLIN | (agent->out.len > agent->sent ? (uint32_t)EPOLLOUT : 0u));
}

static void queue_hello(struct agent *agent)
{
	const struct agent_identity *id = &agent->identity;
	uint8_t entropy[PROTO_ENTROPY_LEN];
	size_t frame;

	rand_bytes(agent->nonce, sizeof(agent->nonce));
	rand_bytes(entropy, sizeof(entropy));
	frame_put_marker(&agent->out, agent->nonce);
	frame = frame_begin(&agent->out, PROTO_HELLO, id->apply ? PROTO_HELLO_IDENTITY : 0, 0);
	frame_put_u32(&agent->out, PROTO_VERSION);
	frame_put_u64(&agent->out, id->epoch);
	frame_put_u64(&agent->out, (uint64_t)clock_unix_ms() * 1000);
	frame_put_bytes(&agent->out, entropy, sizeof(entropy));
	frame_put_string(&agent->out, id->hostname ? id->hostname : "",
			 id->hostname ? strlen(id->hostname) : 0);
	frame_put_string(&agent->out, id->machine_id ? id->machine_id : "",
			 id->machine_id ? strlen(id->machine_id) : 0);
	frame_end(&agent->out, frame);
	explicit_bzero(entropy, sizeof(entropy));
	agent->hello_queued_ms = agent->quiet_since_ms = clock_boottime_ms();
}

/* ---- teardown ---- */

static void agent_destroy(struct agent *agent)
{
	frame_decoder_clear(&agent->in);
	buf_clear(&agent->out);
	free(agent);
}

void agent_enter(struct agent *agent)
{
	agent->depth++;
}

void agent_leave(struct agent *agent)
{
	if (--agent->depth == 0 && agent->closing)
		agent_destroy(agent);
}

void agent_break(struct agent *agent, const struct err *why)
{
	if (agent->broken)
		return;
	agent_enter(agent);
	agent->broken = true;
	loop_io_remove(STEAL(agent->io));
	loop_timer_remove(STEAL(agent->flush_timer));
	close(STEAL_FD(agent->fd));
	buf_clear(&agent->out);
	agent->sent = 0;
	while (agent->calls) {
		struct agent_waiter *w = agent->calls;

		agent->calls = w->next;
		if (w->next)
			w->next->link = &agent->calls;
		waiter_finish(w, why);
	}
	if (agent->opener)
		waiter_finish(STEAL(agent->opener), why);
	agent_exec_lose_all(agent, why);
	if (agent->ready && !agent->closing && agent->on_closed)
		agent->on_closed(agent->closed_arg, why);
	agent_leave(agent);
}

static void close_on_loop(void *arg)
{
	struct agent *agent = arg;
	struct err why = ERR_INIT;

	agent_enter(agent);
	agent->closing = true;
	err_code(&why, -ESHUTDOWN, "agent_gone", "the channel to the sandbox was closed");
	agent_break(agent, &why);
	agent_leave(agent);
}

void agent_close(struct agent *agent)
{
	if (agent)
		loop_call(agent->loop, close_on_loop, agent);
}

/* ---- what arrives ---- */

static void copy_text(char *out, size_t size, struct frame_slice s)
{
	size_t n = s.len < size - 1 ? s.len : size - 1;

	n = utf8_whole_prefix(s.data, n);
	for (size_t i = 0; i < n; i++)
		out[i] = (unsigned char)s.data[i] < ' ' ? '?' : s.data[i];
	out[n] = '\0';
}

static void queue_ping(struct agent *agent, uint64_t token)
{
	size_t frame = frame_begin(&agent->out, PROTO_PING, 0, 0);

	frame_put_u64(&agent->out, token);
	frame_end(&agent->out, frame);
}

/* The guest's clock is late by as long as it took to get there: a guest that was booting got the
 * one in HELLO seconds later. The ping behind it tells. */
static void send_clock(struct agent *agent)
{
	size_t frame = frame_begin(&agent->out, PROTO_CLOCK, 0, 0);

	frame_put_u64(&agent->out, (uint64_t)clock_unix_ms() * 1000);
	frame_end(&agent->out, frame);
	queue_ping(agent, CLOCK_TOKEN);
	agent->clock_sent_ms = clock_boottime_ms();
	agent->clock_tries++;
	agent_flush(agent);
}

/* The guest has greeted, and its clock took this long to reach it. */
static void settle_clock(struct agent *agent, int64_t sent_ms)
{
	if (agent->identity.apply && clock_boottime_ms() - sent_ms > CLOCK_ERROR_MS &&
	    agent->clock_tries < CLOCK_TRIES) {
		send_clock(agent);
		return;
	}
	agent->ready = true;
	waiter_finish(STEAL(agent->opener), NULL);
}

static int take_hello_ack(struct agent *agent, const struct agent_message *m, struct err *err)
{
	struct agent_info *info = &agent->info;

	if (agent->greeted)
		return err_set(err, -EPROTO, "the guest greeted twice");
	if (m->hello_ack.version != PROTO_VERSION)
		return err_set(err, -EPROTO,
			       "the guest's agent speaks version %u of the protocol, not %u",
			       m->hello_ack.version, PROTO_VERSION);
	if (agent->identity.apply &&
	    (m->hello_ack.applied & PROTO_APPLIED_ALL) != PROTO_APPLIED_ALL)
		return err_set(err, -EPROTO,
			       "the guest did not take its identity (applied 0x%x of 0x%x)",
			       m->hello_ack.applied, PROTO_APPLIED_ALL);
	info->version = m->hello_ack.version;
	info->applied = m->hello_ack.applied;
	info->epoch = m->hello_ack.epoch;
	info->guest_boottime_ms = m->hello_ack.guest_boottime_ms;
	info->mem_total_kib = m->hello_ack.mem_total_kib;
	copy_text(info->agent_version, sizeof(info->agent_version), m->hello_ack.agent_version);
	copy_text(info->kernel_release, sizeof(info->kernel_release), m->hello_ack.kernel_release);
	copy_text(info->os_name, sizeof(info->os_name), m->hello_ack.os_name);
	agent->greeted = true;
	loop_timer_remove(STEAL(agent->flush_timer));
	settle_clock(agent, agent->hello_queued_ms);
	return 0;
}

/* The answer to a call that was given up, or to no call at all: nobody waits. */
static void take_answer(struct agent *agent, uint64_t token, const struct err *result)
{
	for (struct agent_waiter *w = agent->calls; w; w = w->next) {
		if (w->token != token)
			continue;
		*w->link = w->next;
		if (w->next)
			w->next->link = w->link;
		waiter_finish(w, result);
		return;
	}
}

static void take_freezer(struct agent *agent, const struct agent_message *m)
{
	struct err why = ERR_INIT;
	bool wanted = false;

	for (const struct agent_waiter *w = agent->calls; w; w = w->next)
		if (w->token == m->freezer.token)
			wanted = w->request == PROTO_FREEZE;
	if (m->freezer.frozen == wanted) {
		take_answer(agent, m->freezer.token, NULL);
		return;
	}
	err_code(&why, -EBUSY, "freeze_failed",
		 wanted ? "the sandbox's processes could not be held still in time"
			: "the sandbox's processes could not be let go on");
	take_answer(agent, m->freezer.token, &why);
}

static void take_activity(struct agent *agent, const struct agent_message *m)
{
	uint64_t quiet_ms = m->activity.quiet_ms;

	for (struct agent_waiter *w = agent->calls; w; w = w->next)
		if (w->token == m->activity.token)
			w->activity = (struct agent_activity){
				.running = m->activity.running,
				.quiet_ms = quiet_ms < INT64_MAX ? (int64_t)quiet_ms : INT64_MAX,
			};
	take_answer(agent, m->activity.token, NULL);
}

static void take_terminals(struct agent *agent, const struct agent_message *m)
{
	struct frame_reader entries = {
		.data = (const uint8_t *)m->terminals.entries.data,
		.left = m->terminals.entries.len,
	};

	for (struct agent_waiter *w = agent->calls; w; w = w->next) {
		if (w->token != m->terminals.token || w->request != PROTO_ASK_TERMINALS)
			continue;
		w->n_terminals = m->terminals.n;
		w->terminals = xcalloc(w->n_terminals + 1, sizeof(*w->terminals));
		for (size_t i = 0; i < w->n_terminals; i++)
			agent_message_terminal(&entries, &w->terminals[i]);
		take_answer(agent, m->terminals.token, NULL);
		return;
	}
}

static void take_execs(struct agent *agent, const struct agent_message *m)
{
	struct frame_reader entries = {
		.data = (const uint8_t *)m->execs.entries.data,
		.left = m->execs.entries.len,
	};

	for (struct agent_waiter *w = agent->calls; w; w = w->next) {
		if (w->token != m->execs.token || w->request != PROTO_ASK_EXECS)
			continue;
		w->n_execs = m->execs.n;
		w->execs = xcalloc(w->n_execs + 1, sizeof(*w->execs));
		for (size_t i = 0; i < w->n_execs; i++)
			agent_message_exec(&entries, &w->execs[i]);
		take_answer(agent, m->execs.token, NULL);
		return;
	}
}

static int take_frame(struct agent *agent, struct err *err)
{
	struct agent_message m;

	if (agent_message_parse(&agent->in.header, agent->in.payload, &m) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed frame of type %u",
			       agent->in.header.type);
	if (m.type == PROTO_HELLO_ACK)
		return take_hello_ack(agent, &m, err);
	if (m.type == PROTO_LOST)
		return err_set(err, -EPROTO, "the guest's agent lost the stream");
	if (!agent->greeted)
		return err_set(err, -EPROTO, "the guest did not greet first");
	if (m.type == PROTO_PONG) {
		if (agent->ready)
			take_answer(agent, m.pong_token, NULL);
		else if (m.pong_token == CLOCK_TOKEN && agent->clock_tries > 0)
			settle_clock(agent, agent->clock_sent_ms);
		return 0;
	}
	if (m.type == PROTO_FREEZER) {
		take_freezer(agent, &m);
		return 0;
	}
	if (m.type == PROTO_ACTIVITY) {
		take_activity(agent, &m);
		return 0;
	}
	if (m.type == PROTO_TERMINALS) {
		take_terminals(agent, &m);
		return 0;
	}
	if (m.type == PROTO_EXECS) {
		take_execs(agent, &m);
		return 0;
	}
	return agent_exec_dispatch(agent, &m, err);
}

static int take_event(struct agent *agent, enum frame_event event, struct err *err)
{
	if (event == FRAME_FRAME)
		return take_frame(agent, err);
	if (agent->synced)
		return err_set(err, -EPROTO,
			       event == FRAME_MARKER ? "the guest began the stream anew"
						     : "the guest sent a broken frame");
	if (memcmp(agent->in.nonce, agent->nonce, PROTO_NONCE_LEN) == 0)
		agent->synced = true;
	else
		frame_decoder_search(&agent->in);
	return 0;
}

static int take_input(struct agent *agent, struct err *err)
{
	enum frame_event event;

	while (!agent->broken && (event = frame_next(&agent->in)) != FRAME_NEED_MORE) {
		int r = take_event(agent, event, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_some(struct agent *agent, struct err *err)
{
	char chunk[READ_SIZE];

	for (int i = 0; i < READS_PER_ROUND && !agent->broken; i++) {
		ssize_t n = recv(agent->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		int r;

		if (n < 0)
			return errno == EAGAIN || errno == EINTR
				       ? 0
				       : err_set(err, -errno, "reading failed: %s",
						 strerrordesc_np(errno));
		if (n == 0)
			return err_set(err, -EPIPE,
				       agent->overflowed ? "the guest does not read what it is sent"
							 : "it was closed");
		frame_feed(&agent->in, chunk, (size_t)n);
		r = take_input(agent, err);
		if (r < 0 || (size_t)n < sizeof(chunk))
			return r;
	}
	return 0;
}

static void on_io(void *arg, uint32_t events)
{
	struct agent *agent = arg;
	struct err err = ERR_INIT;

	agent_enter(agent);
	if (events & EPOLLOUT)
		agent_flush(agent);
	if ((events & ~(uint32_t)EPOLLOUT) && read_some(agent, &err) < 0) {
		err_wrap(&err, err.num, "the channel to the sandbox's agent broke");
		err.code = "agent_gone";
		agent_break(agent, &err);
	}
	agent_leave(agent);
}

/* ---- opening ---- */

static void on_flush_tick(void *arg)
{
	static const char zeros[4096];
	struct agent *agent = arg;
	int64_t now = clock_boottime_ms();
	int in_socket = 0;

	ioctl(agent->fd, SIOCOUTQ, &in_socket);
	if (in_socket > 0 || agent->out.len > agent->sent)
		agent->quiet_since_ms = now; /* the VMM has not taken it: the guest is booting */
	if (now - agent->quiet_since_ms < PROTO_FLUSH_AFTER_MS) {
		loop_timer_set(agent->flush_timer, now + FLUSH_TICK_MS);
		return;
	}
	for (size_t n = 0; n < PROTO_TO_GUEST_MAX; n += sizeof(zeros))
		buf_append(&agent->out, zeros, sizeof(zeros));
	queue_hello(agent);
	agent_flush(agent);
}

static void begin_on_loop(void *arg)
{
	struct agent *agent = arg;

	agent->io = loop_io_add(agent->loop, agent->fd, EPOLLIN, on_io, agent);
	agent->flush_timer = loop_timer_add(agent->loop, clock_boottime_ms() + FLUSH_TICK_MS,
					    on_flush_tick, agent);
	queue_hello(agent);
	agent_flush(agent);
}

static int connect_until(const char *path, int64_t deadline_boottime_ms, struct err *err)
{
	const struct timespec pause = { .tv_nsec = CONNECT_RETRY_MS * 1000000 };

	for (;;) {
		int fd = unix_connect(path, true);

		if (fd >= 0)
			return fd;
		if (fd != -ENOENT && fd != -ECONNREFUSED && fd != -EAGAIN)
			return err_set(err, fd, "cannot connect to '%s': %s", path,
				       strerrordesc_np(-fd));
		if (clock_remaining_ms(deadline_boottime_ms) == 0)
			return err_set(err, -ETIMEDOUT, "cannot connect to '%s' in time: %s", path,
				       strerrordesc_np(-fd));
		nanosleep(&pause, NULL);
	}
}

/* Waits for HELLO_ACK. The agent is given up by the caller when this fails. */
static int wait_ready(struct agent *agent, struct agent_waiter *w, int64_t deadline_boottime_ms,
		      struct err *err)
{
	loop_call(agent->loop, begin_on_loop, agent);
	if (!waiter_wait(w, deadline_boottime_ms))
		return err_code(err, -ETIMEDOUT, "agent_timeout",
				"the sandbox's agent did not answer in time");
	if (w->err.num < 0 && err)
		*err = w->err;
	return w->err.num;
}

int agent_open(struct loop *loop, const char *socket_path, const struct agent_identity *identity,
	       int64_t deadline_boottime_ms, agent_closed_fn on_closed, void *arg,
	       struct agent **ret, struct agent_info *ret_info, struct err *err)
{
	struct agent_waiter w;
	struct agent *agent;
	int r = waiter_init(&w, err);

	if (r < 0)
		return r;
	agent = xcalloc(1, sizeof(*agent));
	agent->loop = loop;
	agent->identity = *identity;
	agent->on_closed = on_closed;
	agent->closed_arg = arg;
	agent->opener = &w;
	frame_decoder_init(&agent->in, PROTO_TO_HOST_MAX);
	agent->fd = connect_until(socket_path, deadline_boottime_ms, err);
	if (agent->fd < 0) {
		r = agent->fd;
		agent_destroy(agent);
		close(w.event_fd);
		return r;
	}
	r = wait_ready(agent, &w, deadline_boottime_ms, err);
	if (r < 0)
		agent_close(agent); /* also finishes w, if the loop still has it */
	close(w.event_fd);
	if (r < 0)
		return r;
	if (ret_info)
		*ret_info = agent->info;
	*ret = agent;
	return 0;
}

/* ---- calls: a request and its answer, known by a token ---- */

struct call {
	struct agent *agent;
	struct agent_waiter *waiter;
	uint32_t timeout_ms; /* PROTO_FREEZE */
};

static void call_on_loop(void *arg)
{
	struct call *call = arg;
	struct agent *agent = call->agent;
	struct agent_waiter *w = call->waiter;
	size_t frame;

	if (agent->broken) {
		struct err why = ERR_INIT;

		err_code(&why, -EPIPE, "agent_gone",
			 "the channel to the sandbox's agent is broken");
		waiter_finish(w, &why);
		return;
	}
	w->token = ++agent->next_token;
	w->next = agent->calls;
	w->link = &agent->calls;
	if (w->next)
		w->next->link = &w->next;
	agent->calls = w;
	frame = frame_begin(&agent->out, w->request, 0, 0);
	frame_put_u64(&agent->out, w->token);
	if (w->request == PROTO_FREEZE)
		frame_put_u32(&agent->out, call->timeout_ms);
	frame_end(&agent->out, frame);
	agent_flush(agent);
}

/* Needs no agent: it may be closed by now, but then the waiter is done. */
static void give_up_call(void *arg)
{
	struct agent_waiter *w = arg;

	if (w->done)
		return;
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
}

/* The waiter is the caller's, for what the answer holds. */
static int run_call(struct agent *agent, struct agent_waiter *w, uint8_t request,
		    uint32_t timeout_ms, int64_t deadline_boottime_ms, struct err *err)
{
	struct loop *loop = agent->loop;
	struct call call = { .agent = agent, .waiter = w, .timeout_ms = timeout_ms };
	int r = waiter_init(w, err);

	if (r < 0)
		return r;
	w->request = request;
	loop_call(loop, call_on_loop, &call);
	if (!waiter_wait(w, deadline_boottime_ms)) {
		loop_call(loop, give_up_call, w);
		r = w->done ? w->err.num
			    : err_code(err, -ETIMEDOUT, "agent_timeout",
				       "the sandbox's agent did not answer in time");
	} else {
		r = w->err.num;
	}
	close(w->event_fd);
	if (w->done && r < 0 && err)
		*err = w->err;
	return r;
}

int agent_ping(struct agent *agent, int64_t deadline_boottime_ms, struct err *err)
{
	struct agent_waiter w;

	return run_call(agent, &w, PROTO_PING, 0, deadline_boottime_ms, err);
}

static void thaw_on_loop(void *arg)
{
	struct agent *agent = arg;
	size_t frame;

	if (agent->broken)
		return;
	frame = frame_begin(&agent->out, PROTO_THAW, 0, 0);
	frame_put_u64(&agent->out, ++agent->next_token);
	frame_end(&agent->out, frame);
	agent_flush(agent);
}

int agent_freeze(struct agent *agent, int64_t deadline_boottime_ms, struct err *err)
{
	/* The guest gives up first, so that its answer says why. */
	int rest_ms = clock_remaining_ms(deadline_boottime_ms);
	uint32_t timeout_ms = (uint32_t)(rest_ms - rest_ms / 4);
	struct agent_waiter w;
	int r = run_call(agent, &w, PROTO_FREEZE, timeout_ms, deadline_boottime_ms, err);

	/* Nobody waits for a freeze any more that may still come. */
	if (r == -ETIMEDOUT)
		loop_call(agent->loop, thaw_on_loop, agent);
	return r;
}

int agent_thaw(struct agent *agent, int64_t deadline_boottime_ms, struct err *err)
{
	struct agent_waiter w;

	return run_call(agent, &w, PROTO_THAW, 0, deadline_boottime_ms, err);
}

int agent_ask_activity(struct agent *agent, int64_t deadline_boottime_ms,
		       struct agent_activity *ret, struct err *err)
{
	struct agent_waiter w;
	int r = run_call(agent, &w, PROTO_ASK_ACTIVITY, 0, deadline_boottime_ms, err);

	if (r == 0)
		*ret = w.activity;
	return r;
}

int agent_list_terminals(struct agent *agent, int64_t deadline_boottime_ms,
			 struct agent_terminal **ret, size_t *ret_n, struct err *err)
{
	struct agent_waiter w;
	int r = run_call(agent, &w, PROTO_ASK_TERMINALS, 0, deadline_boottime_ms, err);

	if (r == 0) {
		*ret = STEAL(w.terminals);
		*ret_n = w.n_terminals;
	}
	return r;
}

int agent_list_execs(struct agent *agent, int64_t deadline_boottime_ms,
		     struct agent_exec_info **ret, size_t *ret_n, struct err *err)
{
	struct agent_waiter w;
	int r = run_call(agent, &w, PROTO_ASK_EXECS, 0, deadline_boottime_ms, err);

	if (r == 0) {
		*ret = STEAL(w.execs);
		*ret_n = w.n_execs;
	}
	return r;
}
