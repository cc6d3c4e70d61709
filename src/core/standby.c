/*
 * Sandboxes that stand ready: restored from the template of the default image and size, warmed by a
 * first command, without row, account and identity, on a slot of the network that denies
 * everything. A creation takes one over in the time of two transactions and a hello.
 *
 * Each has the id and the uid of the sandbox that it may become, because they name its jail. It is
 * in the list or taken, never both; the list has a lock of its own, held for moments. One job at a
 * time makes one, or gives up those that are not wanted: for another template, at their own
 * deadline, or while the host has little memory.
 *
 *   1 files      the directory, a copy of the template's disk; there is no row
 *   2 start      the VM, and a first command in it
 *   3 ready      it is in the list
 *   4 taken      its row is written: from here on it is a creation (create.c)
 *
 * A daemon that dies leaves directories without rows, which recovery sweeps like any other.
 */
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
#include "host/check.h"
#include "core/warm_up.h"

#define LIFE_MS		(6 * 60 * 60 * 1000LL) /* then it is made anew */
#define LIFE_LEFT_MS	(60 * 1000LL)
#define RETRY_MS	(30 * 1000LL)
#define CALM_MS		2000 /* from a hand-over until the next one is made */
#define IDENTITY_ROUNDS 2

struct ready {
	struct ready *next;
	struct sandbox *sb; /* a reference */
	char template_key[33];
	int64_t uid;
};

struct standby {
	pthread_mutex_t lock;
	struct ready *list;
	size_t n;
	bool busy; /* a job is under way */
	int64_t not_before_ms;
	int64_t uid_being_made;
};

int standby_init(struct core *core)
{
	core->standby = xcalloc(1, sizeof(*core->standby));
	pthread_mutex_init(&core->standby->lock, NULL);
	return 0;
}

static void end_one(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_end_vm(sb, "destroyed_by_user", &err) < 0)
		log_warn("a sandbox that stood ready does not end", "sandbox=%s error=\"%s\"",
			 sb->id, err.message);
	else
		tree_remove(sb->dir);
	sandbox_net_release(sb);
	pthread_mutex_unlock(&sb->op_lock);
}

void standby_discard(struct sandbox *sb)
{
	end_one(sb);
	sandbox_unref(sb);
}

void standby_free(struct core *core)
{
	struct standby *standby = core->standby;

	if (!standby)
		return;
	while (standby->list) {
		struct ready *one = standby->list;

		standby->list = one->next;
		standby_discard(one->sb);
		free(one);
	}
	pthread_mutex_destroy(&standby->lock);
	free(STEAL(core->standby));
}

size_t standby_count(struct core *core)
{
	size_t n;

	pthread_mutex_lock(&core->standby->lock);
	n = core->standby->n;
	pthread_mutex_unlock(&core->standby->lock);
	return n;
}

bool standby_has_uid(struct core *core, int64_t uid)
{
	struct standby *standby = core->standby;
	bool has = false;

	pthread_mutex_lock(&standby->lock);
	has = standby->uid_being_made == uid;
	for (const struct ready *one = standby->list; one; one = one->next)
		has |= one->uid == uid;
	pthread_mutex_unlock(&standby->lock);
	return has;
}

/* ---- taking ---- */

struct sandbox *standby_take(struct core *core, const char *template_key, struct sandbox_row *row)
{
	struct standby *standby = core->standby;
	struct sandbox *sb = NULL;
	struct ready *one = NULL;

	pthread_mutex_lock(&standby->lock);
	for (struct ready **p = &standby->list; *p; p = &(*p)->next) {
		if (!str_eq((*p)->template_key, template_key) || sandbox_vm_has_ended((*p)->sb, 0))
			continue;
		one = *p;
		*p = one->next;
		standby->n--;
		break;
	}
	/* Making another one takes the CPU that the first commands in this one want. */
	if (one && standby->not_before_ms < clock_boottime_ms() + CALM_MS)
		standby->not_before_ms = clock_boottime_ms() + CALM_MS;
	pthread_mutex_unlock(&standby->lock);
	if (!one)
		return NULL;
	sb = one->sb;
	str_copy(row->id, sizeof(row->id), sb->id);
	row->uid = one->uid;
	free(one);
	return sb;
}

