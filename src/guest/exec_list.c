/* Commands as a list: what is known of those that run and of those whose output is kept. */
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "guest/exec.h"
#include "guest/guest.h"

void exec_put_exit(const struct exec *exec, struct buf *out)
{
	const bool over = exec->phase >= EXEC_ENDED;
	const bool signaled = over && WIFSIGNALED(exec->wait_status);
	uint32_t code = over && !signaled ? (uint32_t)WEXITSTATUS(exec->wait_status) : UINT32_MAX;

	frame_put_u32(out, code);
	frame_put_u32(out, signaled ? (uint32_t)WTERMSIG(exec->wait_status) : 0);
	frame_put_u32(out, (exec->timed_out ? PROTO_EXIT_TIMED_OUT : 0) |
				   (exec->out_of_memory ? PROTO_EXIT_OOM : 0));
	frame_put_u64(out, exec_duration_ms(exec));
	for (int i = 0; i < 2; i++)
		frame_put_u64(out, over ? exec->exit_totals[i] : exec->streams[i].log.total);
}

/* A file operation is none to whoever asks, and a terminal has a list of its own. */
static bool is_listed(const struct exec *exec, bool running)
{
	return !exec->is_file && !exec->tty && exec->phase != EXEC_FAILED &&
	       (exec->phase < EXEC_ENDED) == running;
}

static void put_one(const struct exec *exec, bool running, int64_t now_ms, struct buf *out)
{
	frame_put_string(out, exec->id, strlen(exec->id));
	frame_put_string(out, exec->shown, strlen(exec->shown));
	frame_put_u8(out, exec->shown_whole);
	frame_put_u8(out, running);
	frame_put_u64(out, (uint64_t)(now_ms - exec->started_ms));
	exec_put_exit(exec, out);
}

/* The newest of a kind, and how many there are of them; with out NULL they are counted only. */
static uint32_t put_some(const struct guest *guest, bool running, uint32_t max, struct buf *out)
{
	const int64_t now_ms = clock_boottime_ms();
	uint32_t n = 0;

	for (const struct exec *exec = guest->last_exec; exec && n < max; exec = exec->prev) {
		if (!is_listed(exec, running))
			continue;
		if (out)
			put_one(exec, running, now_ms, out);
		n++;
	}
	return n;
}

void execs_put(const struct guest *guest, struct buf *out)
{
	uint32_t running = put_some(guest, true, PROTO_EXECS_MAX, NULL);
	uint32_t ended = put_some(guest, false, PROTO_EXECS_MAX - running, NULL);

	frame_put_u32(out, running + ended);
	put_some(guest, true, running, out);
	put_some(guest, false, ended, out);
}
