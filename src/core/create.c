/*
 * Creating a sandbox.
 *
 *   check           the request, the image, the host's free space: nothing has happened yet
 *   reserve         one transaction: quota, idempotency key, uid, the row (creating)
 *   build           directory, template, disk, VM, the agent's answer
 *   publish         the row (running)
 *
 * From the reservation on, whatever fails leads to sandbox_finish, which undoes what there is. A
 * wish to destroy is looked at between the steps; a daemon that dies leaves the row as creating,
 * and its next start undoes the rest.
 */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"

#define MINUTE_MS    60000LL
#define HOUR_MS	     (60 * MINUTE_MS)
#define UID_ATTEMPTS 64

struct creation {
	struct core *core;
	const struct principal *who;
	const struct core_create_request *req;
	core_progress_fn progress;
	void *progress_arg;
	struct shape shape;
	struct image_info image;
	struct sandbox_row row;
	int64_t began_boottime_ms;
	struct sandbox *sb;
	char same_as[24]; /* the sandbox that the idempotency key already stands for */
};

static void creation_clear(struct creation *c)
{
	sandbox_row_clear(&c->row);
	sandbox_unref(c->sb);
}

static void say(const struct creation *c, int percent, const char *what)
{
	if (c->progress)
		c->progress(c->progress_arg, percent, what);
}

/* ---- checking ---- */

static int check_isolation(const struct core *core, struct err *err)
{
	if (!str_eq(core->limits.require_isolation, "kvm") ||
	    vmm_driver_isolation(core->driver) == VMM_KVM)
		return 0;
	err_code(err, -ENOTSUP, "isolation_unavailable",
		 "this server insists on hardware virtualization, and the host has none: %s",
		 vmm_driver_isolation_reason(core->driver));
	err_hint(err, "run skerry doctor on the host, or set require_isolation = any");
	return -ENOTSUP;
}

static int check_disk(const struct core *core, struct err *err)
{
	struct statvfs fs;
	int64_t free_mb;

	if (statvfs(core->state_dir, &fs) < 0)
		return err_set(err, -errno, "statvfs '%s': %s", core->state_dir, strerror(errno));
	free_mb = (int64_t)(fs.f_bavail * fs.f_frsize / (1024 * 1024));
	if (free_mb >= core->limits.host_free_disk_mb_min)
		return 0;
	err_code(err, -ENOSPC, "disk_full", "the host has %lld MB of free disk, %lld are kept free",
		 (long long)free_mb, (long long)core->limits.host_free_disk_mb_min);
	err_hint(err, "destroy sandboxes that are not needed, or make room on the host");
	return -ENOSPC;
}

static void fill_row(struct creation *c)
{
	const struct core_limits *limits = &c->core->limits;
	const struct core_create_request *req = c->req;
	struct sandbox_row *row = &c->row;
	uint32_t minutes = req->timeout_minutes ? req->timeout_minutes
						: (uint32_t)limits->timeout_minutes_default;
	_cleanup_buf_ struct buf labels = BUF_INIT;
	char random[13];

	rand_hex(random, sizeof(random) - 1);
	snprintf(row->id, sizeof(row->id), "sbx_%s", random);
	str_copy(row->node_id, sizeof(row->node_id), c->core->node_id);
	str_copy(row->account_id, sizeof(row->account_id), c->who->account_id);
	str_copy(row->key_id, sizeof(row->key_id), c->who->key_id);
	str_copy(row->name, sizeof(row->name), req->name ? req->name : "");
	str_copy(row->status, sizeof(row->status), sandbox_status_name(SANDBOX_CREATING));
	str_copy(row->size, sizeof(row->size), c->shape.size);
	row->milli_vcpus = c->shape.milli_vcpus;
	row->memory_mb = c->shape.memory_mb;
	row->disk_gb = c->shape.disk_gb;
	str_copy(row->image, sizeof(row->image), c->image.name);
	str_copy(row->image_digest, sizeof(row->image_digest), c->image.digest);
	str_copy(row->isolation, sizeof(row->isolation),
		 vmm_isolation_name(vmm_driver_isolation(c->core->driver)));
	if (req->labels)
		json_write(req->labels, &labels);
	row->labels = labels.len ? buf_take(&labels) : xstrdup("{}");
	row->generation = 1;
	c->began_boottime_ms = clock_boottime_ms();
	row->created_unix_ms = clock_unix_ms();
	row->expires_unix_ms = row->created_unix_ms + minutes * MINUTE_MS;
}

/* ---- reserving ---- */

