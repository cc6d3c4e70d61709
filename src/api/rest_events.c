/*
 * Events as server-sent events: ready, then each event under the name of its type, or gap. The id
 * of each is where to go on from: a client that comes back sends it as Last-Event-ID, or as cursor.
 *
 * Pacing: the follower is told to wait when EVENTS_HIGH_WATER_BYTES wait for the client, and goes
 * on from the table when these have shrunk to EVENTS_LOW_WATER_BYTES. So a client that reads
 * slowly, or not at all, costs a bounded queue.
 *
 * Threads: the sink runs on the core's thread of events, drained and on_gone on the loop's; what
 * they share is under the lock, which is never held while the core or the stream is called. on_gone
 * is the end, and the only one: a stream of events ends with its client, or with the server, which
 * tells of itself in the same way.
 */
#include "api/rest_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "api/ops_events.h"
#include "api/problem.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define EVENTS_HIGH_WATER_BYTES (64u * 1024)
#define EVENTS_LOW_WATER_BYTES	(16u * 1024)

struct event_stream {
	struct rest_call *rc;
	struct http_stream *stream;
	struct core_event_follower *follower;

	pthread_mutex_t lock;
	size_t queued_bytes; /* on their way to the client */
	bool waiting;	     /* the follower was told to */
};

/* True: there is room for more. */
static bool send(struct event_stream *events, int64_t id, const char *name, json_t *data)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_json_ json_t *owned = data;
	bool room;

	buf_printf(&text, "id: %" PRId64 "\n", id);
	rest_append_event(&text, name, owned);
	/* Counted first: the report that it has left may come before the write returns. */
	pthread_mutex_lock(&events->lock);
	events->queued_bytes += text.len;
	room = events->queued_bytes < EVENTS_HIGH_WATER_BYTES;
	events->waiting = !room;
	pthread_mutex_unlock(&events->lock);
	http_stream_write(events->stream, text.data, text.len);
	return room;
}

static bool on_event(void *arg, const struct core_event *event)
{
	return send(arg, event->id, event->type, event_json(event));
}

static bool on_gap(void *arg, const struct core_event_gap *gap)
{
	return send(arg, gap->to, "gap", event_gap_json(gap));
}

static const struct core_event_sink sink = { .event = on_event, .gap = on_gap };

static void drained(void *arg, size_t bytes)
{
	struct event_stream *events = arg;
	bool resume;

	pthread_mutex_lock(&events->lock);
	events->queued_bytes -= bytes < events->queued_bytes ? bytes : events->queued_bytes;
	resume = events->waiting && events->queued_bytes <= EVENTS_LOW_WATER_BYTES;
	if (resume)
		events->waiting = false;
	pthread_mutex_unlock(&events->lock);
	if (resume)
		core_event_follower_resume(events->follower);
}

static void on_gone(void *arg)
{
	struct event_stream *events = arg;

	core_event_follower_close(events->follower);
	op_call_leave(&events->rc->call, NULL, NULL, NULL);
	http_stream_end(events->stream);
	rest_call_free(events->rc);
	pthread_mutex_destroy(&events->lock);
	free(events);
}

/* Where to begin; negative: now. What the client has seen last is newer than what it began with. */
static int read_cursor(const struct rest_call *rc, int64_t *ret, struct err *err)
{
	const char *last = http_header(rc->req, "Last-Event-ID");
	int64_t cursor = json_get_int(rc->call.args, "cursor", -1);

	if (last && (str_to_i64(last, &cursor) < 0 || cursor < 0))
		return err_code(err, -EINVAL, "invalid_cursor",
				"header Last-Event-ID '%.32s' is no id of an event", last);
	*ret = cursor;
	return 0;
}

static int follow(struct event_stream *events, int64_t *ret_cursor, struct err *err)
{
	const struct op_call *call = &events->rc->call;
	const struct core_event_filter filter = event_filter_of(call);
	int64_t cursor = -1;
	int rc = read_cursor(events->rc, &cursor, err);

	if (rc < 0)
		return rc;
	return core_events_follow(call->core, &call->who, &filter, cursor, &sink, events,
				  ret_cursor, &events->follower, err);
}

void rest_stream_events(struct rest_call *rc)
{
	struct event_stream *events = xcalloc(1, sizeof(*events));
	struct err err = ERR_INIT;
	json_t *ready;
	int64_t cursor = 0;

	events->rc = rc;
	pthread_mutex_init(&events->lock, NULL);
	if (follow(events, &cursor, &err) < 0) {
		op_call_leave(&rc->call, &err, NULL, NULL);
		problem_respond(rc->req, &err);
		rest_call_free(rc);
		pthread_mutex_destroy(&events->lock);
		free(events);
		return;
	}
	events->stream = http_stream_begin(rc->req, rest_heartbeat_ms(rc), drained, events);
	ready = json_object();
	json_put_int(ready, "cursor", cursor);
	send(events, cursor, "ready", ready);
	core_event_follower_resume(events->follower);
	/* The last touch: it may be gone when this returns. */
	http_on_disconnect(rc->req, on_gone, events);
}
