/* The list of commands. See exec_list.h. */
#include "core/exec_list.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/exec.h"
#include "core/internal.h"

static_assert(CORE_EXEC_COMMAND_SHOWN == PROTO_COMMAND_SHOWN_MAX, "what the guest tells");

struct found {
	struct agent_exec_info *list;
	size_t n;
};

static int ask_execs(struct agent *agent, int64_t deadline_ms, void *arg, struct err *err)
{
	struct found *found = arg;

	return agent_list_execs(agent, deadline_ms, &found->list, &found->n, err);
}

static void fill(struct core_exec_info *info, const struct agent_exec_info *from, int64_t now_ms)
{
	str_copy(info->exec_id, sizeof(info->exec_id), from->exec_id);
	str_copy(info->command, sizeof(info->command), from->command);
	info->command_whole = from->command_whole;
	info->started_unix_ms = now_ms - (int64_t)from->age_ms;
	exec_result_from_exit(&info->result, &from->exit);
	str_copy(info->result.exec_id, sizeof(info->result.exec_id), from->exec_id);
	info->result.running = from->running;
}

int core_exec_list(struct core *core, const struct principal *who, const char *sandbox_id,
		   struct core_exec_info **ret, size_t *ret_n, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int64_t now_ms = clock_unix_ms();
	struct core_exec_info *list;
	struct found found = { 0 };
	size_t n = 0;
	int r = work ? sandbox_find_running(core, who, sandbox_id, &sb, err) : -ESHUTDOWN;

	if (r == 0)
		r = sandbox_ask(sb, ask_execs, &found, err);
	if (r < 0)
		return r;
	list = xcalloc(found.n + 1, sizeof(*list));
	for (size_t i = 0; i < found.n; i++) {
		if (exec_id_valid(found.list[i].exec_id)) /* the guest may say anything */
			fill(&list[n++], &found.list[i], now_ms);
	}
	free(found.list);
	*ret = list;
	*ret_n = n;
	return 0;
}
