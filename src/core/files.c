/*
 * Transfers: one operation on a guest's files each. See files.h.
 *
 * A transfer is a handle of the agent (agent_file_start) on the sandbox's list, on the loop's
 * thread. It does not outlive its channel, because what it sends is kept nowhere. Everything that
 * comes from the guest is hostile: records are parsed within a bounded buffer, an error is one
 * bounded record, output comes against credit alone, and an end without the answer that the
 * operation has is an error.
 *
 * A guest that owes something (an answer, output against credit, room for input, an end) and is
 * silent for files_silence_ms is given up. It owes nothing while the client is who is slow.
 */
#include "core/files.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/exec.h"
#include "core/internal.h"

#define RECORDS_MAX (FILE_LIST_MAX + 1)

struct core_transfer {
	struct core_transfer *next, *prev; /* of the sandbox's list */
	struct sandbox *sandbox;
	bool listed;
	const struct core_transfer_events *events;
	void *arg;
	enum file_op op;
	struct agent_exec *handle; /* NULL once it has ended */
	struct buf pending;	   /* of a record, at most FILE_RECORD_MAX */
	struct buf error;	   /* what came on stderr */
	size_t n_records;
	bool raw;	       /* what follows is bytes, not records */
	bool answered;	       /* the record (or bytes) that success takes has come */
	uint64_t credit;       /* of output */
	uint64_t sent, window; /* of input, absolute */
	bool finished;	       /* all input was written */
	bool ready;	       /* the guest has said something */
	int64_t quiet_since_ms;
	struct loop_timer *timer;
	unsigned int depth; /* events under way */
	bool closed;	    /* freed when depth is 0 */
};

static bool takes_input(const struct core_transfer *t)
{
	return t->op == FILE_WRITE || t->op == FILE_UNPACK;
}

/* ---- errors in the words of callers ---- */

static const struct {
	int num;
	const char *code, *hint;
} failures[] = {
	[FILE_E_NOT_FOUND] = { -ENOENT, "file_not_found",
			       "relative paths begin in the user's home; list a directory with "
			       "GET .../files/list?path=, make missing ones with parents=true" },
	[FILE_E_IS_DIRECTORY] = { -EISDIR, "is_a_directory",
				  "a directory is listed with .../files/list and read as an "
				  "archive with .../tree" },
	[FILE_E_NOT_DIRECTORY] = { -ENOTDIR, "not_a_directory", NULL },
	[FILE_E_NOT_REGULAR] = { -ENXIO, "not_a_regular_file", NULL },
	[FILE_E_DENIED] = { -EACCES, "permission_denied",
			    "it was tried as the named user of the sandbox; user=root may" },
	[FILE_E_DISK_FULL] = { -EDQUOT, "disk_full",
			       "make room on the sandbox's disk, or create a sandbox with a larger "
			       "one" },
	[FILE_E_TOO_LARGE] = { -EFBIG, "file_too_large",
			       "limit file_bytes_max in section [limits] of the configuration" },
	[FILE_E_INVALID_PATH] = { -EINVAL, "invalid_path", NULL },
	[FILE_E_EXISTS] = { -EEXIST, "file_exists", "overwrite=true replaces what is there" },
	[FILE_E_NOT_EMPTY] = { -ENOTEMPTY, "directory_not_empty",
			       "recursive=true removes it with all that is in it" },
	[FILE_E_CROSS_DEVICE] = { -EXDEV, "cross_device",
				  "the two are on different file systems: copy, or run mv" },
	[FILE_E_INVALID_ARCHIVE] = { -EBADMSG, "invalid_archive",
				     "send an uncompressed tar with relative names, of files, "
				     "directories and links" },
	[FILE_E_CHANGED] = { -ESTALE, "file_changed", "read it again" },
	[FILE_E_SHORT] = { -ENODATA, "incomplete_body", "what was there is unchanged" },
	[FILE_E_IO] = { -EIO, "file_io_error", NULL },
};

