/*
 * Creating a sandbox.
 *
 *   1 check      the request, the image, the host's free space: nothing has happened yet
 *   2 reserve    one transaction: quota, credit, idempotency key, uid, the row (creating)
 *   3 disk       the directory, and in it a copy of the template's disk, or of the snapshot's
 *   4 start      the VM, and the identity that its agent confirms; what stands ready has both files
 *                and VM, and gets the identity only
 *   5 publish    the row (running)
 *
 * From the reservation on, whatever fails leads to sandbox_finish, which undoes what there is. A
 * wish to destroy is looked at between the steps; a daemon that dies leaves the row as creating,
 * and its next start undoes the rest.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "core/metrics_internal.h"

#define MINUTE_MS 60000LL
#define HOUR_MS	  (60 * MINUTE_MS)

struct creation {
	struct core *core;
	const struct principal *who;
	const struct core_create_request *req;
	core_progress_fn progress;
	void *progress_arg;
	struct shape shape;
	char *egress;	       /* the rules that were asked for */
	json_t *labels;	       /* likewise, and what the key's scope adds */
	char *idempotency_key; /* of a key that sees less than its account: its own */
	struct image_info image;
	struct snapshot_row snapshot; /* with req->snapshot */
	struct sandbox_row row;
	int64_t began_boottime_ms;
	struct sandbox *sb;
	struct sandbox *ready; /* it stands ready: only its identity is missing */
	char same_as[24];      /* the sandbox that the idempotency key already stands for */
};

static void creation_clear(struct creation *c)
{
	sandbox_row_clear(&c->row);
	free(c->egress);
	json_decref(c->labels);
	free(c->idempotency_key);
	snapshot_row_clear(&c->snapshot);
	sandbox_unref(c->ready);
	sandbox_unref(c->sb);
}

static void say(const struct creation *c, int percent, const char *what)
{
	if (c->progress)
		c->progress(c->progress_arg, percent, what);
}

/* ---- checking ---- */

static void fill_row(struct creation *c)
{
	const struct core_limits *limits = &c->core->limits;
	const struct core_create_request *req = c->req;
	struct sandbox_row *row = &c->row;
	const int64_t minutes =
		req->timeout_minutes
			? req->timeout_minutes
			: authorize_default_minutes(c->who, limits->timeout_minutes_default);
	_cleanup_buf_ struct buf labels = BUF_INIT;

	reserve_fill(c->core, c->who, row);
	c->began_boottime_ms = clock_boottime_ms();
	row->expires_unix_ms = row->created_unix_ms + minutes * MINUTE_MS;
	str_copy(row->name, sizeof(row->name), req->name ? req->name : "");
	row->pause_on_timeout = req->pause_on_timeout;
	row->idle_pause_minutes = req->idle_pause_minutes;
	json_write(c->labels, &labels);
	row->labels = labels.len ? buf_take(&labels) : xstrdup("{}");
	row->egress = xstrdup(c->egress);
}

static void fill_shape(struct creation *c)
{
	struct sandbox_row *row = &c->row;

	str_copy(row->size, sizeof(row->size), c->shape.size);
	row->milli_vcpus = c->shape.milli_vcpus;
	row->memory_mb = c->shape.memory_mb;
	row->disk_gb = c->shape.disk_gb;
	str_copy(row->image, sizeof(row->image), c->image.name);
	str_copy(row->image_digest, sizeof(row->image_digest), c->image.digest);
	row->image_config = xstrdup(c->image.config);
	template_key(c->core, c->image.digest, &c->shape, row->template_key);
	core_net_guest_address(c->core, row->guest_address);
}

/* Everything but the name, the lifetime, the labels and the rules is the snapshot's; labels and
 * rules too where the request has none. */
