/*
 * Terminals. See terminal.h.
 *
 * A viewer is the consumer of the terminal's owning view. Without a viewer that view stays as a
 * keeper, with what of the input was not taken yet; a daemon that has just started finds the
 * terminal in the guest and makes a view anew. Everything but the functions marked [worker] belongs
 * to the loop's thread.
 *
 * Input is queued up to INPUT_QUEUE_BYTES beyond what the guest's window lets through; what the
 * caller still has then waits with the caller.
 */
#include "core/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/exec.h"

#define ID_PREFIX	  "term_"
#define INPUT_QUEUE_BYTES (64u * 1024)
#define RESUME_AGAIN_MS	  5000
#define CWD_MAX		  4095
#define USER_MAX	  32

struct core_terminal {
	struct core *core;
	struct exec_view *view; /* NULL once ended */
	char id[EXEC_ID_SIZE];
	struct core_terminal_sink sink;
	void *arg;
	bool is_new, has_offset;
	bool confined; /* a new one: not as root */
	uint64_t from;
	uint32_t cols, rows; /* to be set as soon as there is a channel; 0: as it is */
	bool ready, exited;
	uint64_t next, total; /* of the output: delivered up to, and in all, at its end */
	int64_t resume_asked_ms;
	unsigned int depth; /* callbacks under way */
	bool closed;	    /* freed when depth is 0 */
};

bool core_terminal_id_valid(const char *id)
{
	size_t prefix = strlen(ID_PREFIX);

	size_t len = strlen(id);

	return str_starts(id, ID_PREFIX) &&
	       (len == prefix + EXEC_ID_HEX || len == prefix + EXEC_ID_CONFINED_HEX) &&
	       strspn(id + prefix, "0123456789abcdef") == len - prefix;
}

static int not_found(const char *id, struct err *err)
{
	err_code(err, -ENOENT, "terminal_not_found", "no terminal '%.32s' in this sandbox", id);
	err_hint(err, "GET /v1/sandboxes/ID/terminals (skerry shell --list) says which there are");
	return -ENOENT;
}

/* ---- what the view says ---- */

static void enter(struct core_terminal *t)
{
	t->depth++;
}

static void leave(struct core_terminal *t)
{
	if (--t->depth == 0 && t->closed)
		free(t);
}

static void end_with(struct core_terminal *t, const struct core_exec_result *result,
		     const struct err *err)
{
	exec_view_detach(STEAL(t->view));
	if (!t->closed)
		t->sink.ended(t->arg, result, err);
}

static void end_if_delivered(struct core_terminal *t)
{
	struct core_exec_result result = { 0 };

	if (t->closed || !t->view || !t->ready || !t->exited || t->next < t->total)
		return;
	exec_result_from_exit(&result, &t->view->exit);
	end_with(t, &result, NULL);
}

/* Where a viewer begins who does not say. */
static uint64_t replay_from(const struct core_terminal *t, uint64_t total)
{
	uint64_t replay = (uint64_t)t->core->limits.terminal_replay_bytes;

	if (t->has_offset)
		return t->from < total ? t->from : total;
	return total > replay ? total - replay : 0;
}

static void set_size(struct core_terminal *t)
{
	if (!t->cols || !t->view->handle || !t->view->found)
		return;
	agent_exec_resize(t->view->handle, t->cols, t->rows);
	t->cols = t->rows = 0;
}

static void on_started(void *arg)
{
	struct core_terminal *t = arg;
	struct exec_view *view = t->view;
	const struct exec_input *in = &view->input;
	struct core_terminal_state state = {
		.terminal_id = t->id,
		.is_new = t->is_new,
		.output_bytes = view->streams[0].total,
		.input_bytes = in->base + in->queue.len,
	};

	if (!t->is_new) {
		t->next = state.offset = replay_from(t, state.output_bytes);
		view->backpressure = true;
		exec_view_follow(view, PROTO_STDOUT, t->next, 0);
		set_size(t);
	}
	t->ready = true;
	enter(t);
	t->sink.ready(t->arg, &state);
	end_if_delivered(t);
	leave(t);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct core_terminal *t = arg;

	/* What is left in the background prints on after the end. */
	if (t->exited && offset + len > t->total)
		len = offset < t->total ? (size_t)(t->total - offset) : 0;
	if (stream != PROTO_STDOUT || len == 0)
		return;
	t->next = offset + len;
	enter(t);
	t->sink.data(t->arg, data, len);
	end_if_delivered(t);
	leave(t);
}

