/*
 * Recovery at start: what the rows say, what the wardens' records say and what runs are made to
 * agree.
 *
 *   row          what there is              becomes
 *   creating     anything                   undone: failed
 *   destroying   anything                   ended
 *   paused       its saved state            paused
 *                no saved state             ended
 *   pausing      a sealed state             paused
 *                its warden lives           running, let go on
 *                neither                    as for running
 *   resuming     its saved state            paused
 *                spent, its warden lives    running, once its agent has the identity
 *                spent, nobody alive        as for running
 *   running      another boot of the host   ended: host_restarted
 *                its warden lives           adopted, with the deadline of the record
 *                an exit in the record      ended, with its times and its reason (a deadline that
 *                                           passed meanwhile: expired)
 *                no exit, nobody alive      ended: vmm_crashed
 *   ended, none  a directory of ours        swept and removed
 *
 *   1 rows       each as above
 *   2 orphans    directories of sandboxes that no living row owns
 *   3 forks      what they took
 *   4 snapshots  half-made ones: rows, then directories
 *   5 templates  half-made ones, and those that cannot be used any more
 *
 * Each step can be repeated: a daemon that is killed during recovery does the rest at its next
 * start. Processes are only ended by the driver, which knows them by pid and start time from the
 * record.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "snapshot/seal.h"

#define CLOCK_TOLERANCE_MS 2000

DEFINE_CLEANUP(DIR *, closedirp, closedir);

struct tally {
	size_t adopted, ended, undone, removed, left;
};

static struct sandbox *object_from_row(struct core *core, const struct sandbox_row *row)
{
	struct sandbox *sb = sandbox_new(core, row->id, row->account_id);

	enum sandbox_status status;

	sb->created_unix_ms = row->created_unix_ms;
	sb->expires_unix_ms = row->expires_unix_ms;
	sb->pause_on_timeout = row->pause_on_timeout;
	sb->idle_pause_ms = row->idle_pause_minutes * 60000LL;
	sb->memory_mb = row->memory_mb;
	exec_defaults_init(&sb->defaults, row->image_config);
	if (sandbox_status_parse(row->status, &status) == 0 &&
	    (status == SANDBOX_PAUSING || status == SANDBOX_PAUSED || status == SANDBOX_RESUMING))
		sb->status = status;
	snapshot_sweep(sb->dir, NULL, NULL); /* what a pause did not seal */
	table_add(sb);
	return sb;
}

static void finish(struct sandbox *sb, enum sandbox_status status, const char *reason,
		   const char *text)
{
	struct err err = ERR_INIT;
	int r;

	pthread_mutex_lock(&sb->op_lock);
	r = sandbox_finish(sb, status, reason, text, &err);
	pthread_mutex_unlock(&sb->op_lock);
	if (r == 0)
		return;
	log_error("a sandbox cannot be ended yet", "sandbox=%s error=\"%s\"", sb->id, err.message);
	sandbox_finish_later(sb, END_RETRY_MS);
}

/* A host that went down took the VMs along. When exactly is not known; it was before this boot
 * began, and at the latest at the deadline. Charged is what is known to have run. */
static void end_of_other_boot(struct sandbox *sb, const struct record *record)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t boot_unix_ms = clock_unix_ms() - clock_boottime_ms();
	struct sandbox_end end = {
		.status = sandbox_status_name(SANDBOX_DESTROYED),
		.started_unix_ms = record->started ? record->start_unix_ms : 0,
		.ended_unix_ms =
			boot_unix_ms < sb->expires_unix_ms ? boot_unix_ms : sb->expires_unix_ms,
		.reason = "host_restarted",
		.reason_text = "the host was restarted while it was running",
	};
	struct err err = ERR_INIT;
	int r;

	if (end.ended_unix_ms < end.started_unix_ms)
		end.ended_unix_ms = end.started_unix_ms;
	r = db_begin_write(sb->core->db, &txn, &err);
	if (r == 0)
		r = sandboxes_end(&txn, sb->id, &end, &err);
	if (r == 0)
		r = event_ended(&txn, sb, &end, &err);
	if (r == 0)
		r = meter_end(&txn, sb, &(struct run_end){ .unix_ms = end.ended_unix_ms }, &err);
	if (r == 0)
		r = network_members_delete_all(&txn, sb->id, &err);
	if (r == 0)
		r = db_commit(&txn, &err);
	if (r < 0) {
		log_error("a tombstone cannot be written", "sandbox=%s error=\"%s\"", sb->id,
			  err.message);
		sandbox_finish_later(sb, END_RETRY_MS);
		return;
	}
	/* Its row has ended: what is left is as for any other directory without a sandbox. */
	sandbox_set_status(sb, SANDBOX_DESTROYED);
	table_remove(sb);
}

static bool is_about(int64_t value, int64_t wanted)
{
	return value > wanted - CLOCK_TOLERANCE_MS && value < wanted + CLOCK_TOLERANCE_MS;
}

