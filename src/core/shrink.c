/*
 * Making small what has been paused for long: the saved memory of such a sandbox is compressed.
 *
 * One at a time, with low priority for CPU and disk, and without the sandbox's op_lock: who wants
 * it resumed meanwhile does not wait, and the compression is dropped. The lock is taken for the
 * moment in which the manifest changes over to the compressed file, after a look that the state is
 * still the one that was read. Whoever needs the memory again expands it (saved_check), holding
 * op_lock.
 *
 * Whenever the daemon dies, the manifest names one whole file; what it does not name is swept at
 * the next start. Without room for the compressed file beside the other one nothing is begun, and
 * where the disk fills up meanwhile nothing has changed.
 */
#include <errno.h>
#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "loop/thread.h"
#include "snapshot/compress.h"
#include "snapshot/seal.h"

#define MINUTE_MS      60000LL
#define LOOK_EVERY_MS  MINUTE_MS
#define AFTER_ERROR_MS (10 * MINUTE_MS)
#define SPARE_BYTES    ((uint64_t)256 << 20) /* never taken from what else is written */
#define NICENESS       10

struct shrink {
	struct core *core;
	int64_t before_unix_ms;
	struct sandbox *sb; /* the one whose state is being compressed … */
	char id[65];	    /* … and which pause of it that is */
	size_t made;
	int first_error;
};

/* ---- hooks of the compression ---- */

static bool is_unwanted(void *arg)
{
	const struct shrink *shrink = arg;

	return sandbox_status(shrink->sb) != SANDBOX_PAUSED || sandbox_end_wanted(shrink->sb) ||
	       core_is_stopping(shrink->core);
}

static bool is_same_pause(const struct shrink *shrink)
{
	struct manifest now;

	return sandbox_status(shrink->sb) == SANDBOX_PAUSED && !sandbox_end_wanted(shrink->sb) &&
	       snapshot_open(shrink->sb->pause_dir, NULL, &now, NULL) == 0 &&
	       str_eq(now.id, shrink->id);
}

static int lock(void *arg, struct err *err)
{
	struct shrink *shrink = arg;

	abort_point("compress.written");
	pthread_mutex_lock(&shrink->sb->op_lock);
	if (is_same_pause(shrink))
		return 0;
	pthread_mutex_unlock(&shrink->sb->op_lock);
	return err_set(err, -ECANCELED, "it is not paused any more");
}

static void unlock(void *arg)
{
	struct shrink *shrink = arg;

	abort_point("compress.listed");
	pthread_mutex_unlock(&shrink->sb->op_lock);
}

/* ---- one sandbox ---- */

static int compress(struct shrink *shrink, struct manifest *ret, struct err *err)
{
	const struct compress_hooks hooks = { shrink, is_unwanted, lock, unlock };
	const char *dir = shrink->sb->pause_dir;
	const struct manifest_file *plain;
	struct manifest manifest;
	int r = snapshot_open(dir, NULL, &manifest, err);

	if (r < 0)
		return r;
	str_copy(shrink->id, sizeof(shrink->id), manifest.id);
	plain = manifest_file(&manifest, SAVED_MEMORY);
	if (!plain)
		return -EALREADY;
	r = snapshot_space(dir, plain->bytes, SPARE_BYTES, err);
	return r < 0 ? r
		     : snapshot_compress(dir, SAVED_MEMORY, COMPRESS_LEVEL_DEFAULT, &hooks, ret,
					 err);
}

static void shrink_one(struct shrink *shrink)
{
	const struct sandbox *sb = shrink->sb;
	const struct manifest_file *file;
	struct manifest manifest;
	struct err err = ERR_INIT;
	int64_t began = clock_boottime_ms();
	int r;

	if (is_unwanted(shrink))
		return;
	r = compress(shrink, &manifest, &err);
	if (r == -EALREADY || is_unwanted(shrink))
		return;
	if (r < 0) {
		shrink->first_error = shrink->first_error ? shrink->first_error : r;
		log_warn("the state of a paused sandbox stays as large as it is",
			 "sandbox=%s error=\"%s\"", sb->id, err.message);
		return;
	}
	file = manifest_file(&manifest, SAVED_MEMORY COMPRESS_SUFFIX);
	shrink->made++;
	log_info("the state of a paused sandbox was compressed",
		 "sandbox=%s bytes=%llu from=%llu duration_ms=%lld", sb->id,
		 (unsigned long long)(file ? file->bytes : 0),
		 (unsigned long long)(file ? file->plain_bytes : 0),
		 (long long)(clock_boottime_ms() - began));
}

/* ---- all of them ---- */

static int list_paused(struct shrink *shrink, struct sandbox_row **rows, size_t *n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(shrink->core->db, &txn, err);

	return r < 0 ? r
		     : sandboxes_paused_before(&txn, shrink->core->node_id, shrink->before_unix_ms,
					       rows, n, err);
}

/* A thread of its own, whose priority need not be put back. */
static void *run(void *arg)
{
	struct shrink *shrink = arg;
	struct sandbox_row *rows = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;

	setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
	if (list_paused(shrink, &rows, &n, &err) < 0)
		log_warn("sandboxes paused for long cannot be looked up", "error=\"%s\"",
			 err.message);
	for (size_t i = 0; i < n && shrink->first_error != -ENOSPC; i++) {
		shrink->sb = table_find(shrink->core, rows[i].id, NULL);
		if (shrink->sb)
			shrink_one(shrink);
		sandbox_unref(STEAL(shrink->sb));
	}
	sandbox_rows_free(rows, n);
	return NULL;
}

static bool shrink_all(struct core *core, int64_t before_unix_ms, size_t *ret_made)
{
	struct shrink shrink = { .core = core, .before_unix_ms = before_unix_ms };
	pthread_t thread;

	if (thread_start(&thread, "shrink", run, &shrink) < 0)
		return false;
	pthread_join(thread, NULL);
	*ret_made = shrink.made;
	return shrink.first_error == 0;
}

size_t shrink_paused(struct core *core, int64_t before_unix_ms)
{
	size_t made = 0;

	shrink_all(core, before_unix_ms, &made);
	return made;
}

static void shrink_job(void *arg)
{
	struct core *core = arg;
	int64_t age_ms = core->limits.compress_paused_after_minutes * MINUTE_MS;
	size_t made = 0;
	bool ok = shrink_all(core, clock_unix_ms() - age_ms, &made);

	core->shrink_boottime_ms = clock_boottime_ms() + (ok ? LOOK_EVERY_MS : AFTER_ERROR_MS);
	core->shrinking = false;
}

void shrink_look(struct core *core)
{
	if (!core->recovered || core->shrinking ||
	    core->limits.compress_paused_after_minutes == 0 ||
	    clock_boottime_ms() < core->shrink_boottime_ms)
		return;
	core->shrinking = true;
	core_job(core, shrink_job, core, 0);
}
