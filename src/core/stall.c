/*
 * Sandboxes that stand still because the host's disk is full.
 *
 * Their disks are sparse files, so together they can ask for more than the host has. A guest whose
 * write finds no room is stopped by its VMM in the middle of it, and nothing of it is lost; but
 * nobody else lets it go on. So while the disk is nearly full, and once more when it is not any
 * more, every running sandbox is asked whether it stands still, and told to try again. The first
 * look of a daemon counts as a disk that was full: what stands still may have been stopped before
 * it started.
 */
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/internal.h"

#define LOOK_MS 5000
#define LOW_BYTES                                                                                  \
	(512ull << 20) /* a disk does not fill up and empty by that much between two looks */
#define ROOM_BYTES  (16ull << 20) /* less is no room to try again in */
#define DEADLINE_MS 3000

static void let_go_on(struct sandbox *sb)
{
	struct err err = ERR_INIT;
	int r = 0;

	/* What holds the lock knows more about whether it is to run. The next look comes. */
	if (pthread_mutex_trylock(&sb->op_lock) != 0)
		return;
	if (sandbox_status(sb) == SANDBOX_RUNNING && sb->has_vm && !sandbox_end_wanted(sb))
		r = vmm_unstall(sb->core->driver, &sb->vm, clock_boottime_ms() + DEADLINE_MS, &err);
	pthread_mutex_unlock(&sb->op_lock);
	if (r == 1)
		log_info("a sandbox that stood still for want of disk goes on", "sandbox=%s",
			 sb->id);
	else if (r < 0)
		log_debug("a sandbox cannot be asked whether it stands still",
			  "sandbox=%s error=\"%s\"", sb->id, err.message);
}

static void let_all_go_on(struct core *core)
{
	size_t n;
	struct sandbox **all = table_all(core, &n);

	for (size_t i = 0; i < n; i++) {
		let_go_on(all[i]);
		sandbox_unref(all[i]);
	}
	free(all);
}

static void look_job(void *arg)
{
	struct core *core = arg;
	struct statvfs fs;
	uint64_t free_bytes;
	bool low;

	if (statvfs(core->state_dir, &fs) == 0) {
		free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
		low = free_bytes < LOW_BYTES;
		if ((low || core->disk_was_low) && free_bytes >= ROOM_BYTES)
			let_all_go_on(core);
		core->disk_was_low = low || free_bytes < ROOM_BYTES;
	}
	atomic_store(&core->stall_looking, false);
}

static void on_look(void *arg)
{
	struct core *core = arg;

	loop_timer_set(core->stall_watch, clock_boottime_ms() + LOOK_MS);
	if (!atomic_exchange(&core->stall_looking, true))
		core_job(core, look_job, core, 0);
}

void stall_watch_start(struct core *core)
{
	core->disk_was_low = true;
	core->stall_watch =
		loop_timer_add(core->loop, clock_boottime_ms() + LOOK_MS, on_look, core);
}

void stall_watch_stop(struct core *core)
{
	loop_timer_remove(STEAL(core->stall_watch));
}
