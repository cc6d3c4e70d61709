/*
 * What the host asks for: one function a request. Payloads are parsed here and nowhere else in the
 * guest. A malformed request ends the session, a well-formed one that cannot be fulfilled gets
 * FAILED; frames for handles that are not open are ignored, because the host may send them before
 * it has seen that a handle was closed.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "guest/guest.h"
#include "guest/handles.h"
#include "guest/identity.h"

#define CWD_MAX	  4095u
#define USER_MAX  255u
#define N_ENV_MAX 4096u

/* A string of the payload as a C string; one with a NUL in it makes the reader bad. Never NULL. */
static char *get_text(struct frame_reader *r, size_t max_len)
{
	struct frame_slice s = frame_get_string(r, max_len);

	if (memchr(s.data, '\0', s.len))
		r->bad = true;
	return xstrndup(s.data, s.len);
}

static int get_stream(struct frame_reader *r)
{
	int stream = frame_get_u8(r);

	if (stream != PROTO_STDOUT && stream != PROTO_STDERR)
		r->bad = true;
	return stream;
}

static void put_text(struct buf *out, const char *s)
{
	frame_put_string(out, s, strlen(s));
}

static void send_hello_ack(struct session *s, uint32_t applied)
{
	struct guest *guest = s->guest;
	struct buf *out = &guest->channel.out;
	size_t frame = frame_begin(out, PROTO_HELLO_ACK, 0, 0);

	frame_put_u32(out, PROTO_VERSION);
	frame_put_u64(out, guest->epoch);
	frame_put_u64(out, (uint64_t)clock_boottime_ms());
	frame_put_u32(out, applied);
	frame_put_u64(out, guest->mem_total_kib);
	put_text(out, SKERRY_VERSION);
	put_text(out, guest->kernel_release);
	put_text(out, guest->os_name);
	frame_end(out, frame);
}

static bool handle_hello(struct session *s, const struct proto_header *header,
			 struct frame_reader *r)
{
	uint32_t version = frame_get_u32(r), applied = 0;
	struct identity id = { .epoch = frame_get_u64(r), .unix_us = frame_get_u64(r) };
	struct frame_slice entropy = frame_get_bytes(r, PROTO_ENTROPY_LEN);

	id.hostname = get_text(r, IDENTITY_HOSTNAME_MAX);
	id.machine_id = get_text(r, IDENTITY_MACHINE_ID_LEN);
	if (frame_done(r) && version == PROTO_VERSION) {
		if (header->flags & PROTO_HELLO_IDENTITY) {
			memcpy(id.entropy, entropy.data, sizeof(id.entropy));
			applied =
				identity_apply(&id, s->guest->random_fd, &s->guest->identity_files);
			s->guest->epoch = id.epoch;
			explicit_bzero(id.entropy, sizeof(id.entropy));
		}
		/* Commands that were frozen for a snapshot do not run as somebody else. */
		if (!(header->flags & PROTO_HELLO_IDENTITY) || applied == PROTO_APPLIED_ALL)
			freeze_end(s->guest);
		/* Also to another version: the host sees ours in the answer and says so. */
		send_hello_ack(s, applied);
		s->greeted = true;
	} else if (frame_done(r)) {
		send_hello_ack(s, 0);
	}
	free(id.hostname);
	free(id.machine_id);
	return frame_done(r);
}

static bool handle_ping(struct session *s, struct frame_reader *r)
{
	struct buf *out = &s->guest->channel.out;
	uint64_t token = frame_get_u64(r);
	size_t frame;

	if (!frame_done(r))
		return false;
	frame = frame_begin(out, PROTO_PONG, 0, 0);
	frame_put_u64(out, token);
	frame_end(out, frame);
	return true;
}

static bool handle_freeze(struct session *s, struct frame_reader *r)
{
	uint64_t token = frame_get_u64(r);
	uint32_t timeout_ms = frame_get_u32(r);

	if (!frame_done(r))
		return false;
	freeze_begin(s->guest, token, timeout_ms);
	return true;
}

