/*
 * Holding a sandbox still to save it: its commands are frozen and its file system written out by
 * its agent, then its CPUs stop. While it is held the file DIR/held says so; it is no intent that
 * has to be durable, because a VM that is held does not outlive its host.
 *
 * One that is to be paused at its deadline has a warden that stops its VMM then, in which nothing
 * could be saved any more. So the warden is asked for patience (sb->patient): before the guest is
 * held for PAUSE_GRACE_MS after the deadline at most, because the guest runs; once it is held for
 * as long as saving takes, because it does not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/abort_point.h"
#include "core/internal.h"

#define FREEZE_DEADLINE_MS 20000
#define THAW_DEADLINE_MS   10000
#define VM_DEADLINE_MS	   60000
#define NEAR_DEADLINE_MS   60000
#define HELD_PERHAPS	   0600 /* mode of DIR/held */
#define HELD_WHOLLY	   0400

/* ---- near its deadline ---- */

static bool is_near_deadline(const struct sandbox *sb)
{
	return sb->expires_boottime_ms - clock_boottime_ms() < NEAR_DEADLINE_MS;
}

bool sandbox_is_overdue(const struct sandbox *sb)
{
	return sb->pause_on_timeout && clock_boottime_ms() >= sb->expires_boottime_ms;
}

/* Before it is held the guest runs, for which there is the grace and no more. Where its warden has
 * frozen it meanwhile it goes on. */
static int ask_patience(struct sandbox *sb, struct err *err)
{
	int64_t now = clock_boottime_ms(), until = sb->expires_boottime_ms + PAUSE_GRACE_MS;

	if (!sb->pause_on_timeout || !is_near_deadline(sb))
		return 0;
	if (now >= until)
		return err_set(err, -ETIME,
			       "its commands could not be held still within %d s after the end of "
			       "its lifetime",
			       PAUSE_GRACE_MS / 1000);
	sb->patient = true;
	return vmm_extend(sb->core->driver, &sb->vm, until, now + VM_EXTEND_DEADLINE_MS, err);
}

void sandbox_end_patience(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	if (!sb->patient || !sb->has_vm)
		return;
	sb->patient = false;
	/* Its warden has frozen it by now; another deadline would let it go on first. */
	if (clock_boottime_ms() >= sb->expires_boottime_ms + PAUSE_GRACE_MS)
		return;
	if (vmm_extend(sb->core->driver, &sb->vm, sb->expires_boottime_ms,
		       clock_boottime_ms() + VM_EXTEND_DEADLINE_MS, &err) < 0)
		log_warn("a deadline cannot be given back to its warden", "sandbox=%s error=\"%s\"",
			 sb->id, err.message);
}

/* ---- holding ---- */

/* Its mode says how, because a full disk has no room for content. */
static int mark_held(struct sandbox *sb, mode_t how, struct err *err)
{
	_cleanup_close_ int fd = open(sb->held_path, O_RDONLY | O_CREAT | O_CLOEXEC, how);

	if (fd < 0 || fchmod(fd, how) < 0)
		return err_set(err, -errno, "make '%s': %s", sb->held_path, strerror(errno));
	return 0;
}

/* What is flushed when its file system is written out, and when QEMU stops, is little after this,
 * so that the guest stands still for less. */
static void sync_disk(struct sandbox *sb)
{
	_cleanup_close_ int fd = open(sb->disk_path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fdatasync(fd) < 0)
		log_warn("a disk cannot be synced ahead of a pause", "sandbox=%s error=\"%s\"",
			 sb->id, strerror(errno));
}

static struct agent *agent_of(struct sandbox *sb, struct err *err)
{
	struct agent *agent = sandbox_hold_agent(sb);

	if (agent || sandbox_connect(sb, NULL, clock_boottime_ms() + CONNECT_DEADLINE_MS, err) < 0)
		return agent;
	agent = sandbox_hold_agent(sb);
	if (!agent)
		err_code(err, -EPIPE, "agent_gone", "the agent broke the channel at once");
	return agent;
}

/* Frozen, written out, stopped; in this order, because each needs the guest to run. */
static int freeze_and_stop(struct sandbox *sb, struct err *err)
{
	struct agent *agent = agent_of(sb, err);
	int r;

	if (!agent)
		return err && err->num < 0 ? err->num : -EPIPE;
	sync_disk(sb);
	r = mark_held(sb, HELD_PERHAPS, err);
	if (r == 0)
		r = agent_freeze(agent, clock_boottime_ms() + FREEZE_DEADLINE_MS, err);
	/* Until here they have run: they are frozen once all is written out. */
	sb->held_boottime_us = clock_boottime_us();
	if (r == 0)
		r = vmm_pause(sb->core->driver, &sb->vm, clock_boottime_ms() + VM_DEADLINE_MS, err);
	return r;
}

int sandbox_hold(struct sandbox *sb, struct err *err)
{
	int r = sb->held ? 0 : ask_patience(sb, err);

	if (r == 0 && !sb->held)
		r = freeze_and_stop(sb, err);
	if (r == 0)
		r = mark_held(sb, HELD_WHOLLY, err);
	sb->held |= r == 0;
	if (r == 0 && sb->pause_on_timeout && is_near_deadline(sb)) {
		sb->patient = true;
		r = vmm_hold(sb->core->driver, &sb->vm, clock_boottime_ms() + VM_DEADLINE_MS, err);
	}
	if (r < 0)
		sandbox_let_go(sb);
	abort_point("saved.held");
	return r;
}

static int let_go_on(struct sandbox *sb, struct err *err)
{
	struct agent *agent;
	int r;

	sandbox_end_patience(sb);
	r = vmm_continue(sb->core->driver, &sb->vm, clock_boottime_ms() + VM_DEADLINE_MS, err);
	if (r < 0)
		log_error("a VM cannot be continued", "sandbox=%s error=\"%s\"", sb->id,
			  err->message);
	agent = sandbox_hold_agent(sb);
	if (r == 0)
		r = agent ? agent_thaw(agent, clock_boottime_ms() + THAW_DEADLINE_MS, err)
			  : err_code(err, -EPIPE, "agent_gone", "there is no channel to its agent");
	sandbox_release_agent(sb, agent && r < 0);
	return r;
}

void sandbox_let_go(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	if (!sb->has_vm || sandbox_vm_has_ended(sb, 0) || access(sb->held_path, F_OK) < 0 ||
	    sandbox_is_overdue(sb)) {
		sandbox_release_agent(sb, false);
		return;
	}
	sb->held = false;
	if (let_go_on(sb, &err) == 0) {
		unlink(sb->held_path);
		return;
	}
	log_warn("commands are let go on by a new connection", "sandbox=%s error=\"%s\"", sb->id,
		 err.message);
	sandbox_connect_later(sb);
}

void sandbox_recover_hold(struct sandbox *sb)
{
	struct stat st;

	if (!sb->has_vm || stat(sb->held_path, &st) < 0)
		return;
	sb->held = (st.st_mode & 07777) == HELD_WHOLLY;
	sb->patient = sb->pause_on_timeout;
}
