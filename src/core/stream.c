/*
 * Live views of a command's output, byte-exact: bytes come against the credit that the reader
 * grants, and while a stream is open the guest rather stops reading the command's pipe than drop
 * bytes that the stream has not had (back-pressure). Everything but the functions of core.h belongs
 * to the loop's thread.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/exec.h"

struct core_stream {
	struct core *core;
	struct exec_view *view; /* NULL once ended */
	char exec_id[EXEC_ID_SIZE];
	struct core_stream_sink sink;
	void *arg;
	bool exited;
	uint64_t from[2];  /* where a joined stream begins */
	uint64_t next[2];  /* delivered up to here */
	uint64_t total[2]; /* at the exit */
	uint64_t initial_credit;
	struct loop_timer *backstop;
	int64_t backstop_boottime_ms; /* when it is due; while the sandbox is paused: what is left
				       */
	unsigned int depth;	      /* callbacks under way */
	bool closed;		      /* freed when depth is 0 */
};

/* A sink may close the stream from within a callback. */
static void enter(struct core_stream *stream)
{
	stream->depth++;
}

static void leave(struct core_stream *stream)
{
	if (--stream->depth == 0 && stream->closed)
		free(stream);
}

static void stop(struct core_stream *stream)
{
	loop_timer_remove(STEAL(stream->backstop));
	exec_view_detach(STEAL(stream->view));
}

static void end_with(struct core_stream *stream, const struct core_exec_result *result,
		     const struct err *err)
{
	stop(stream);
	if (!stream->closed && stream->sink.ended)
		stream->sink.ended(stream->arg, result, err);
}

static void end_if_delivered(struct core_stream *stream)
{
	struct core_exec_result result = { 0 };
	json_t *denied;

	if (!stream->view || !stream->exited || stream->next[0] < stream->total[0] ||
	    stream->next[1] < stream->total[1])
		return;
	str_copy(result.exec_id, sizeof(result.exec_id), stream->exec_id);
	exec_result_from_exit(&result, &stream->view->exit);
	result.out_from = stream->from[0];
	result.err_from = stream->from[1];
	result.out_to = stream->total[0];
	result.err_to = stream->total[1];
	denied = exec_span_denied(stream->view->sandbox, stream->exec_id);
	result.egress_denied = denied;
	end_with(stream, &result, NULL);
	json_decref(denied);
}

static void on_data(void *arg, int which, uint64_t offset, const void *data, size_t len)
{
	struct core_stream *stream = arg;
	int i = stream_index(which);

	/* Children in the background print on after the exit: that is not the command's output. */
	if (stream->exited && offset + len > stream->total[i])
		len = offset < stream->total[i] ? (size_t)(stream->total[i] - offset) : 0;
	if (len == 0)
		return;
	enter(stream);
	stream->next[i] = offset + len;
	if (stream->sink.data)
		stream->sink.data(stream->arg, which, offset, data, len);
	if (!stream->closed)
		end_if_delivered(stream);
	leave(stream);
}

static void on_gap(void *arg, int which, uint64_t from, uint64_t to)
{
	struct core_stream *stream = arg;

	enter(stream);
	stream->next[stream_index(which)] = to;
	if (stream->sink.gap)
		stream->sink.gap(stream->arg, which, from, to);
	if (!stream->closed)
		end_if_delivered(stream);
	leave(stream);
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct core_stream *stream = arg;

	enter(stream);
	loop_timer_remove(STEAL(stream->backstop));
	stream->exited = true;
	stream->total[0] = exit->stdout_bytes;
	stream->total[1] = exit->stderr_bytes;
	end_if_delivered(stream);
	leave(stream);
}

static void on_ended(void *arg, const struct err *err)
{
	struct core_stream *stream = arg;

	enter(stream);
	stream->view = NULL; /* it frees itself */
	end_with(stream, NULL, err);
	leave(stream);
}

static void on_started(void *arg)
{
	struct core_stream *stream = arg;

	enter(stream);
	if (stream->sink.started)
		stream->sink.started(stream->arg, stream->exec_id);
	leave(stream);
}

static void on_attached(void *arg)
{
	struct core_stream *stream = arg;

	enter(stream);
	for (int i = 0; i < 2; i++) {
		if (stream->from[i] > stream->view->streams[i].total)
			stream->from[i] = stream->view->streams[i].total;
		stream->next[i] = stream->from[i];
		exec_view_follow(stream->view, i ? PROTO_STDERR : PROTO_STDOUT, stream->from[i],
				 stream->initial_credit);
	}
	if (stream->sink.started)
		stream->sink.started(stream->arg, stream->exec_id);
	leave(stream);
}

static void on_backstop(void *arg)
{
	struct core_stream *stream = arg;
	struct err err = ERR_INIT;

	err_code(&err, -ETIMEDOUT, "agent_unresponsive",
		 "the agent of the sandbox did not say how command '%s' ended", stream->exec_id);
	err_hint(&err, "the guest may be overloaded; pick the command up by its id, or destroy the "
		       "sandbox");
	enter(stream);
	end_with(stream, NULL, &err);
	leave(stream);
}

