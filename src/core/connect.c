/*
 * The channel to a sandbox's agent, and the watch on its VM.
 *
 * A channel that breaks while the VM lives is made anew when somebody needs it: at once while there
 * are views, but at most once a second, because a hostile guest can break it as often as it likes;
 * else with the next command. Opening it is done in slices, so that a wish to end the sandbox, or
 * the VM's own end, is noticed between them.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/exec_view.h"
#include "core/internal.h"

#define SLICE_MS	       3000 /* above PROTO_FLUSH_AFTER_MS: a slice includes the second attempt */
#define RECONNECT_PAUSE_MS     500
#define RECONNECT_PAUSE_MAX_MS 30000
#define LASTING_MS	       10000
#define VM_END_SHOWS_MS                                                                            \
	100 /* a VM that ends breaks its channel a moment before its warden ends                   \
	     */

static void reconnect_job(void *arg);

/* ---- loop's thread ---- */

static void on_reconnect_timer(void *arg)
{
	struct sandbox *sb = arg;

	loop_timer_remove(STEAL(sb->reconnect_timer));
	core_job(sb->core, reconnect_job, sandbox_ref(sb), 0);
}

static void schedule_reconnect(struct sandbox *sb)
{
	int64_t now = clock_boottime_ms();
	int64_t due = now;

	if (sb->over || sb->reconnect_timer || !sb->views)
		return;
	if (now - sb->connected_boottime_ms < LASTING_MS) {
		due += sb->reconnect_pause_ms;
		sb->reconnect_pause_ms =
			sb->reconnect_pause_ms ? sb->reconnect_pause_ms * 2 : RECONNECT_PAUSE_MS;
		if (sb->reconnect_pause_ms > RECONNECT_PAUSE_MAX_MS)
			sb->reconnect_pause_ms = RECONNECT_PAUSE_MAX_MS;
	} else {
		sb->reconnect_pause_ms = 0;
	}
	sb->reconnect_timer = loop_timer_add(sb->core->loop, due, on_reconnect_timer, sb);
}

static void on_closed(void *arg, const struct err *why)
{
	struct sandbox *sb = arg;

	sb->channel_broken = true;
	/* Not published yet: connect_once sees the flag. Held: whoever lets it go does. */
	if (!sb->agent || sb->channel_held)
		return;
	agent_close(STEAL(sb->agent));
	/* Said at debug level, because a VM that ends breaks its channel first. */
	log_debug("the channel to a sandbox's agent broke", "sandbox=%s error=\"%s\"", sb->id,
		  why->message);
	schedule_reconnect(sb);
}

/* An errand to the loop's thread. */
struct errand {
	struct sandbox *sb;
	struct agent *agent;
	bool done;
};

static void publish_on_loop(void *arg)
{
	struct errand *publish = arg;
	struct sandbox *sb = publish->sb;

	if (sb->channel_broken || sb->over)
		return;
	sb->agent = publish->agent;
	sb->connected_boottime_ms = clock_boottime_ms();
	publish->done = true;
	exec_views_reattach(sb);
}

static void has_agent_on_loop(void *arg)
{
	struct errand *query = arg;

	query->done = query->sb->agent != NULL;
}

static bool has_agent(struct sandbox *sb)
{
	struct errand query = { .sb = sb };

	loop_call(sb->core->loop, has_agent_on_loop, &query);
	return query.done;
}

static void clear_broken_on_loop(void *arg)
{
	struct sandbox *sb = arg;

	sb->channel_broken = false;
}

/* ---- connecting ---- */

bool sandbox_vm_has_ended(const struct sandbox *sb, int wait_ms)
{
	struct pollfd p = { .fd = sb->vm.warden_pidfd, .events = POLLIN };

	return !sb->has_vm || poll(&p, 1, wait_ms) > 0;
}

static int connect_once(struct sandbox *sb, const struct agent_identity *identity,
			int64_t deadline_boottime_ms, struct err *err)
{
	static const struct agent_identity none = { .apply = false };
	struct errand publish = { .sb = sb };
	struct agent_info info;
	int r;

	loop_call(sb->core->loop, clear_broken_on_loop, sb);
	r = agent_open(sb->core->loop, sb->agent_path, identity ? identity : &none,
		       deadline_boottime_ms, on_closed, sb, &publish.agent, &info, err);
	if (r < 0)
		return r;
	loop_call(sb->core->loop, publish_on_loop, &publish);
	if (publish.done)
		return 0;
	agent_close(publish.agent);
	return err_code(err, -EPIPE, "agent_gone", "the agent broke the channel at once");
}

int sandbox_connect(struct sandbox *sb, const struct agent_identity *identity,
		    int64_t deadline_boottime_ms, struct err *err)
{
	for (;;) {
		struct err reason = ERR_INIT;
		int64_t slice = clock_boottime_ms() + SLICE_MS;
		int r;

		if (sandbox_end_wanted(sb))
			return err_code(err, -ECANCELED, "sandbox_ended",
					"sandbox '%s' is being destroyed", sb->id);
		if (sandbox_vm_has_ended(sb, 0))
			return err_code(err, -ESRCH, "sandbox_ended",
					"the VM of sandbox '%s' has ended", sb->id);
		r = connect_once(sb, identity,
				 slice < deadline_boottime_ms ? slice : deadline_boottime_ms,
				 &reason);
		if (r == 0) {
			unlink(sb->held_path); /* opening has let its commands go on */
			sb->held = false;
			return 0;
		}
		/* -EPROTO: the guest answered, and refused what it must take over. */
		if (r == -EPROTO || clock_remaining_ms(deadline_boottime_ms) == 0) {
			if (err)
				*err = reason;
			return err_wrap(err, r, "connect to the agent of sandbox '%s'", sb->id);
		}
		poll(NULL, 0, 20);
	}
}