/* The quota is counted where the row is written, so that of two the last place goes to one. */
static int check_quota(struct creation *c, struct db_txn *txn, struct err *err)
{
	int64_t limit = c->core->limits.sandboxes_per_account;
	int64_t alive;
	int r = sandboxes_count_alive(txn, c->who->account_id, &alive, err);

	if (r < 0)
		return r;
	if (alive < limit)
		return 0;
	err_code(err, -EDQUOT, "quota_reached", "%lld sandboxes are alive, the limit is %lld",
		 (long long)alive, (long long)limit);
	err_hint(err, "destroy one that is not needed any more, then try again");
	return -EDQUOT;
}

static int choose_uid(struct creation *c, struct db_txn *txn, struct err *err)
{
	const struct core_limits *limits = &c->core->limits;

	for (int i = 0; i < UID_ATTEMPTS; i++) {
		uint32_t random;
		bool taken;
		int r;

		rand_bytes(&random, sizeof(random));
		c->row.uid = limits->sandbox_uid_base + random % limits->sandbox_uid_count;
		r = sandboxes_uid_taken(txn, c->row.node_id, c->row.uid, &taken, err);
		if (r < 0)
			return r;
		if (!taken)
			return 0;
	}
	return err_set(err, -EUSERS, "no free uid for another sandbox on this host");
}