static bool handle_thaw(struct session *s, struct frame_reader *r)
{
	uint64_t token = frame_get_u64(r);

	if (!frame_done(r))
		return false;
	freeze_end(s->guest);
	freeze_answer(s->guest, token);
	return true;
}

static bool handle_ask_activity(struct session *s, struct frame_reader *r)
{
	struct buf *out = &s->guest->channel.out;
	uint64_t token = frame_get_u64(r), quiet_ms;
	uint32_t running;
	size_t frame;

	if (!frame_done(r))
		return false;
	running = exec_activity(s->guest, &quiet_ms);
	frame = frame_begin(out, PROTO_ACTIVITY, 0, 0);
	frame_put_u64(out, token);
	frame_put_u32(out, running);
	frame_put_u64(out, quiet_ms);
	frame_end(out, frame);
	return true;
}

static bool handle_ask_terminals(struct session *s, struct frame_reader *r)
{
	struct buf *out = &s->guest->channel.out;
	uint64_t token = frame_get_u64(r);
	size_t frame;

	if (!frame_done(r))
		return false;
	frame = frame_begin(out, PROTO_TERMINALS, 0, 0);
	frame_put_u64(out, token);
	terminals_put(s->guest, out);
	frame_end(out, frame);
	return true;
}

static bool handle_ask_execs(struct session *s, struct frame_reader *r)
{
	struct buf *out = &s->guest->channel.out;
	uint64_t token = frame_get_u64(r);
	size_t frame;

	if (!frame_done(r))
		return false;
	frame = frame_begin(out, PROTO_EXECS, 0, 0);
	frame_put_u64(out, token);
	execs_put(s->guest, out);
	frame_end(out, frame);
	return true;
}

static bool handle_clock(struct frame_reader *r)
{
	uint64_t unix_us = frame_get_u64(r);

	if (!frame_done(r))
		return false;
	identity_set_clock(unix_us);
	return true;
}

/* Reads n_env strings into a NULL-terminated array of at most PROTO_ENV_MAX bytes in total. */
static char **get_env(struct frame_reader *r)
{
	uint32_t n = frame_get_u32(r);
	size_t total = 0;
	char **env;

	if (n > N_ENV_MAX) {
		r->bad = true;
		n = 0;
	}
	env = xcalloc(n + 1, sizeof(*env));
	for (uint32_t i = 0; i < n && !r->bad; i++) {
		env[i] = get_text(r, PROTO_ENV_MAX);
		total += strlen(env[i]) + 1;
		if (total > PROTO_ENV_MAX)
			r->bad = true;
	}
	return env;
}

static struct terminal_size get_size(struct frame_reader *r)
{
	uint32_t cols = frame_get_u32(r), rows = frame_get_u32(r);

	if (cols < 1 || cols > PROTO_TTY_SIZE_MAX || rows < 1 || rows > PROTO_TTY_SIZE_MAX)
		r->bad = true;
	return (struct terminal_size){ .cols = (uint16_t)cols, .rows = (uint16_t)rows };
}

/* The follows of an EXEC: both streams from their beginning. */
static void follow_new(struct handle *h, const uint64_t credit[2], bool backpressure)
{
	for (int i = 0; i < 2; i++)
		h->follows[i] = (struct follow){
			.active = true,
			.backpressure = backpressure,
			.credit = credit[i],
		};
}

/* Checks what must be true before an exec gets this handle. */
static bool handle_available(struct session *s, uint32_t id, struct exec_failure *failure)
{
	if (s->n_handles < PROTO_HANDLES_MAX)
		return true;
	*failure = (struct exec_failure){
		.reason = PROTO_FAIL_LIMIT,
		.message = "too many commands are being looked at",
	};
	return false;
}

static bool handle_exec(struct session *s, const struct proto_header *header,
			struct frame_reader *r)
{
	struct exec_request req = { 0 };
	struct exec_failure failure = { 0 };
	struct exec *exec = NULL;
	uint64_t credit[2];
	bool good;