int sandbox_ensure_connected(struct sandbox *sb, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_status(sb) == SANDBOX_PAUSED && !sandbox_end_wanted(sb))
		r = sandbox_resume(sb, err);
	if (r < 0)
		;
	else if (sandbox_status(sb) != SANDBOX_RUNNING)
		r = err_code(err, -ESHUTDOWN, "sandbox_ended", "sandbox '%s' has ended", sb->id);
	else if (!has_agent(sb))
		r = sandbox_connect(sb, NULL, clock_boottime_ms() + CONNECT_DEADLINE_MS, err);
	pthread_mutex_unlock(&sb->op_lock);
	return r;
}

struct views_end {
	struct sandbox *sb;
	const struct err *err;
};

static void end_views_on_loop(void *arg)
{
	struct views_end *end = arg;

	exec_views_end(end->sb, end->err);
}

static void reconnect_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;
	struct err err = ERR_INIT;
	struct views_end end = { .sb = sb, .err = &err };
	int r = 0;

	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_status(sb) == SANDBOX_RUNNING && !has_agent(sb) &&
	    !sandbox_vm_has_ended(sb, VM_END_SHOWS_MS)) {
		log_warn("the channel to a sandbox's agent is made anew", "sandbox=%s", sb->id);
		r = sandbox_connect(sb, NULL, clock_boottime_ms() + CONNECT_DEADLINE_MS, &err);
	}
	/* Where the sandbox is about to end, its end tells its views a better reason. */
	if (r < 0 && r != -ECANCELED && r != -ESRCH) {
		log_warn("no channel to a sandbox's agent", "sandbox=%s error=\"%s\"", sb->id,
			 err.message);
		err.code = "agent_gone";
		loop_call(sb->core->loop, end_views_on_loop, &end);
	}
	pthread_mutex_unlock(&sb->op_lock);
}

void sandbox_connect_later(struct sandbox *sb)
{
	core_job(sb->core, reconnect_job, sandbox_ref(sb), 0);
}

/* ---- workers that use the agent ---- */

static void hold_on_loop(void *arg)
{
	struct errand *hold = arg;

	hold->agent = hold->sb->agent;
	hold->sb->channel_held = hold->agent != NULL;
}

struct agent *sandbox_hold_agent(struct sandbox *sb)
{
	struct errand hold = { .sb = sb };

	loop_call(sb->core->loop, hold_on_loop, &hold);
	return hold.agent;
}

static void release_on_loop(void *arg)
{
	struct errand *release = arg;
	struct sandbox *sb = release->sb;

	sb->channel_held = false;
	sb->channel_broken |= release->done;
	if (!sb->channel_broken || !sb->agent)
		return;
	agent_close(STEAL(sb->agent));
	schedule_reconnect(sb);
}

void sandbox_release_agent(struct sandbox *sb, bool broken)
{
	struct errand release = { .sb = sb, .done = broken };

	loop_call(sb->core->loop, release_on_loop, &release);
}

/* ---- watching, and the end of it ---- */

static void on_vm_end(void *arg, uint32_t events)
{
	struct sandbox *sb = arg;

	loop_io_remove(STEAL(sb->exit_watch));
	sandbox_finish_later(sb, 0);
}

static void watch_on_loop(void *arg)
{
	struct sandbox *sb = arg;

	sb->exit_watch = loop_io_add(sb->core->loop, sb->vm.warden_pidfd, EPOLLIN, on_vm_end, sb);
}

void sandbox_watch(struct sandbox *sb)
{
	loop_call(sb->core->loop, watch_on_loop, sb);
}

static void detach_on_loop(void *arg)
{
	struct errand *detach = arg;
	struct sandbox *sb = detach->sb;

	detach->agent = STEAL(sb->agent);
	sb->channel_held = false;
	loop_io_remove(STEAL(sb->exit_watch));
	loop_timer_remove(STEAL(sb->reconnect_timer));
	exec_views_suspend(sb);
	previews_pause(sb);
	transfers_pause(sb);
}

void sandbox_detach(struct sandbox *sb)
{
	struct errand detach = { .sb = sb };

	loop_call(sb->core->loop, detach_on_loop, &detach);
	agent_close(detach.agent);
}

struct cut_off {
	struct sandbox *sb;
	const struct err *err;
	struct agent *agent;
};

static void cut_off_on_loop(void *arg)
{
	struct cut_off *cut = arg;
	struct sandbox *sb = cut->sb;

	sb->over = true;
	sb->over_err = *cut->err;
	cut->agent = STEAL(sb->agent);
	sb->channel_held = false;
	loop_io_remove(STEAL(sb->exit_watch));
	loop_timer_remove(STEAL(sb->reconnect_timer));
	exec_views_end(sb, cut->err);
	previews_end(sb, cut->err);
	transfers_end(sb, cut->err);
}

void sandbox_cut_off(struct sandbox *sb, const struct err *err)
{
	struct cut_off cut = { .sb = sb, .err = err };

	loop_call(sb->core->loop, cut_off_on_loop, &cut);
	agent_close(cut.agent);
}
