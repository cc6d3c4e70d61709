/*
 * Commands: checking requests, starting them, input and signals.
 *
 * The guest keeps what a command prints; a call or a stream is only a view of it. So a dropped
 * caller, a restarted daemon or a broken channel loses nothing: the same command is looked at again
 * by its id.
 */
#include "core/exec.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/terminal.h"

#define MINUTE_MS	 60000LL
#define CONNECT_ATTEMPTS 3
#define CWD_MAX		 4095
#define USER_MAX	 32
#define ATTACH_WAIT_MS	 15000

/* ---- checks ---- */

static int bad(struct err *err, const char *field, const char *what)
{
	return err_set(err, -EINVAL, "%s %s", field, what);
}

static int check_text(const char *field, const char *value, size_t max, struct err *err)
{
	if (!value || strlen(value) <= max)
		return 0;
	return err_set(err, -EINVAL, "%s has %zu bytes, the limit is %zu", field, strlen(value),
		       max);
}

static int check_env(const char *const *env, struct err *err)
{
	size_t total = 0;

	for (size_t i = 0; env && env[i]; i++) {
		const char *equals = strchr(env[i], '=');

		if (!equals || equals == env[i])
			return bad(err, "env", "has an entry that is not NAME=VALUE");
		total += strlen(env[i]) + 1;
	}
	if (total <= PROTO_ENV_MAX)
		return 0;
	return err_set(err, -EINVAL, "env has %zu bytes together, the limit is %u", total,
		       PROTO_ENV_MAX);
}

static int check_command(const struct core_exec_request *req, struct err *err)
{
	if (!req->command || req->command_len == 0)
		return bad(err, "command", "is empty");
	if (req->command_len > PROTO_COMMAND_MAX)
		return err_set(err, -EINVAL, "command has %zu bytes, the limit is %u",
			       req->command_len, PROTO_COMMAND_MAX);
	if (memchr(req->command, '\0', req->command_len))
		return bad(err, "command", "has a NUL byte");
	return 0;
}

static int check_timeout(const struct core *core, int64_t timeout_ms, int64_t *ret_ms,
			 struct err *err)
{
	int64_t max = core->limits.timeout_minutes_max * MINUTE_MS;

	if (timeout_ms < 0 || timeout_ms > max)
		return err_set(err, -EINVAL, "timeout_ms %lld is not from 1 to %lld",
			       (long long)timeout_ms, (long long)max);
	*ret_ms = timeout_ms ? timeout_ms : core->limits.exec_timeout_ms_default;
	return 0;
}

int exec_check_output_max(const struct core *core, uint64_t max, uint64_t *ret_max, struct err *err)
{
	uint64_t limit = (uint64_t)core->limits.output_bytes_max;

	if (max > limit)
		return err_set(err, -EINVAL, "max_output_bytes %llu is not from 1 to %llu",
			       (unsigned long long)max, (unsigned long long)limit);
	*ret_max = max ? max : (uint64_t)core->limits.output_bytes_rest;
	return 0;
}

int exec_check(const struct core *core, const struct principal *who,
	       const struct core_exec_request *req, struct exec_start *ret, struct err *err)
{
	struct exec_start start = { .req = req, .confined = !key_scope_may_be_root(who->scope) };
	char random[EXEC_ID_HEX + 1];

	if (check_command(req, err) < 0 || check_text("cwd", req->cwd, CWD_MAX, err) < 0 ||
	    check_text("user", req->user, USER_MAX, err) < 0 || check_env(req->env, err) < 0 ||
	    check_timeout(core, req->timeout_ms, &start.timeout_ms, err) < 0)
		return -EINVAL;
	if (req->stdin_len > (size_t)core->limits.request_body_bytes)
		return err_set(err, -EINVAL, "stdin has %zu bytes, the limit is %lld",
			       req->stdin_len, (long long)core->limits.request_body_bytes);
	rand_hex(random, start.confined ? EXEC_ID_CONFINED_HEX : EXEC_ID_HEX);
	snprintf(start.exec_id, sizeof(start.exec_id), "exec_%s", random);
	start.command = xstrndup(req->command, req->command_len);
	*ret = start;
	return 0;
}

void exec_start_clear(struct exec_start *start)
{
	free(start->command);
	start->command = NULL;
}

bool exec_id_valid(const char *id)
{
	size_t len = strlen(id);

	return str_starts(id, "exec_") && len >= 9 && len < EXEC_ID_SIZE &&
	       strspn(id + 5, "0123456789abcdef") == len - 5;
}

int exec_authorize(const struct principal *who, const char *id, struct err *err)
{
	const char *hex = strchr(id, '_');

	if (key_scope_may_be_root(who->scope) || !hex || strlen(hex + 1) == EXEC_ID_CONFINED_HEX)
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "'%.32s' may run as root, and this key may not (\"root\" of its scope)", id);
	err_hint(err, "use what was started with this key, or one that is limited like it");
	return -EPERM;
}