static void fill_from_snapshot(struct creation *c)
{
	const struct snapshot_row *from = &c->snapshot;
	struct sandbox_row *row = &c->row;

	str_copy(row->size, sizeof(row->size), from->size);
	row->milli_vcpus = from->milli_vcpus;
	row->memory_mb = from->memory_mb;
	row->disk_gb = from->disk_gb;
	str_copy(row->image, sizeof(row->image), from->image);
	str_copy(row->image_digest, sizeof(row->image_digest), from->image_digest);
	str_copy(row->template_key, sizeof(row->template_key), from->template_key);
	str_copy(row->guest_address, sizeof(row->guest_address), from->guest_address);
	str_copy(row->parent_id, sizeof(row->parent_id), from->source_id);
	row->image_config = xstrdup(from->image_config);
	row->generation = from->generation + 1; /* its processes see that it is another run */
	if (!c->req->labels) {
		free(row->labels);
		row->labels = xstrdup(from->labels);
	}
	if (!c->req->egress) {
		free(row->egress);
		row->egress = xstrdup(from->egress);
	}
}

/* ---- reserving ---- */

/* 1: the key stands for a sandbox already (c->same_as). */
static int check_idempotency(struct creation *c, struct db_txn *txn, struct err *err)
{
	struct idempotency_row row;
	int r;

	if (!c->req->idempotency_key)
		return 0;
	r = idempotency_get(txn, c->who->account_id, c->idempotency_key, clock_unix_ms(), &row,
			    err);
	if (r == -ENOENT) {
		if (err)
			*err = ERR_INIT;
		return 0;
	}
	if (r < 0)
		return r;
	if (!str_eq(row.request_hash, c->req->request_hash)) {
		err_code(err, -EEXIST, "idempotency_conflict",
			 "the idempotency key was used with another request, for sandbox '%s'",
			 row.sandbox_id);
		err_hint(err, "use a new key for a new request");
		return -EEXIST;
	}
	str_copy(c->same_as, sizeof(c->same_as), row.sandbox_id);
	return 1;
}

static int insert_row(struct creation *c, struct db_txn *txn, struct err *err)
{
	int r = reserve_row(c->core, txn, &c->row, err);

	if (r == 0)
		r = networks_enter(c->core, txn, &c->row, c->req->networks, err);
	if (r < 0 || !c->req->idempotency_key)
		return r;
	return idempotency_set(
		txn, c->who->account_id, c->idempotency_key, c->req->request_hash, c->row.id,
		c->row.created_unix_ms + c->core->limits.idempotency_hours * HOUR_MS, err);
}

/* Whether the rules that were asked for are no looser than those that there would be without. */
static int check_egress(const struct creation *c, const char *before_text, struct err *err)
{
	_cleanup_ruleset_ struct ruleset *before = NULL, *after = NULL;
	const size_t max = (size_t)c->core->limits.egress_rules_max;
	_cleanup_json_ json_t *json = NULL;
	int r;

	if (!c->req->egress || key_scope_may_loosen_egress(c->who->scope))
		return 0;
	if (!before_text)
		before_text = "[]";
	r = json_parse(before_text, strlen(before_text), &json, err);
	if (r == 0)
		r = ruleset_from_json(json, max, &before, err);
	if (r == 0)
		r = ruleset_from_json(c->req->egress, max, &after, err);
	return r < 0 ? r : authorize_egress(c->who, before, after, err);
}

/* A snapshot is looked up in the same transaction as the row that needs its template. */
static int look_up_snapshot(struct creation *c, struct db_txn *txn, struct err *err)
{
	int r;

	if (!c->req->snapshot)
		return 0;
	r = snapshot_find(txn, c->who, c->req->snapshot, &c->snapshot, err);
	if (r < 0)
		return r;
	if (!c->snapshot.ready)
		return err_code(err, -EBUSY, "snapshot_not_ready",
				"snapshot '%s' is still being made", c->snapshot.name);
	fill_from_snapshot(c);
	r = authorize_size(c->who, c->row.size, err);
	return r < 0 ? r : check_egress(c, c->snapshot.egress, err);
}

