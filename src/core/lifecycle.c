/*
 * Ending and extending sandboxes.
 *
 * There is one way to the end, sandbox_finish, whoever starts it: a caller who destroys, the warden
 * whose deadline came, a crash, a creation that failed, a recovery. Times and reason come from the
 * warden's record, so that what was billed is right also when the daemon was not there.
 *
 *   1 intent     the row is destroying, where a caller asked for the end
 *   2 end        the VM, its warden, its cgroups
 *   3 disk       its file goes first, so that a full disk has room for the next step
 *   4 tombstone  the row has ended, and the run is charged to its end
 *   5 files      the directory
 *
 * After a crash or a failure it is called again, and does what is left: 2 finds nothing to end, and
 * 4 a row that has ended already. After 4 only files are left, which recovery sweeps.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "core/metrics_internal.h"
#include "store/intervals.h"

#define DESTROY_CREATING_WAIT_MS 10000
#define MINUTE_MS		 60000LL

/* ---- reasons ---- */

struct cause_text {
	const char *reason;
	const char *text;
};

static const struct cause_text cause_texts[] = {
	[RECORD_RUNNING] = { "vmm_crashed",
			     "the VM and its warden ended without a record of the exit" },
	[RECORD_EXPIRED] = { "expired", "its lifetime ended" },
	[RECORD_ENDED] = { "destroyed_by_user", "it was destroyed on request" },
	[RECORD_GUEST_OFF] = { "destroyed_by_user", "the guest powered itself off" },
	[RECORD_GUEST_PANIC] = { "guest_crashed", "the guest's kernel panicked" },
	[RECORD_GUEST_OOM] = { "guest_out_of_memory", "the guest ran out of memory" },
	[RECORD_VMM_CRASHED] = { "vmm_crashed", "the VMM ended by itself" },
	[RECORD_START_FAILED] = { "vmm_crashed", "the VMM did not come up" },
};

/* Of an exit that nobody recorded it is only known that it was before now, and by the deadline. */
static int64_t unseen_end(const struct record *record, int64_t now_unix_ms)
{
	int64_t deadline =
		record->start_unix_ms + record->expires_boottime_ms - record->start_boottime_ms;

	return deadline < now_unix_ms ? deadline : now_unix_ms;
}

void end_from_record(const struct record *record, int64_t now_unix_ms, struct sandbox_end *end,
		     char reason[32], char text[256])
{
	const struct cause_text *cause = &cause_texts[record->cause];
	_cleanup_buf_ struct buf sentence = BUF_INIT;

	str_copy(reason, 32, cause->reason);
	if (record->cause == RECORD_ENDED && record->reason[0])
		str_copy(reason, 32, record->reason);
	buf_append_str(&sentence, cause->text);
	if (record->detail[0])
		buf_printf(&sentence, ": %s", record->detail);
	str_copy(text, 256, buf_str(&sentence));
	*end = (struct sandbox_end){
		.status = sandbox_status_name(SANDBOX_DESTROYED),
		.started_unix_ms = record->started ? record->start_unix_ms : 0,
		.ended_unix_ms = record->cause == RECORD_RUNNING ? unseen_end(record, now_unix_ms)
								 : record->exit_unix_ms,
		.reason = reason,
		.reason_text = text,
	};
}

/* ---- the end ---- */