/* 1: the key stands for a sandbox already (c->same_as). */
static int check_idempotency(struct creation *c, struct db_txn *txn, struct err *err)
{
	struct idempotency_row row;
	int r;

	if (!c->req->idempotency_key)
		return 0;
	r = idempotency_get(txn, c->who->account_id, c->req->idempotency_key, clock_unix_ms(), &row,
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
	_cleanup_free_ struct sandbox_label *labels = NULL;
	size_t n = c->req->labels ? json_object_size(c->req->labels) : 0, i = 0;
	const char *name;
	json_t *value;
	int r;

	labels = xcalloc(n + 1, sizeof(*labels));
	json_object_foreach(c->req->labels, name, value)
		labels[i++] = (struct sandbox_label){ name, json_string_value(value) };
	r = sandboxes_insert(txn, &c->row, labels, n, err);
	if (r < 0 || !c->req->idempotency_key)
		return r;
	return idempotency_set(
		txn, c->who->account_id, c->req->idempotency_key, c->req->request_hash, c->row.id,
		c->row.created_unix_ms + c->core->limits.idempotency_hours * HOUR_MS, err);
}

/* 1: there is one already. The object is in the table before its row can be found. */
static int reserve(struct creation *c, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(c->core->db, &txn, err);

	if (r == 0)
		r = check_idempotency(c, &txn, err);
	if (r != 0)
		return r;
	r = check_quota(c, &txn, err);
	if (r == 0)
		r = choose_uid(c, &txn, err);
	if (r == 0)
		r = insert_row(c, &txn, err);
	if (r < 0)
		return r;
	c->sb = sandbox_new(c->core, c->row.id, c->row.account_id);
	c->sb->created_unix_ms = c->row.created_unix_ms;
	c->sb->expires_unix_ms = c->row.expires_unix_ms;
	c->sb->expires_boottime_ms =
		c->began_boottime_ms + (c->row.expires_unix_ms - c->row.created_unix_ms);
	table_add(c->sb);
	r = db_commit(&txn, err);
	if (r < 0)
		table_remove(c->sb);
	return r;
}

static int look_up_and_reserve(struct creation *c, struct err *err)
{
	struct core *core = c->core;
	int r;

	pthread_rwlock_rdlock(&core->images_lock);
	r = image_get(core->images, c->req->image ? c->req->image : core->limits.default_image,
		      &c->image, err);
	if (r == 0) {
		fill_row(c);
		r = reserve(c, err);
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

static int copy_disk(const struct creation *c, const struct template *template, struct err *err)
{
	int r = file_copy_sparse(template->disk_path, c->sb->disk_path, 0600);

	return r < 0 ? err_set(err, r, "copy the disk to '%s': %s", c->sb->disk_path, strerror(-r))
		     : 0;
}

static int start_vm(struct creation *c, const struct template *template, struct err *err)
{
	struct sandbox *sb = c->sb;
	const struct vmm_spec spec = {
		.name = sb->id,
		.run_dir = sb->run_dir,
		.vcpus = shape_vcpus(&c->shape),
		.memory_mb = c->shape.memory_mb,
		.root_image_path = c->image.path,
		.disk_path = sb->disk_path,
		.memory_path = template->memory_path,
		.device_state_path = template->state_path,
		.cpu_quota_percent = c->shape.milli_vcpus / 10,
		.uid = (uid_t)c->row.uid,
		.expires_boottime_ms = sb->expires_boottime_ms,
	};
	int r = vmm_start(c->core->driver, &spec,
			  clock_boottime_ms() + c->core->limits.create_deadline_ms, &sb->vm, err);

	sb->has_vm = r == 0;
	return r;
}

/* The guest's hostname: the sandbox's name, or its id in the letters that hostnames have. */
static int hand_over(struct creation *c, struct err *err)
{
	char hostname[SANDBOX_NAME_MAX + 1], machine_id[33];
	struct agent_identity identity = {
		.apply = true,
		.epoch = c->row.generation,
		.hostname = hostname,
		.machine_id = machine_id,
	};

	str_copy(hostname, sizeof(hostname), c->row.name[0] ? c->row.name : c->row.id);
	for (char *p = hostname; *p; p++)
		*p = *p == '_' ? '-' : *p;
	rand_hex(machine_id, sizeof(machine_id) - 1);
	return sandbox_connect(c->sb, &identity,
			       clock_boottime_ms() + c->core->limits.create_deadline_ms, err);
}

static int start_from_template(struct creation *c, const struct template *template, struct err *err)
{
	int r;

	say(c, 90, "copying the disk");
	r = copy_disk(c, template, err);
	if (r == 0)
		r = check_wanted(c, err);
	if (r < 0)
		return r;
	say(c, 93, "starting the VM");
	r = start_vm(c, template, err);
	if (r < 0)
		return r;
	say(c, 96, "waiting for the guest's agent");
	return hand_over(c, err);
}

static int build(struct creation *c, struct err *err)
{
	struct template *template;
	int r = dir_make(c->sb->run_dir, 0700);

	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", c->sb->run_dir, strerror(-r));
	r = template_use(c->core, &c->image, &c->shape, c->progress, c->progress_arg, is_cancelled,
			 c->sb, &template, err);
	if (r < 0)
		return r;
	r = start_from_template(c, template, err);
	template_release(c->core, template);
	return r;
}

/* ---- publishing ---- */

static int write_running(const struct creation *c, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", c->sb->run_dir, VMM_RECORD_NAME);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct record record;
	int r = record_read(path, &record, err);

	if (r == 0)
		r = db_begin_write(c->core->db, &txn, err);
	if (r == 0)
		r = sandboxes_move(&txn, c->sb->id, "creating", "running", err);
	if (r == 0)
		r = sandboxes_set_started(&txn, c->sb->id, record.start_unix_ms, err);
	if (r == -ESTALE) /* destroyed meanwhile */
		return check_wanted(c, err) < 0 ? -ECANCELED : r;
	return r < 0 ? r : db_commit(&txn, err);
}

static int build_and_publish(struct creation *c, struct err *err)
{
	int r = check_wanted(c, err);

	if (r == 0)
		r = build(c, err);
	if (r == 0)
		r = check_wanted(c, err);
	if (r == 0)
		r = write_running(c, err);
	if (r < 0)
		return r;
	sandbox_set_status(c->sb, SANDBOX_RUNNING);
	sandbox_watch(c->sb);
	return 0;
}

/* What callers are told of a creation that failed: codes that say what to do are kept. */
static void name_failure(struct err *err)
{
	const char *const kept[] = { "disk_full", "sandbox_ended", "image_damaged",
				     "shutting_down" };
	const char *code = err_code_of(err);

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		if (str_eq(code, kept[i]))
			return;
	}
	err->code = "start_failed";
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

static int create(struct creation *c, struct sandbox_info *ret, struct err *err)
{
	struct core *core = c->core;
	int r = shape_resolve(&core->limits, c->req, &c->shape, err);

	if (r == 0)
		r = check_create_request(&core->limits, c->req, err);
	if (r == 0)
		r = check_isolation(core, err);
	if (r == 0)
		r = check_disk(core, err);
	if (r == 0)
		r = look_up_and_reserve(c, err);
	if (r < 0)
		return r;
	if (r == 1)
		return answer_same(c, ret, err);
	pthread_mutex_lock(&c->sb->op_lock);
	r = build_and_publish(c, err);
	if (r < 0) {
		name_failure(err);
		log_warn("sandbox not created", "sandbox=%s account=%s code=%s error=\"%s\"",
			 c->sb->id, c->sb->account_id, err_code_of(err), err->message);
		undo(c, err);
	}
	pthread_mutex_unlock(&c->sb->op_lock);
	if (r < 0)
		return r;
	log_info("sandbox created", "sandbox=%s account=%s image=%s size=%s duration_ms=%lld",
		 c->sb->id, c->sb->account_id, c->image.name, c->shape.size,
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
