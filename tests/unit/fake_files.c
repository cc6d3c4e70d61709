/* See fake_files.h. Everything but the opening is on the loop's thread. */
#include "fake_files.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "fake_core.h"

#define PIECE_BYTES 32768u
#define WINDOW	    (64u << 10)

struct core_transfer {
	struct core *core;
	struct loop *loop;
	const struct core_transfer_events *events;
	void *arg;
	struct file_request request;
	char path[64], if_range[FILE_ETAG_SIZE];
	uint64_t credit, at, end; /* of what is sent */
	uint64_t received;
	bool over, closed;
	unsigned int posted;
};

static atomic_int n_open;
static atomic_ullong n_sent, n_received;

int fake_files_open(void)
{
	return n_open;
}

uint64_t fake_files_sent(void)
{
	return n_sent;
}

uint64_t fake_files_received(void)
{
	return n_received;
}

static void free_if_unused(struct core_transfer *t)
{
	if (!t->closed || t->posted > 0)
		return;
	n_open--;
	free(t);
}

static void end(struct core_transfer *t, int num, const char *code)
{
	struct err err = ERR_INIT;

	if (t->over)
		return;
	t->over = true;
	if (code)
		err_code(&err, num, code, "it is so");
	if (!t->closed)
		t->events->ended(t->arg, code ? &err : NULL);
}

static uint64_t size_of(const struct core_transfer *t)
{
	return str_eq(t->path, "big")	 ? FAKE_BIG_BYTES
	       : str_eq(t->path, "proc") ? FILE_LENGTH_UNKNOWN
					 : 13;
}

static void say_entry(struct core_transfer *t, const char *name, size_t len, uint64_t size)
{
	const struct file_record record = {
		.kind = FILE_RECORD_ENTRY,
		.entry = { .type = FILE_REGULAR,
			   .mode = 0640,
			   .size = size,
			   .inode = 7,
			   .mtime_ns = 784111777000000000,
			   .uid = 1000,
			   .user = { "sandbox", 7 },
			   .group = { "odd\nname", 8 },
			   .name = { name, len } },
	};

	if (!t->closed)
		t->events->record(t->arg, &record);
}

static void send_more(struct core_transfer *t)
{
	static const char kernel[] = "from the kernel\n", hello[] = "hello, files\n";
	char piece[PIECE_BYTES];

	while (!t->closed && !t->over && t->at < t->end && t->credit > 0) {
		uint64_t n = t->end - t->at;

		n = n > t->credit ? t->credit : n;
		n = n > PIECE_BYTES ? PIECE_BYTES : n;
		memset(piece, 'b', n);
		if (!str_eq(t->path, "big"))
			memcpy(piece, (str_eq(t->path, "proc") ? kernel : hello) + t->at, n);
		t->at += n;
		t->credit -= n;
		n_sent += n;
		t->events->data(t->arg, piece, n);
	}
	if (!t->closed && t->at == t->end)
		end(t, -EPIPE, str_eq(t->path, "broken") ? "agent_gone" : NULL);
}

static void begin_read(struct core_transfer *t)
{
	char etag[FILE_ETAG_SIZE];
	uint64_t len = 0;

	say_entry(t, "", 0, size_of(t));
	if (t->closed)
		return;
	file_etag(7, size_of(t), 784111777000000000, etag);
	if (t->if_range[0] && !str_eq(t->if_range, etag))
		t->request.range.kind = FILE_RANGE_NONE;
	if (size_of(t) == FILE_LENGTH_UNKNOWN)
		len = 16;
	else if (!file_range_resolve(&t->request.range, size_of(t), &t->at, &len))
		len = 0;
	if (t->request.flags & FILE_HEAD_ONLY)
		len = 0;
	t->end = t->at + (str_eq(t->path, "broken") ? 4 : len);
	send_more(t);
}

static void begin_write(struct core_transfer *t)
{
	const struct file_record ready = { .kind = FILE_RECORD_READY,
					   .replaces = str_eq(t->path, "hello") };

	t->events->record(t->arg, &ready);
}

