/*
 * Named snapshots: a row, and a sealed directory STATE/snapshots/<id> of three files (memory,
 * devices, disk), which new sandboxes start from. The row comes first and says `making` until the
 * directory is sealed; a deletion takes the row first. So a daemon that dies leaves a row that is
 * not ready, or a directory without a row, and its next start removes both.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "core/metrics_internal.h"
#include "snapshot/seal.h"

#define ID_PREFIX "snp_"

DEFINE_CLEANUP(DIR *, closedirp, closedir);

static char *dir_of(const struct core *core, const char *id)
{
	return xasprintf("%s/snapshots/%s", core->state_dir, id);
}

static void info_from_snapshot(const struct snapshot_row *row, struct core_snapshot_info *ret)
{
	*ret = (struct core_snapshot_info){
		.milli_vcpus = row->milli_vcpus,
		.memory_mb = row->memory_mb,
		.disk_gb = row->disk_gb,
		.size_bytes = row->bytes,
		.created_unix_ms = row->created_unix_ms,
	};
	str_copy(ret->name, sizeof(ret->name), row->name);
	str_copy(ret->source_id, sizeof(ret->source_id), row->source_id);
	str_copy(ret->size, sizeof(ret->size), row->size);
	str_copy(ret->image, sizeof(ret->image), row->image);
}

/* ---- making ---- */

static void fill_row(const struct core *core, const struct principal *who,
		     const struct sandbox_row *source, const char *name, struct snapshot_row *row)
{
	char random[17];

	*row = (struct snapshot_row){
		.milli_vcpus = source->milli_vcpus,
		.memory_mb = source->memory_mb,
		.disk_gb = source->disk_gb,
		.labels = xstrdup(source->labels),
		.generation = source->generation,
		.created_unix_ms = clock_unix_ms(),
		.egress = xstrdup(source->egress),
		.image_config = xstrdup(source->image_config),
	};
	rand_hex(random, sizeof(random) - 1);
	snprintf(row->id, sizeof(row->id), ID_PREFIX "%s", random);
	str_copy(row->node_id, sizeof(row->node_id), core->node_id);
	str_copy(row->account_id, sizeof(row->account_id), who->account_id);
	str_copy(row->name, sizeof(row->name), name);
	str_copy(row->source_id, sizeof(row->source_id), source->id);
	str_copy(row->size, sizeof(row->size), source->size);
	str_copy(row->image, sizeof(row->image), source->image);
	str_copy(row->image_digest, sizeof(row->image_digest), source->image_digest);
	str_copy(row->template_key, sizeof(row->template_key), source->template_key);
	str_copy(row->guest_address, sizeof(row->guest_address), source->guest_address);
}

static int check_quota(struct core *core, struct db_txn *txn, const char *account_id,
		       struct err *err)
{
	int64_t limit = core->limits.snapshots_per_account;
	int64_t n;
	int r = snapshots_count(txn, account_id, &n, err);

	if (r < 0 || n < limit)
		return r;
	err_code(err, -EDQUOT, "quota_reached", "there are %lld snapshots, the limit is %lld",
		 (long long)n, (long long)limit);
	err_hint(err, "delete one that is not needed any more, then try again");
	return -EDQUOT;
}

static int insert(struct core *core, const struct snapshot_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = check_quota(core, &txn, row->account_id, err);
	if (r == 0)
		r = snapshots_insert(&txn, row, err);
	if (r == -EEXIST) {
		err_code(err, r, "snapshot_exists", "there is a snapshot '%s' already", row->name);
		err_hint(err, "choose another name, or delete that one first");
	}
	return r < 0 ? r : db_commit(&txn, err);
}

