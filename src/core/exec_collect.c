/*
 * Calls that answer once: the output of a command, its head and its tail.
 *
 * Memory is bounded whatever the command prints, because the guest keeps the output and sends only
 * what it has credit for. While the command runs, the head comes (half of the cap, with the credit
 * that EXEC carries, so that a short command costs one round trip). After its exit the totals are
 * known: either the rest fits, and gets credit, or the stream is followed anew from where its tail
 * begins.
 *
 *   HEAD  at most head_max bytes, while it runs and until they have come
 *   REST  all that is left, appended to the head
 *   TAIL  the last tail_max bytes; what lies between is left out
 *   DONE
 *
 * Everything but core_exec* belongs to the loop's thread. A call is known to its caller by a number
 * that looks like a pointer: a number is never used again, so that cancelling a call that has just
 * been answered is harmless.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/exec.h"

#define DRAIN_MS 15000 /* from the exit until the rest of the output has come */

enum phase { HEAD, REST, TAIL, DONE };

struct collected {
	enum phase phase;
	uint64_t from;	 /* where the caller wants it from */
	struct buf head; /* bytes from `from` on */
	bool gap;	 /* the guest has dropped what follows the head, up to gap_to */
	uint64_t gap_to;
	uint64_t total; /* at the exit */
	bool has_tail;
	uint64_t tail_from;
	struct buf tail;
};

struct core_exec_call {
	struct core_exec_call *next, **link; /* in core->calls */
	uint64_t id;
	struct core *core;
	struct exec_view *view;
	char exec_id[EXEC_ID_SIZE];
	core_exec_done_fn done;
	void *arg;
	uint64_t max, head_max, tail_max;
	struct collected streams[2];
	int64_t wait_ms;   /* from when it runs or was found; < 0: to the end */
	bool due;	   /* the wait is over: answer as soon as what there is has come */
	uint64_t known[2]; /* the totals when it was found */
	struct loop_timer *wait_timer;
	struct loop_timer *backstop;
	int64_t backstop_boottime_ms; /* when it is due; while the sandbox is paused: what is left
				       */
};

static uint64_t head_end(const struct collected *s)
{
	return s->from + s->head.len;
}

/* ---- the answer ---- */

static void call_free(struct core_exec_call *call)
{
	*call->link = call->next;
	if (call->next)
		call->next->link = call->link;
	loop_timer_remove(call->wait_timer);
	loop_timer_remove(call->backstop);
	exec_view_detach(call->view);
	for (int i = 0; i < 2; i++) {
		buf_clear(&call->streams[i].head);
		buf_clear(&call->streams[i].tail);
	}
	free(call);
}

static void call_fail(struct core_exec_call *call, const struct err *err)
{
	core_exec_done_fn done = call->done;
	void *arg = call->arg;

	call_free(call);
	done(arg, NULL, err);
}