static void take_deadline(struct sandbox *sb, const struct record *record)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t expires = clock_unix_ms() + record->expires_boottime_ms - clock_boottime_ms();
	int64_t difference = expires - sb->expires_unix_ms;
	struct err err = ERR_INIT;
	int r;

	sb->expires_boottime_ms = record->expires_boottime_ms;
	/* It was being saved near its deadline. Lifetimes are extended by whole minutes. */
	if (sb->pause_on_timeout && is_about(difference, PAUSE_GRACE_MS)) {
		sb->expires_boottime_ms -= PAUSE_GRACE_MS;
		sb->patient = true;
		difference = 0;
	}
	if (is_about(difference, 0))
		return;
	sb->expires_unix_ms = expires;
	r = db_begin_write(sb->core->db, &txn, &err);
	if (r == 0)
		r = sandboxes_set_expires(&txn, sb->id, expires, &err);
	if (r == 0) /* the earlier daemon died before it could say so */
		r = event_extended(&txn, sb, expires, &err);
	if (r == 0)
		r = db_commit(&txn, &err);
	if (r < 0)
		log_warn("a deadline cannot be written", "sandbox=%s error=\"%s\"", sb->id,
			 err.message);
}

/* The channel is made by the first command: adopting does not wait for guests. */
static void adopt(struct sandbox *sb, const struct sandbox_row *row, const struct record *record)
{
	pthread_mutex_lock(&sb->op_lock);
	sb->has_vm = true;
	sandbox_net_adopt(sb, row);
	take_deadline(sb, record);
	sandbox_set_status(sb, SANDBOX_RUNNING);
	sandbox_watch(sb);
	tree_remove(sb->pause_dir); /* what it started from, and was not removed any more */
	tree_remove(sb->spent_dir);
	sandbox_recover_hold(sb);
	sandbox_let_go(sb); /* where a fork or a snapshot was being made */
	if (!sb->held)
		sandbox_end_patience(sb);
	pthread_mutex_unlock(&sb->op_lock);
	log_info("sandbox adopted", "sandbox=%s account=%s", sb->id, sb->account_id);
}

static void recover_running(struct sandbox *sb, const struct sandbox_row *row, const char *boot_id,
			    struct tally *tally)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", sb->run_dir, VMM_RECORD_NAME);
	struct record record = { 0 };
	struct err err = ERR_INIT;
	bool known = record_read(path, &record, &err) == 0 && record.started;

	tally->ended++;
	if (!known) {
		finish(sb, SANDBOX_DESTROYED, "vmm_crashed",
		       "the record of its VM is missing or damaged");
		return;
	}
	if (!str_eq(record.boot_id, boot_id)) {
		/* An exit that was recorded before the host went down is the truth. */
		if (record.cause == RECORD_RUNNING)
			end_of_other_boot(sb, &record);
		else
			finish(sb, SANDBOX_DESTROYED, "host_restarted", "the host was restarted");
		return;
	}
	if (vmm_attach(sb->core->driver, sb->run_dir, &sb->vm, &err) == 0) {
		tally->ended--;
		tally->adopted++;
		adopt(sb, row, &record);
		return;
	}
	finish(sb, SANDBOX_DESTROYED, "vmm_crashed",
	       "the VM and its warden ended without a record of the exit");
}

/* ---- paused, and on the way there or back ---- */

static bool is_sealed(const struct sandbox *sb, const struct sandbox_row *row)
{
	struct manifest manifest;
	char id[65];

	saved_pause_id(row, id);
	return snapshot_open(sb->pause_dir, NULL, &manifest, NULL) == 0 && str_eq(manifest.id, id);
}

/* Sealed, the pause is finished; else it is taken back, if the VM is still there. */
static void go_back_or_on(struct sandbox *sb, const struct sandbox_row *row,
			  const struct record *record)
{
	struct err err = ERR_INIT;

	if (is_sealed(sb, row)) {
		if (sandbox_pause_finish(sb, &err) < 0)
			log_error("a pause cannot be finished", "sandbox=%s error=\"%s\"", sb->id,
				  err.message);
		return;
	}
	if (sb->has_vm) {
		take_deadline(sb, record);
		sandbox_recover_hold(sb);
		sandbox_watch(sb);
	}
	sandbox_pause_undo(sb); /* without a VM it ends then, as its record says */
}

static void recover_paused(struct sandbox *sb, const struct sandbox_row *row, struct tally *tally)
{
	struct err err = ERR_INIT;

	if (!is_sealed(sb, row)) {
		tally->ended++;
		finish(sb, SANDBOX_DESTROYED, "vmm_crashed",
		       "its saved state is missing or damaged");
		return;
	}
	tally->adopted++;
	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_end_vm(sb, "paused", &err) < 0)
		log_warn("what a paused sandbox left cannot be swept", "sandbox=%s error=\"%s\"",
			 sb->id, err.message);
	tree_remove(sb->run_dir);
	unlink(sb->held_path);
	pthread_mutex_unlock(&sb->op_lock);
}

static void attach(struct sandbox *sb, struct record *record)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", sb->run_dir, VMM_RECORD_NAME);

	sb->has_vm = record_read(path, record, NULL) == 0 &&
		     vmm_attach(sb->core->driver, sb->run_dir, &sb->vm, NULL) == 0;
}

