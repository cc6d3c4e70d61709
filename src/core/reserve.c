/*
 * Reserving new sandboxes: what is checked before, the row (with quota and uid in one transaction)
 * and the object. A creation, a fork and what stands ready all begin here.
 */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"

#define UID_ATTEMPTS 64
#define MINUTE_MS    60000LL

int reserve_check_isolation(const struct core *core, struct err *err)
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

int reserve_check_disk(const struct core *core, struct err *err)
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

/* The quota is counted where the row is written, so that of two the last place goes to one. */
int reserve_quota(struct core *core, struct db_txn *txn, const char *account_id, int64_t n,
		  struct err *err)
{
	int64_t limit = core->limits.sandboxes_per_account;
	int64_t alive;
	int r = sandboxes_count_alive(txn, account_id, &alive, err);

	if (r < 0)
		return r;
	if (alive + n <= limit)
		return 0;
	if (n > 1)
		err_code(err, -EDQUOT, "quota_reached",
			 "%lld sandboxes are alive, the limit is %lld: there is no room for %lld "
			 "more",
			 (long long)alive, (long long)limit, (long long)n);
	else
		err_code(err, -EDQUOT, "quota_reached",
			 "%lld sandboxes are alive, the limit is %lld", (long long)alive,
			 (long long)limit);
	err_hint(err, "destroy or pause one that is not needed now, then try again");
	return -EDQUOT;
}

void reserve_fill(const struct core *core, const struct principal *who, struct sandbox_row *row)
{
	char random[13];

	rand_hex(random, sizeof(random) - 1);
	snprintf(row->id, sizeof(row->id), "sbx_%s", random);
	rand_hex(row->machine_id, sizeof(row->machine_id) - 1);
	str_copy(row->node_id, sizeof(row->node_id), core->node_id);
	str_copy(row->account_id, sizeof(row->account_id), who->account_id);
	str_copy(row->key_id, sizeof(row->key_id), who->key_id);
	str_copy(row->status, sizeof(row->status), sandbox_status_name(SANDBOX_CREATING));
	str_copy(row->isolation, sizeof(row->isolation),
		 vmm_isolation_name(vmm_driver_isolation(core->driver)));
	row->generation = 1;
	row->created_unix_ms = clock_unix_ms();
}

int reserve_uid(struct core *core, struct db_txn *txn, struct sandbox_row *row, struct err *err)
{
	const struct core_limits *limits = &core->limits;

	for (int i = 0; i < UID_ATTEMPTS; i++) {
		uint32_t random;
		bool taken;
		int r;

		rand_bytes(&random, sizeof(random));
		row->uid = limits->sandbox_uid_base + random % limits->sandbox_uid_count;
		r = sandboxes_uid_taken(txn, row->node_id, row->uid, &taken, err);
		if (r < 0)
			return r;
		if (!taken && !standby_has_uid(core, row->uid))
			return 0;
	}
	return err_set(err, -EUSERS, "no free uid for another sandbox on this host");
}

int reserve_row(struct core *core, struct db_txn *txn, struct sandbox_row *row, struct err *err)
{
	_cleanup_free_ struct sandbox_label *labels = NULL;
	_cleanup_json_ json_t *parsed = NULL;
	const char *name;
	json_t *value;
	size_t n = 0;
	int r = row->uid ? 0 : reserve_uid(core, txn, row, err);

	if (r == 0)
		r = json_parse(row->labels, strlen(row->labels), &parsed, err);
	if (r < 0)
		return r;
	labels = xcalloc(json_object_size(parsed) + 1, sizeof(*labels));
	json_object_foreach(parsed, name, value) {
		labels[n++] = (struct sandbox_label){ name, json_string_value(value) };
	}
	r = sandboxes_insert(txn, row, labels, n, err);
	if (r == 0)
		r = meter_reserve(core, txn, row, row->generation, err);
	return r < 0 ? r : event_created(txn, core, row, err);
}

void reserve_bind(struct sandbox *sb, const struct sandbox_row *row)
{
	str_copy(sb->account_id, sizeof(sb->account_id), row->account_id);
	sb->created_unix_ms = row->created_unix_ms;
	sb->expires_unix_ms = row->expires_unix_ms;
	sb->expires_boottime_ms = clock_boottime_ms() + row->expires_unix_ms - clock_unix_ms();
	sb->pause_on_timeout = row->pause_on_timeout;
	sb->memory_mb = row->memory_mb;
	sb->idle_pause_ms = row->idle_pause_minutes * MINUTE_MS;
	exec_defaults_init(&sb->defaults, row->image_config);
}

int reserve_object(struct core *core, struct sandbox_row *row, struct sandbox **ret,
		   struct err *err)
{
	struct sandbox *sb = sandbox_new(core, row->id, row->account_id);
	int r = sandbox_net_take(sb, row, err);

	if (r < 0) {
		sandbox_unref(sb);
		return r;
	}
	*ret = sb;
	return 0;
}

void reserve_publish(struct sandbox *sb, const struct sandbox_row *row)
{
	reserve_bind(sb, row);
	table_add(sb);
}

void reserve_withdraw(struct sandbox *sb)
{
	table_remove(sb);
	sandbox_net_release(sb);
}