/* Bytes at the start of data that continue a character which began before. */
static size_t continuation_bytes(const struct buf *data)
{
	size_t n = 0;

	while (n < data->len && n < 3 && ((unsigned char)data->data[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* Head, a line that says what is missing, tail. Characters are not cut. Returns the offset at which
 * the caller goes on. */
static uint64_t join(struct collected *s, const char *exec_id, const char *name, struct buf *out,
		     bool *truncated)
{
	uint64_t next = s->has_tail ? s->tail_from : s->gap ? s->gap_to : head_end(s);
	uint64_t end = next + s->tail.len;
	size_t skip;

	*out = s->head;
	s->head = BUF_INIT;
	if (next == s->from + out->len)
		return end;
	*truncated = true;
	if (out->len > 0)
		out->len = utf8_whole_prefix(out->data, out->len);
	skip = continuation_bytes(&s->tail);
	buf_printf(out,
		   "\n… %llu bytes left out; whole log in the sandbox: /run/skerry/exec/%s/%s …\n",
		   (unsigned long long)(next + skip - s->from - out->len), exec_id, name);
	if (s->tail.len > skip)
		buf_append(out, s->tail.data + skip, s->tail.len - skip);
	return end;
}

/* While it runs, a character that has not come as a whole is left for the next answer. */
static void hold_back_half_character(struct collected *s)
{
	if (s->gap || s->head.len == 0)
		return;
	s->head.len = utf8_whole_prefix(s->head.data, s->head.len);
}

static void call_answer(struct core_exec_call *call)
{
	const struct exec_view *view = call->view;
	struct core_exec_result result = { .running = !view->exited };
	core_exec_done_fn done = call->done;
	json_t *denied;
	void *arg = call->arg;

	str_copy(result.exec_id, sizeof(result.exec_id), call->exec_id);
	result.stdout_bytes = view->streams[0].total;
	result.stderr_bytes = view->streams[1].total;
	result.duration_ms = exec_view_duration_ms(view);
	if (view->exited)
		exec_result_from_exit(&result, &view->exit);
	for (int i = 0; i < 2 && !view->exited; i++)
		hold_back_half_character(&call->streams[i]);
	result.out_from = call->streams[0].from;
	result.err_from = call->streams[1].from;
	result.out_to =
		join(&call->streams[0], call->exec_id, "stdout", &result.out, &result.truncated);
	result.err_to =
		join(&call->streams[1], call->exec_id, "stderr", &result.err, &result.truncated);
	denied = exec_span_denied(view->sandbox, call->exec_id);
	result.egress_denied = denied;
	call_free(call);
	done(arg, &result, NULL);
	buf_clear(&result.out);
	buf_clear(&result.err);
	json_decref(denied);
}

/* ---- collecting ---- */

static int stream_number(int i)
{
	return i ? PROTO_STDERR : PROTO_STDOUT;
}

/* All of the head has come that will. */
static bool head_complete(const struct core_exec_call *call, const struct collected *s)
{
	return s->gap || head_end(s) >= s->total || s->head.len >= call->head_max;
}

static void begin_rest_or_tail(struct core_exec_call *call, int i)
{
	struct collected *s = &call->streams[i];
	uint64_t left = s->total > head_end(s) ? s->total - head_end(s) : 0;
	uint64_t tail_len = left < call->tail_max ? left : call->tail_max;

	if (!s->gap && left <= call->max - s->head.len) {
		s->phase = REST;
		exec_view_credit(call->view, stream_number(i), left);
		return;
	}
	s->phase = TAIL;
	s->has_tail = true;
	s->tail_from = s->total - tail_len;
	if (s->gap && s->tail_from < s->gap_to)
		s->tail_from = s->gap_to;
	exec_view_follow(call->view, stream_number(i), s->tail_from, s->total - s->tail_from);
}

static void advance(struct core_exec_call *call, int i)
{
	struct collected *s = &call->streams[i];

	if (!call->view->exited)
		return;
	if (s->phase == HEAD && head_complete(call, s))
		begin_rest_or_tail(call, i);
	if (s->phase == REST && head_end(s) >= s->total)
		s->phase = DONE;
	if (s->phase == TAIL && s->tail_from + s->tail.len >= s->total)
		s->phase = DONE;
}

static void advance_all(struct core_exec_call *call)
{
	advance(call, 0);
	advance(call, 1);
	if (call->streams[0].phase == DONE && call->streams[1].phase == DONE)
		call_answer(call);
}

/* Appends what belongs into [from the buffer's end, limit): background children can print on after
 * the exit. */
static void take(struct buf *into, uint64_t end, uint64_t limit, uint64_t offset, const void *data,
		 size_t len)
{
	if (offset != end || end >= limit)
		return;
	buf_append(into, data, len < limit - end ? len : (size_t)(limit - end));
}

/* What there was when the command was found has come. Of an ended one, the exit is under way. */
static bool caught_up(const struct core_exec_call *call)
{
	if (!call->view->found || !call->view->ran_when_found)
		return false;
	for (int i = 0; i < 2; i++) {
		const struct collected *s = &call->streams[i];

		if (!s->gap && head_end(s) < call->known[i] && s->head.len < call->head_max)
			return false;
	}
	return true;
}

static void answer_if_due(struct core_exec_call *call)
{
	if (call->due && !call->view->exited && caught_up(call))
		call_answer(call);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct core_exec_call *call = arg;
	struct collected *s = &call->streams[stream_index(stream)];
	uint64_t limit = call->view->exited ? s->total : UINT64_MAX;

	if (s->phase == TAIL)
		take(&s->tail, s->tail_from + s->tail.len, limit, offset, data, len);
	else if (s->phase != DONE && !s->gap)
		take(&s->head, head_end(s), limit, offset, data, len);
	if (call->view->exited)
		advance_all(call);
	else
		answer_if_due(call);
}

/* The guest's log has dropped bytes. In the head: the head ends here. While the rest or the tail
 * comes: what was collected of it is older than what is left, which begins anew behind the gap. */
static void on_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
	struct core_exec_call *call = arg;
	struct collected *s = &call->streams[stream_index(stream)];

	if (s->phase == HEAD || s->phase == REST) {
		s->phase = HEAD;
		s->gap = true;
		s->gap_to = to;
	} else if (s->phase == TAIL) {
		buf_reset(&s->tail);
		s->tail_from = to < s->total ? to : s->total;
	}
	if (call->view->exited)
		advance_all(call);
	else
		answer_if_due(call);
}

static void on_drained_too_slowly(void *arg)
{
	struct core_exec_call *call = arg;
	struct err err = ERR_INIT;

	err_code(&err, -ETIMEDOUT, "agent_unresponsive",
		 "the agent of the sandbox did not answer in time about command '%s'",
		 call->exec_id);
	err_hint(&err, "the guest may be overloaded; pick the command up by its id, or destroy the "
		       "sandbox");
	call_fail(call, &err);
}

static void set_backstop(struct core_exec_call *call, int64_t after_ms)
{
	int64_t due = clock_boottime_ms() + after_ms;

	call->backstop_boottime_ms = due;
	if (call->backstop)
		loop_timer_set(call->backstop, due);
	else
		call->backstop = loop_timer_add(call->core->loop, due, on_drained_too_slowly, call);
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct core_exec_call *call = arg;
	const uint64_t totals[2] = { exit->stdout_bytes, exit->stderr_bytes };

	loop_timer_remove(STEAL(call->wait_timer));
	set_backstop(call, DRAIN_MS);
	for (int i = 0; i < 2; i++) {
		struct collected *s = &call->streams[i];

		s->total = totals[i];
		if (s->from > s->total)
			s->from = s->total;
		/* More than the total can have come: what children in the background print. */
		if (head_end(s) > s->total)
			s->head.len = (size_t)(s->total - s->from);
	}
	advance_all(call);
}

static void on_ended(void *arg, const struct err *err)
{
	struct core_exec_call *call = arg;

	call->view = NULL; /* it frees itself */
	call_fail(call, err);
}

static void on_suspended(void *arg)
{
	struct core_exec_call *call = arg;

	if (!call->backstop)
		return;
	loop_timer_remove(STEAL(call->backstop));
	call->backstop_boottime_ms -= clock_boottime_ms();
}

static void on_resumed(void *arg)
{
	struct core_exec_call *call = arg;

	if (call->backstop_boottime_ms)
		set_backstop(call, call->backstop_boottime_ms);
}

static void on_wait_over(void *arg)
{
	struct core_exec_call *call = arg;

	call->due = true;
	answer_if_due(call);
}

static void begin_wait(struct core_exec_call *call)
{
	if (call->wait_ms > 0)
		call->wait_timer = loop_timer_add(
			call->core->loop, clock_boottime_ms() + call->wait_ms, on_wait_over, call);
	else if (call->wait_ms == 0)
		on_wait_over(call);
}

static void on_started(void *arg)
{
	begin_wait(arg);
}

/* A command that was found by its id: an offset beyond its end is brought back to it. */
static void on_attached(void *arg)
{
	struct core_exec_call *call = arg;

	for (int i = 0; i < 2; i++) {
		struct collected *s = &call->streams[i];

		call->known[i] = call->view->streams[i].total;
		if (s->from > call->known[i])
			s->from = call->known[i];
		exec_view_follow(call->view, stream_number(i), s->from, call->head_max);
	}
	if (call->wait_ms >= 0)
		set_backstop(call, call->wait_ms + DRAIN_MS);
	begin_wait(call);
}

static const struct exec_view_events start_events = {
	.started = on_started,
	.data = on_data,
	.gap = on_gap,
	.exited = on_exited,
	.ended = on_ended,
	.suspended = on_suspended,
	.resumed = on_resumed,
};

static const struct exec_view_events attach_events = {
	.started = on_attached,
	.data = on_data,
	.gap = on_gap,
	.exited = on_exited,
	.ended = on_ended,
	.suspended = on_suspended,
	.resumed = on_resumed,
};

/* ---- calls ---- */

static struct core_exec_call *call_new(struct core *core, uint64_t max, core_exec_done_fn done,
				       void *arg)
{
	struct core_exec_call *call = xcalloc(1, sizeof(*call));

	call->core = core;
	call->id = ++core->last_call_id;
	call->max = max;
	call->head_max = max / 2;
	call->tail_max = max - call->head_max;
	call->done = done;
	call->arg = arg;
	call->next = core->calls;
	call->link = &core->calls;
	if (call->next)
		call->next->link = &call->next;
	core->calls = call;
	return call;
}

static struct core_exec_call *handle_of(const struct core_exec_call *call)
{
	return (struct core_exec_call *)(uintptr_t)call->id; /* NOLINT(performance-no-int-to-ptr) */
}

struct exec_begin {
	struct exec_start start;
	uint64_t max;
	core_exec_done_fn done;
	void *arg;
	struct core_exec_call *handle;
};

static bool begin_on_loop(void *arg)
{
	struct exec_begin *begin = arg;
	struct exec_start *start = &begin->start;
	struct core_exec_call *call =
		call_new(start->sandbox->core, begin->max, begin->done, begin->arg);

	str_copy(call->exec_id, sizeof(call->exec_id), start->exec_id);
	start->events = &start_events;
	start->arg = call;
	start->stdout_credit = start->stderr_credit = call->head_max;
	exec_start_now(start);
	if (!start->view) {
		call_free(call);
		return true;
	}
	call->view = start->view;
	call->wait_ms = start->req->wait_ms;
	set_backstop(call, start->timeout_ms + EXEC_BACKSTOP_MS);
	begin->handle = handle_of(call);
	return true;
}

int core_exec(struct core *core, const struct principal *who, const char *sandbox_id,
	      const struct core_exec_request *req, core_exec_done_fn done, void *arg,
	      struct core_exec_call **ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct exec_begin begin = { .done = done, .arg = arg };
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = exec_check_output_max(core, req->max_output_bytes, &begin.max, err);
	if (r == 0)
		r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r == 0)
		r = exec_check(core, who, req, &begin.start, err);
	if (r < 0)
		return r;
	begin.start.sandbox = sb;
	r = exec_with_channel(sb, begin_on_loop, &begin, err);
	exec_start_clear(&begin.start);
	if (r == 0 && begin.start.err.num < 0) {
		r = begin.start.err.num;
		if (err)
			*err = begin.start.err;
	}
	if (r == 0)
		*ret = begin.handle;
	return r;
}

struct exec_look {
	struct sandbox *sb;
	const char *exec_id;
	int64_t wait_ms;
	uint64_t from[2];
	uint64_t max;
	core_exec_done_fn done;
	void *arg;
	struct core_exec_call *handle;
};

static bool look_on_loop(void *arg)
{
	struct exec_look *look = arg;
	struct core_exec_call *call = call_new(look->sb->core, look->max, look->done, look->arg);

	str_copy(call->exec_id, sizeof(call->exec_id), look->exec_id);
	call->streams[0].from = look->from[0];
	call->streams[1].from = look->from[1];
	call->view =
		exec_view_attach(look->sb, look->exec_id, !exec_view_owner(look->sb, look->exec_id),
				 &attach_events, call);
	call->wait_ms = look->wait_ms;
	look->handle = handle_of(call);
	return true;
}

int core_exec_wait(struct core *core, const struct principal *who, const char *sandbox_id,
		   const char *exec_id, int64_t wait_ms, uint64_t from_stdout, uint64_t from_stderr,
		   uint64_t max_output_bytes, core_exec_done_fn done, void *arg,
		   struct core_exec_call **ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct exec_look look = {
		.exec_id = exec_id,
		.wait_ms = wait_ms,
		.from = { from_stdout, from_stderr },
		.done = done,
		.arg = arg,
	};
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = exec_check_output_max(core, max_output_bytes, &look.max, err);
	if (r == 0)
		r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r == 0 && !exec_id_valid(exec_id))
		r = exec_not_found(exec_id, err);
	if (r == 0)
		r = exec_authorize(who, exec_id, err);
	if (r < 0)
		return r;
	look.sb = sb;
	r = exec_with_channel(sb, look_on_loop, &look, err);
	if (r == 0)
		*ret = look.handle;
	return r;
}

struct cancel {
	struct core *core;
	struct core_exec_call *handle;
	bool found;
};

static void cancel_on_loop(void *arg)
{
	struct cancel *cancel = arg;
	struct core_exec_call *call = cancel->core->calls;

	while (call && handle_of(call) != cancel->handle)
		call = call->next;
	if (!call)
		return;
	cancel->found = true;
	call_free(call);
}

bool core_exec_cancel(struct core *core, struct core_exec_call *handle)
{
	struct cancel cancel = { .core = core, .handle = handle };

	loop_call(core->loop, cancel_on_loop, &cancel);
	return cancel.found;
}

void exec_calls_end(struct core *core, const struct err *err)
{
	while (core->calls)
		call_fail(core->calls, err);
}