int exec_not_found(const char *exec_id, struct err *err)
{
	err_code(err, -ENOENT, "exec_not_found", "no command '%.32s' in this sandbox", exec_id);
	err_hint(err,
		 "ids of commands are in the answer to exec; the oldest ended ones are forgotten");
	return -ENOENT;
}

int exec_exit_code(const struct agent_exit *exit)
{
	if (exit->timed_out)
		return 124;
	return exit->signal ? 128 + exit->signal : exit->exit_code;
}

void exec_result_from_exit(struct core_exec_result *result, const struct agent_exit *exit)
{
	result->running = false;
	result->signal = exit->signal;
	result->timed_out = exit->timed_out;
	result->out_of_memory = exit->out_of_memory;
	result->exit_code = exec_exit_code(exit);
	result->stdout_bytes = exit->stdout_bytes;
	result->stderr_bytes = exit->stderr_bytes;
	result->duration_ms = (int64_t)exit->duration_ms;
}

/* ---- starting ---- */

struct with_channel {
	struct sandbox *sb;
	with_channel_fn fn;
	void *arg;
	bool done;
	struct err over;
};

static void run_with_channel(void *arg)
{
	struct with_channel *w = arg;

	if (w->sb->over)
		w->over = w->sb->over_err;
	else if (w->sb->agent)
		w->done = w->fn(w->arg);
}

int exec_with_channel(struct sandbox *sb, with_channel_fn fn, void *arg, struct err *err)
{
	struct with_channel w = { .sb = sb, .fn = fn, .arg = arg };

	for (int i = 0; i < CONNECT_ATTEMPTS; i++) {
		int r;

		loop_call(sb->core->loop, run_with_channel, &w);
		if (w.done)
			return 0;
		if (w.over.num < 0) {
			if (err)
				*err = w.over;
			return w.over.num;
		}
		r = sandbox_ensure_connected(sb, err);
		if (r < 0)
			return r;
	}
	return err_code(err, -EPIPE, "agent_gone",
			"the agent of sandbox '%s' does not keep its channel", sb->id);
}

/* A command's time ends with the sandbox's at the latest, unless it is paused then. */
static int64_t bounded_timeout_ms(const struct sandbox *sb, int64_t timeout_ms)
{
	int64_t left = sb->expires_boottime_ms - clock_boottime_ms();

	if (sb->pause_on_timeout)
		return timeout_ms;

	return timeout_ms < left || left <= 0 ? timeout_ms : left;
}

void exec_start_now(struct exec_start *start)
{
	struct sandbox *sb = start->sandbox;
	const struct core_exec_request *req = start->req;
	const struct exec_defaults *defaults = &sb->defaults;
	_cleanup_free_ const char **env = exec_defaults_env(defaults, req->env);
	const int64_t running_max = sb->core->limits.exec_running_max;
	struct agent_exec_spec spec = {
		.exec_id = start->exec_id,
		.command = start->command,
		.cwd = req->cwd || req->user ? req->cwd : defaults->workdir,
		.user = req->user ? req->user : defaults->user,
		.env = env ? env : req->env,
		.timeout_ms = (uint64_t)bounded_timeout_ms(sb, start->timeout_ms),
		.log_cap_bytes = (uint64_t)sb->core->limits.exec_log_bytes,
		.stdin_open = req->stdin_open || req->stdin_data,
		.backpressure = start->backpressure,
		.confined = start->confined,
		.stdout_credit = start->stdout_credit,
		.stderr_credit = start->stderr_credit,
	};

	if ((int64_t)exec_views_running(sb) >= running_max) {
		err_code(&start->err, -EAGAIN, "exec_limit",
			 "%lld commands are running in sandbox '%s', which is the limit",
			 (long long)running_max, sb->id);
		err_hint(&start->err, "wait for one to end, or kill one");
		return;
	}
	start->view = exec_view_start(sb, &spec, start->events, start->arg);
	if (req->stdin_data)
		exec_view_input(start->view, req->stdin_data, req->stdin_len, !req->stdin_open,
				SIZE_MAX, NULL);
}

/* ---- input and signals ---- */

/* A worker that waits until a command was found by its id. */
struct finder {
	struct sandbox *sb;
	const char *exec_id;
	struct exec_view *view; /* ours, while not ended */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	struct err err;
};