static void on_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
	struct core_terminal *t = arg;

	if (stream != PROTO_STDOUT)
		return;
	t->next = to;
	enter(t);
	t->sink.gap(t->arg, from, to);
	end_if_delivered(t);
	leave(t);
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct core_terminal *t = arg;

	t->exited = true;
	t->total = exit->stdout_bytes;
	enter(t);
	end_if_delivered(t);
	leave(t);
}

/* The guest's words are those of commands. */
static void name_failure(const struct core_terminal *t, struct err *err)
{
	if (str_eq(err->code, "exec_limit")) {
		err_code(err, -EAGAIN, "terminal_limit",
			 "%" PRId64 " terminals are open in this sandbox, which is the limit, or "
			 "too many commands run",
			 t->core->limits.terminals_per_sandbox);
		err_hint(err,
			 "end one with DELETE /v1/sandboxes/ID/terminals/TERMINAL (skerry shell "
			 "--end TERMINAL)");
	} else if (str_eq(err->code, "exec_not_found") && t->is_new) {
		err_code(err, -EPIPE, "agent_gone",
			 "the channel to the sandbox's agent broke before the shell was started");
		err_hint(err, "open it again");
	} else if (str_eq(err->code, "exec_not_found")) {
		not_found(t->id, err);
	}
}

static void on_ended(void *arg, const struct err *why)
{
	struct core_terminal *t = arg;
	struct err err = *why;

	t->view = NULL;
	name_failure(t, &err);
	enter(t);
	end_with(t, NULL, &err);
	leave(t);
}

static void on_input_moved(void *arg)
{
	struct core_terminal *t = arg;

	set_size(t);
	enter(t);
	if (t->ready)
		t->sink.room(t->arg);
	leave(t);
}

static void tell_paused(struct core_terminal *t, bool paused)
{
	t->resume_asked_ms = 0;
	enter(t);
	if (t->ready)
		t->sink.paused(t->arg, paused);
	leave(t);
}

static void on_suspended(void *arg)
{
	tell_paused(arg, true);
}

static void on_resumed(void *arg)
{
	tell_paused(arg, false);
}

static const struct exec_view_events view_events = {
	.started = on_started,
	.data = on_data,
	.gap = on_gap,
	.exited = on_exited,
	.ended = on_ended,
	.input_moved = on_input_moved,
	.suspended = on_suspended,
	.resumed = on_resumed,
};

/* ---- opening ---- */

struct opening {
	const struct core_terminal_request *req;
	struct sandbox *sandbox;
	struct core_terminal *terminal;
	struct core_terminal **ret;
};

static void start(struct opening *o)
{
	const struct core_limits *limits = &o->sandbox->core->limits;
	const struct core_terminal_request *req = o->req;
	struct core_terminal *t = o->terminal;
	_cleanup_free_ char *term = req->term ? xasprintf("TERM=%s", req->term) : NULL;
	const struct exec_defaults *defaults = &o->sandbox->defaults;
	const char *const own_env[] = { term, NULL };
	_cleanup_free_ const char **env = exec_defaults_env(defaults, own_env);
	const struct agent_tty tty = {
		.cols = req->cols ? req->cols : CORE_TERMINAL_COLS,
		.rows = req->rows ? req->rows : CORE_TERMINAL_ROWS,
		.max = (uint32_t)limits->terminals_per_sandbox,
	};
	const struct agent_exec_spec spec = {
		.exec_id = t->id,
		.command = req->command ? req->command : "",
		.cwd = req->cwd || req->user ? req->cwd : defaults->workdir,
		.user = req->user ? req->user : defaults->user,
		.env = env ? env : own_env,
		.log_cap_bytes = (uint64_t)limits->terminal_log_bytes,
		.stdin_open = true,
		.backpressure = true,
		.confined = t->confined,
		.tty = &tty,
	};

	t->view = exec_view_start(o->sandbox, &spec, &view_events, t);
}

static void join(struct opening *o)
{
	struct core_terminal *t = o->terminal;
	struct exec_view *owner = exec_view_owner(o->sandbox, t->id);
	struct err why = ERR_INIT;

	if (!owner) {
		t->view = exec_view_attach(o->sandbox, t->id, true, &view_events, t);
		t->view->terminal = true;
		return;
	}
	err_code(&why, -ESTALE, "terminal_taken_over",
		 "terminal '%s' is shown to somebody else by now", t->id);
	err_hint(&why, "join it again to take it back");
	t->view = owner;
	exec_view_take(owner, &view_events, t, &why);
}