/* One that stands ready has a slot already. */
static int object_of(struct creation *c, struct err *err)
{
	if (!c->ready)
		return reserve_object(c->core, &c->row, &c->sb, err);
	c->sb = sandbox_ref(c->ready);
	return sandbox_net_take(c->sb, &c->row, err);
}

/* 1: there is one already. */
static int write_row(struct creation *c, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(c->core->db, &txn, err);

	if (r == 0)
		r = check_idempotency(c, &txn, err);
	if (r != 0)
		return r;
	r = look_up_snapshot(c, &txn, err);
	if (r == 0 && c->req->snapshot) /* whether it has a network is known only now */
		r = sandbox_net_take(c->sb, &c->row, err);
	if (r == 0)
		r = reserve_quota(c->core, &txn, c->who->account_id, 1, err);
	if (r == 0)
		r = insert_row(c, &txn, err);
	if (r < 0)
		return r;
	reserve_publish(c->sb, &c->row);
	return db_commit(&txn, err);
}

static int reserve(struct creation *c, struct err *err)
{
	int r = object_of(c, err);

	if (r < 0)
		return r;
	r = write_row(c, err);
	if (r != 0)
		reserve_withdraw(c->sb);
	return r;
}

static int look_up_and_reserve(struct creation *c, struct err *err)
{
	struct core *core = c->core;
	int r = 0;

	pthread_rwlock_rdlock(&core->images_lock);
	if (!c->req->snapshot)
		r = image_get(core->images,
			      c->req->image ? c->req->image : core->limits.default_image, &c->image,
			      err);
	if (r == 0) {
		fill_row(c);
		if (!c->req->snapshot)
			fill_shape(c);
		/* Whether its warden freezes it at the deadline was said when it was started. */
		if (!c->req->snapshot && !c->row.pause_on_timeout)
			c->ready = standby_take(core, c->row.template_key, &c->row);
		r = reserve(c, err);
		if (r != 0 && c->ready)
			standby_discard(STEAL(c->ready));
	}
	pthread_rwlock_unlock(&core->images_lock);
	return r;
}

/* ---- building ---- */

static bool is_cancelled(void *arg)
{
	return sandbox_end_wanted(arg);
}

static int check_wanted(const struct creation *c, struct err *err)
{
	if (!sandbox_end_wanted(c->sb))
		return 0;
	return err_code(err, -ECANCELED, "sandbox_ended",
			"sandbox '%s' was destroyed while it was being created", c->sb->id);
}

static int publish(struct creation *c, struct err *err)
{
	int r;

	abort_point("create.started");
	r = check_wanted(c, err);
	if (r == 0)
		r = start_publish(&c->sb, 1, c->row.generation, NULL, err);
	abort_point("create.published");
	return r;
}

static int start_from_template(struct creation *c, const struct template *template, struct err *err)
{
	const struct start_from from = {
		.row = &c->row,
		.generation = c->row.generation,
		.root_path = template->root_path,
		.memory_path = template->memory_path,
		.devices_path = template->state_path,
	};
	int r;

	say(c, 90, "copying the disk");
	r = start_copy_disk(template->disk_path, c->sb->disk_path, err);
	abort_point("create.disk");
	if (r == 0)
		r = check_wanted(c, err);
	if (r < 0)
		return r;
	say(c, 93, "starting the VM");
	r = start_sandbox(c->sb, &from, err);
	return r < 0 ? r : publish(c, err);
}

/* -EAGAIN: it was none any more, and is made as if there had been none. */
static int build_from_ready(struct creation *c, struct err *err)
{
	const struct start_from from = { .row = &c->row, .generation = c->row.generation };
	struct err why = ERR_INIT;
	int r;

	sandbox_unref(STEAL(c->ready));
	r = standby_adopt(c->sb, &from, &why);
	if (r == 0)
		return publish(c, err);
	log_warn("a sandbox that stood ready cannot be used", "sandbox=%s error=\"%s\"", c->sb->id,
		 why.message);
	return check_wanted(c, err) < 0 ? -ECANCELED : -EAGAIN;
}