/* The message is the guest's: cleaned, because it goes into logs and onto terminals. */
static void error_from_guest(const struct buf *encoded, struct err *err)
{
	char text[FILE_MESSAGE_MAX + 1];
	struct frame_slice message;
	enum file_error code;

	if (file_error_parse(buf_str(encoded), encoded->len, &code, &message) < 0) {
		err_code(err, -EPROTO, "file_io_error",
			 "the sandbox gave no understandable reason");
		return;
	}
	for (size_t i = 0; i < message.len; i++) {
		unsigned char c = (unsigned char)message.data[i];

		text[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
	}
	text[message.len] = '\0';
	err_code(err, failures[code].num, failures[code].code, "%s", text);
	if (failures[code].hint)
		err_hint(err, "%s", failures[code].hint);
}

/* ---- the list of a sandbox ---- */

static void list_remove(struct core_transfer *t)
{
	struct sandbox *sb = t->sandbox;

	if (!t->listed)
		return;
	t->listed = false;
	if (t->prev)
		t->prev->next = t->next;
	else
		sb->transfers = t->next;
	if (t->next)
		t->next->prev = t->prev;
	sb->n_transfers--;
	sandbox_touch(sb);
}

static void list_add(struct core_transfer *t)
{
	struct sandbox *sb = t->sandbox;

	t->next = sb->transfers;
	if (t->next)
		t->next->prev = t;
	sb->transfers = t;
	sb->n_transfers++;
	t->listed = true;
}

/* ---- events and the end ---- */

static void transfer_free(struct core_transfer *t)
{
	buf_clear(&t->pending);
	buf_clear(&t->error);
	sandbox_unref(t->sandbox);
	free(t);
}

static void enter(struct core_transfer *t)
{
	t->depth++;
	t->quiet_since_ms = clock_boottime_ms();
}

static void leave(struct core_transfer *t)
{
	if (--t->depth == 0 && t->closed)
		transfer_free(t);
}

/* Nothing comes any more; the guest kills what is left of it. */
static void stop(struct core_transfer *t)
{
	loop_timer_remove(STEAL(t->timer));
	agent_exec_free(STEAL(t->handle));
	list_remove(t);
}

static void end_with(struct core_transfer *t, const struct err *err)
{
	if (!t->handle)
		return;
	stop(t);
	if (!t->closed && t->events->ended)
		t->events->ended(t->arg, err);
}

static void end_with_nonsense(struct core_transfer *t)
{
	struct err err = ERR_INIT;

	err_code(&err, -EPROTO, "file_io_error", "the agent of sandbox '%s' answered nonsense",
		 t->sandbox->id);
	end_with(t, &err);
}

void core_transfer_close(struct core_transfer *t)
{
	if (!t)
		return;
	stop(t);
	t->closed = true;
	if (t->depth == 0)
		transfer_free(t);
}

/* ---- what the guest says ---- */

static bool record_fits(const struct core_transfer *t, const struct file_record *record)
{
	switch (record->kind) {
	case FILE_RECORD_READY:
		return takes_input(t) && !t->answered;
	case FILE_RECORD_ENTRY:
		return t->op != FILE_UNPACK && t->op != FILE_REMOVE && t->op != FILE_PACK &&
		       (t->op == FILE_LIST ? record->entry.name.len > 0 : !t->answered);
	case FILE_RECORD_MORE:
		return t->op == FILE_LIST;
	case FILE_RECORD_UNPACKED:
		return t->op == FILE_UNPACK && !t->answered;
	}
	return false;
}

/* Hands on what is complete of the records; false: there was one that cannot be. */
static bool take_records(struct core_transfer *t)
{
	while (!t->closed && t->handle && !t->raw && t->pending.len > 0) {
		struct file_record record;
		ssize_t n = file_record_parse(t->pending.data, t->pending.len, &record);

		if (n == 0)
			return true;
		if (n < 0 || !record_fits(t, &record) || ++t->n_records > RECORDS_MAX)
			return false;
		t->answered |= record.kind != FILE_RECORD_READY;
		t->raw = t->op == FILE_READ;
		if (t->events->record)
			t->events->record(t->arg, &record);
		if (!t->closed)
			buf_drop_front(&t->pending, (size_t)n);
	}
	return true;
}

static void take_bytes(struct core_transfer *t, const char *data, size_t len)
{
	t->answered = true;
	if (len > 0 && t->events->data)
		t->events->data(t->arg, data, len);
}

static void take_output(struct core_transfer *t, const char *data, size_t len)
{
	t->credit -= len < t->credit ? len : t->credit;
	if (t->raw) {
		take_bytes(t, data, len);
		return;
	}
	buf_append(&t->pending, data, len); /* bounded: a part of a record, and a frame */
	if (!take_records(t)) {
		end_with_nonsense(t);
		return;
	}
	if (t->closed || !t->handle)
		return;
	/* Records wait for no client: what they took is given back at once. */
	core_transfer_credit(t, t->raw ? len - t->pending.len : len);
	if (!t->raw)
		return;
	take_bytes(t, buf_str(&t->pending), t->pending.len);
	if (!t->closed)
		buf_clear(&t->pending);
}

static void on_started(void *arg, uint32_t pid)
{
	struct core_transfer *t = arg;

	t->ready = true;
	t->quiet_since_ms = clock_boottime_ms();
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct core_transfer *t = arg;

	enter(t);
	if (stream == PROTO_STDOUT)
		take_output(t, data, len);
	else
		buf_append(&t->error, data, len); /* its credit is FILE_ERROR_MAX in all */
	leave(t);
}

static void on_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
	struct core_transfer *t = arg;

	enter(t);
	end_with_nonsense(t);
	leave(t);
}