	req.exec_id = get_text(r, PROTO_EXEC_ID_MAX);
	req.timeout_ms = frame_get_u64(r);
	req.user = get_text(r, USER_MAX);
	req.cwd = get_text(r, CWD_MAX);
	req.command = get_text(r, PROTO_COMMAND_MAX);
	req.log_cap = frame_get_u64(r);
	credit[0] = frame_get_u64(r);
	credit[1] = frame_get_u64(r);
	req.env = get_env(r);
	req.tty = header->flags & PROTO_EXEC_TTY;
	req.confined = header->flags & PROTO_EXEC_CONFINED;
	req.with_stdin = req.tty || (header->flags & PROTO_EXEC_STDIN);
	if (req.tty) {
		req.size = get_size(r);
		req.terminals_max = frame_get_u32(r);
	}
	good = frame_done(r) && !handle_find(s, header->handle);
	if (good && handle_available(s, header->handle, &failure))
		exec = exec_start(s->guest, &req, &failure);
	if (exec)
		follow_new(handle_open(s, header->handle, exec), credit,
			   header->flags & PROTO_FOLLOW_BACKPRESSURE);
	else if (good)
		handle_send_failed(s, header->handle, &failure);
	exec_request_clear(&req);
	return good;
}

static bool handle_file(struct session *s, const struct proto_header *header,
			struct frame_reader *r)
{
	struct exec_request req = { .is_file = true };
	struct exec_failure failure = { 0 };
	struct frame_slice request;
	struct exec *exec = NULL;
	uint64_t credit[2];
	bool good;

	req.exec_id = get_text(r, PROTO_EXEC_ID_MAX);
	req.user = get_text(r, USER_MAX);
	credit[0] = frame_get_u64(r);
	credit[1] = frame_get_u64(r);
	request = frame_get_string(r, PROTO_FILE_REQUEST_MAX);
	buf_append(&req.file, request.data, request.len);
	req.with_stdin = header->flags & PROTO_EXEC_STDIN;
	req.confined = header->flags & PROTO_EXEC_CONFINED;
	good = frame_done(r) && !handle_find(s, header->handle);
	if (good && handle_available(s, header->handle, &failure))
		exec = exec_start(s->guest, &req, &failure);
	if (exec)
		follow_new(handle_open(s, header->handle, exec), credit, false);
	else if (good)
		handle_send_failed(s, header->handle, &failure);
	exec_request_clear(&req);
	return good;
}

static bool handle_attach(struct session *s, const struct proto_header *header,
			  struct frame_reader *r)
{
	char *id = get_text(r, PROTO_EXEC_ID_MAX);
	bool good = frame_done(r) && !handle_find(s, header->handle);
	struct exec_failure failure = {
		.reason = PROTO_FAIL_UNKNOWN_EXEC,
		.message = "no such exec in this sandbox, or it ended long ago",
	};
	struct exec *exec = good ? exec_find(s->guest, id) : NULL;

	if (exec && !exec->is_file && handle_available(s, header->handle, &failure))
		handle_open(s, header->handle, exec)->attached = true;
	else if (good)
		handle_send_failed(s, header->handle, &failure);
	free(id);
	return good;
}

static bool handle_follow_request(struct session *s, const struct proto_header *header,
				  struct frame_reader *r)
{
	struct handle *h = handle_find(s, header->handle);
	int stream = get_stream(r);
	struct follow f = {
		.active = true,
		.backpressure = header->flags & PROTO_FOLLOW_BACKPRESSURE,
		.offset = frame_get_u64(r),
		.credit = frame_get_u64(r),
	};

	if (!frame_done(r) || (h && h->exec->is_file))
		return false;
	if (h) {
		f.answers_due = handle_follow(h, stream)->answers_due + 1;
		*handle_follow(h, stream) = f;
	}
	return true;
}