static void recover_pausing(struct sandbox *sb, const struct sandbox_row *row, struct tally *tally)
{
	struct record record = { 0 };

	pthread_mutex_lock(&sb->op_lock);
	attach(sb, &record);
	if (sb->has_vm)
		sandbox_net_adopt(sb, row);
	go_back_or_on(sb, row, &record);
	pthread_mutex_unlock(&sb->op_lock);
	tally->adopted++;
}

/* With its saved state still there the resume is taken back, else it is finished: by a job, as
 * recovery does not wait for guests. */
static void recover_resuming(struct sandbox *sb, const struct sandbox_row *row, const char *boot_id,
			     struct tally *tally)
{
	struct record record = { 0 };
	bool alive;

	pthread_mutex_lock(&sb->op_lock);
	attach(sb, &record);
	alive = sb->has_vm || !sandbox_resume_is_spent(sb);
	if (sb->has_vm) {
		sandbox_net_adopt(sb, row);
		sb->expires_boottime_ms = record.expires_boottime_ms;
		sb->expires_unix_ms =
			clock_unix_ms() + record.expires_boottime_ms - clock_boottime_ms();
	}
	if (alive)
		sandbox_resume_recover(sb);
	pthread_mutex_unlock(&sb->op_lock);
	if (alive)
		tally->adopted++;
	else
		recover_running(sb, row, boot_id, tally);
}

static void recover_row(struct core *core, const struct sandbox_row *row, const char *boot_id,
			struct tally *tally)
{
	_cleanup_sandbox_ struct sandbox *sb = object_from_row(core, row);

	if (str_eq(row->status, "creating")) {
		tally->undone++;
		sandbox_set_status(sb, SANDBOX_DESTROYING);
		finish(sb, SANDBOX_FAILED, "start_failed",
		       "the daemon ended while it was being created");
	} else if (str_eq(row->status, "destroying")) {
		tally->ended++;
		/* Attached, so that the warden gets the reason to record; gone: the sweep is
		 * enough. */
		sb->has_vm = vmm_attach(core->driver, sb->run_dir, &sb->vm, NULL) == 0;
		sandbox_set_status(sb, SANDBOX_DESTROYING);
		finish(sb, SANDBOX_DESTROYED, "destroyed_by_user", "it was destroyed on request");
	} else if (str_eq(row->status, "paused")) {
		recover_paused(sb, row, tally);
	} else if (str_eq(row->status, "pausing")) {
		recover_pausing(sb, row, tally);
	} else if (str_eq(row->status, "resuming")) {
		recover_resuming(sb, row, boot_id, tally);
	} else {
		recover_running(sb, row, boot_id, tally);
	}
	abort_point("recover.row");
}

/* ---- what no living row owns ---- */

static void remove_orphan(struct core *core, const char *id, struct tally *tally)
{
	_cleanup_free_ char *dir = xasprintf("%s/sandboxes/%s", core->state_dir, id);
	_cleanup_free_ char *run = xasprintf("%s/run", dir);
	struct err err = ERR_INIT;
	int r = vmm_sweep(core->driver, id, run, &err);

	if (r == 0)
		r = tree_remove(dir);
	if (r < 0) {
		tally->left++;
		log_warn("left-over of a sandbox cannot be removed", "sandbox=%s error=\"%s\"", id,
			 err.message[0] ? err.message : strerror(-r));
		return;
	}
	tally->removed++;
}

static void remove_orphans(struct core *core, struct tally *tally)
{
	_cleanup_free_ char *path = xasprintf("%s/sandboxes", core->state_dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_sandbox_ struct sandbox *sb = NULL;

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (!sandbox_id_valid(entry->d_name)) {
			log_warn("not ours, left alone", "path=\"%s/%s\"", path, entry->d_name);
			continue;
		}
		sb = table_find(core, entry->d_name, NULL);
		if (!sb)
			remove_orphan(core, entry->d_name, tally);
	}
}

int core_recover(struct core *core, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct sandbox_row *rows = NULL;
	struct tally tally = { 0 };
	char boot_id[37];
	size_t n = 0;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = clock_boot_id(boot_id);
	if (r < 0)
		return err_set(err, r, "read the kernel's boot id: %s", strerror(-r));
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		r = db_begin_read(core->db, &txn, err);
		if (r == 0)
			r = sandboxes_unended(&txn, core->node_id, &rows, &n, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++)
		recover_row(core, &rows[i], boot_id, &tally);
	sandbox_rows_free(rows, n);
	abort_point("recover.rows");
	remove_orphans(core, &tally);
	abort_point("recover.orphans");
	forks_recover(core);
	abort_point("recover.forks");
	snapshots_recover(core);
	abort_point("recover.snapshots");
	templates_recover(core);
	abort_point("recover.templates");
	core_net_adopted(core); /* what held others was ended above */
	core->recovered = true;
	log_info("recovered", "adopted=%zu ended=%zu undone=%zu removed=%zu left=%zu",
		 tally.adopted, tally.ended, tally.undone, tally.removed, tally.left);
	return 0;
}
