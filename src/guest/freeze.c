/* Holding the commands still. See freeze.h. */
#include "guest/freeze.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "guest/cgroup.h"
#include "guest/guest.h"

/* cgroup.events tells of a change by poll(2) too, but not more often than every 10 ms (Linux 6.1).
 */
#define LOOK_EVERY_MS  1
#define TIMEOUT_MAX_MS 60000u

void freeze_answer(struct guest *guest, uint64_t token)
{
	struct buf *out = &guest->channel.out;
	size_t frame;

	if (!guest->session.greeted)
		return; /* whoever asked is gone */
	frame = frame_begin(out, PROTO_FREEZER, 0, 0);
	frame_put_u64(out, token);
	frame_put_u8(out, guest->freeze.phase == FREEZE_FROZEN);
	frame_put_u8(out, guest->freeze.synced);
	frame_end(out, frame);
}

/* In a child, as nothing bounds the time that a disk takes. One that hangs there from an earlier
 * time is waited for like a new one. */
static void begin_sync(struct guest *guest)
{
	struct freeze *f = &guest->freeze;
	pid_t pid;

	if (f->sync_pid > 0)
		return;
	pid = fork();
	if (pid == 0)
		_exit(syncfs(guest->exec_dir_fd) < 0 ? 1 : 0);
	f->sync_pid = pid > 0 ? pid : 0;
	if (pid < 0) {
		log_error("cannot write out the file system before a freeze", "errno=%d", errno);
		f->sync_until_ms = 0;
	}
}

void freeze_begin(struct guest *guest, uint64_t token, uint32_t timeout_ms)
{
	struct freeze *f = &guest->freeze;
	int64_t now_ms = clock_boottime_ms();

	if (timeout_ms > TIMEOUT_MAX_MS)
		timeout_ms = TIMEOUT_MAX_MS;
	if (f->phase == FREEZE_FROZEN) {
		freeze_answer(guest, token);
		return;
	}
	f->token = token; /* an earlier one has been given up by the host */
	f->deadline_ms = now_ms + timeout_ms;
	if (f->phase != FREEZE_NONE)
		return;
	f->sync_until_ms = now_ms + timeout_ms / 2;
	f->synced = false;
	f->phase = FREEZE_SYNCING;
	begin_sync(guest);
}

bool freeze_end(struct guest *guest)
{
	int r;

	/* Most HELLOs find nothing to thaw, and under emulation even a look costs a restore. */
	if (guest->freeze.phase == FREEZE_NONE)
		return true;
	r = cgroup_freeze(guest->cgroup_fd, false);
	if (r < 0) {
		log_error("cannot thaw the commands", "errno=%d", -r);
		return false;
	}
	guest->freeze.phase = FREEZE_NONE;
	return true;
}

static void give_up(struct guest *guest)
{
	freeze_end(guest);
	freeze_answer(guest, guest->freeze.token);
}

static void stop_commands(struct guest *guest)
{
	int r = cgroup_freeze(guest->cgroup_fd, true);

	guest->freeze.phase = FREEZE_STOPPING;
	if (r < 0) {
		log_error("cannot freeze the commands", "errno=%d", -r);
		give_up(guest);
	}
}

void freeze_check(struct guest *guest, int64_t now_ms)
{
	struct freeze *f = &guest->freeze;

	if (f->phase == FREEZE_SYNCING && (f->sync_pid == 0 || now_ms >= f->sync_until_ms))
		stop_commands(guest);
	if (f->phase != FREEZE_STOPPING)
		return;
	if (cgroup_is_frozen(guest->cgroup_fd)) {
		f->phase = FREEZE_FROZEN;
		freeze_answer(guest, f->token);
	} else if (now_ms >= f->deadline_ms) {
		log_warn("the commands could not be frozen in time", "synced=%d", f->synced);
		give_up(guest);
	}
}

int64_t freeze_next_ms(const struct guest *guest)
{
	const struct freeze *f = &guest->freeze;

	switch (f->phase) {
	case FREEZE_SYNCING:
		return f->sync_until_ms;
	case FREEZE_STOPPING:
		return clock_boottime_ms() + LOOK_EVERY_MS;
	default:
		return INT64_MAX;
	}
}

bool freeze_reap(struct guest *guest, pid_t pid, int wait_status)
{
	struct freeze *f = &guest->freeze;

	if (pid != f->sync_pid)
		return false;
	f->sync_pid = 0;
	f->synced = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
	return true;
}