static void begin(struct core_transfer *t)
{
	static const char *const known[] = { "hello", "big", "proc", "broken" };
	bool exists = false;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		exists |= str_eq(t->path, known[i]);
	if (str_eq(t->path, "denied")) {
		end(t, -EACCES, "permission_denied");
	} else if (t->request.op == FILE_WRITE) {
		begin_write(t);
	} else if (t->request.op == FILE_LIST) {
		say_entry(t, "a", 1, 1);
		say_entry(t, "b", 1, 2);
		say_entry(t, "\xff", 1, 3);
		t->events->record(t->arg, &(struct file_record){ .kind = FILE_RECORD_MORE });
		end(t, 0, NULL);
	} else if (!exists) {
		end(t, -ENOENT, "file_not_found");
	} else if (t->request.op == FILE_READ) {
		begin_read(t);
	} else {
		if (t->request.op != FILE_REMOVE)
			say_entry(t, "", 0, 13);
		end(t, 0, NULL);
	}
}

static void begin_later(void *arg)
{
	struct core_transfer *t = arg;

	if (!t->closed)
		begin(t);
	t->posted--;
	free_if_unused(t);
}

static void start(void *arg)
{
	struct core_transfer *t = arg;

	t->events->started(t->arg, t);
	t->posted++;
	loop_post(t->loop, begin_later, t);
}

int core_transfer_open(struct core *core, const struct principal *who, const char *sandbox_id,
		       const char *user, const struct file_request *request, uint64_t credit,
		       const struct core_transfer_events *events, void *arg, struct err *err)
{
	struct core_transfer *t;

	if (!str_eq(sandbox_id, "sbx_aa"))
		return err_code(err, -ENOENT, "not_found", "no sandbox '%.64s'", sandbox_id);
	t = xcalloc(1, sizeof(*t));
	t->core = core;
	t->loop = fake_core_loop(core);
	t->events = events;
	t->arg = arg;
	t->request = *request;
	t->credit = credit;
	str_copy(t->path, sizeof(t->path), request->path);
	str_copy(t->if_range, sizeof(t->if_range), request->if_range);
	n_open++;
	loop_call(t->loop, start, t);
	return 0;
}

void core_on_loop(struct core *core, loop_fn fn, void *arg)
{
	loop_call(fake_core_loop(core), fn, arg);
}

static void send_later(void *arg)
{
	struct core_transfer *t = arg;

	send_more(t);
	t->posted--;
	free_if_unused(t);
}

void core_transfer_credit(struct core_transfer *t, uint64_t bytes)
{
	t->credit += bytes;
	t->posted++;
	loop_post(t->loop, send_later, t);
}

size_t core_transfer_room(const struct core_transfer *t)
{
	return t->over ? 0 : WINDOW - (size_t)(t->received % WINDOW);
}

static void room_later(void *arg)
{
	struct core_transfer *t = arg;

	if (!t->closed && !t->over && t->events->room)
		t->events->room(t->arg);
	t->posted--;
	free_if_unused(t);
}

static void full_later(void *arg)
{
	struct core_transfer *t = arg;

	end(t, -EDQUOT, "disk_full");
	t->posted--;
	free_if_unused(t);
}

void core_transfer_write(struct core_transfer *t, const void *data, size_t len)
{
	bool full = str_eq(t->path, "full") && t->received < FAKE_FULL_BYTES &&
		    t->received + len >= FAKE_FULL_BYTES;

	if (len == 0)
		return;
	t->received += len;
	t->posted++;
	loop_post(t->loop, full ? full_later : room_later, t);
}

static void finish_later(void *arg)
{
	struct core_transfer *t = arg;

	if (!t->over && !t->closed) {
		n_received += t->received;
		say_entry(t, "", 0, t->received);
		end(t, 0, NULL);
	}
	t->posted--;
	free_if_unused(t);
}

void core_transfer_finish(struct core_transfer *t)
{
	t->posted++;
	loop_post(t->loop, finish_later, t);
}

void core_transfer_close(struct core_transfer *t)
{
	if (!t)
		return;
	t->closed = true;
	free_if_unused(t);
}