static void set_backstop(struct core_stream *stream, int64_t after_ms)
{
	stream->backstop_boottime_ms = clock_boottime_ms() + after_ms;
	stream->backstop = loop_timer_add(stream->core->loop, stream->backstop_boottime_ms,
					  on_backstop, stream);
}

static void on_suspended(void *arg)
{
	struct core_stream *stream = arg;

	if (!stream->backstop)
		return;
	loop_timer_remove(STEAL(stream->backstop));
	stream->backstop_boottime_ms -= clock_boottime_ms();
}

static void on_resumed(void *arg)
{
	struct core_stream *stream = arg;

	if (stream->backstop_boottime_ms && !stream->exited)
		set_backstop(stream, stream->backstop_boottime_ms);
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

/* ---- opening ---- */

static struct core_stream *stream_new(struct core *core, const struct core_stream_sink *sink,
				      void *arg, uint64_t initial_credit)
{
	struct core_stream *stream = xcalloc(1, sizeof(*stream));

	stream->core = core;
	stream->sink = *sink;
	stream->arg = arg;
	stream->initial_credit = initial_credit;
	return stream;
}

struct stream_begin {
	struct exec_start start;
	struct core_stream *stream;
};

static bool begin_on_loop(void *arg)
{
	struct stream_begin *begin = arg;
	struct exec_start *start = &begin->start;
	struct core_stream *stream = begin->stream;

	start->events = &start_events;
	start->arg = stream;
	start->backpressure = true;
	start->stdout_credit = start->stderr_credit = stream->initial_credit;
	exec_start_now(start);
	stream->view = start->view;
	if (stream->view)
		set_backstop(stream, start->timeout_ms + EXEC_BACKSTOP_MS);
	return true;
}

int core_exec_stream(struct core *core, const struct principal *who, const char *sandbox_id,
		     const struct core_exec_request *req, const struct core_stream_sink *sink,
		     void *arg, uint64_t initial_credit, struct core_stream **ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct stream_begin begin = { 0 };
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r == 0)
		r = exec_check(core, who, req, &begin.start, err);
	if (r < 0)
		return r;
	begin.start.sandbox = sb;
	begin.stream = stream_new(core, sink, arg, initial_credit);
	str_copy(begin.stream->exec_id, sizeof(begin.stream->exec_id), begin.start.exec_id);
	r = exec_with_channel(sb, begin_on_loop, &begin, err);
	exec_start_clear(&begin.start);
	if (r == 0 && begin.start.err.num < 0) {
		r = begin.start.err.num;
		if (err)
			*err = begin.start.err;
	}
	if (r < 0)
		free(begin.stream);
	else
		*ret = begin.stream;
	return r;
}

struct stream_join {
	struct sandbox *sb;
	struct core_stream *stream;
};

static bool join_on_loop(void *arg)
{
	struct stream_join *join = arg;
	struct core_stream *stream = join->stream;

	stream->view = exec_view_attach(join->sb, stream->exec_id,
					!exec_view_owner(join->sb, stream->exec_id), &attach_events,
					stream);
	stream->view->backpressure = true;
	return true;
}

int core_exec_follow(struct core *core, const struct principal *who, const char *sandbox_id,
		     const char *exec_id, uint64_t from_stdout, uint64_t from_stderr,
		     const struct core_stream_sink *sink, void *arg, uint64_t initial_credit,
		     struct core_stream **ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct stream_join join;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r == 0 && !exec_id_valid(exec_id))
		r = exec_not_found(exec_id, err);
	if (r == 0)
		r = exec_authorize(who, exec_id, err);
	if (r < 0)
		return r;
	join = (struct stream_join){ .sb = sb,
				     .stream = stream_new(core, sink, arg, initial_credit) };
	str_copy(join.stream->exec_id, sizeof(join.stream->exec_id), exec_id);
	join.stream->from[0] = from_stdout;
	join.stream->from[1] = from_stderr;
	r = exec_with_channel(sb, join_on_loop, &join, err);
	if (r < 0)
		free(join.stream);
	else
		*ret = join.stream;
	return r;
}

/* ---- credit and closing ---- */

struct credit {
	struct core_stream *stream;
	int which;
	uint64_t bytes;
};

static void credit_on_loop(void *arg)
{
	struct credit *credit = arg;

	if (credit->stream->view)
		exec_view_credit(credit->stream->view, credit->which, credit->bytes);
	free(credit);
}

/* Posted in order before a later close of the same caller. */
void core_stream_credit(struct core_stream *stream, int which, uint64_t bytes)
{
	struct credit *credit = xcalloc(1, sizeof(*credit));

	*credit = (struct credit){ .stream = stream, .which = which, .bytes = bytes };
	if (loop_is_current(stream->core->loop))
		credit_on_loop(credit);
	else
		loop_post(stream->core->loop, credit_on_loop, credit);
}

static void close_on_loop(void *arg)
{
	struct core_stream *stream = arg;

	stop(stream);
	stream->closed = true;
	if (stream->depth == 0)
		free(stream);
}

void core_stream_close(struct core_stream *stream)
{
	if (stream)
		loop_call(stream->core->loop, close_on_loop, stream);
}
