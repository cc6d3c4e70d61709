/* A question to a sandbox's agent that it answers at once. */
#include <errno.h>

#include "base/clock.h"
#include "core/internal.h"

#define ASK_MS 10000

int sandbox_ask(struct sandbox *sb, agent_ask_fn ask, void *arg, struct err *err)
{
	int64_t deadline = clock_boottime_ms() + ASK_MS;
	struct agent *agent;
	int r = 0;

	pthread_mutex_lock(&sb->op_lock);
	agent = sandbox_hold_agent(sb);
	if (!agent && sandbox_status(sb) == SANDBOX_RUNNING) {
		r = sandbox_connect(sb, NULL, deadline, err);
		agent = r == 0 ? sandbox_hold_agent(sb) : NULL;
	}
	if (agent) {
		r = ask(agent, deadline, arg, err);
		sandbox_release_agent(sb, r < 0);
	} else if (r == 0) {
		r = err_code(err, -EBUSY, "sandbox_not_running",
			     "sandbox '%s' is paused or ends at this moment", sb->id);
	}
	pthread_mutex_unlock(&sb->op_lock);
	return r;
}