int standby_adopt(struct sandbox *sb, const struct start_from *from, struct err *err)
{
	int64_t began_us = clock_boottime_us(), extended_us;
	int r = vmm_extend(sb->core->driver, &sb->vm, sb->expires_boottime_ms,
			   clock_boottime_ms() + VM_EXTEND_DEADLINE_MS, err);

	extended_us = clock_boottime_us();
	if (r == 0)
		r = sandbox_net_apply(sb, from->row, err);
	if (r == 0)
		r = start_hand_over(sb, from, err);
	if (r == 0) {
		log_debug("handed over", "sandbox=%s deadline_us=%lld identity_us=%lld", sb->id,
			  (long long)(extended_us - began_us),
			  (long long)(clock_boottime_us() - extended_us));
		return 0;
	}
	sandbox_detach(sb);
	sandbox_end_vm(sb, "destroyed_by_user", NULL);
	tree_remove(sb->dir);
	return r;
}

/* ---- making ---- */

static bool memory_is_short(const struct core *core)
{
	int64_t available = host_available_mb();

	return available > 0 && available < core->limits.standby_free_memory_mb_min;
}

/* With an identity that nobody keeps: taking one over is what the guest does first when it is
 * handed over, and the second time it is several times faster, where it is emulated and on any
 * first write. */
static int open_as_nobody(struct sandbox *sb, struct agent **ret, struct err *err)
{
	char machine_id[33], hostname[24];
	const struct agent_identity nobody = {
		.apply = true,
		.epoch = 1,
		.hostname = hostname,
		.machine_id = machine_id,
	};
	struct agent_info info;

	rand_hex(machine_id, sizeof(machine_id) - 1);
	snprintf(hostname, sizeof(hostname), "standby-%.8s", machine_id);
	return agent_open(sb->core->loop, sb->agent_path, &nobody,
			  clock_boottime_ms() + sb->core->limits.create_deadline_ms, NULL, NULL,
			  ret, &info, err);
}

static int open_and_warm_up(struct sandbox *sb, struct err *err)
{
	struct agent *agent;
	int r = open_as_nobody(sb, &agent, err);

	if (r < 0)
		return r;
	r = warm_up(sb->core->loop, agent, sb->defaults.user, err);
	agent_close(agent);
	for (int i = 0; i < IDENTITY_ROUNDS && r == 0; i++) {
		r = open_as_nobody(sb, &agent, err);
		if (r == 0)
			agent_close(agent);
	}
	return r;
}

static int start_one(struct sandbox *sb, const struct sandbox_row *row,
		     const struct template *template, struct err *err)
{
	const struct start_from from = {
		.row = row,
		.root_path = template->root_path,
		.memory_path = template->memory_path,
		.devices_path = template->state_path,
	};
	int r = dir_make(sb->run_dir, 0700);

	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", sb->run_dir, strerror(-r));
	r = start_copy_disk(template->disk_path, sb->disk_path, err);
	abort_point("standby.files");
	if (r == 0)
		r = start_vm(sb, &from, err);
	if (r == 0)
		r = open_and_warm_up(sb, err);
	abort_point("standby.started");
	return r;
}

static int choose_uid(struct core *core, struct sandbox_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = reserve_uid(core, &txn, row, err);
	pthread_mutex_lock(&core->standby->lock);
	core->standby->uid_being_made = r == 0 ? row->uid : 0;
	pthread_mutex_unlock(&core->standby->lock);
	return r;
}

static void put(struct core *core, struct sandbox *sb, const struct sandbox_row *row)
{
	struct standby *standby = core->standby;
	struct ready *one = xcalloc(1, sizeof(*one));

	one->sb = sb;
	one->uid = row->uid;
	str_copy(one->template_key, sizeof(one->template_key), row->template_key);
	pthread_mutex_lock(&standby->lock);
	one->next = standby->list;
	standby->list = one;
	standby->n++;
	pthread_mutex_unlock(&standby->lock);
	log_info("a sandbox stands ready", "sandbox=%s", sb->id);
}

