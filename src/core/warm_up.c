/* First commands in a guest. See warm_up.h. */
#include "core/warm_up.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/core.h"

#define WARM_UP_DEADLINE_MS 60000
#define WARM_UP_COMMAND_MS  (WARM_UP_DEADLINE_MS / 2)

/* One command, waited for. */
struct warm_up {
	struct agent *agent;
	const char *exec_id;
	const char *command, *user;
	struct agent_exec *exec;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	struct err err;
};

static void warm_up_end(struct warm_up *w, const struct err *err)
{
	pthread_mutex_lock(&w->lock);
	w->done = true;
	if (err)
		w->err = *err;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct warm_up *w = arg;
	struct err err = ERR_INIT;

	if (exit->exit_code == 0) {
		warm_up_end(w, NULL);
		return;
	}
	if (exit->timed_out)
		err_set(&err, -ETIMEDOUT, "a first command in the guest (%s) did not end in %d s",
			w->command, WARM_UP_COMMAND_MS / 1000);
	else if (exit->signal > 0)
		err_set(&err, -EIO, "a first command in the guest (%s) was ended by signal %d",
			w->command, exit->signal);
	else
		err_set(&err, -EIO, "a first command in the guest (%s) ended with %d", w->command,
			exit->exit_code);
	warm_up_end(w, &err);
}

static void on_failed(void *arg, const struct err *err)
{
	warm_up_end(arg, err);
}

static void start_warm_up(void *arg)
{
	static const struct agent_exec_events events = {
		.exited = on_exited,
		.failed = on_failed,
		.lost = on_failed,
	};
	struct warm_up *w = arg;
	const struct agent_exec_spec spec = {
		.exec_id = w->exec_id,
		.command = w->command,
		.user = w->user,
		.timeout_ms = WARM_UP_COMMAND_MS,
	};

	w->exec = agent_exec_start(w->agent, &spec, &events, w);
}

static void stop_warm_up(void *arg)
{
	struct warm_up *w = arg;

	agent_exec_free(w->exec);
}

/* The id is a new one each time: the guest of a template knows those it was warmed up with itself.
 */
static int run_one(struct loop *loop, struct agent *agent, const char *command, const char *user,
		   struct err *err)
{
	char random[9], exec_id[EXEC_ID_SIZE];
	struct warm_up w = { .agent = agent, .exec_id = exec_id, .command = command, .user = user };
	struct timespec until;
	bool done;

	rand_hex(random, sizeof(random) - 1);
	snprintf(exec_id, sizeof(exec_id), "exec_warm_%s", random);
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.changed, NULL);
	loop_call(loop, start_warm_up, &w);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WARM_UP_DEADLINE_MS / 1000;
	pthread_mutex_lock(&w.lock);
	while (!w.done && pthread_cond_timedwait(&w.changed, &w.lock, &until) != ETIMEDOUT)
		;
	done = w.done;
	pthread_mutex_unlock(&w.lock);
	loop_call(loop, stop_warm_up, &w);
	pthread_cond_destroy(&w.changed);
	pthread_mutex_destroy(&w.lock);
	if (!done)
		return err_set(err, -ETIMEDOUT,
			       "a first command in the guest (%s) did not end, and the agent does "
			       "not say so",
			       command);
	if (w.err.num < 0 && err)
		*err = w.err;
	return w.err.num;
}

int warm_up(struct loop *loop, struct agent *agent, const char *user, struct err *err)
{
	static const char *const commands[] = {
		/* What the first commands of most sandboxes touch: the shells, and the way to them.
		 * Images need not have more than a shell. */
		"true",
		"{ ls -la / && cat /etc/passwd; } >/dev/null 2>&1 || true",
		/* What has been written goes to the disk now. Else it does in the first moments of
		 * each sandbox that is restored from here, before its agent's first answer. */
		"sync 2>/dev/null || true",
	};
	struct err why = ERR_INIT;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(commands) && r == 0; i++)
		r = run_one(loop, agent, commands[i], user, &why);
	if (r < 0 && str_eq(why.code, "not_executable")) {
		log_info("the image has no shell to warm up", "why=\"%s\"", why.message);
		return 0;
	}
	if (r < 0 && err)
		*err = why;
	return r;
}
