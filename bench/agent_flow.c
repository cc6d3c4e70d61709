/* See agent_flow.h. Everything but the waiting is on the loop's thread. */
#include "agent_flow.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"

#define CREDIT_BYTES (256u * 1024) /* as the daemon's surfaces grant it */
#define BLOCK_BYTES  (64u * 1024)

struct flow {
	struct agent *agent;
	const char *command;
	bool in;
	char exec_id[24];
	struct agent_exec *exec;
	uint64_t moved;
	bool closed;
	int64_t begun_us, us; /* us < 0: failed */
	sem_t done;
};

static void end(struct flow *flow, bool good)
{
	if (!flow->exec)
		return;
	flow->us =
		good && flow->moved == AGENT_FLOW_BYTES ? clock_boottime_us() - flow->begun_us : -1;
	agent_exec_free(STEAL(flow->exec));
	sem_post(&flow->done);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct flow *flow = arg;

	flow->moved += len;
	if (flow->moved < AGENT_FLOW_BYTES)
		agent_exec_credit(flow->exec, stream, len);
	else
		end(flow, true);
}

static void on_window(void *arg, uint64_t may_send_up_to)
{
	static const char block[BLOCK_BYTES];
	struct flow *flow = arg;

	while (flow->moved < AGENT_FLOW_BYTES && flow->moved < may_send_up_to) {
		uint64_t n = may_send_up_to - flow->moved;

		n = n < sizeof(block) ? n : sizeof(block);
		n = n < AGENT_FLOW_BYTES - flow->moved ? n : AGENT_FLOW_BYTES - flow->moved;
		agent_exec_input(flow->exec, flow->moved, block, (size_t)n);
		flow->moved += n;
	}
	if (flow->moved == AGENT_FLOW_BYTES && !flow->closed) {
		flow->closed = true;
		agent_exec_input_close(flow->exec);
	}
}

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct flow *flow = arg;

	if (flow->in || exit->exit_code != 0)
		end(flow, exit->exit_code == 0);
}

static void on_failed(void *arg, const struct err *err)
{
	end(arg, false);
}

static void start(void *arg)
{
	static const struct agent_exec_events events = {
		.data = on_data,
		.exited = on_exited,
		.input_window = on_window,
		.failed = on_failed,
		.lost = on_failed,
	};
	struct flow *flow = arg;
	const struct agent_exec_spec spec = {
		.exec_id = flow->exec_id,
		.command = flow->command,
		.timeout_ms = 120000,
		.stdin_open = flow->in,
		.backpressure = true,
		.stdout_credit = CREDIT_BYTES,
		.stderr_credit = CREDIT_BYTES,
	};

	flow->begun_us = clock_boottime_us();
	flow->exec = agent_exec_start(flow->agent, &spec, &events, flow);
}

static int run(struct loop *loop, struct flow *flow, int64_t *ret_us, struct err *err)
{
	char random[13];

	rand_hex(random, sizeof(random) - 1);
	snprintf(flow->exec_id, sizeof(flow->exec_id), "exe_%s", random);
	sem_init(&flow->done, 0, 0);
	loop_call(loop, start, flow);
	while (sem_wait(&flow->done) < 0 && errno == EINTR)
		;
	sem_destroy(&flow->done);
	if (flow->us < 0)
		return err_set(err, -EIO, "the command '%s' failed", flow->command);
	*ret_us = flow->us;
	return 0;
}

int agent_flow_out(struct loop *loop, struct agent *agent, int64_t *ret_us, struct err *err)
{
	char command[64];
	struct flow flow = { .agent = agent, .command = command };

	snprintf(command, sizeof(command), "head -c %u /dev/zero", AGENT_FLOW_BYTES);
	return run(loop, &flow, ret_us, err);
}

int agent_flow_in(struct loop *loop, struct agent *agent, int64_t *ret_us, struct err *err)
{
	struct flow flow = { .agent = agent, .command = "cat >/dev/null", .in = true };

	return run(loop, &flow, ret_us, err);
}