static int make_one(struct core *core, const struct image_info *image, const struct shape *shape,
		    const char *key, struct err *err)
{
	const struct principal nobody = { 0 };
	struct sandbox_row row = {
		.milli_vcpus = shape->milli_vcpus,
		.memory_mb = shape->memory_mb,
		.disk_gb = shape->disk_gb,
	};
	struct template *template;
	struct sandbox *sb;
	int r;

	reserve_fill(core, &nobody, &row);
	str_copy(row.template_key, sizeof(row.template_key), key);
	core_net_guest_address(core, row.guest_address);
	r = choose_uid(core, &row, err);
	if (r == 0)
		r = template_use(core, image, shape, NULL, NULL, NULL, NULL, &template, err);
	if (r != 0)
		return r;
	sb = sandbox_new(core, row.id, "");
	sb->expires_boottime_ms = clock_boottime_ms() + LIFE_MS;
	exec_defaults_init(&sb->defaults, image->config);
	r = sandbox_net_take(sb, &row, err);
	if (r == 0)
		r = start_one(sb, &row, template, err);
	template_release(core, template);
	if (r < 0)
		standby_discard(sb);
	else
		put(core, sb, &row);
	return r;
}

/* ---- what is wanted ---- */

static bool is_stale(const struct ready *one, const char *key)
{
	return !key || !str_eq(one->template_key, key) || sandbox_vm_has_ended(one->sb, 0) ||
	       one->sb->expires_boottime_ms - clock_boottime_ms() < LIFE_LEFT_MS;
}

/* Takes one out of the list that is not wanted; NULL when all are. */
static struct sandbox *take_stale(struct standby *standby, const char *key)
{
	struct sandbox *sb = NULL;

	pthread_mutex_lock(&standby->lock);
	for (struct ready **p = &standby->list; *p && !sb; p = &(*p)->next) {
		struct ready *one = *p;

		if (!is_stale(one, key))
			continue;
		sb = one->sb;
		*p = one->next;
		standby->n--;
		free(one);
		break;
	}
	pthread_mutex_unlock(&standby->lock);
	return sb;
}

static int tend(struct core *core, struct err *err)
{
	const struct core_create_request req = { 0 };
	struct standby *standby = core->standby;
	bool scarce = memory_is_short(core);
	struct image_info image;
	struct sandbox *stale;
	struct shape shape;
	char key[33] = "";
	int r = image_get(core->images, core->limits.default_image, &image, NULL);

	if (r == 0)
		r = shape_resolve(&core->limits, &req, &shape, err);
	if (r == 0)
		template_key(core, image.digest, &shape, key);
	while ((stale = take_stale(standby, r < 0 || scarce ? NULL : key)))
		standby_discard(stale);
	/* Without its image there is nothing to make, and nothing wrong. */
	if (r < 0 || scarce || (int64_t)standby->n >= core->limits.standby_per_template)
		return 0;
	r = reserve_check_disk(core, err);
	if (r == 0)
		r = reserve_check_isolation(core, err);
	return r < 0 ? r : make_one(core, &image, &shape, key, err);
}

static void tend_job(void *arg)
{
	struct core *core = arg;
	struct standby *standby = core->standby;
	struct err err = ERR_INIT;
	int r = tend(core, &err);

	if (r < 0)
		log_warn("no sandbox can be made to stand ready", "error=\"%s\"", err.message);
	pthread_mutex_lock(&standby->lock);
	standby->uid_being_made = 0;
	standby->busy = false;
	if (r < 0)
		standby->not_before_ms = clock_boottime_ms() + RETRY_MS;
	pthread_mutex_unlock(&standby->lock);
}

void standby_look(struct core *core)
{
	struct standby *standby = core->standby;
	bool begin;

	if (!standby || !core->recovered ||
	    (core->limits.standby_per_template == 0 && standby->n == 0))
		return;
	pthread_mutex_lock(&standby->lock);
	begin = !standby->busy && clock_boottime_ms() >= standby->not_before_ms;
	standby->busy |= begin;
	pthread_mutex_unlock(&standby->lock);
	if (begin)
		core_job(core, tend_job, core, 0);
}