static bool handle_credit(struct session *s, uint32_t id, struct frame_reader *r)
{
	struct handle *h = handle_find(s, id);
	int stream = get_stream(r);
	uint64_t bytes = frame_get_u64(r);
	struct follow *f;

	if (!frame_done(r))
		return false;
	if (!h)
		return true;
	f = handle_follow(h, stream);
	if (__builtin_add_overflow(f->credit, bytes, &f->credit))
		f->credit = UINT64_MAX;
	return true;
}

static bool handle_input(struct session *s, uint32_t id, struct frame_reader *r)
{
	struct handle *h = handle_find(s, id);
	uint64_t offset = frame_get_u64(r);
	struct frame_slice bytes = frame_get_rest(r);

	if (r->bad || bytes.len > PROTO_DATA_MAX)
		return false;
	if (!h || !h->exec->with_stdin)
		return true;
	return input_take(&h->exec->input, offset, bytes.data, bytes.len);
}

static bool handle_resize(struct session *s, uint32_t id, struct frame_reader *r)
{
	struct handle *h = handle_find(s, id);
	struct terminal_size size = get_size(r);

	if (!frame_done(r))
		return false;
	if (h)
		terminal_resize(h->exec, size);
	return true;
}

static bool handle_signal(struct session *s, uint32_t id, struct frame_reader *r)
{
	struct handle *h = handle_find(s, id);
	uint32_t number = frame_get_u32(r);

	if (!frame_done(r) || number < 1 || number > (uint32_t)SIGRTMAX)
		return false;
	if (h)
		exec_signal(h->exec, (int)number);
	return true;
}

static bool handle_plain(struct session *s, const struct proto_header *header,
			 const struct frame_reader *r)
{
	struct handle *h = handle_find(s, header->handle);

	if (!frame_done(r))
		return false;
	if (h && header->type == PROTO_DETACH)
		handle_close(s, h);
	else if (h && h->exec->with_stdin)
		input_close(&h->exec->input);
	return true;
}

static bool dispatch(struct session *s, const struct proto_header *header, struct frame_reader *r)
{
	switch (header->type) {
	case PROTO_HELLO:
		return handle_hello(s, header, r);
	case PROTO_PING:
		return s->greeted && handle_ping(s, r);
	case PROTO_CLOCK:
		return s->greeted && handle_clock(r);
	case PROTO_FREEZE:
		return s->greeted && handle_freeze(s, r);
	case PROTO_THAW:
		return s->greeted && handle_thaw(s, r);
	case PROTO_ASK_ACTIVITY:
		return s->greeted && handle_ask_activity(s, r);
	case PROTO_ASK_TERMINALS:
		return s->greeted && handle_ask_terminals(s, r);
	case PROTO_ASK_EXECS:
		return s->greeted && handle_ask_execs(s, r);
	case PROTO_EXEC:
		return s->greeted && handle_exec(s, header, r);
	case PROTO_FILE:
		return s->greeted && handle_file(s, header, r);
	case PROTO_ATTACH:
		return s->greeted && handle_attach(s, header, r);
	case PROTO_FOLLOW:
		return s->greeted && handle_follow_request(s, header, r);
	case PROTO_CREDIT:
		return s->greeted && handle_credit(s, header->handle, r);
	case PROTO_INPUT:
		return s->greeted && handle_input(s, header->handle, r);
	case PROTO_RESIZE:
		return s->greeted && handle_resize(s, header->handle, r);
	case PROTO_SIGNAL:
		return s->greeted && handle_signal(s, header->handle, r);
	case PROTO_INPUT_CLOSE:
	case PROTO_DETACH:
		return s->greeted && handle_plain(s, header, r);
	default:
		return false;
	}
}

bool session_handle(struct session *s, const struct proto_header *header,
		    struct frame_reader *payload)
{
	bool good = dispatch(s, header, payload);

	if (!good)
		log_warn("the host sent a frame that makes no sense", "type=%u length=%u",
			 header->type, header->length);
	return good;
}