static int delete_row(struct core *core, const char *id, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = snapshots_delete(&txn, id, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static int set_ready(struct core *core, struct snapshot_row *row, const char *dir, struct err *err)
{
	const char *const names[] = { SAVED_MEMORY, SAVED_DEVICES, SAVED_DISK };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", dir, names[i]);
		int64_t bytes = file_allocated_bytes(path);

		row->bytes += bytes > 0 ? bytes : 0;
	}
	r = db_begin_write(core->db, &txn, err);
	if (r == 0)
		r = snapshots_set_ready(&txn, row->id, row->bytes, err);
	if (r == 0)
		r = event_snapshot(&txn, core, row, EVENT_SNAPSHOT_CREATED, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* The disk's content is not hashed: its copy can be O(1), and reading it would not. */
static int seal(struct snapshot_draft *draft, struct manifest *manifest, struct err *err)
{
	int r = snapshot_draft_add(draft, SAVED_DEVICES, SNAPSHOT_HASH_CONTENT, manifest, err);

	if (r == 0)
		r = snapshot_draft_add(draft, SAVED_MEMORY, SNAPSHOT_HASH_DELTA, manifest, err);
	if (r == 0)
		r = snapshot_draft_add(draft, SAVED_DISK, SNAPSHOT_HASH_NONE, manifest, err);
	return r < 0 ? r : snapshot_seal(draft, manifest, err);
}

static int make_files(struct sandbox *source, const struct sandbox_row *source_row,
		      struct snapshot_row *row, const char *dir, struct err *err)
{
	_cleanup_(snapshot_draft_clear) struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	struct manifest manifest;
	int64_t held_ms = 0;
	int r = saved_describe(source->core, source_row, row->id, "snapshot", &manifest, err);

	if (r == 0)
		r = snapshot_draft(dir, &draft, err);
	if (r == 0)
		r = saved_take(source, source_row, draft.path, true, NULL, &held_ms, err);
	abort_point("snapshot.taken");
	if (r == 0)
		r = seal(&draft, &manifest, err);
	abort_point("snapshot.sealed");
	return r < 0 ? r : set_ready(source->core, row, dir, err);
}

static int make(struct sandbox *source, const struct principal *who, const char *name,
		struct core_snapshot_info *ret, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row source_row = { 0 };
	_cleanup_(snapshot_row_clear) struct snapshot_row row = { 0 };
	enum sandbox_status status = sandbox_status(source);
	_cleanup_free_ char *dir = NULL;
	int r;

	if ((status != SANDBOX_RUNNING && status != SANDBOX_PAUSED) || sandbox_end_wanted(source))
		return err_code(err, -EBUSY, "sandbox_not_running",
				"sandbox '%s' is neither running nor paused but %s", source->id,
				sandbox_status_name(status));
	r = sandbox_load_row(source, &source_row, err);
	if (r < 0)
		return r;
	fill_row(source->core, who, &source_row, name, &row);
	r = insert(source->core, &row, err);
	if (r < 0)
		return r;
	abort_point("snapshot.intent");
	dir = dir_of(source->core, row.id);
	r = make_files(source, &source_row, &row, dir, err);
	if (r < 0) {
		if (delete_row(source->core, row.id, NULL) < 0)
			log_warn("the row of a snapshot that failed stays until the next start",
				 "snapshot=%s", row.id);
		tree_remove(dir);
		return r;
	}
	log_info("snapshot made", "snapshot=%s name=%s sandbox=%s account=%s bytes=%lld", row.id,
		 row.name, source->id, row.account_id, (long long)row.bytes);
	info_from_snapshot(&row, ret);
	return 0;
}

int core_snapshot_create(struct core *core, const struct principal *who, const char *id,
			 const char *name, struct core_snapshot_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *source = NULL;
	const int64_t began_us = clock_boottime_us();
	struct err own = ERR_INIT;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = check_name(name, err);
	if (r < 0)
		return r;
	source = table_find(core, id, who->account_id);
	if (!source)
		return sandbox_find_running(core, who, id, &source, err);
	sandbox_touch(source);
	pthread_mutex_lock(&source->op_lock);
	r = make(source, who, name, ret, &own);
	pthread_mutex_unlock(&source->op_lock);
	metrics_step(core, METRICS_SNAPSHOT, r, began_us);
	if (r == 0)
		return 0;
	log_warn("snapshot not made", "sandbox=%s account=%s code=%s error=\"%s\"", id,
		 who->account_id, err_code_of(&own), own.message);
	failure_hide_host(core, &own, "make the snapshot");
	if (err)
		*err = own;
	return r;
}

/* ---- reading, removing, using ---- */

int core_snapshot_list(struct core *core, const struct principal *who,
		       struct core_snapshot_info **ret, size_t *ret_n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct core_snapshot_info *infos;
	struct snapshot_row *rows = NULL;
	size_t n_rows = 0, n = 0;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = snapshots_list(&txn, who->account_id, &rows, &n_rows, err);
	if (r < 0)
		return r;
	infos = xcalloc(n_rows + 1, sizeof(*infos));
	for (size_t i = 0; i < n_rows; i++) {
		if (rows[i].ready && scope_sees_snapshot(who->scope, &rows[i]))
			info_from_snapshot(&rows[i], &infos[n++]);
	}
	snapshot_rows_free(rows, n_rows);
	*ret = infos;
	*ret_n = n;
	return 0;
}

int snapshot_find(struct db_txn *txn, const struct principal *who, const char *name,
		  struct snapshot_row *ret, struct err *err)
{
	int r = snapshots_by_name(txn, who->account_id, name, ret, err);

	if (r == 0 && !scope_sees_snapshot(who->scope, ret)) {
		snapshot_row_clear(ret);
		*ret = (struct snapshot_row){ 0 };
		r = err_code(err, -ENOENT, "snapshot_not_found", "no snapshot '%.64s'", name);
	}
	if (r == -ENOENT)
		err_hint(err, "list your snapshots to see their names");
	return r;
}

static int take_row(struct core *core, const struct principal *who, const char *name,
		    struct snapshot_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = snapshot_find(&txn, who, name, row, err);
	if (r == 0 && !row->ready)
		r = err_code(err, -EBUSY, "snapshot_not_ready", "snapshot '%s' is still being made",
			     row->name);
	if (r == 0)
		r = snapshots_delete(&txn, row->id, err);
	if (r == 0)
		r = event_snapshot(&txn, core, row, EVENT_SNAPSHOT_REMOVED, err);
	return r < 0 ? r : db_commit(&txn, err);
}

int core_snapshot_remove(struct core *core, const struct principal *who, const char *name,
			 struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_(snapshot_row_clear) struct snapshot_row row = { 0 };
	_cleanup_free_ char *dir = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	pthread_rwlock_wrlock(&core->snapshots_lock);
	r = take_row(core, who, name, &row, err);
	abort_point("snapshot.row_gone");
	if (r == 0) {
		dir = dir_of(core, row.id);
		if (tree_remove(dir) < 0) /* the next start does it */
			log_warn("files of a snapshot cannot be removed", "snapshot=%s", row.id);
		log_info("snapshot removed", "snapshot=%s name=%s account=%s", row.id, row.name,
			 row.account_id);
	}
	pthread_rwlock_unlock(&core->snapshots_lock);
	return r;
}

static int take_files(struct core *core, const struct snapshot_row *row, struct sandbox *sb,
		      struct err *err)
{
	_cleanup_free_ char *dir = dir_of(core, row->id);
	_cleanup_free_ char *disk = xasprintf("%s/" SAVED_DISK, dir);
	struct manifest manifest;
	int r = saved_check(core, dir, row->id, row->template_key, &manifest, err);

	if (r < 0)
		return r;
	r = dir_make(sb->pause_dir, 0700);
	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", sb->pause_dir, strerror(-r));
	r = saved_link(dir, sb->pause_dir, true, err);
	return r < 0 ? r : start_copy_disk(disk, sb->disk_path, err);
}

int snapshot_take_files(struct core *core, const struct snapshot_row *row, struct sandbox *sb,
			struct err *err)
{
	int r;

	pthread_rwlock_rdlock(&core->snapshots_lock);
	r = take_files(core, row, sb, err);
	pthread_rwlock_unlock(&core->snapshots_lock);
	return r;
}

/* ---- at start ---- */

static bool has_row(const struct snapshot_row *rows, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++) {
		if (rows[i].ready && str_eq(rows[i].id, id))
			return true;
	}
	return false;
}

static void remove_unknown(struct core *core, const struct snapshot_row *rows, size_t n)
{
	_cleanup_free_ char *path = xasprintf("%s/snapshots", core->state_dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	snapshot_sweep(path, NULL, NULL);
	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = dir_of(core, entry->d_name);

		if (!str_starts(entry->d_name, ID_PREFIX) || has_row(rows, n, entry->d_name))
			continue;
		log_info("left-over of a snapshot removed", "snapshot=%s", entry->d_name);
		tree_remove(one);
	}
}

void snapshots_recover(struct core *core)
{
	struct snapshot_row *rows = NULL;
	struct err err = ERR_INIT;
	size_t n = 0;
	int r;

	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		r = db_begin_read(core->db, &txn, &err);
		if (r == 0)
			r = snapshots_list(&txn, NULL, &rows, &n, &err);
	}
	if (r < 0) { /* what is known is too little to remove anything */
		log_error("snapshots cannot be listed", "error=\"%s\"", err.message);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!rows[i].ready && delete_row(core, rows[i].id, &err) < 0)
			log_warn("the row of a half-made snapshot stays",
				 "snapshot=%s error=\"%s\"", rows[i].id, err.message);
	}
	remove_unknown(core, rows, n);
	snapshot_rows_free(rows, n);
}
