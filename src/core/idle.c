/*
 * Who is paused without being asked: sandboxes that nobody uses, and those whose deadline comes and
 * which are to be paused then instead of destroyed.
 *
 * Idle is one in which no command runs, to which no call, stream, terminal or preview is connected,
 * of which no file is read or written, and for which no call came for its idle_pause_minutes. A
 * shell that was left alone at its prompt is no command that runs. What runs is known by its views,
 * and, because an earlier daemon may have started commands too, by asking its agent once more
 * before it is paused.
 *
 * A deadline is met early, because saving takes time; what is left of the lifetime is kept. Where
 * it fails it is tried again; should the deadline come before, the warden freezes the VM, and it is
 * tried further: until PAUSE_GRACE_MS after the deadline while its commands could not be held still
 * (pause.c has the rest).
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/exec_view.h"
#include "core/internal.h"
#include "core/stats.h"

#define LOOK_MS		1000
#define EARLY_MS	5000
#define EARLY_MS_PER_GB 2000
#define RETRY_MS	5000
#define ASK_MS		5000
#define DAY_MS		(24 * 60 * 60 * 1000LL)

static bool deadline_comes(const struct sandbox *sb, int64_t now)
{
	int64_t early = EARLY_MS + sb->memory_mb * (int64_t)EARLY_MS_PER_GB / 1024;

	return sb->pause_on_timeout && sb->expires_boottime_ms - now <= early;
}

static bool unused_for_long(const struct sandbox *sb, int64_t now)
{
	return sb->idle_pause_ms && now >= sb->idle_not_before_ms &&
	       now - sb->used_boottime_ms >= sb->idle_pause_ms;
}

/* Loop's thread: a command runs, somebody looks at one, or at what it serves. Of a terminal that
 * nobody looks at, the guest knows whether it is busy. */
static bool is_busy(const struct sandbox *sb)
{
	for (const struct exec_view *view = sb->views; view; view = view->next) {
		if (view->events || (!view->exited && !view->terminal))
			return true;
	}
	return sb->n_previews > 0 || sb->n_transfers > 0;
}

struct busy {
	const struct sandbox *sb;
	bool busy;
};

static void ask_busy(void *arg)
{
	struct busy *busy = arg;

	busy->busy = is_busy(busy->sb);
}

static int ask_guest(struct sandbox *sb, struct agent_activity *ret, struct err *err)
{
	struct agent *agent = sandbox_hold_agent(sb);
	int r;

	if (!agent) {
		r = sandbox_connect(sb, NULL, clock_boottime_ms() + ASK_MS, err);
		agent = r == 0 ? sandbox_hold_agent(sb) : NULL;
		if (!agent)
			return r < 0 ? r : -EPIPE;
	}
	r = agent_ask_activity(agent, clock_boottime_ms() + ASK_MS, ret, err);
	sandbox_release_agent(sb, r < 0);
	return r;
}

/* False: it is looked at again when it could be. */
static bool is_idle(struct sandbox *sb, int64_t now)
{
	struct busy busy = { .sb = sb };
	struct agent_activity activity;
	struct err err = ERR_INIT;
	int64_t wait_ms;

	loop_call(sb->core->loop, ask_busy, &busy);
	if (busy.busy || !unused_for_long(sb, now))
		return false;
	if (ask_guest(sb, &activity, &err) < 0) {
		log_warn("it is not known whether a sandbox is idle", "sandbox=%s error=\"%s\"",
			 sb->id, err.message);
		wait_ms = RETRY_MS;
	} else if (activity.running > 0) {
		wait_ms = RETRY_MS;
	} else {
		wait_ms = sb->idle_pause_ms - activity.quiet_ms;
	}
	sb->idle_not_before_ms = now + wait_ms;
	return unused_for_long(sb, now);
}

static void pause_due(struct sandbox *sb)
{
	int64_t now = clock_boottime_ms();
	struct err err = ERR_INIT;

	if (sandbox_status(sb) != SANDBOX_RUNNING || sandbox_end_wanted(sb))
		return;
	if (!deadline_comes(sb, now) && !is_idle(sb, now))
		return;
	if (sandbox_pause(sb, &err) == 0)
		return;
	if (sb->pause_on_timeout && sandbox_status(sb) == SANDBOX_RUNNING &&
	    clock_boottime_ms() - sb->expires_boottime_ms > PAUSE_GRACE_MS)
		sandbox_pause_give_up(sb, err.message);
	sb->pause_not_before_ms = clock_boottime_ms() + RETRY_MS;
}

static void pause_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;

	pthread_mutex_lock(&sb->op_lock);
	pause_due(sb);
	pthread_mutex_unlock(&sb->op_lock);
	sb->pause_asked = false;
}

static void look_at(struct sandbox *sb, int64_t now)
{
	if (sandbox_status(sb) != SANDBOX_RUNNING || sb->pause_asked ||
	    now < sb->pause_not_before_ms)
		return;
	if (!deadline_comes(sb, now) && (!unused_for_long(sb, now) || is_busy(sb)))
		return;
	sb->pause_asked = true;
	core_job(sb->core, pause_job, sandbox_ref(sb), 0);
}

static void on_look(void *arg)
{
	struct core *core = arg;
	int64_t now = clock_boottime_ms();
	size_t n;
	struct sandbox **all = table_all(core, &n);

	for (size_t i = 0; i < n; i++) {
		look_at(all[i], now);
		sandbox_unref(all[i]);
	}
	free(all);
	events_denied_look(core);
	standby_look(core);
	shrink_look(core);
	meters_look(core);
	credit_look(core);
	stats_look(core);
	loop_timer_set(core->idle_watch, now + LOOK_MS);
}

void idle_watch_start(struct core *core)
{
	core->idle_watch = loop_timer_add(core->loop, clock_boottime_ms() + LOOK_MS, on_look, core);
}

void idle_watch_stop(struct core *core)
{
	loop_timer_remove(STEAL(core->idle_watch));
}

/* ---- paused for too long ---- */

static void expire_one(struct core *core, const char *id)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, id, NULL);
	_cleanup_free_ char *text = xasprintf("it was paused for more than %lld days",
					      (long long)core->limits.paused_days);
	struct err err = ERR_INIT;
	int r = 0;

	if (!sb)
		return;
	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_status(sb) == SANDBOX_PAUSED) {
		sandbox_set_status(sb, SANDBOX_DESTROYING);
		r = sandbox_finish(sb, SANDBOX_DESTROYED, "expired", text, &err);
	}
	pthread_mutex_unlock(&sb->op_lock);
	if (r < 0)
		sandbox_finish_later(sb, END_RETRY_MS);
}

void paused_expire(struct core *core)
{
	int64_t before = clock_unix_ms() - core->limits.paused_days * DAY_MS;
	struct sandbox_row *rows = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;
	int r;

	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		r = db_begin_read(core->db, &txn, &err);
		if (r == 0)
			r = sandboxes_paused_before(&txn, core->node_id, before, &rows, &n, &err);
	}
	if (r < 0)
		log_warn("sandboxes paused for long cannot be looked up", "error=\"%s\"",
			 err.message);
	for (size_t i = 0; i < n; i++)
		expire_one(core, rows[i].id);
	sandbox_rows_free(rows, n);
}