static bool open_on_loop(void *arg)
{
	struct opening *o = arg;

	*o->ret = o->terminal;
	if (o->terminal->is_new)
		start(o);
	else
		join(o);
	return true;
}

static int check_text(const char *name, const char *value, size_t max, struct err *err)
{
	if (!value || (value[0] && strlen(value) <= max))
		return 0;
	return err_code(err, -EINVAL, "invalid_argument", "%s has %zu bytes, not 1 to %zu", name,
			strlen(value), max);
}

static int check(const struct core_terminal_request *req, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._+-";

	if (req->cols > CORE_TERMINAL_SIZE_MAX || req->rows > CORE_TERMINAL_SIZE_MAX ||
	    !req->cols != !req->rows)
		return err_code(err, -EINVAL, "invalid_argument",
				"cols and rows are from 1 to %d, and come together",
				CORE_TERMINAL_SIZE_MAX);
	if (req->terminal_id && (req->command || req->user || req->cwd || req->term))
		return err_code(err, -EINVAL, "invalid_argument",
				"command, user, cwd and term are for a new terminal, not with "
				"terminal_id");
	if (req->has_offset && !req->terminal_id)
		return err_code(err, -EINVAL, "invalid_argument",
				"from_offset is for a terminal that is open, with terminal_id");
	if (req->term && strspn(req->term, letters) != strlen(req->term))
		return err_code(err, -EINVAL, "invalid_argument",
				"term is not the name of a terminal, like xterm-256color");
	if (check_text("term", req->term, CORE_TERMINAL_TERM_MAX, err) < 0 ||
	    check_text("command", req->command, PROTO_COMMAND_MAX, err) < 0 ||
	    check_text("cwd", req->cwd, CWD_MAX, err) < 0 ||
	    check_text("user", req->user, USER_MAX, err) < 0)
		return -EINVAL;
	return 0;
}

static struct core_terminal *viewer_new(struct core *core, const struct principal *who,
					const struct core_terminal_request *req,
					const struct core_terminal_sink *sink, void *arg)
{
	struct core_terminal *t = xcalloc(1, sizeof(*t));
	char random[EXEC_ID_HEX + 1];

	t->core = core;
	t->sink = *sink;
	t->arg = arg;
	t->is_new = !req->terminal_id;
	t->has_offset = req->has_offset;
	t->from = req->from_offset;
	t->cols = t->is_new ? 0 : req->cols;
	t->rows = t->is_new ? 0 : req->rows;
	t->confined = !key_scope_may_be_root(who->scope);
	rand_hex(random, t->confined ? EXEC_ID_CONFINED_HEX : EXEC_ID_HEX);
	if (t->is_new)
		snprintf(t->id, sizeof(t->id), ID_PREFIX "%s", random);
	else
		str_copy(t->id, sizeof(t->id), req->terminal_id);
	return t;
}

int core_terminal_open(struct core *core, const struct principal *who, const char *sandbox_id,
		       const struct core_terminal_request *req,
		       const struct core_terminal_sink *sink, void *arg, struct core_terminal **ret,
		       struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct opening opening = { .req = req, .ret = ret };
	int r = work ? check(req, err) : -ESHUTDOWN;

	if (r == 0)
		r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r == 0 && req->terminal_id && !core_terminal_id_valid(req->terminal_id))
		r = not_found(req->terminal_id, err);
	if (r == 0 && req->terminal_id)
		r = exec_authorize(who, req->terminal_id, err);
	if (r < 0)
		return r;
	opening.sandbox = sb;
	opening.terminal = viewer_new(core, who, req, sink, arg);
	r = exec_with_channel(sb, open_on_loop, &opening, err);
	if (r < 0)
		free(opening.terminal);
	return r;
}

/* ---- what the viewer does ---- */

void core_terminal_credit(struct core_terminal *t, uint64_t bytes)
{
	if (t->view)
		exec_view_credit(t->view, PROTO_STDOUT, bytes);
}

static void resume_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;
	struct err err = ERR_INIT;

	if (sandbox_ensure_connected(sb, &err) < 0)
		log_warn("a sandbox is not resumed for its terminal", "sandbox=%s error=\"%s\"",
			 sb->id, err.message);
}