static void on_input_window(void *arg, uint64_t may_send_up_to)
{
	struct core_transfer *t = arg;

	if (may_send_up_to <= t->window || may_send_up_to > t->sent + PROTO_INPUT_WINDOW)
		return;
	enter(t);
	t->window = may_send_up_to;
	if (t->events->room && !t->finished)
		t->events->room(t->arg);
	leave(t);
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct core_transfer *t = arg;
	struct err err = ERR_INIT;

	enter(t);
	if (t->error.len > 0)
		error_from_guest(&t->error, &err);
	else if (exit->exit_code != 0)
		err_code(&err, -ENOMEM, "guest_resources",
			 "the operation was killed in sandbox '%s'%s", t->sandbox->id,
			 exit->out_of_memory ? ": it is out of memory" : "");
	else if (!t->answered && t->op != FILE_REMOVE && t->op != FILE_LIST)
		err_code(&err, -EPROTO, "file_io_error",
			 "the agent of sandbox '%s' ended without an answer", t->sandbox->id);
	end_with(t, err.num < 0 ? &err : NULL);
	leave(t);
}

static void on_failed(void *arg, const struct err *err)
{
	struct core_transfer *t = arg;

	enter(t);
	end_with(t, err);
	leave(t);
}

static void on_lost(void *arg, const struct err *why)
{
	struct core_transfer *t = arg;
	struct err err = ERR_INIT;

	enter(t);
	err_code(&err, -EPIPE, "agent_gone",
		 "the channel to the agent of sandbox '%s' broke meanwhile", t->sandbox->id);
	err_hint(&err, "ask again");
	end_with(t, &err);
	leave(t);
}

static const struct agent_exec_events handle_events = {
	.started = on_started,
	.data = on_data,
	.gap = on_gap,
	.exited = on_exited,
	.input_window = on_input_window,
	.failed = on_failed,
	.lost = on_lost,
};

/* ---- silence ---- */

static bool guest_owes(const struct core_transfer *t)
{
	if (!t->ready || t->finished)
		return true;
	return takes_input(t) ? core_transfer_room(t) == 0 : t->credit > 0;
}

static void on_timer(void *arg)
{
	struct core_transfer *t = arg;
	int64_t limit_ms = t->sandbox->core->limits.files_silence_ms, now = clock_boottime_ms();
	struct err err = ERR_INIT;

	if (!guest_owes(t))
		t->quiet_since_ms = now;
	if (now - t->quiet_since_ms < limit_ms) {
		loop_timer_set(t->timer, t->quiet_since_ms + limit_ms);
		return;
	}
	enter(t);
	err_code(&err, -ETIMEDOUT, "agent_unresponsive",
		 "the agent of sandbox '%s' was silent for %lld s in the middle of it",
		 t->sandbox->id, (long long)limit_ms / 1000);
	err_hint(&err, "the guest may be overloaded; try again, or destroy the sandbox");
	end_with(t, &err);
	leave(t);
}

/* ---- the sandbox is paused, or ends ---- */

