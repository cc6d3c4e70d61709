/*
 * A command's output as server-sent events: started, stdout, stderr, gap, exit, error.
 *
 * The core's callbacks, the client's disconnect and the HTTP stream's drained reports all run on
 * the loop's thread; only the worker that starts the command runs beside them, and shares what is
 * under the lock. Whichever of the two sides comes last closes the core's stream.
 *
 * Pacing: the core may send EXEC_WINDOW_BYTES of each stream ahead. What was sent is granted again
 * when the events that wait for the client have shrunk below EXEC_LOW_WATER_BYTES, so a client that
 * reads slowly, or not at all, costs a bounded queue, and the guest's output waits in the guest.
 */
#include "api/rest_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "api/ops_exec.h"
#include "api/problem.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define EXEC_WINDOW_BYTES    (256u * 1024)
#define EXEC_LOW_WATER_BYTES (64u * 1024)

struct exec_output_state {
	struct buf carry;  /* the start of a character whose end has not come yet */
	uint64_t position; /* of the first byte in carry, or of the next byte */
};

struct exec_events {
	atomic_uint refs; /* one of the starting worker, one of the loop's side */
	struct rest_call *rc;
	struct http_stream *stream; /* NULL until there is something to say */
	struct exec_output_state outputs[2];

	pthread_mutex_t lock;
	struct core_stream *core_stream; /* NULL until the worker knows it */
	uint64_t owed[2];		 /* bytes to grant again */
	size_t queued_bytes;		 /* of events, on their way to the client */
	bool starting, gone_early; /* the client left while the worker was starting the command */
	bool ending;		   /* it has ended, and is told as soon as the audit has it */
	bool finished;

	/* loop's thread: how it ended */
	struct err why;
	json_t *last;
};

/* The core names streams by their descriptors, 1 and 2; here they are 0 and 1. */
static int output_of(int descriptor)
{
	return descriptor == STDERR_FILENO;
}

static int descriptor_of(int which)
{
	return which ? STDERR_FILENO : STDOUT_FILENO;
}

static const char *const output_names[] = { "stdout", "stderr" };

static void exec_events_unref(struct exec_events *events)
{
	if (atomic_fetch_sub(&events->refs, 1) != 1)
		return;
	buf_clear(&events->outputs[0].carry);
	buf_clear(&events->outputs[1].carry);
	rest_call_free(events->rc);
	json_decref(events->last);
	pthread_mutex_destroy(&events->lock);
	free(events);
}

/* The loop's side is done: the answer has ended, the core's stream is closed by whoever has it. */
static void exec_events_finish(struct exec_events *events)
{
	struct core_stream *core_stream;

	pthread_mutex_lock(&events->lock);
	events->finished = true;
	core_stream = STEAL(events->core_stream);
	pthread_mutex_unlock(&events->lock);
	core_stream_close(core_stream);
	exec_events_unref(events);
}

/* ---- events ---- */

/* Lock held. Grants what is owed if the queue is short and the core's stream is known. */
static void grant(struct exec_events *events)
{
	if (!events->core_stream || events->queued_bytes > EXEC_LOW_WATER_BYTES)
		return;
	for (int which = 0; which < 2; which++) {
		uint64_t owed = events->owed[which];

		events->owed[which] = 0;
		if (owed > 0)
			core_stream_credit(events->core_stream, descriptor_of(which), owed);
	}
}

static void drained(void *arg, size_t bytes)
{
	struct exec_events *events = arg;

	pthread_mutex_lock(&events->lock);
	events->queued_bytes -= bytes < events->queued_bytes ? bytes : events->queued_bytes;
	grant(events);
	pthread_mutex_unlock(&events->lock);
}

static void send_text(struct exec_events *events, const struct buf *text)
{
	if (!events->stream)
		events->stream = http_stream_begin(events->rc->req, rest_heartbeat_ms(events->rc),
						   drained, events);
	/* Counted first: the report that it has left may come before the write returns. */
	pthread_mutex_lock(&events->lock);
	events->queued_bytes += text->len;
	pthread_mutex_unlock(&events->lock);
	http_stream_write(events->stream, text->data, text->len);
}

static void send_event(struct exec_events *events, const char *name, const json_t *data)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	rest_append_event(&text, name, data);
	send_text(events, &text);
}

/* Written as text at once: this is where all output passes. */
static void send_bytes(struct exec_events *events, int which, const char *data, size_t len)
{
	struct exec_output_state *output = &events->outputs[which];
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (len == 0)
		return;
	buf_printf(&text, "event: %s\ndata: {\"offset\":%" PRIu64 ",", output_names[which],
		   output->position);
	if (utf8_valid(data, len)) {
		buf_append_str(&text, "\"data\":");
		json_write_string(data, len, &text);
	} else {
		buf_append_str(&text, "\"data_base64\":\"");
		base64_encode(data, len, &text);
		buf_append_char(&text, '"');
	}
	buf_append_str(&text, "}\n\n");
	output->position += len;
	send_text(events, &text);
}

static void flush_carry(struct exec_events *events, int which)
{
	struct buf *carry = &events->outputs[which].carry;

	send_bytes(events, which, buf_str(carry), carry->len);
	buf_reset(carry);
}

/* ---- the core's sink ---- */

static void on_started(void *arg, const char *exec_id)
{
	struct exec_events *events = arg;
	_cleanup_json_ json_t *event = json_object();

	json_put_str(event, "exec_id", exec_id);
	send_event(events, "started", event);
	events->rc->call.result = json_incref(event);
}

