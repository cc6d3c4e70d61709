/* The conversation with the host: handles and what is sent to them. See session.h; the requests
 * themselves are in requests.c. */
#include "guest/session.h"

#include <errno.h>
#include <stdlib.h>

#include "guest/guest.h"
#include "guest/handles.h"

#define WINDOW_STEP (PROTO_INPUT_WINDOW / 4) /* announced when it has moved that far */

struct handle *handle_find(struct session *s, uint32_t id)
{
	for (struct handle *h = s->first; h; h = h->next)
		if (h->id == id)
			return h;
	return NULL;
}

struct handle *handle_open(struct session *s, uint32_t id, struct exec *exec)
{
	struct handle *h = calloc(1, sizeof(*h));

	if (!h)
		abort();
	*h = (struct handle){ .id = id, .exec = exec, .next = s->first };
	if (s->first)
		s->first->prev = h;
	s->first = h;
	s->n_handles++;
	exec->n_handles++;
	return h;
}

void handle_close(struct session *s, struct handle *h)
{
	if (s->turn == h)
		s->turn = h->next;
	if (h->next)
		h->next->prev = h->prev;
	if (h->prev)
		h->prev->next = h->next;
	else
		s->first = h->next;
	s->n_handles--;
	h->exec->n_handles--;
	if (h->exec->is_file)
		exec_abandon(h->exec);
	free(h);
}

void session_end(struct session *s)
{
	while (s->first)
		handle_close(s, s->first);
	s->begun = s->greeted = false;
	channel_drop_queue(&s->guest->channel);
}

void session_begin(struct session *s, const uint8_t nonce[PROTO_NONCE_LEN])
{
	session_end(s);
	s->begun = true;
	frame_put_marker(&s->guest->channel.out, nonce);
}

void session_lost(struct session *s)
{
	struct buf *out = &s->guest->channel.out;
	bool was_begun = s->begun;

	/* What is queued stays: it may end in the middle of a frame that is partly written. */
	while (s->first)
		handle_close(s, s->first);
	s->begun = s->greeted = false;
	if (was_begun)
		frame_end(out, frame_begin(out, PROTO_LOST, 0, 0));
}

uint64_t session_slowest(const struct session *s, const struct output *o)
{
	uint64_t slowest = UINT64_MAX;

	for (const struct handle *h = s->first; h; h = h->next) {
		const struct follow *f = &h->follows[o == &o->exec->streams[1]];

		if (h->exec == o->exec && f->active && f->backpressure && f->offset < slowest)
			slowest = f->offset;
	}
	return slowest;
}

/* ---- sending ---- */

void handle_send_failed(struct session *s, uint32_t id, const struct exec_failure *failure)
{
	struct buf *out = &s->guest->channel.out;
	size_t frame = frame_begin(out, PROTO_FAILED, 0, id);

	frame_put_u32(out, failure->reason);
	frame_put_string(out, failure->message,
			 strnlen(failure->message, sizeof(failure->message)));
	frame_end(out, frame);
}

static void send_answer(struct session *s, struct handle *h)
{
	struct buf *out = &s->guest->channel.out;
	struct exec *exec = h->exec;
	size_t frame = frame_begin(out, h->attached ? PROTO_STATE : PROTO_STARTED, 0, h->id);

	if (h->attached) {
		frame_put_u8(out, exec->phase != EXEC_ENDED);
		frame_put_u64(out, exec->streams[0].log.total);
		frame_put_u64(out, exec->streams[1].log.total);
		frame_put_u64(out, exec->input.received);
		frame_put_u64(out, exec_duration_ms(exec));
	} else {
		frame_put_u32(out, (uint32_t)exec->pid);
	}
	frame_end(out, frame);
	h->answered = true;
}

static void send_exit(struct session *s, struct handle *h)
{
	struct buf *out = &s->guest->channel.out;
	const struct exec *exec = h->exec;
	size_t frame = frame_begin(out, PROTO_EXIT, 0, h->id);

	exec_put_exit(exec, out);
	frame_end(out, frame);
	h->exit_sent = true;
}

static void send_window(struct session *s, struct handle *h)
{
	struct buf *out = &s->guest->channel.out;
	size_t frame = frame_begin(out, PROTO_INPUT_WINDOW_FRAME, 0, h->id);

	h->window_sent = input_window(&h->exec->input);
	frame_put_u64(out, h->window_sent);
	frame_end(out, frame);
}

