/* Views of commands. See exec_view.h. */
#include "core/exec_view.h"
#include "core/metrics_internal.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define ANSWER_DEADLINE_MS 30000

static const struct agent_exec_events handle_events;

/* ---- life ---- */

static struct exec_view *view_new(struct sandbox *sb, const char *exec_id,
				  const struct exec_view_events *events, void *arg)
{
	struct exec_view *view = xcalloc(1, sizeof(*view));

	view->sandbox = sandbox_ref(sb);
	str_copy(view->exec_id, sizeof(view->exec_id), exec_id);
	view->events = events;
	view->arg = arg;
	view->began_boottime_ms = clock_boottime_ms();
	view->next = sb->views;
	view->link = &sb->views;
	if (view->next)
		view->next->link = &view->next;
	sb->views = view;
	return view;
}

static void view_free(struct exec_view *view)
{
	*view->link = view->next;
	if (view->next)
		view->next->link = view->link;
	loop_timer_remove(view->answer_timer);
	agent_exec_free(view->handle);
	buf_clear(&view->input.queue);
	free(view->command);
	sandbox_unref(view->sandbox);
	free(view);
}

static void tell_ended(struct exec_view *view, const struct err *err)
{
	if (!view->end_due)
		return;
	view->end_due = false;
	event_exec_ended(view, err);
}

/* Tells the consumer and frees. */
static void view_end(struct exec_view *view, const struct err *err)
{
	const struct exec_view_events *events = STEAL(view->events);
	void *arg = view->arg;

	/* A daemon that ends leaves the command running: who looks at it next tells its end. */
	if (!str_eq(err_code_of(err), "shutting_down"))
		tell_ended(view, err);
	view_free(view);
	if (events && events->ended)
		events->ended(arg, err);
}

static void on_no_answer(void *arg)
{
	struct exec_view *view = arg;
	struct err err = ERR_INIT;

	err_code(&err, -ETIMEDOUT, "agent_unresponsive",
		 "the agent of sandbox '%s' did not answer within %d s", view->sandbox->id,
		 ANSWER_DEADLINE_MS / 1000);
	err_hint(&err, "the guest may be overloaded; try again, or destroy the sandbox");
	view_end(view, &err);
}

static void expect_answer(struct exec_view *view)
{
	view->answer_timer =
		loop_timer_add(view->sandbox->core->loop, clock_boottime_ms() + ANSWER_DEADLINE_MS,
			       on_no_answer, view);
}

struct exec_view *exec_view_start(struct sandbox *sb, const struct agent_exec_spec *spec,
				  const struct exec_view_events *events, void *arg)
{
	struct exec_view *view = view_new(sb, spec->exec_id, events, arg);

	view->owner = true;
	view->command = xstrdup(spec->command);
	view->terminal = spec->tty != NULL;
	view->backpressure = spec->backpressure;
	view->input.open = spec->stdin_open;
	view->streams[0] =
		(struct exec_view_stream){ .following = true, .credit = spec->stdout_credit };
	view->streams[1] =
		(struct exec_view_stream){ .following = true, .credit = spec->stderr_credit };
	expect_answer(view);
	if (!view->terminal)
		exec_span_begin(sb, spec->exec_id);
	view->handle = agent_exec_start(sb->agent, spec, &handle_events, view);
	return view;
}

struct exec_view *exec_view_attach(struct sandbox *sb, const char *exec_id, bool owner,
				   const struct exec_view_events *events, void *arg)
{
	struct exec_view *view = view_new(sb, exec_id, events, arg);

	view->owner = owner;
	view->input.open = owner;
	expect_answer(view);
	if (sb->agent)
		view->handle = agent_exec_attach(sb->agent, exec_id, &handle_events, view);
	return view;
}

void exec_view_take(struct exec_view *view, const struct exec_view_events *events, void *arg,
		    const struct err *why)
{
	const struct exec_view_events *events_before = view->events;
	void *arg_before = view->arg;
	struct sandbox *sb = view->sandbox;

	view->events = events;
	view->arg = arg;
	view->found = view->exited = false;
	view->streams[0].following = view->streams[1].following = false;
	loop_timer_remove(STEAL(view->answer_timer));
	agent_exec_free(STEAL(view->handle));
	if (!view->suspended)
		expect_answer(view);
	if (sb->agent)
		view->handle = agent_exec_attach(sb->agent, view->exec_id, &handle_events, view);
	if (events_before && events_before->ended)
		events_before->ended(arg_before, why);
}

void exec_view_follow(struct exec_view *view, int stream, uint64_t offset, uint64_t credit)
{
	struct exec_view_stream *s = &view->streams[stream_index(stream)];

	s->following = true;
	s->next = offset;
	s->credit = credit;
	if (view->handle)
		agent_exec_follow(view->handle, stream, offset, credit, view->backpressure);
}

