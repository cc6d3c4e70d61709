/* Events of commands and denials, which are posted and written in batches. See events.h. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "core/exec.h"
#include "core/internal.h"
#include "core/metrics_internal.h"

/* ---- commands ---- */

void event_exec_started(const struct exec_view *view)
{
	const struct sandbox *sb = view->sandbox;
	json_t *data = json_object();
	size_t len = strlen(view->command);

	json_put_str(data, "exec_id", view->exec_id);
	if (view->terminal)
		json_put(data, "terminal", json_true());
	json_put(data, "command",
		 json_from_bytes(view->command, len < EVENT_COMMAND_MAX ? len : EVENT_COMMAND_MAX));
	json_put(data, "command_truncated", json_boolean(len > EVENT_COMMAND_MAX));
	events_post(sb->core, sb->account_id, sb->id, EVENT_EXEC_STARTED, data);
}

static void put_exit(json_t *data, const struct agent_exit *exit)
{
	const char *name = exit->signal ? sigabbrev_np(exit->signal) : NULL;
	char text[32];

	snprintf(text, sizeof(text), "SIG%s", name ? name : "?");
	json_put_int(data, "exit_code", exec_exit_code(exit));
	json_put_str(data, "signal", exit->signal ? text : NULL);
	json_put(data, "timed_out", json_boolean(exit->timed_out));
	json_put(data, "out_of_memory", json_boolean(exit->out_of_memory));
	json_put_int(data, "duration_ms", (int64_t)exit->duration_ms);
	json_put_int(data, "stdout_bytes", (int64_t)exit->stdout_bytes);
	json_put_int(data, "stderr_bytes", (int64_t)exit->stderr_bytes);
}

void event_exec_ended(const struct exec_view *view, const struct err *err)
{
	const struct sandbox *sb = view->sandbox;
	json_t *data = json_object();

	json_put_str(data, "exec_id", view->exec_id);
	if (view->terminal)
		json_put(data, "terminal", json_true());
	if (err) {
		json_put_int(data, "duration_ms", exec_view_duration_ms(view));
		json_put_str(data, "error", err_code_of(err));
	} else {
		put_exit(data, &view->exit);
	}
	events_post(sb->core, sb->account_id, sb->id, EVENT_EXEC_ENDED, data);
}

/* ---- denials ---- */

static void post_denied(struct sandbox *sb, const struct denial *denial)
{
	struct denial_events *events = &sb->net.denial_events;
	json_t *data = denial ? denial_json(denial) : json_object();

	json_put_int(data, "unreported", (int64_t)events->unreported);
	events->unreported = 0;
	events_post(sb->core, sb->account_id, sb->id, EVENT_EGRESS_DENIED, data);
}

void event_denied(struct sandbox *sb, const struct denial *denial, uint64_t unreported)
{
	struct denial_events *events = &sb->net.denial_events;
	int64_t now = clock_boottime_ms();

	metrics_count(sb->core, METRICS_DENIALS, 1 + unreported);
	if (now - events->second_boottime_ms >= 1000) {
		events->second_boottime_ms = now;
		events->told = 0;
	}
	events->unreported += unreported;
	if (events->told == DENIAL_EVENTS_PER_S) {
		events->unreported++;
		return;
	}
	events->told++;
	post_denied(sb, denial);
}

void events_denied_look(struct core *core)
{
	size_t n;
	struct sandbox **all = table_all(core, &n);

	for (size_t i = 0; i < n; i++) {
		pthread_mutex_lock(&core->net_lock);
		if (all[i]->net.denial_events.unreported > 0)
			post_denied(all[i], NULL);
		pthread_mutex_unlock(&core->net_lock);
		sandbox_unref(all[i]);
	}
	free(all);
}