static void send_position(struct session *s, struct handle *h, uint8_t type, int stream,
			  uint64_t offset)
{
	struct buf *out = &s->guest->channel.out;
	size_t frame = frame_begin(out, type, 0, h->id);

	frame_put_u8(out, (uint8_t)stream);
	frame_put_u64(out, offset);
	frame_end(out, frame);
}

static void send_gap(struct session *s, struct handle *h, int stream, uint64_t from, uint64_t to)
{
	struct buf *out = &s->guest->channel.out;
	size_t frame = frame_begin(out, PROTO_GAP, 0, h->id);

	frame_put_u8(out, (uint8_t)stream);
	frame_put_u64(out, from);
	frame_put_u64(out, to);
	frame_end(out, frame);
}

static void send_data(struct session *s, struct handle *h, int stream, const char *data, size_t len)
{
	struct follow *f = handle_follow(h, stream);
	struct buf *out = &s->guest->channel.out;
	size_t frame = frame_begin(out, PROTO_DATA, 0, h->id);

	frame_put_u8(out, (uint8_t)stream);
	frame_put_u64(out, f->offset);
	frame_put_bytes(out, data, len);
	frame_end(out, frame);
	f->offset += len;
	f->credit -= len;
}

/* Of what is handed through: a frame of what the pipe has, or the end. */
static bool step_direct(struct session *s, struct handle *h, int stream)
{
	struct follow *f = handle_follow(h, stream);
	struct output *o = exec_stream(h->exec, stream);
	size_t max = f->credit < PROTO_DATA_MAX ? (size_t)f->credit : PROTO_DATA_MAX;
	size_t n;

	if (!f->active)
		return false;
	n = max > 0 ? output_take(o, s->guest->chunk, max) : 0;
	if (n > 0) {
		send_data(s, h, stream, s->guest->chunk, n);
		return true;
	}
	if (!o->ended)
		return false;
	send_position(s, h, PROTO_EOF, stream, o->log.total);
	f->active = false;
	return true;
}

/* One frame of output, a gap, or the end, if one is due. */
static bool step_stream(struct session *s, struct handle *h, int stream)
{
	struct follow *f = handle_follow(h, stream);
	const struct output *o = exec_stream(h->exec, stream);
	const struct capture *log = &o->log;
	size_t max = f->credit < PROTO_DATA_MAX ? (size_t)f->credit : PROTO_DATA_MAX;
	ssize_t n;

	if (o->direct)
		return step_direct(s, h, stream);
	if (f->answers_due > 0) {
		send_position(s, h, PROTO_FOLLOWING, stream, f->offset);
		f->answers_due--;
		return true;
	}
	if (!f->active)
		return false;
	if (f->offset >= log->gap_from && f->offset < log->gap_to) {
		send_gap(s, h, stream, f->offset, log->gap_to);
		f->offset = log->gap_to;
		return true;
	}
	if (f->offset >= log->total) {
		if (!o->ended)
			return false;
		send_position(s, h, PROTO_EOF, stream, log->total);
		f->active = false;
		return true;
	}
	n = max > 0 ? capture_read(log, f->offset, s->guest->chunk, max) : 0;
	if (n > 0) {
		send_data(s, h, stream, s->guest->chunk, (size_t)n);
	} else if (n < 0 || max > 0) {
		/* The disk does not give it back: lost like what the cap drops. */
		send_gap(s, h, stream, f->offset, log->total);
		f->offset = log->total;
	}
	return max > 0;
}

/* Sends at most one frame of a handle; false when nothing is due. May free it. */
static bool step(struct session *s, struct handle *h)
{
	struct exec *exec = h->exec;

	if (exec->phase == EXEC_STARTING)
		return false;
	if (exec->phase == EXEC_FAILED) {
		handle_send_failed(s, h->id, &exec->failure);
		handle_close(s, h);
		return true;
	}
	if (!h->answered) {
		send_answer(s, h);
		return true;
	}
	if (exec->with_stdin && input_window(&exec->input) >= h->window_sent + WINDOW_STEP) {
		send_window(s, h);
		return true;
	}
	if (exec->phase == EXEC_ENDED && !h->exit_sent) {
		send_exit(s, h);
		return true;
	}
	return step_stream(s, h, PROTO_STDOUT) || step_stream(s, h, PROTO_STDERR);
}

bool session_pump(struct session *s)
{
	unsigned int idle = 0;
	bool any = false;

	while (s->first && idle < s->n_handles && channel_has_room(&s->guest->channel)) {
		struct handle *h = s->turn ? s->turn : s->first;

		s->turn = h->next;
		if (step(s, h)) {
			idle = 0;
			any = true;
		} else {
			idle++;
		}
	}
	return any;
}