static int build_from_template(struct creation *c, struct err *err)
{
	struct template *template;
	int r = template_use(c->core, &c->image, &c->shape, c->progress, c->progress_arg,
			     is_cancelled, c->sb, &template, err);

	if (r < 0)
		return r;
	r = start_from_template(c, template, err);
	template_release(c->core, template);
	return r;
}

static int build_from_snapshot(struct creation *c, struct err *err)
{
	struct saved_start saved;
	int r;

	say(c, 20, "copying the snapshot");
	r = snapshot_take_files(c->core, &c->snapshot, c->sb, err);
	abort_point("create.snapshot_taken");
	if (r == 0)
		r = check_wanted(c, err);
	if (r < 0)
		return r;
	say(c, 60, "starting the VM");
	saved_start_init(&saved, c->sb, &c->row, c->row.generation);
	r = start_sandbox(c->sb, &saved.from, err);
	if (r == 0)
		r = publish(c, err);
	saved_start_clear(&saved);
	if (r == 0)
		tree_remove(c->sb->pause_dir);
	return r;
}

static int build(struct creation *c, struct err *err)
{
	int r = c->ready ? build_from_ready(c, err) : -EAGAIN;

	if (r != -EAGAIN)
		return r;
	r = dir_make(c->sb->run_dir, 0700);
	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", c->sb->run_dir, strerror(-r));
	return c->req->snapshot ? build_from_snapshot(c, err) : build_from_template(c, err);
}

static int build_and_publish(struct creation *c, struct err *err)
{
	int r = check_wanted(c, err);

	abort_point("create.reserved");
	return r < 0 ? r : build(c, err);
}

/* What callers are told of a creation that failed: codes that say what to do are kept. */
static void name_failure(struct err *err)
{
	const char *const kept[] = { "disk_full",	   "sandbox_ended",
				     "image_damaged",	   "shutting_down",
				     "snapshot_damaged",   "snapshot_incomplete",
				     "snapshot_not_found", "snapshot_version_mismatch" };

	failure_name(err, "start_failed", kept, ARRAY_SIZE(kept));
}

static void undo(struct creation *c, const struct err *why)
{
	struct err err = ERR_INIT;
	bool wanted = sandbox_end_wanted(c->sb);
	char text[256];
	int r;

	str_copy(text, sizeof(text), why->message);
	sandbox_set_status(c->sb, SANDBOX_DESTROYING);
	if (wanted)
		r = sandbox_finish(c->sb, SANDBOX_DESTROYED, "destroyed_by_user",
				   "it was destroyed while it was being created", &err);
	else
		r = sandbox_finish(c->sb, SANDBOX_FAILED, "start_failed", text, &err);
	if (r == 0)
		return;
	log_error("a creation cannot be undone yet", "sandbox=%s error=\"%s\"", c->sb->id,
		  err.message);
	sandbox_finish_later(c->sb, END_RETRY_MS);
}

/* ---- the same once more ---- */

static int answer_same(struct creation *c, struct sandbox_info *ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(c->core, c->same_as, c->who->account_id);
	struct sandbox_info info = { 0 };
	int r;

	if (sb)
		sandbox_wait_created(sb, clock_boottime_ms() + c->core->limits.create_deadline_ms);
	r = load_info(c->core, c->same_as, c->who->account_id, &info, err);
	if (r < 0)
		return r;
	if (info.status == SANDBOX_CREATING) {
		err_code(err, -EBUSY, "idempotency_in_progress",
			 "sandbox '%s' of this idempotency key is still being created", info.id);
		err_hint(err, "send the same request again in some seconds");
		r = -EBUSY;
	} else if (info.status == SANDBOX_FAILED) {
		err_code(err, -EIO, "start_failed",
			 "the creation of this idempotency key failed: %s", info.reason_text);
		err_hint(err, "send the request again for a new attempt");
		r = -EIO;
	}
	if (r < 0)
		sandbox_info_clear(&info);
	else
		*ret = info;
	return r;
}