void transfers_end(struct sandbox *sb, const struct err *why)
{
	while (sb->transfers) {
		struct core_transfer *t = sb->transfers;

		enter(t);
		end_with(t, why);
		leave(t);
	}
}

void transfers_pause(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	err_code(&err, -EBUSY, "sandbox_not_running", "sandbox '%s' is being paused", sb->id);
	err_hint(&err, "ask again: that resumes it");
	transfers_end(sb, &err);
}

/* ---- input and credit ---- */

void core_transfer_credit(struct core_transfer *t, uint64_t bytes)
{
	if (!t->handle || bytes == 0)
		return;
	t->quiet_since_ms = clock_boottime_ms();
	t->credit += bytes;
	agent_exec_credit(t->handle, PROTO_STDOUT, bytes);
}

size_t core_transfer_room(const struct core_transfer *t)
{
	return t->handle && !t->finished ? (size_t)(t->window - t->sent) : 0;
}

void core_transfer_write(struct core_transfer *t, const void *data, size_t len)
{
	if (!t->handle || len == 0)
		return;
	t->quiet_since_ms = clock_boottime_ms();
	agent_exec_input(t->handle, t->sent, data, len);
	t->sent += len;
}

void core_transfer_finish(struct core_transfer *t)
{
	if (!t->handle || t->finished)
		return;
	t->finished = true;
	t->quiet_since_ms = clock_boottime_ms();
	agent_exec_input_close(t->handle);
}

void core_on_loop(struct core *core, loop_fn fn, void *arg)
{
	loop_call(core->loop, fn, arg);
}

/* ---- the start ---- */

struct begin {
	struct core_transfer *transfer;
	const char *user;
	bool confined; /* not as root */
	struct buf request;
	struct err err; /* num 0: begun */
};

static bool begin_on_loop(void *arg)
{
	struct begin *begin = arg;
	struct core_transfer *t = begin->transfer;
	struct sandbox *sb = t->sandbox;
	int64_t limit = sb->core->limits.transfers_per_sandbox;
	char random[17], id[PROTO_EXEC_ID_MAX + 1];
	struct agent_file_spec spec = {
		.exec_id = id,
		.user = begin->user ? begin->user : sb->defaults.user,
		.request = begin->request.data,
		.request_len = begin->request.len,
		.stdin_open = takes_input(t),
		.confined = begin->confined,
		.stdout_credit = t->credit,
		.stderr_credit = FILE_ERROR_MAX,
	};

	if ((int64_t)sb->n_transfers >= limit) {
		err_code(&begin->err, -EAGAIN, "files_limit",
			 "%lld operations on files of sandbox '%s' are under way, which is the "
			 "limit",
			 (long long)limit, sb->id);
		err_hint(&begin->err, "wait for one to end");
		return true;
	}
	rand_hex(random, sizeof(random) - 1);
	snprintf(id, sizeof(id), "file_%s", random);
	list_add(t);
	t->quiet_since_ms = clock_boottime_ms();
	t->timer = loop_timer_add(
		sb->core->loop, t->quiet_since_ms + sb->core->limits.files_silence_ms, on_timer, t);
	t->handle = agent_file_start(sb->agent, &spec, &handle_events, t);
	if (t->events->started)
		t->events->started(t->arg, t);
	return true;
}

int core_transfer_open(struct core *core, const struct principal *who, const char *sandbox_id,
		       const char *user, const struct file_request *request, uint64_t credit,
		       const struct core_transfer_events *events, void *arg, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct begin begin = { .user = user, .confined = !key_scope_may_be_root(who->scope) };
	struct sandbox *sb = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r < 0)
		return r;
	begin.transfer = xcalloc(1, sizeof(*begin.transfer));
	begin.transfer->sandbox = sb;
	begin.transfer->events = events;
	begin.transfer->arg = arg;
	begin.transfer->op = request->op;
	begin.transfer->raw = request->op == FILE_PACK;
	begin.transfer->credit = credit;
	file_request_put(&begin.request, request);
	r = exec_with_channel(sb, begin_on_loop, &begin, err);
	buf_clear(&begin.request);
	if (r == 0 && begin.err.num < 0) {
		r = begin.err.num;
		if (err)
			*err = begin.err;
	}
	if (r < 0)
		transfer_free(begin.transfer);
	return r;
}
