/*
 * The audit as a stream: to follow it (server-sent events: ready, then records, the id of each
 * being where to go on from), and to have all of it (lines of JSON, as they were hashed).
 *
 * Pacing is that of events (rest_events.c): the follower is told to wait while much is on its way
 * to the client. An export ends when all that was there at its beginning has been handed on.
 *
 * Threads: the sink runs on the audit's thread, everything else on the loop's.
 */
#include "api/rest_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "api/ops_audit_list.h"
#include "api/problem.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define HIGH_WATER_BYTES (128u * 1024)
#define LOW_WATER_BYTES	 (32u * 1024)

struct audit_stream {
	struct rest_call *rc;
	struct http_stream *stream;
	struct core_audit_follower *follower;
	bool events; /* else lines */

	pthread_mutex_t lock;
	size_t queued_bytes; /* on their way to the client */
	bool waiting;	     /* the follower was told to */
	bool ending;	     /* all was handed on: finish comes */
};

/* True: there is room for more. */
static bool send(struct audit_stream *audit, const struct buf *text)
{
	bool room;

	/* Counted first: the report that it has left may come before the write returns. */
	pthread_mutex_lock(&audit->lock);
	audit->queued_bytes += text->len;
	room = audit->queued_bytes < HIGH_WATER_BYTES;
	audit->waiting = !room;
	pthread_mutex_unlock(&audit->lock);
	http_stream_write(audit->stream, text->data, text->len);
	return room;
}

static bool on_record(void *arg, const struct core_audit_record *record)
{
	struct audit_stream *audit = arg;
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_json_ json_t *json = NULL;

	if (audit->events) {
		json = audit_record_json(record);
		buf_printf(&text, "id: %" PRId64 "\n", record->seq);
		rest_append_event(&text, "record", json);
	} else {
		buf_printf(&text, "%s\n", record->line);
	}
	return send(audit, &text);
}

static void drained(void *arg, size_t bytes)
{
	struct audit_stream *audit = arg;
	bool resume;

	pthread_mutex_lock(&audit->lock);
	audit->queued_bytes -= bytes < audit->queued_bytes ? bytes : audit->queued_bytes;
	resume = audit->waiting && !audit->ending && audit->queued_bytes <= LOW_WATER_BYTES;
	if (resume)
		audit->waiting = false;
	pthread_mutex_unlock(&audit->lock);
	if (resume)
		core_audit_resume(audit->follower);
}

static void stream_free(struct audit_stream *audit)
{
	rest_call_free(audit->rc);
	pthread_mutex_destroy(&audit->lock);
	free(audit);
}

/* Loop's thread. The follower is closed already or has said its last. */
static void finish(void *arg)
{
	struct audit_stream *audit = arg;

	core_audit_close_follower(STEAL(audit->follower));
	op_call_leave(&audit->rc->call, NULL, NULL, NULL);
	http_stream_end(audit->stream);
	stream_free(audit);
}

static void on_end(void *arg)
{
	struct audit_stream *audit = arg;

	pthread_mutex_lock(&audit->lock);
	audit->ending = true;
	pthread_mutex_unlock(&audit->lock);
	http_on_loop(audit->rc->req, finish, audit);
}

static void on_gone(void *arg)
{
	struct audit_stream *audit = arg;
	bool ending;

	core_audit_close_follower(STEAL(audit->follower)); /* no on_end from here on */
	pthread_mutex_lock(&audit->lock);
	ending = audit->ending;
	pthread_mutex_unlock(&audit->lock);
	if (!ending)
		finish(audit);
}

/* ---- the start ---- */

/* Negative: from now on. What the client has seen last is newer than what it began with. */
static int read_cursor(const struct rest_call *rc, int64_t *ret, struct err *err)
{
	const char *last = http_header(rc->req, "Last-Event-ID");
	int64_t cursor = json_get_int(rc->call.args, "cursor", -1);

	if (last && (str_to_i64(last, &cursor) < 0 || cursor < 0))
		return err_code(err, -EINVAL, "invalid_cursor",
				"header Last-Event-ID '%.32s' is no number of a record", last);
	*ret = cursor;
	return 0;
}

static int follow(struct audit_stream *audit, int64_t *ret_cursor, struct err *err)
{
	const struct op_call *call = &audit->rc->call;
	const struct core_audit_filter filter = audit_filter_of(call);
	const struct core_audit_sink sink = { .record = on_record,
					      .end = audit->events ? NULL : on_end };
	int64_t cursor = -1;
	int rc = read_cursor(audit->rc, &cursor, err);

	if (rc < 0)
		return rc;
	return core_audit_follow(call->core, &call->who, &filter, cursor, &sink, audit, ret_cursor,
				 &audit->follower, err);
}

static void begin_events(struct audit_stream *audit, int64_t cursor)
{
	_cleanup_json_ json_t *ready = json_object();
	_cleanup_buf_ struct buf text = BUF_INIT;

	audit->stream =
		http_stream_begin(audit->rc->req, rest_heartbeat_ms(audit->rc), drained, audit);
	json_put_int(ready, "cursor", cursor);
	buf_printf(&text, "id: %" PRId64 "\n", cursor);
	rest_append_event(&text, "ready", ready);
	send(audit, &text);
}

static void begin_lines(struct audit_stream *audit)
{
	const struct http_extra_header headers[] = {
		{ "Content-Type", audit->rc->call.op->bytes_type },
		{ "Content-Disposition", "attachment; filename=\"audit.jsonl\"" },
		{ "Cache-Control", "no-store" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "X-Request-Id", http_request_id(audit->rc->req) },
	};
	const struct http_answer answer = {
		.status = 200,
		.headers = headers,
		.n_headers = ARRAY_SIZE(headers),
		.has_body = true,
	};

	audit->stream = http_answer_begin(audit->rc->req, &answer, drained, audit);
}

/* Loop's thread, where the disconnect comes too: so neither comes before the other is set up. */
static void resume(void *arg)
{
	struct audit_stream *audit = arg;

	http_on_disconnect(audit->rc->req, on_gone, audit);
	core_audit_resume(audit->follower);
}

static void run(struct rest_call *rc, bool events)
{
	struct audit_stream *audit = xcalloc(1, sizeof(*audit));
	struct err err = ERR_INIT;
	int64_t cursor = 0;

	audit->rc = rc;
	audit->events = events;
	pthread_mutex_init(&audit->lock, NULL);
	if (follow(audit, &cursor, &err) < 0) {
		op_call_leave(&rc->call, &err, NULL, NULL);
		problem_respond(rc->req, &err);
		stream_free(audit);
		return;
	}
	if (events)
		begin_events(audit, cursor);
	else
		begin_lines(audit);
	http_on_loop(rc->req, resume, audit);
}

void rest_stream_audit(struct rest_call *rc)
{
	run(rc, true);
}

void rest_export_audit(struct rest_call *rc)
{
	run(rc, false);
}