static int write_tombstone(struct sandbox *sb, const struct sandbox_end *end,
			   const struct run_end *run, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = sandboxes_end(&txn, sb->id, end, err);
	if (r == 0)
		r = event_ended(&txn, sb, end, err);
	if (r == 0)
		r = meter_end(&txn, sb, run, err);
	if (r == 0)
		r = sandbox_net_settle(sb, &txn, err);
	if (r == 0)
		r = network_members_delete_all(&txn, sb->id, err);
	if (r == -ESTALE) /* it was written before a crash, or the creation never got to a row */
		return 0;
	if (r == 0 && str_eq(end->status, sandbox_status_name(SANDBOX_FAILED)))
		r = idempotency_forget(&txn, sb->id, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* What a caller is told whose command or view ends with the sandbox. */
static void cut_off_with(struct sandbox *sb, const char *reason, const char *text)
{
	struct err why = ERR_INIT;

	err_code(&why, -ESHUTDOWN, "sandbox_ended", "sandbox '%s' has ended (%s): %s", sb->id,
		 reason, text);
	err_hint(&why, "create a new sandbox");
	sandbox_cut_off(sb, &why);
}

int sandbox_end_vm(struct sandbox *sb, const char *reason, struct err *err)
{
	struct core *core = sb->core;
	int r = 0;

	if (sb->has_vm) {
		r = vmm_end(core->driver, &sb->vm, reason, clock_boottime_ms() + VM_END_DEADLINE_MS,
			    err);
		if (r < 0)
			log_warn("a VM does not end as asked", "sandbox=%s error=\"%s\"", sb->id,
				 err->message);
		vmm_release(&sb->vm);
		sb->has_vm = sb->held = sb->patient = false;
	}
	/* Also of a start that failed half-way, and of a warden that was killed with its VMM. */
	return vmm_sweep(core->driver, sb->id, sb->run_dir, err);
}

/* The record tells what became of a VM that ran. A creation that failed is told by who undoes it.
 */
static void choose_end(struct sandbox *sb, struct sandbox_end *end, struct run_end *run,
		       char reason[32], char text[256])
{
	_cleanup_free_ char *path = xasprintf("%s/%s", sb->run_dir, VMM_RECORD_NAME);
	struct sandbox_end wanted;
	struct record record;

	if (str_eq(end->status, sandbox_status_name(SANDBOX_FAILED)))
		return;
	if (record_read(path, &record, NULL) < 0 || !record.started)
		return;
	*run = meter_end_of(sb, &record);
	run->unix_ms = end->ended_unix_ms;
	/* The end of a run is not the end of its sandbox. */
	if (str_eq(record.reason, "paused") || str_eq(record.reason, "resume_failed"))
		return;
	wanted = *end;
	end_from_record(&record, clock_unix_ms(), end, reason, text);
	run->unix_ms = end->ended_unix_ms;
	if (record.cause == RECORD_ENDED && str_eq(reason, wanted.reason))
		end->reason_text = wanted.reason_text; /* who ended it knows more about why */
}

int sandbox_finish(struct sandbox *sb, enum sandbox_status status, const char *reason,
		   const char *reason_text, struct err *err)
{
	struct sandbox_end end = {
		.status = sandbox_status_name(status),
		.ended_unix_ms = clock_unix_ms(),
		.reason = reason,
		.reason_text = reason_text,
	};
	struct run_end run = { .unix_ms = end.ended_unix_ms };
	char reason_storage[32], text_storage[256];
	int r;

	if (sandbox_status_ended(sandbox_status(sb)))
		return 0;
	sandbox_want_end(sb);
	if (sandbox_status(sb) == SANDBOX_DESTROYING)
		cut_off_with(sb, reason,
			     reason_text); /* nobody waits for a VM that takes its time */
	r = sandbox_end_vm(sb, reason, err);
	if (r < 0)
		return err_wrap(err, -EAGAIN, "end the VM of sandbox '%s'", sb->id);
	abort_point("destroy.ended");
	choose_end(sb, &end, &run, reason_storage, text_storage);
	cut_off_with(sb, end.reason, end.reason_text);
	unlink(sb->disk_path);
	abort_point("destroy.disk");
	r = write_tombstone(sb, &end, &run, err);
	abort_point("destroy.tombstone");
	if (r < 0)
		return err_wrap(err, -EAGAIN, "write the tombstone of sandbox '%s'", sb->id);
	sandbox_net_release(sb);
	r = tree_remove(sb->dir);
	if (r < 0) /* the next start removes it: its row has ended */
		log_warn("files of a sandbox cannot be removed", "sandbox=%s error=\"%s\"", sb->id,
			 strerror(-r));
	log_info("sandbox ended", "sandbox=%s account=%s status=%s reason=%s", sb->id,
		 sb->account_id, end.status, end.reason);
	sandbox_set_status(sb, str_eq(end.status, sandbox_status_name(SANDBOX_FAILED))
				       ? SANDBOX_FAILED
				       : SANDBOX_DESTROYED);
	table_remove(sb);
	return 0;
}

/* Between the VM's end and this job it can have been paused, and even resumed. */
static bool end_is_past(struct sandbox *sb)
{
	switch (sandbox_status(sb)) {
	case SANDBOX_RUNNING:
		return !sandbox_vm_has_ended(sb, 0);
	case SANDBOX_PAUSING:
	case SANDBOX_PAUSED:
	case SANDBOX_RESUMING:
		return !sandbox_end_wanted(sb);
	default:
		return false;
	}
}

static void finish_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;
	struct err err = ERR_INIT;
	int r = 0;

	pthread_mutex_lock(&sb->op_lock);
	if (!end_is_past(sb))
		r = sandbox_finish(sb, SANDBOX_DESTROYED, "vmm_crashed",
				   "the VM ended without a record", &err);
	pthread_mutex_unlock(&sb->op_lock);
	if (r == 0)
		return;
	log_error("a sandbox cannot be ended yet", "sandbox=%s error=\"%s\"", sb->id, err.message);
	sandbox_finish_later(sb, END_RETRY_MS);
}

void sandbox_finish_later(struct sandbox *sb, int64_t delay_ms)
{
	struct core *core = sb->core;

	/* While the daemon stops, a retry is left to the next start. */
	if (delay_ms > 0) {
		struct core *entered = core_enter(core, NULL);

		if (!entered)
			return;
		core_job(core, finish_job, sandbox_ref(sb), delay_ms);
		core_leave(entered);
		return;
	}
	core_job(core, finish_job, sandbox_ref(sb), 0);
}

/* ---- destroy ---- */

/* The row says so first: from here on the sandbox does not count against the quota, and a daemon
 * that is killed finishes at its next start. A full disk does not keep anybody from destroying. */
static void mark_destroying(struct sandbox *sb)
{
	const char *const from[] = { "running", "creating", "paused", "pausing", "resuming" };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;
	int r = db_begin_write(sb->core->db, &txn, &err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(from); i++) {
		r = sandboxes_move(&txn, sb->id, from[i], "destroying", &err);
		if (r == -ESTALE) {
			r = 0;
			continue;
		}
		break;
	}
	if (r == 0)
		r = db_commit(&txn, &err);
	if (r < 0)
		log_warn("the wish to destroy cannot be written", "sandbox=%s error=\"%s\"", sb->id,
			 err.message);
	abort_point("destroy.intent");
}

static int destroy_alive(struct sandbox *sb, const char *why, struct err *err)
{
	enum sandbox_status status;
	int r;

	sandbox_want_end(sb);
	mark_destroying(sb);
	/* A creation notices the wish and undoes itself; a template that it waits for can take
	 * long. */
	if (sandbox_status(sb) == SANDBOX_CREATING) {
		sandbox_wait_created(sb, clock_boottime_ms() + DESTROY_CREATING_WAIT_MS);
		if (sandbox_status(sb) == SANDBOX_CREATING)
			return 0;
	}
	pthread_mutex_lock(&sb->op_lock);
	status = sandbox_status(sb);
	if (!sandbox_status_ended(status) && status != SANDBOX_DESTROYING)
		sandbox_set_status(sb, SANDBOX_DESTROYING);
	r = sandbox_finish(sb, SANDBOX_DESTROYED, "destroyed_by_user", why, err);
	pthread_mutex_unlock(&sb->op_lock);
	if (r < 0) /* the wish is written: it is carried out as soon as it can be */
		sandbox_finish_later(sb, END_RETRY_MS);
	return r;
}

int core_destroy(struct core *core, const struct principal *who, const char *id,
		 struct sandbox_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	const int64_t began_us = clock_boottime_us();
	int r = 0;

	if (!work)
		return -ESHUTDOWN;
	sb = table_find(core, id, who->account_id);
	if (sb) {
		r = destroy_alive(sb, "it was destroyed on request", err);
		metrics_step(core, METRICS_DESTROY, r, began_us);
	}
	if (r < 0)
		return r;
	return load_info(core, id, who->account_id, ret, err);
}

int core_end_running(struct core *core, size_t *ret_n, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct sandbox **all;
	size_t n;
	int result = 0;

	*ret_n = 0;
	if (!work)
		return -ESHUTDOWN;
	all = table_all(core, &n);
	for (size_t i = 0; i < n; i++) {
		_cleanup_sandbox_ struct sandbox *sb = all[i];
		struct err one = ERR_INIT;

		if (sandbox_status(sb) == SANDBOX_PAUSED)
			continue;
		if (destroy_alive(sb, "it was ended to take Skerry off this host", &one) == 0) {
			*ret_n += 1;
			continue;
		}
		log_error("a sandbox cannot be ended", "sandbox=%s error=\"%s\"", sb->id,
			  one.message);
		result = err_set(err, -EAGAIN, "end sandbox '%s': %s", sb->id, one.message);
	}
	free(all);
	return result;
}

/* ---- extend ---- */

static int already_ended(struct sandbox *sb, struct err *err)
{
	struct sandbox_info info = { 0 };

	/* The tombstone follows the end by moments. */
	sandbox_wait_ended(sb, clock_boottime_ms() + 2000);
	if (load_info(sb->core, sb->id, sb->account_id, &info, NULL) == 0 && info.reason[0])
		err_code(err, -ESHUTDOWN, "already_ended", "sandbox '%s' has ended (%s): %s",
			 sb->id, info.reason, info.reason_text);
	else
		err_code(err, -ESHUTDOWN, "already_ended", "sandbox '%s' has ended", sb->id);
	err_hint(err, "create a new sandbox");
	sandbox_info_clear(&info);
	return -ESHUTDOWN;
}

static int write_expires(struct sandbox *sb, int64_t expires_unix_ms, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = sandboxes_set_expires(&txn, sb->id, expires_unix_ms, err);
	if (r == 0)
		r = event_extended(&txn, sb, expires_unix_ms, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* Paused time does not count. */
static int time_lived(struct sandbox *sb, int64_t *ret_ms, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(sb->core->db, &txn, err);

	return r < 0 ? r : intervals_total(&txn, sb->id, clock_unix_ms(), ret_ms, err);
}

/* The warden's record first: what it has synced stands. The row follows; if the daemon dies in
 * between, recovery takes the deadline from the record. */
static int extend_locked(struct sandbox *sb, const struct principal *who, uint32_t minutes,
			 struct err *err)
{
	struct core *core = sb->core;
	int64_t delta_ms = minutes * MINUTE_MS;
	int64_t max_ms = core->limits.timeout_minutes_max * MINUTE_MS;
	int64_t total_ms, lived_ms;
	int r;

	if (sandbox_status(sb) != SANDBOX_RUNNING || sandbox_end_wanted(sb))
		return -ESRCH;
	r = time_lived(sb, &lived_ms, err);
	if (r < 0)
		return r;
	total_ms = lived_ms + sb->expires_boottime_ms - clock_boottime_ms() + delta_ms;
	if (total_ms > max_ms) {
		int64_t left_ms = max_ms - (total_ms - delta_ms);

		err_code(err, -ERANGE, "limit_reached",
			 "the lifetime would be %lld minutes in total, the limit is %lld",
			 (long long)(total_ms / MINUTE_MS),
			 (long long)core->limits.timeout_minutes_max);
		err_hint(err, "extend by at most %lld minutes, or create a new sandbox",
			 (long long)(left_ms > 0 ? left_ms / MINUTE_MS : 0));
		return -ERANGE;
	}
	r = authorize_lifetime(who, (total_ms + MINUTE_MS - 1) / MINUTE_MS, err);
	if (r < 0)
		return r;
	r = vmm_extend(core->driver, &sb->vm, sb->expires_boottime_ms + delta_ms,
		       clock_boottime_ms() + VM_EXTEND_DEADLINE_MS, err);
	if (r < 0)
		return r;
	sb->expires_boottime_ms += delta_ms;
	sb->expires_unix_ms += delta_ms;
	if (sb->held) /* its lifetime was over, and it stood still to be paused */
		sandbox_let_go(sb);
	return write_expires(sb, sb->expires_unix_ms, err);
}

int core_extend(struct core *core, const struct principal *who, const char *id,
		uint32_t additional_minutes, struct sandbox_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	if (additional_minutes < 1 || additional_minutes > core->limits.timeout_minutes_max)
		return err_set(err, -EINVAL, "additional_minutes %u is not from 1 to %lld",
			       additional_minutes, (long long)core->limits.timeout_minutes_max);
	r = sandbox_find_running(core, who, id, &sb, err);
	if (r == -ESHUTDOWN && err)
		err->code = "already_ended";
	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->op_lock);
	r = extend_locked(sb, who, additional_minutes, err);
	pthread_mutex_unlock(&sb->op_lock);
	if (r == -ESRCH)
		return already_ended(sb, err);
	if (r < 0)
		return err_wrap(err, r, "extend sandbox '%s'", id);
	return load_info(core, id, who->account_id, ret, err);
}