void exec_view_credit(struct exec_view *view, int stream, uint64_t bytes)
{
	struct exec_view_stream *s = &view->streams[stream_index(stream)];

	if (bytes == 0 || __builtin_add_overflow(s->credit, bytes, &s->credit))
		return;
	if (view->handle)
		agent_exec_credit(view->handle, stream, bytes);
}

/* Nobody reads any more: what a keeper has not had must not hold the command back. */
static void stop_following(struct exec_view *view)
{
	view->backpressure = false;
	for (int i = 0; i < 2; i++) {
		if (view->streams[i].following)
			exec_view_follow(view, i ? PROTO_STDERR : PROTO_STDOUT,
					 view->streams[i].next, 0);
	}
}

void exec_view_detach(struct exec_view *view)
{
	if (!view)
		return;
	view->events = NULL;
	if (!view->owner || view->exited)
		view_free(view);
	else if (view->backpressure)
		stop_following(view);
}

int64_t exec_view_duration_ms(const struct exec_view *view)
{
	int64_t now = view->suspended ? view->suspended_boottime_ms : clock_boottime_ms();

	return now - view->began_boottime_ms + (int64_t)view->state_duration_ms;
}

struct exec_view *exec_view_owner(struct sandbox *sb, const char *exec_id)
{
	struct exec_view *view = sb->views;

	while (view && !(view->owner && str_eq(view->exec_id, exec_id)))
		view = view->next;
	return view;
}

size_t exec_views_running(const struct sandbox *sb)
{
	size_t n = 0;

	for (const struct exec_view *view = sb->views; view; view = view->next)
		n += view->owner && !view->exited && !view->terminal;
	return n;
}

/* ---- input ---- */

/* Sends what the window lets through. What was sent stays queued until the guest's window shows
 * that it was consumed, because a channel that breaks loses what was on its way. */
static void input_pump(struct exec_view *view)
{
	struct exec_input *in = &view->input;
	uint64_t end = in->base + in->queue.len;
	uint64_t until = end < in->window ? end : in->window;

	if (!view->handle || !view->found || !in->open)
		return;
	if (in->sent < until) {
		agent_exec_input(view->handle, in->sent, in->queue.data + (in->sent - in->base),
				 until - in->sent);
		in->sent = until;
	}
	if (in->close_after && in->sent == end && !in->close_sent) {
		agent_exec_input_close(view->handle);
		in->close_sent = true;
	}
}

int exec_view_input(struct exec_view *view, const void *data, size_t len, bool close_after,
		    size_t queue_max, struct err *err)
{
	struct exec_input *in = &view->input;
	uint64_t unsent = in->base + in->queue.len - in->sent;

	if (view->exited)
		return err_code(err, -EPIPE, "exec_ended", "command '%s' has ended", view->exec_id);
	if (!in->open || in->close_after)
		return err_code(err, -EPIPE, "input_closed",
				"the standard input of command '%s' is closed", view->exec_id);
	if (unsent + len > queue_max) {
		err_code(err, -EAGAIN, "input_full",
			 "command '%s' does not read its input: %llu bytes wait", view->exec_id,
			 (unsigned long long)unsent);
		err_hint(err, "try again when it has read some");
		return -EAGAIN;
	}
	buf_append(&in->queue, data, len);
	in->close_after = close_after;
	input_pump(view);
	return 0;
}

static void on_input_window(void *arg, uint64_t may_send_up_to)
{
	struct exec_view *view = arg;
	struct exec_input *in = &view->input;
	uint64_t consumed =
		may_send_up_to > PROTO_INPUT_WINDOW ? may_send_up_to - PROTO_INPUT_WINDOW : 0;

	if (may_send_up_to <= in->window)
		return;
	in->window = may_send_up_to;
	if (consumed > in->sent)
		consumed = in->sent;
	if (consumed > in->base) {
		buf_drop_front(&in->queue, consumed - in->base);
		in->base = consumed;
	}
	input_pump(view);
	if (view->events && view->events->input_moved)
		view->events->input_moved(view->arg);
}

/* A new channel: the guest says how much it has got. */
static void input_resume(struct exec_view *view, uint64_t received)
{
	struct exec_input *in = &view->input;

	if (in->queue.len == 0)
		in->base = in->sent = received;
	else if (received >= in->base && received <= in->base + in->queue.len)
		in->sent = received;
	in->close_sent = false;
	input_pump(view);
}

/* ---- what the agent says ---- */

/* It runs, or has run: who started it says so. */
static void tell_started(struct exec_view *view)
{
	if (!view->command)
		return;
	view->end_due = true;
	metrics_step(view->sandbox->core, METRICS_COMMAND_START, 0, view->began_boottime_ms * 1000);
	event_exec_started(view);
	free(STEAL(view->command));
}