/* What the key may not, as far as the request alone tells. */
static int authorize(struct creation *c, struct err *err)
{
	const struct core_create_request *req = c->req;
	int r = authorize_making(c->who, err);

	if (r == 0 && json_array_size(req->networks) > 0)
		r = authorize_scope(c->who, "network", "put sandboxes into networks", err);
	if (r == 0 && req->timeout_minutes)
		r = authorize_lifetime(c->who, req->timeout_minutes, err);
	if (r == 0 && !req->snapshot)
		r = authorize_size(c->who, c->shape.size, err);
	if (r == 0 && !req->snapshot)
		r = check_egress(c, NULL, err);
	c->labels = authorize_add_labels(c->who, req->labels);
	if (r == 0)
		r = authorize_labels(c->who, c->labels, err);
	return r < 0 ? r : check_labels(&c->core->limits, c->labels, err);
}

/* Where nothing was asked for, it may reach everything, but from a key that may not loosen. */
static int make_egress(struct creation *c, struct err *err)
{
	if (c->req->egress || key_scope_may_loosen_egress(c->who->scope))
		return egress_text(c->core, c->req->egress, &c->egress, err);
	c->egress = xstrdup("[]");
	return 0;
}

static void make_idempotency_key(struct creation *c)
{
	const char *key = c->req->idempotency_key;

	if (key)
		c->idempotency_key = key_scope_narrows_sandboxes(c->who->scope)
					     ? xasprintf("%s %s", c->who->key_id, key)
					     : xstrdup(key);
}

static int create(struct creation *c, struct sandbox_info *ret, struct err *err)
{
	struct core *core = c->core;
	int r = check_create_request(&core->limits, c->req, err);

	if (r == 0)
		r = make_egress(c, err);
	if (r == 0 &&
	    (json_array_size(c->req->egress) > 0 || json_array_size(c->req->networks) > 0))
		r = core_net_require(core, err);
	if (r == 0 && !c->req->snapshot)
		r = shape_resolve(&core->limits, c->req, &c->shape, err);
	if (r == 0)
		r = authorize(c, err);
	make_idempotency_key(c);
	if (r == 0)
		r = reserve_check_isolation(core, err);
	if (r == 0)
		r = reserve_check_disk(core, err);
	if (r == 0)
		r = look_up_and_reserve(c, err);
	if (r < 0)
		return r;
	if (r == 1)
		return answer_same(c, ret, err);
	assert(c->sb); /* reserved */
	pthread_mutex_lock(&c->sb->op_lock);
	r = build_and_publish(c, err);
	if (r < 0) {
		name_failure(err);
		log_warn("sandbox not created", "sandbox=%s account=%s code=%s error=\"%s\"",
			 c->sb->id, c->sb->account_id, err_code_of(err), err->message);
		failure_hide_host(core, err, "create the sandbox");
		undo(c, err);
	}
	metrics_step(core, c->ready ? METRICS_CREATE_STANDBY : METRICS_CREATE, r,
		     c->began_boottime_ms * 1000);
	pthread_mutex_unlock(&c->sb->op_lock);
	if (r < 0)
		return r;
	log_info("sandbox created", "sandbox=%s account=%s image=%s size=%s duration_ms=%lld",
		 c->sb->id, c->sb->account_id, c->row.image, c->row.size,
		 (long long)(clock_boottime_ms() - c->began_boottime_ms));
	return load_info(core, c->sb->id, c->sb->account_id, ret, err);
}

int core_create(struct core *core, const struct principal *who,
		const struct core_create_request *req, core_progress_fn progress, void *arg,
		struct sandbox_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_(creation_clear) struct creation c = {
		.core = core,
		.who = who,
		.req = req,
		.progress = progress,
		.progress_arg = arg,
	};
	struct err own = ERR_INIT;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = create(&c, ret,
		   &own); /* a failure is logged and stored: it needs its reason in any case */
	if (r < 0 && err)
		*err = own;
	return r;
}
