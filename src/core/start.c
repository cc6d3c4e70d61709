/*
 * From saved state to a running sandbox: the VM over the sandbox's disk, its memory filled with
 * what differs from the template's, and the identity handed over to its agent before any command
 * that the state holds goes on. A creation, a resume and a child of a fork all start this way.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "snapshot/delta.h"

int start_copy_disk(const char *from, const char *to, struct err *err)
{
	int r = file_copy_sparse(from, to, 0600);

	if (r == -ENOSPC) {
		unlink(to);
		err_code(err, r, "disk_full",
			 "the disk cannot be copied: no space is left on the host");
		err_hint(err, "destroy sandboxes or snapshots that are not needed, or make room on "
			      "the host");
		return r;
	}
	return r < 0 ? err_set(err, r, "copy the disk to '%s': %s", to, strerror(-r)) : 0;
}

static int fill_memory(void *arg, pid_t vmm_pid, struct err *err)
{
	const struct start_from *from = arg;
	struct delta_stats stats;
	int r;

	if (from->capture)
		r = delta_capture_load(from->capture, vmm_pid, &stats, err);
	else
		r = delta_load(vmm_pid, from->memory_path, from->delta_path, NULL, &stats, err);
	if (r == 0)
		log_debug("memory filled", "sandbox=%s pages=%llu duration_us=%lld", from->row->id,
			  (unsigned long long)stats.data_pages, (long long)stats.total_us);
	return r;
}

int start_vm(struct sandbox *sb, const struct start_from *from, struct err *err)
{
	const struct sandbox_row *row = from->row;
	struct shape shape = { .milli_vcpus = row->milli_vcpus };
	struct net_device device;
	const struct vmm_spec spec = {
		.name = sb->id,
		.run_dir = sb->run_dir,
		.vcpus = shape_vcpus(&shape),
		.memory_mb = row->memory_mb,
		.root_image_path = from->root_path,
		.disk_path = sb->disk_path,
		.memory_path = from->memory_path,
		.device_state_path = from->devices_path,
		.cpu_quota_percent = row->milli_vcpus / 10,
		.uid = (uid_t)row->uid,
		.expires_boottime_ms = sb->expires_boottime_ms,
		.freeze_at_deadline = row->pause_on_timeout,
		.network = net_device_of(sb->core, sb->net.slot, &device),
		.fill_memory = from->delta_path || from->capture ? fill_memory : NULL,
		.fill_memory_arg = (void *)from,
	};
	int r = dir_make(sb->run_dir, 0700);

	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", sb->run_dir, strerror(-r));
	r = sandbox_net_apply(sb, row, err); /* in force before anything of the guest runs */
	if (r < 0)
		return r;
	r = vmm_start(sb->core->driver, &spec,
		      clock_boottime_ms() + sb->core->limits.create_deadline_ms, &sb->vm, err);
	sb->has_vm = r == 0;
	return r;
}

/* The guest's hostname: the sandbox's name, or its id in the letters that hostnames have. */
int start_hand_over(struct sandbox *sb, const struct start_from *from, struct err *err)
{
	const struct sandbox_row *row = from->row;
	char hostname[SANDBOX_NAME_MAX + 1];
	const struct agent_identity identity = {
		.apply = true,
		.epoch = from->generation,
		.hostname = hostname,
		.machine_id = row->machine_id,
	};

	str_copy(hostname, sizeof(hostname), row->name[0] ? row->name : row->id);
	for (char *p = hostname; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return sandbox_connect(sb, &identity,
			       clock_boottime_ms() + sb->core->limits.create_deadline_ms, err);
}

int start_sandbox(struct sandbox *sb, const struct start_from *from, struct err *err)
{
	int r = start_vm(sb, from, err);

	return r < 0 ? r : start_hand_over(sb, from, err);
}

static int write_running(struct sandbox *sb, struct db_txn *txn, uint64_t generation,
			 struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", sb->run_dir, VMM_RECORD_NAME);
	bool resumed = sandbox_status(sb) == SANDBOX_RESUMING;
	struct record record;
	int r = record_read(path, &record, err);

	if (r == 0 && resumed)
		r = sandboxes_set_resumed(txn, sb->id, generation, sb->expires_unix_ms, err);
	else if (r == 0)
		r = sandboxes_move(txn, sb->id, "creating", "running", err);
	if (r == -ESTALE)
		return err_code(err, -ECANCELED, "sandbox_ended",
				"sandbox '%s' was destroyed while it was being started", sb->id);
	if (r == 0 && !resumed)
		r = sandboxes_set_started(txn, sb->id, record.start_unix_ms, err);
	if (r == 0)
		r = event_running(txn, sb, generation, resumed, err);
	return r < 0 ? r : meter_begin(txn, sb, generation, err);
}

static int write_all_running(struct sandbox *const *all, size_t n, uint64_t generation,
			     struct sandbox *source, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(all[0]->core->db, &txn, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = write_running(all[i], &txn, generation, err);
	if (r == 0 && source)
		r = event_forked(&txn, source, all, n, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* A wish to end that comes now finds it running, and ends it as such. */
int start_publish(struct sandbox *const *all, size_t n, uint64_t generation, struct sandbox *source,
		  struct err *err)
{
	int r = write_all_running(all, n, generation, source, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		sandbox_touch(all[i]);
		sandbox_set_status(all[i], SANDBOX_RUNNING);
		sandbox_watch(all[i]);
	}
	if (r == 0)
		credit_changed(all[0]->core);
	return r;
}