static void resume_sandbox(struct core_terminal *t)
{
	int64_t now_ms = clock_boottime_ms();

	if (t->resume_asked_ms && now_ms - t->resume_asked_ms < RESUME_AGAIN_MS)
		return;
	t->resume_asked_ms = now_ms;
	core_job(t->core, resume_job, sandbox_ref(t->view->sandbox), 0);
}

size_t core_terminal_input(struct core_terminal *t, const void *data, size_t len)
{
	const struct exec_input *in;
	uint64_t unsent;

	if (!t->view || t->exited)
		return len; /* nobody will read it */
	in = &t->view->input;
	unsent = in->base + in->queue.len - in->sent;
	if (t->view->suspended)
		resume_sandbox(t);
	if (unsent >= INPUT_QUEUE_BYTES)
		return 0;
	if (len > INPUT_QUEUE_BYTES - unsent)
		len = (size_t)(INPUT_QUEUE_BYTES - unsent);
	sandbox_touch(t->view->sandbox);
	return exec_view_input(t->view, data, len, false, SIZE_MAX, NULL) < 0 ? 0 : len;
}

void core_terminal_resize(struct core_terminal *t, uint32_t cols, uint32_t rows)
{
	if (!t->view)
		return;
	t->cols = cols;
	t->rows = rows;
	set_size(t);
}

void core_terminal_close(struct core_terminal *t)
{
	if (!t)
		return;
	if (t->view)
		sandbox_touch(t->view->sandbox); /* not idle while somebody looked */
	exec_view_detach(STEAL(t->view));
	t->closed = true;
	if (t->depth == 0)
		free(t);
}

/* ---- listing and ending ---- */

struct found {
	struct agent_terminal *list;
	size_t n;
};

static int ask_terminals(struct agent *agent, int64_t deadline_ms, void *arg, struct err *err)
{
	struct found *found = arg;

	return agent_list_terminals(agent, deadline_ms, &found->list, &found->n, err);
}

struct listing {
	struct sandbox *sandbox;
	const struct agent_terminal *found;
	size_t n_found;
	struct core_terminal_info *list;
	size_t n;
};

static void list_on_loop(void *arg)
{
	struct listing *l = arg;
	int64_t now_ms = clock_unix_ms();

	for (size_t i = 0; i < l->n_found; i++) {
		const struct agent_terminal *found = &l->found[i];
		struct core_terminal_info *info = &l->list[l->n];
		const struct exec_view *owner;

		if (!core_terminal_id_valid(found->exec_id))
			continue;
		owner = exec_view_owner(l->sandbox, found->exec_id);
		str_copy(info->terminal_id, sizeof(info->terminal_id), found->exec_id);
		info->created_unix_ms = now_ms - (int64_t)found->age_ms;
		info->output_bytes = found->output_bytes;
		info->cols = found->cols;
		info->rows = found->rows;
		info->busy = found->busy;
		info->attached = owner && owner->events == &view_events;
		l->n++;
	}
}

int core_terminal_list(struct core *core, const struct principal *who, const char *sandbox_id,
		       struct core_terminal_info **ret, size_t *ret_n, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct found found = { 0 };
	struct listing listing = { 0 };
	int r = work ? sandbox_find_running(core, who, sandbox_id, &sb, err) : -ESHUTDOWN;

	if (r == 0)
		r = sandbox_ask(sb, ask_terminals, &found, err);
	if (r < 0)
		return r;
	listing.sandbox = sb;
	listing.found = found.list;
	listing.n_found = found.n;
	listing.list = xcalloc(listing.n_found + 1, sizeof(*listing.list));
	loop_call(core->loop, list_on_loop, &listing);
	free(found.list);
	*ret = listing.list;
	*ret_n = listing.n;
	return 0;
}

int core_terminal_end(struct core *core, const struct principal *who, const char *sandbox_id,
		      const char *terminal_id, struct err *err)
{
	struct err why = ERR_INIT;
	bool known = core_terminal_id_valid(terminal_id);
	int r;

	/* Of an id that cannot be one, the sandbox may still be the first thing that is wrong. */
	r = exec_signal_any(core, who, sandbox_id,
			    known ? terminal_id : ID_PREFIX "000000000000000", SIGKILL, &why);
	if (r < 0 && (str_eq(err_code_of(&why), "exec_not_found") ||
		      str_eq(err_code_of(&why), "exec_ended")))
		return not_found(terminal_id, err);
	if (r < 0 && err)
		*err = why;
	return r;
}
