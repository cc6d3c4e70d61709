/* See network_rig.h. */
#include "network_rig.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"

void rig_open(struct fixture *f)
{
	_cleanup_free_ char *path = xasprintf("%s/state/admin.key", f->dir);
	_cleanup_buf_ struct buf key = BUF_INIT;

	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	assert_int_equal(file_read(path, 100, &key), 0);
	principal_clear(&f->admin);
	assert_int_equal(core_authenticate(f->core, key.data, key.len - 1, &f->admin, NULL), 0);
}

int rig_setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_free_ char *images = NULL;

	fake_slots_reset();
	scratch_make(f->dir);
	images = xasprintf("%s/images", f->dir);
	f->config.state_dir = xasprintf("%s/state", f->dir);
	f->config.network = &f->network;
	f->network.mode = CORE_NETWORK_ON;
	f->next_uid = 1;
	core_limits_init(&f->config.limits);
	core_limits_set(&f->config.limits, "egress_rules_max", "4", NULL);
	core_limits_set(&f->config.limits, "networks_per_account", "10", NULL);
	assert_int_equal(loop_new(&f->config.loop, NULL), 0);
	assert_int_equal(loop_start(f->config.loop, "loop", NULL), 0);
	assert_int_equal(pool_new(4, 100, &f->config.pool, NULL), 0);
	assert_int_equal(image_store_new(images, f->dir, &f->config.images, NULL), 0);
	rig_open(f);
	*state = f;
	return 0;
}

int rig_teardown(void **state)
{
	struct fixture *f = *state;

	principal_clear(&f->admin);
	core_free(f->core, 1000);
	pool_free(f->config.pool);
	loop_free(f->config.loop);
	image_store_free(f->config.images);
	free((char *)f->config.state_dir);
	scratch_remove(f->dir);
	fake_slots_reset();
	free(f);
	return 0;
}

/* ---- sandboxes without machines ---- */

/* As a creation makes one, but for the machine. */
struct sandbox *make_sandbox(struct fixture *f, const char *name, const char *egress)
{
	return make_labelled(f, name, egress, "{}");
}

struct sandbox *make_labelled(struct fixture *f, const char *name, const char *egress,
			      const char *labels)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_(sandbox_row_clear) struct sandbox_row row = {
		.size = "small",
		.milli_vcpus = 1000,
		.memory_mb = 1024,
		.disk_gb = 10,
		.status = "running",
		.image = "base",
		.image_digest = "sha256:0",
		.isolation = "emulated",
		.generation = 1,
	};
	struct sandbox *sb;
	char random[13];

	rand_hex(random, sizeof(random) - 1);
	snprintf(row.id, sizeof(row.id), "sbx_%s", random);
	str_copy(row.name, sizeof(row.name), name);
	str_copy(row.node_id, sizeof(row.node_id), f->core->node_id);
	str_copy(row.account_id, sizeof(row.account_id), f->admin.account_id);
	row.labels = xstrdup(labels);
	row.egress = xstrdup(egress);
	row.uid = f->next_uid++;
	row.created_unix_ms = clock_unix_ms();
	row.expires_unix_ms = row.created_unix_ms + 600000;
	core_net_guest_address(f->core, row.guest_address);
	assert_int_equal(reserve_object(f->core, &row, &sb, NULL), 0);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(reserve_row(f->core, &txn, &row, NULL), 0);
	reserve_publish(sb, &row);
	assert_int_equal(db_commit(&txn, NULL), 0);
	assert_int_equal(sandbox_net_apply(sb, &row, NULL), 0);
	sandbox_set_status(sb, SANDBOX_RUNNING);
	return sb;
}

void load_row(struct sandbox *sb, struct sandbox_row *row)
{
	*row = (struct sandbox_row){ 0 };
	assert_int_equal(sandbox_load_row(sb, row, NULL), 0);
}

const struct fake_slot *slot_of(const struct sandbox *sb)
{
	return &fake.slots[slot_index(sb->net.slot)];
}

int set_rules(struct fixture *f, struct sandbox *sb, const char *rules, struct err *err)
{
	_cleanup_json_ json_t *value = NULL, *result = NULL;

	assert_int_equal(json_parse(rules, strlen(rules), &value, NULL), 0);
	return core_egress_set(f->core, &f->admin, sb->id, value, &result, err);
}

/* ---- restarts of the daemon ---- */

void rig_restart(struct fixture *f)
{
	core_free(f->core, 1000);
	fake.events[0] = '\0';
	for (size_t i = 0; i < SLOT_INDEX_MAX; i++) {
		fake.slots[i].waiting = fake.slots[i].taken;
		fake.slots[i].taken = false;
	}
	rig_open(f);
}

struct sandbox *adopt(struct fixture *f, const char *id)
{
	struct sandbox *sb = sandbox_new(f->core, id, f->admin.account_id);
	_cleanup_(sandbox_row_clear) struct sandbox_row row;

	sandbox_set_status(sb, SANDBOX_RUNNING);
	table_add(sb);
	load_row(sb, &row);
	sandbox_net_adopt(sb, &row);
	return sb;
}
