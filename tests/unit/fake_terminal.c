/* See fake_terminal.h. Everything is on the loop's thread but what the core promises to workers. */
#include "fake_terminal.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "fake_core.h"

#define BITE	  1000u /* of input that is taken at once, so that the rest must wait */
#define PIECE	  (32u * 1024)
#define END_BYTE  '\x04'
#define EXIT_CODE 7

struct core_terminal {
	struct loop *loop;
	struct core_terminal_sink sink;
	void *arg;
	bool is_new;
	uint64_t next, credit;
	uint32_t cols, rows;
	bool hungry; /* told that there is room, soon */
	bool spews, fails, over;
	bool ended;
};

/* The shell. */
static struct buf written;
static uint64_t input_bytes;
static bool has_ended;
static struct core_terminal *viewer; /* the one */
static atomic_int viewed;

static void push(struct core_terminal *t)
{
	const struct core_exec_result result = { .exit_code = EXIT_CODE,
						 .stdout_bytes = written.len };

	while (t->credit > 0 && t->next < written.len) {
		size_t n = written.len - t->next;

		n = n < t->credit ? n : (size_t)t->credit;
		n = n < PIECE ? n : PIECE;
		t->credit -= n;
		t->next += n;
		t->sink.data(t->arg, written.data + t->next - n, n);
	}
	if (has_ended && t->next == written.len && !t->ended) {
		t->ended = true;
		t->sink.ended(t->arg, &result, NULL);
	}
}

static void end_viewer(struct core_terminal *t, const char *code)
{
	struct err err = ERR_INIT;

	err_code(&err, -ESTALE, code, "it is over");
	t->ended = true;
	t->sink.ended(t->arg, NULL, &err);
}

static void begin(void *arg)
{
	struct core_terminal *t = arg;
	struct core_terminal_state state = { .terminal_id = FAKE_TERMINAL_ID, .is_new = t->is_new };

	if (viewer && !viewer->ended)
		end_viewer(viewer, "terminal_taken_over");
	viewer = t;
	if (t->fails) {
		end_viewer(t, "guest_resources");
		return;
	}
	if (t->is_new) {
		buf_clear(&written);
		input_bytes = 0;
		has_ended = t->over;
	}
	if (t->spews) {
		buf_reserve(&written, FAKE_TERMINAL_SPEW);
		for (size_t i = 0; i < FAKE_TERMINAL_SPEW; i++)
			written.data[i] = (char)(i % 251);
		written.len = FAKE_TERMINAL_SPEW;
	}
	if (t->next > written.len)
		t->next = written.len;
	state.offset = t->next;
	state.output_bytes = written.len;
	state.input_bytes = input_bytes;
	t->sink.ready(t->arg, &state);
	push(t);
}

bool core_terminal_id_valid(const char *id)
{
	return str_eq(id, FAKE_TERMINAL_ID);
}

int core_terminal_open(struct core *core, const struct principal *who, const char *sandbox_id,
		       const struct core_terminal_request *req,
		       const struct core_terminal_sink *sink, void *arg, struct core_terminal **ret,
		       struct err *err)
{
	struct core_terminal *t;

	if (!str_eq(sandbox_id, "sbx_aa"))
		return err_code(err, -ENOENT, "not_found", "no sandbox '%.64s'", sandbox_id);
	if (req->terminal_id && !core_terminal_id_valid(req->terminal_id))
		return err_code(err, -ENOENT, "terminal_not_found", "no such terminal");
	t = xcalloc(1, sizeof(*t));
	t->loop = fake_core_loop(core);
	t->sink = *sink;
	t->arg = arg;
	t->is_new = !req->terminal_id;
	t->next = req->from_offset;
	t->spews = req->command && str_eq(req->command, "spew");
	t->fails = req->command && str_eq(req->command, "none");
	t->over = req->command && str_eq(req->command, "over");
	*ret = t;
	atomic_fetch_add(&viewed, 1);
	loop_post(t->loop, begin, t);
	return 0;
}

void core_terminal_credit(struct core_terminal *t, uint64_t bytes)
{
	t->credit += bytes;
	push(t);
}

static void tell_room(void *arg)
{
	if (viewer != arg)
		return;
	viewer->hungry = false;
	viewer->sink.room(viewer->arg);
}

size_t core_terminal_input(struct core_terminal *t, const void *data, size_t len)
{
	size_t n = len < BITE ? len : BITE;

	if (t->ended)
		return len;
	if (t->hungry)
		return 0;
	input_bytes += n;
	has_ended = memchr(data, END_BYTE, n) != NULL;
	buf_append(&written, data, n);
	if (n < len) {
		t->hungry = true;
		loop_post(t->loop, tell_room, t);
	}
	push(t);
	return n;
}

void core_terminal_resize(struct core_terminal *t, uint32_t cols, uint32_t rows)
{
	buf_printf(&written, "[%ux%u]", cols, rows);
	push(t);
}

void core_terminal_close(struct core_terminal *t)
{
	if (!t)
		return;
	if (viewer == t)
		viewer = NULL;
	atomic_fetch_sub(&viewed, 1);
	free(t);
}

int core_terminal_list(struct core *core, const struct principal *who, const char *sandbox_id,
		       struct core_terminal_info **ret, size_t *ret_n, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	str_copy((*ret)->terminal_id, sizeof((*ret)->terminal_id), FAKE_TERMINAL_ID);
	*ret_n = 1;
	return 0;
}

int core_terminal_end(struct core *core, const struct principal *who, const char *sandbox_id,
		      const char *terminal_id, struct err *err)
{
	if (!core_terminal_id_valid(terminal_id))
		return err_code(err, -ENOENT, "terminal_not_found", "no such terminal");
	return 0;
}

void fake_terminal_end(void)
{
	if (viewer && !viewer->ended)
		end_viewer(viewer, "sandbox_ended");
}

void fake_terminal_pause(bool paused)
{
	if (viewer && !viewer->ended)
		viewer->sink.paused(viewer->arg, paused);
}

int fake_terminals_viewed(void)
{
	return atomic_load(&viewed);
}