static void finder_end(struct finder *f, const struct err *err)
{
	pthread_mutex_lock(&f->lock);
	f->done = true;
	if (err)
		f->err = *err;
	pthread_cond_signal(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static void on_found(void *arg)
{
	finder_end(arg, NULL);
}

static void on_ended(void *arg, const struct err *err)
{
	struct finder *f = arg;

	f->view = NULL;
	finder_end(f, err);
}

/* The keeper there is, or a new one by attaching. */
static bool find_or_attach(void *arg)
{
	static const struct exec_view_events events = { .started = on_found, .ended = on_ended };
	struct finder *f = arg;
	struct exec_view *owner = exec_view_owner(f->sb, f->exec_id);

	if (owner)
		finder_end(f, NULL);
	else
		f->view = exec_view_attach(f->sb, f->exec_id, true, &events, f);
	if (f->view)
		f->view->terminal = core_terminal_id_valid(f->exec_id);
	return true;
}

static void leave_keeper(void *arg)
{
	struct finder *f = arg;

	exec_view_detach(STEAL(f->view));
}

/* After success the loop finds the command with exec_view_owner, unless it ended by itself. */
static int find_command(struct sandbox *sb, const char *exec_id, struct err *err)
{
	struct finder f = { .sb = sb, .exec_id = exec_id };
	struct timespec until;
	bool done;
	int r;

	pthread_mutex_init(&f.lock, NULL);
	pthread_cond_init(&f.changed, NULL);
	r = exec_with_channel(sb, find_or_attach, &f, err);
	if (r == 0) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += ATTACH_WAIT_MS / 1000;
		pthread_mutex_lock(&f.lock);
		while (!f.done && pthread_cond_timedwait(&f.changed, &f.lock, &until) != ETIMEDOUT)
			;
		done = f.done;
		pthread_mutex_unlock(&f.lock);
		loop_call(sb->core->loop, leave_keeper, &f);
		if (!done)
			r = err_code(err, -ETIMEDOUT, "agent_unresponsive",
				     "the agent of sandbox '%s' does not answer", sb->id);
		else if (f.err.num < 0 && str_eq(err_code_of(&f.err), "agent_gone"))
			r = exec_not_found(exec_id, err);
		else if (f.err.num < 0) {
			r = f.err.num;
			if (err)
				*err = f.err;
		}
	}
	pthread_cond_destroy(&f.changed);
	pthread_mutex_destroy(&f.lock);
	return r;
}

struct request {
	struct sandbox *sb;
	const char *exec_id;
	const void *data;
	size_t len;
	bool close_after;
	int signal;
	int result;
	struct err err;
};

static void input_on_loop(void *arg)
{
	struct request *request = arg;
	struct exec_view *owner = exec_view_owner(request->sb, request->exec_id);
	size_t queue_max = (size_t)request->sb->core->limits.request_body_bytes;

	if (!owner)
		request->result = err_code(&request->err, -EPIPE, "exec_ended",
					   "command '%s' has ended", request->exec_id);
	else
		request->result = exec_view_input(owner, request->data, request->len,
						  request->close_after, queue_max, &request->err);
}

static void signal_on_loop(void *arg)
{
	struct request *request = arg;
	struct exec_view *owner = exec_view_owner(request->sb, request->exec_id);

	if (!owner || owner->exited)
		request->result = err_code(&request->err, -ESRCH, "exec_ended",
					   "command '%s' has ended", request->exec_id);
	else if (!owner->handle)
		request->result =
			err_code(&request->err, -EPIPE, "agent_gone",
				 "there is no channel to the sandbox's agent at the moment");
	else
		agent_exec_signal(owner->handle, request->signal);
}

static int run_request(struct core *core, const struct principal *who, const char *sandbox_id,
		       struct request *request, loop_fn fn, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = sandbox_find_running(core, who, sandbox_id, &sb, err);
	if (r == 0)
		r = exec_authorize(who, request->exec_id, err);
	if (r == 0)
		r = find_command(sb, request->exec_id, err);
	if (r < 0)
		return r;
	request->sb = sb;
	loop_call(core->loop, fn, request);
	if (request->result < 0 && err)
		*err = request->err;
	return request->result;
}

int core_exec_input(struct core *core, const struct principal *who, const char *sandbox_id,
		    const char *exec_id, const void *data, size_t len, bool close_after,
		    struct err *err)
{
	struct request request = {
		.exec_id = exec_id,
		.data = data,
		.len = len,
		.close_after = close_after,
	};

	if (!exec_id_valid(exec_id))
		return exec_not_found(exec_id, err);
	if (len > (size_t)core->limits.request_body_bytes)
		return err_set(err, -EINVAL, "input has %zu bytes, the limit is %lld", len,
			       (long long)core->limits.request_body_bytes);
	return run_request(core, who, sandbox_id, &request, input_on_loop, err);
}

int core_exec_signal(struct core *core, const struct principal *who, const char *sandbox_id,
		     const char *exec_id, int signal, struct err *err)
{
	if (!exec_id_valid(exec_id))
		return exec_not_found(exec_id, err);
	return exec_signal_any(core, who, sandbox_id, exec_id, signal, err);
}

int exec_signal_any(struct core *core, const struct principal *who, const char *sandbox_id,
		    const char *id, int signal, struct err *err)
{
	struct request request = { .exec_id = id, .signal = signal };

	if (signal < 1 || signal > SIGRTMAX)
		return err_set(err, -EINVAL, "signal %d is not from 1 to %d", signal, SIGRTMAX);
	return run_request(core, who, sandbox_id, &request, signal_on_loop, err);
}