static void on_started(void *arg, uint32_t pid)
{
	struct exec_view *view = arg;

	loop_timer_remove(STEAL(view->answer_timer));
	view->found = true;
	view->ran_when_found = true;
	tell_started(view);
	input_pump(view);
	if (view->events && view->events->started)
		view->events->started(view->arg);
}

static void on_state(void *arg, const struct agent_exec_state *state)
{
	struct exec_view *view = arg;
	bool again = view->found;

	loop_timer_remove(STEAL(view->answer_timer));
	view->found = true;
	view->streams[0].total = state->stdout_bytes;
	view->streams[1].total = state->stderr_bytes;
	input_resume(view, state->input_offset);
	if (!again) {
		view->ran_when_found = state->running;
		view->end_due = view->owner && state->running;
		tell_started(view);
		view->state_duration_ms = state->duration_ms;
		view->began_boottime_ms = clock_boottime_ms();
	}
	for (int i = 0; i < 2; i++) {
		const struct exec_view_stream *s = &view->streams[i];

		if (s->following)
			agent_exec_follow(view->handle, i ? PROTO_STDERR : PROTO_STDOUT, s->next,
					  s->credit, view->backpressure);
	}
	/* A command that was started on a channel that broke at once is found by attaching. */
	if (!again && view->events && view->events->started)
		view->events->started(view->arg);
	else if (view->events && view->events->input_moved)
		view->events->input_moved(view->arg);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct exec_view *view = arg;
	struct exec_view_stream *s = &view->streams[stream_index(stream)];

	s->next = offset + len;
	s->credit -= len < s->credit ? len : s->credit;
	if (s->next > s->total)
		s->total = s->next;
	if (view->events && view->events->data)
		view->events->data(view->arg, stream, offset, data, len);
}

static void on_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
	struct exec_view *view = arg;
	struct exec_view_stream *s = &view->streams[stream_index(stream)];

	s->next = to;
	if (s->next > s->total)
		s->total = s->next;
	if (view->events && view->events->gap)
		view->events->gap(view->arg, stream, from, to);
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct exec_view *view = arg;

	if (view->exited) /* said again after attaching again */
		return;
	sandbox_touch(view->sandbox); /* not idle while it ran */
	view->exited = true;
	if (view->owner && !view->terminal)
		exec_span_end(view->sandbox, view->exec_id);
	view->exit = *exit;
	tell_ended(view, NULL);
	view->streams[0].total = exit->stdout_bytes;
	view->streams[1].total = exit->stderr_bytes;
	if (!view->events)
		view_free(view);
	else if (view->events->exited)
		view->events->exited(view->arg, exit);
}

static void on_failed(void *arg, const struct err *err)
{
	struct exec_view *view = arg;
	struct err lost = ERR_INIT;

	/* It was to be started on a channel that broke, and attaching to it has not found it. */
	if (view->command && !view->terminal && str_eq(err->code, "exec_not_found")) {
		err_code(&lost, -EPIPE, "agent_gone",
			 "the channel to the sandbox's agent broke before the command was started");
		err_hint(&lost, "run it again");
		err = &lost;
	}
	view_end(view, err);
}

/* The channel broke. connect.c makes a new one and attaches again, or ends the view. */
static void on_lost(void *arg, const struct err *err)
{
	struct exec_view *view = arg;

	agent_exec_free(STEAL(view->handle));
}

static const struct agent_exec_events handle_events = {
	.started = on_started,
	.state = on_state,
	.data = on_data,
	.gap = on_gap,
	.exited = on_exited,
	.input_window = on_input_window,
	.failed = on_failed,
	.lost = on_lost,
};

/* ---- the sandbox's channel comes and goes ---- */

void exec_views_suspend(struct sandbox *sb)
{
	for (struct exec_view *view = sb->views; view; view = view->next) {
		if (view->suspended)
			continue;
		view->suspended = true;
		view->suspended_boottime_ms = clock_boottime_ms();
		loop_timer_remove(STEAL(view->answer_timer));
		if (view->events && view->events->suspended)
			view->events->suspended(view->arg);
	}
}

static void view_resume(struct exec_view *view)
{
	view->suspended = false;
	view->began_boottime_ms += clock_boottime_ms() - view->suspended_boottime_ms;
	if (!view->found)
		expect_answer(view);
	if (view->events && view->events->resumed)
		view->events->resumed(view->arg);
}

void exec_views_reattach(struct sandbox *sb)
{
	for (struct exec_view *view = sb->views; view; view = view->next) {
		if (view->suspended)
			view_resume(view);
		if (!view->handle)
			view->handle =
				agent_exec_attach(sb->agent, view->exec_id, &handle_events, view);
	}
}

void exec_views_end(struct sandbox *sb, const struct err *err)
{
	while (sb->views)
		view_end(sb->views, err);
}