static void on_data(void *arg, int descriptor, uint64_t offset, const void *data, size_t len)
{
	const int which = output_of(descriptor);
	struct exec_events *events = arg;
	struct exec_output_state *output = &events->outputs[which];
	_cleanup_buf_ struct buf joined = BUF_INIT;
	size_t whole;

	if (output->carry.len == 0)
		output->position = offset;
	buf_append(&joined, buf_str(&output->carry), output->carry.len);
	buf_append(&joined, data, len);
	buf_reset(&output->carry);
	whole = utf8_whole_prefix(joined.data, joined.len);
	send_bytes(events, which, joined.data, whole);
	buf_append(&output->carry, joined.data + whole, joined.len - whole);
	pthread_mutex_lock(&events->lock);
	events->owed[which] += len;
	grant(events); /* all of it may be in the carry, and nothing queued that will report */
	pthread_mutex_unlock(&events->lock);
}

static void on_gap(void *arg, int descriptor, uint64_t from, uint64_t to)
{
	const int which = output_of(descriptor);
	struct exec_events *events = arg;
	_cleanup_json_ json_t *event = json_object();

	flush_carry(events, which);
	json_put_str(event, "stream", output_names[which]);
	json_put_int(event, "from", (json_int_t)from);
	json_put_int(event, "to", (json_int_t)to);
	send_event(events, "gap", event);
}

/* Loop's thread. */
static void tell_end(void *arg)
{
	struct exec_events *events = arg;

	if (events->why.num && !events->stream) {
		/* It never began: an answer like any other. */
		problem_respond(events->rc->req, &events->why);
	} else {
		send_event(events, events->why.num ? "error" : "exit", events->last);
		http_stream_end(events->stream);
	}
	exec_events_finish(events);
}

static void on_ended(void *arg, const struct core_exec_result *result, const struct err *err)
{
	struct exec_events *events = arg;
	struct op_call *call = &events->rc->call;

	flush_carry(events, 0);
	flush_carry(events, 1);
	if (err) {
		events->why = *err;
		events->last = problem_json(problem_status(err), err, call->request_id);
	} else {
		events->last = exec_result_json(result, EXEC_OUTPUT_NONE);
		json_decref(call->result);
		call->result = json_incref(events->last);
	}
	pthread_mutex_lock(&events->lock);
	events->ending = true;
	pthread_mutex_unlock(&events->lock);
	op_call_leave(call, err, tell_end, events);
}

static const struct core_stream_sink exec_sink = {
	.started = on_started,
	.data = on_data,
	.gap = on_gap,
	.ended = on_ended,
};

/* Ends the answer to nobody; no callback of the core may be running or follow but on this thread.
 */
static void end_for_nobody(struct exec_events *events)
{
	struct err err = ERR_INIT;

	err_code(&err, -ECANCELED, "cancelled", "the client went away");
	op_call_leave(&events->rc->call, &err, NULL, NULL);
	if (events->stream)
		http_stream_end(events->stream);
	else
		http_respond(events->rc->req, 499, NULL, NULL, NULL, 0);
	exec_events_finish(events);
}

/* The client went away; the command goes on. */
static void on_gone(void *arg)
{
	struct exec_events *events = arg;
	bool starting, ending;

	pthread_mutex_lock(&events->lock);
	starting = events->starting;
	ending = events->ending;
	events->gone_early = starting && !ending;
	pthread_mutex_unlock(&events->lock);
	if (!starting && !ending)
		end_for_nobody(events);
}

/* ---- the start ---- */

static int start(struct exec_events *events, struct core_stream **ret, struct err *err)
{
	const struct op_call *call = &events->rc->call;
	const char *id = json_get_str(call->args, "id", "");
	_cleanup_(exec_args_clear) struct exec_args args = { 0 };
	int rc;

	if (str_eq(call->op->name, "exec_wait"))
		return core_exec_follow(call->core, &call->who, id,
					json_get_str(call->args, "exec_id", ""),
					(uint64_t)json_get_int(call->args, "from_offset", 0),
					(uint64_t)json_get_int(call->args, "from_stderr_offset", 0),
					&exec_sink, events, EXEC_WINDOW_BYTES, ret, err);
	rc = exec_args_read(call, &args, err);
	if (rc < 0)
		return rc;
	return core_exec_stream(call->core, &call->who, id, &args.req, &exec_sink, events,
				EXEC_WINDOW_BYTES, ret, err);
}

/* The command runs: what happened on the loop's side meanwhile decides who closes the core's
 * stream. */
static void hand_to_loop(struct exec_events *events, struct core_stream *core_stream)
{
	bool finished, gone;

	pthread_mutex_lock(&events->lock);
	events->starting = false;
	finished = events->finished;
	gone = events->gone_early;
	if (!finished && !gone) {
		events->core_stream = core_stream;
		grant(events);
	}
	pthread_mutex_unlock(&events->lock);
	if (!finished && !gone)
		return;
	core_stream_close(core_stream); /* no callback runs from here on */
	pthread_mutex_lock(&events->lock);
	finished = events->finished || events->ending;
	pthread_mutex_unlock(&events->lock);
	if (!finished)
		end_for_nobody(events);
}

void rest_stream_exec(struct rest_call *rc)
{
	struct exec_events *events = xcalloc(1, sizeof(*events));
	struct core_stream *core_stream = NULL;
	struct err err = ERR_INIT;

	events->refs = 2;
	events->rc = rc;
	events->starting = true;
	pthread_mutex_init(&events->lock, NULL);
	http_on_disconnect(rc->req, on_gone, events);
	if (start(events, &core_stream, &err) < 0) {
		op_call_leave(&rc->call, &err, NULL, NULL);
		problem_respond(rc->req, &err);
		exec_events_unref(events); /* the loop's side never was */
	} else {
		hand_to_loop(events, core_stream);
	}
	exec_events_unref(events);
}
