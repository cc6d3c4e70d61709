/* What the core does with slots, rules, private networks and denials: on slots without a kernel and
 * sandboxes without machines. */
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"
#include "fake_slots.h"
#include "store/egress.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	struct core_network_config network;
	struct core_config config;
	struct core *core;
	struct principal admin;
	int64_t next_uid;
};

static void open_core(struct fixture *f)
{
	_cleanup_free_ char *path = xasprintf("%s/state/admin.key", f->dir);
	_cleanup_buf_ struct buf key = BUF_INIT;

	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	assert_int_equal(file_read(path, 100, &key), 0);
	assert_int_equal(core_authenticate(f->core, key.data, key.len - 1, &f->admin, NULL), 0);
}

static int setup(void **state)
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
	open_core(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

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
static struct sandbox *make_sandbox(struct fixture *f, const char *name, const char *egress)
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
	row.labels = xstrdup("{}");
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

static void load_row(struct sandbox *sb, struct sandbox_row *row)
{
	*row = (struct sandbox_row){ 0 };
	assert_int_equal(sandbox_load_row(sb, row, NULL), 0);
}

static const struct fake_slot *slot_of(const struct sandbox *sb)
{
	return &fake.slots[slot_index(sb->net.slot)];
}

static int set(struct fixture *f, struct sandbox *sb, const char *rules, struct err *err)
{
	_cleanup_json_ json_t *value = NULL, *result = NULL;

	assert_int_equal(json_parse(rules, strlen(rules), &value, NULL), 0);
	return core_egress_set(f->core, &f->admin, sb->id, value, &result, err);
}

/* ---- the host ---- */

static void assert_check(struct fixture *f, bool ok, const char *detail, const char *fix)
{
	char text[320];
	const char *said;
	bool is_ok;

	core_net_check(f->core, &is_ok, text, sizeof(text), &said);
	assert_int_equal(is_ok, ok);
	assert_non_null(strstr(text, detail));
	if (fix)
		assert_non_null(strstr(said, fix));
}

static void test_without_a_filter_there_is_no_network(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct core_network_member member;
	struct sandbox *sb;
	int64_t created;

	core_free(f->core, 1000);
	fake.broken = true;
	assert_int_equal(core_new(&f->config, &f->core, &err), -EPERM);
	assert_non_null(strstr(err.message, "cannot be loaded"));
	f->network.mode = CORE_NETWORK_AUTO;
	open_core(f);
	assert_check(f, false, "no network: the program cannot be loaded", "CAP_BPF");
	sb = make_sandbox(f, "", "null");
	assert_null(sb->net.slot);
	assert_string_equal(fake.events, "");
	err = ERR_INIT;
	assert_int_equal(set(f, sb, "[]", &err), -ENOTSUP);
	assert_string_equal(err_code_of(&err), "network_unavailable");
	assert_int_equal(core_network_create(f->core, &f->admin, "team", &created, NULL), 0);
	assert_int_equal(core_network_join(f->core, &f->admin, "team", sb->id, NULL, &member, &err),
			 -ENOTSUP);
	sandbox_unref(sb);
}

static void test_switched_off(void **state)
{
	struct fixture *f = *state;

	core_free(f->core, 1000);
	f->network.mode = CORE_NETWORK_OFF;
	open_core(f);
	assert_check(f, false, "switched off", "mode = auto");
}

/* A machine keeps its device: with another range its guest's address would be wrong. */
static void test_another_range(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row row = { .guest_address = "10.9.0.2" };
	struct sandbox *sb = make_sandbox(f, "", "[]");
	struct err err = ERR_INIT;

	assert_check(f, true, "eBPF", NULL);
	assert_int_equal(sandbox_net_take(sb, &row, &err), -ENOTSUP);
	assert_string_equal(err_code_of(&err), "network_unavailable");
	assert_non_null(strstr(err.message, "10.9.0.2"));
	sandbox_unref(sb);
}

/* ---- rules ---- */

static void test_a_slot_has_its_policy_before_the_guest_runs(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[\"192.0.2.1:443\"]");
	_cleanup_(sandbox_row_clear) struct sandbox_row row;
	struct ruleset *rules;

	assert_string_equal(fake.events, "take 0\npolicy 0 list\nrecheck 0\n");
	assert_int_equal(slot_of(sb)->policy.n_addresses, 1);
	load_row(sb, &row);
	assert_true(row.has_slot);
	assert_int_equal(row.slot, slot_index(sb->net.slot));
	assert_string_equal(row.guest_address, FAKE_GUEST_ADDRESS);
	/* The name server knows it, and nobody else. */
	rules = fake.clients.rules(fake.clients.arg, fake_address(0));
	assert_non_null(rules);
	assert_int_equal(rules->state, POLICY_LIST);
	ruleset_unref(rules);
	assert_null(fake.clients.rules(fake.clients.arg, fake_address(1)));
	assert_null(fake.clients.rules(fake.clients.arg, 0x01020304));
	sandbox_unref(sb);
}

static void expect_intent(void *arg, uint32_t index)
{
	struct sandbox *sb = arg;
	_cleanup_(sandbox_row_clear) struct sandbox_row row;

	load_row(sb, &row);
	assert_string_equal(row.egress, "null");
	assert_string_equal(row.egress_next, "[\"example.com:443\"]");
	fake.on_policy = NULL;
}

static void test_a_change_is_written_before_and_after(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "null");
	_cleanup_(sandbox_row_clear) struct sandbox_row row;
	_cleanup_json_ json_t *rules = NULL;
	struct err err = ERR_INIT;

	fake.on_policy = expect_intent;
	fake.on_policy_arg = sb;
	assert_int_equal(set(f, sb, "[\"EXAMPLE.com.:443\"]", &err), 0);
	assert_null(fake.on_policy); /* it was called */
	load_row(sb, &row);
	assert_string_equal(row.egress, "[\"example.com:443\"]");
	assert_null(row.egress_next);
	assert_int_equal(slot_of(sb)->policy.n_hosts, 1);
	assert_int_equal(core_egress_get(f->core, &f->admin, sb->id, &rules, NULL), 0);
	assert_string_equal(json_string_value(json_array_get(rules, 0)), "example.com:443");
	sandbox_unref(sb);
}

static void test_three_states(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "null");
	struct err err = ERR_INIT;

	assert_int_equal(slot_of(sb)->policy.state, POLICY_OPEN);
	assert_int_equal(set(f, sb, "[]", &err), 0);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_NOTHING);
	assert_int_equal(set(f, sb, "[\"192.0.2.0/24\"]", &err), 0);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_LIST);
	assert_int_equal(set(f, sb, "null", &err), 0);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_OPEN);
	sandbox_unref(sb);
}

static void test_one_malformed_rule_refuses_the_set(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[\"a.example:443\"]");
	_cleanup_(sandbox_row_clear) struct sandbox_row row;
	const char *const bad[] = { "[\"b.example\", \"http://c.example\"]", "[\"b.example\", 1]",
				    "{}", "\"open\"", "[\"1.2.3\"]" };
	struct err err = ERR_INIT;
	struct ruleset *rules;

	fake.events[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(set(f, sb, bad[i], &err), -EINVAL);
	assert_string_equal(err_code_of(&err), "invalid_egress_rule");
	assert_int_equal(set(f, sb,
			     "[\"1.1.1.1\", \"1.1.1.2\", \"1.1.1.3\", \"1.1.1.4\","
			     " \"1.1.1.5\"]",
			     &err),
			 -E2BIG);
	assert_string_equal(fake.events, "");
	load_row(sb, &row);
	assert_string_equal(row.egress, "[\"a.example:443\"]");
	assert_null(row.egress_next);
	rules = fake.clients.rules(fake.clients.arg, fake_address(0));
	assert_string_equal(rules->rules[0].host, "a.example");
	ruleset_unref(rules);
	sandbox_unref(sb);
}

static void test_what_the_kernel_refuses_changes_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[\"a.example\"]");
	_cleanup_(sandbox_row_clear) struct sandbox_row row;
	struct err err = ERR_INIT;

	fake.refuse_policy = true;
	assert_int_equal(set(f, sb, "null", &err), -ENOMEM);
	assert_non_null(strstr(err.message, "the map is full"));
	load_row(sb, &row);
	assert_string_equal(row.egress, "[\"a.example\"]");
	assert_null(row.egress_next);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_LIST);
	sandbox_unref(sb);
}

static int edit(struct fixture *f, struct sandbox *sb, const char *add, const char *remove,
		struct err *err)
{
	_cleanup_json_ json_t *a = add ? json_pack("[s]", add) : NULL;
	_cleanup_json_ json_t *r = remove ? json_pack("[s]", remove) : NULL;
	_cleanup_json_ json_t *result = NULL;

	*err = ERR_INIT;
	return core_egress_change(f->core, &f->admin, sb->id, a, r, &result, err);
}

static void test_adding_and_removing(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[\"a.example:443\"]");
	_cleanup_(sandbox_row_clear) struct sandbox_row row;
	struct err err;

	assert_int_equal(edit(f, sb, "B.example", NULL, &err), 0);
	assert_int_equal(edit(f, sb, "b.example.", NULL, &err), 0); /* it is there already */
	assert_int_equal(edit(f, sb, "c.example", "A.EXAMPLE:443", &err), 0);
	load_row(sb, &row);
	assert_string_equal(row.egress, "[\"b.example\",\"c.example\"]");
	assert_int_equal(edit(f, sb, NULL, "a.example:443", &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "rule_not_found");
	assert_int_equal(edit(f, sb, "no rule", NULL, &err), -EINVAL);
	/* Everything may be reached: to add something is no way to forbid the rest. */
	assert_int_equal(set(f, sb, "null", &err), 0);
	assert_int_equal(edit(f, sb, "d.example", NULL, &err), -EINVAL);
	assert_string_equal(err_code_of(&err), "egress_is_open");
	assert_int_equal(slot_of(sb)->policy.state, POLICY_OPEN);
	sandbox_unref(sb);
}

static void test_foreign_and_unknown(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "null");
	const struct principal other = { .account_id = "acc_other" };
	_cleanup_json_ json_t *nothing = json_array();
	struct core_network_member member;
	json_t *result;
	struct err err = ERR_INIT;
	uint64_t unreported;
	int64_t created;

	assert_int_equal(core_network_create(f->core, &f->admin, "team", &created, NULL), 0);
	assert_int_equal(core_egress_set(f->core, &other, sb->id, nothing, NULL, &err), -ENOENT);
	assert_int_equal(core_egress_get(f->core, &other, sb->id, &result, &err), -ENOENT);
	assert_int_equal(core_egress_denials(f->core, &other, sb->id, &result, &unreported, &err),
			 -ENOENT);
	assert_int_equal(core_network_join(f->core, &other, "team", sb->id, NULL, &member, &err),
			 -ENOENT);
	assert_int_equal(core_network_leave(f->core, &other, "team", sb->id, &err), -ENOENT);
	assert_int_equal(core_network_remove(f->core, &other, "team", &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "network_not_found");
	assert_int_equal(slot_of(sb)->policy.state, POLICY_OPEN);
	sandbox_unref(sb);
}

/* ---- restarts of the daemon ---- */

/* The slots stay as they are, and wait for the next daemon. */
static void restart(struct fixture *f)
{
	core_free(f->core, 1000);
	fake.events[0] = '\0';
	for (size_t i = 0; i < SLOT_INDEX_MAX; i++) {
		fake.slots[i].waiting = fake.slots[i].taken;
		fake.slots[i].taken = false;
	}
	open_core(f);
}

static struct sandbox *adopt(struct fixture *f, const char *id)
{
	struct sandbox *sb = sandbox_new(f->core, id, f->admin.account_id);
	_cleanup_(sandbox_row_clear) struct sandbox_row row;

	sandbox_set_status(sb, SANDBOX_RUNNING);
	table_add(sb);
	load_row(sb, &row);
	sandbox_net_adopt(sb, &row);
	return sb;
}

static void write_next(struct fixture *f, const char *id, const char *egress)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(egress_set_next(&txn, id, egress, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void test_a_change_that_was_cut_short_is_carried_out(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "null");
	_cleanup_free_ char *id = xstrdup(sb->id);
	_cleanup_(sandbox_row_clear) struct sandbox_row row;

	sandbox_unref(sb);
	write_next(f, id, "[]");
	restart(f);
	sb = adopt(f, id);
	assert_string_equal(fake.events, "adopt 0\npolicy 0 nothing\nrecheck 0\n");
	load_row(sb, &row);
	assert_string_equal(row.egress, "[]");
	assert_null(row.egress_next);
	sandbox_unref(sb);
}

static void test_what_cannot_be_taken_over_is_closed(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "null");
	_cleanup_free_ char *id = xstrdup(sb->id);

	sandbox_unref(sb);
	write_next(f, id, "[damaged");
	restart(f);
	sb = adopt(f, id);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_NOTHING);
	sandbox_unref(sb);
}

/* Its slot is gone: it has no network, rather than another's slot. */
static void test_a_slot_that_is_gone(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "null");
	_cleanup_free_ char *id = xstrdup(sb->id);
	char address[NET_ADDRESS_SIZE];

	sandbox_unref(sb);
	restart(f);
	fake.slots[0].waiting = false;
	sb = adopt(f, id);
	assert_null(sb->net.slot);
	sandbox_net_address(sb, address);
	assert_string_equal(address, "");
	assert_null(fake.clients.rules(fake.clients.arg, fake_address(0)));
	sandbox_unref(sb);
}

/* ---- private networks ---- */

static void make_network(struct fixture *f, const char *name)
{
	int64_t created = 0;

	assert_int_equal(core_network_create(f->core, &f->admin, name, &created, NULL), 0);
	assert_true(created > 0);
}

static int join(struct fixture *f, const char *network, struct sandbox *sb, const char *name,
		struct err *err)
{
	struct core_network_member member;

	*err = ERR_INIT;
	return core_network_join(f->core, &f->admin, network, sb->id, name, &member, err);
}

static uint32_t look_up(struct sandbox *asks, const char *name)
{
	uint32_t address = 0;
	int r = fake.clients.network_name(fake.clients.arg, asks->net.address, name, &address);

	if (r < 0)
		assert_int_equal(r, -ENOENT);
	return address;
}

static void test_names_are_for_members(void **state)
{
	struct fixture *f = *state;
	struct sandbox *a = make_sandbox(f, "a", "[]"), *b = make_sandbox(f, "b", "[]");
	struct sandbox *c = make_sandbox(f, "c", "null");
	struct err err;

	make_network(f, "team");
	make_network(f, "other");
	assert_int_equal(join(f, "team", a, NULL, &err), 0);
	assert_int_equal(join(f, "team", b, "db", &err), 0);
	assert_int_equal(join(f, "other", c, "db", &err), 0);
	assert_int_equal(look_up(a, "db.team.internal"), b->net.address);
	assert_int_equal(look_up(b, "a.team.internal"), a->net.address);
	assert_int_equal(look_up(a, "a.team.internal"), a->net.address);
	assert_int_equal(look_up(c, "db.other.internal"), c->net.address);
	assert_int_equal(look_up(a, "b.team.internal"), 0); /* it is called db there */
	assert_int_equal(look_up(c, "a.team.internal"), 0);
	assert_int_equal(look_up(a, "db.other.internal"), 0);
	assert_int_equal(look_up(a, "x.db.team.internal"), 0);
	assert_int_equal(look_up(a, "team.internal"), 0);
	assert_int_equal(look_up(a, ".internal"), 0);
	assert_int_equal(look_up(a, "db..internal"), 0);
	assert_int_equal(look_up(a, "internal"), 0);
	assert_int_equal(core_network_leave(f->core, &f->admin, "team", b->id, &err), 0);
	assert_int_equal(look_up(a, "db.team.internal"), 0);
	assert_int_equal(look_up(b, "a.team.internal"), 0);
	assert_int_equal(look_up(b, "db.team.internal"), 0);
	assert_int_equal(slot_of(b)->n_networks, 0);
	assert_int_equal(slot_of(a)->n_networks, 1);
	assert_int_equal(core_network_leave(f->core, &f->admin, "team", b->id, &err), 0);
	sandbox_unref(a);
	sandbox_unref(b);
	sandbox_unref(c);
}

static void test_joining(void **state)
{
	struct fixture *f = *state;
	struct sandbox *a = make_sandbox(f, "a", "[]"), *b = make_sandbox(f, "", "[]");
	_cleanup_free_ char *hostname = xstrdup(b->id);
	struct core_network_member member;
	struct core_network *networks;
	struct err err = ERR_INIT;
	int64_t created;
	size_t n;

	hostname[3] = '-';
	make_network(f, "team");
	assert_int_equal(core_network_create(f->core, &f->admin, "team", &created, &err), -EEXIST);
	assert_string_equal(err_code_of(&err), "network_exists");
	assert_int_equal(core_network_create(f->core, &f->admin, "Team", &created, &err), -EINVAL);
	assert_int_equal(join(f, "none", a, NULL, &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "network_not_found");
	assert_int_equal(join(f, "team", a, "-", &err), -EINVAL);
	assert_int_equal(join(f, "team", a, NULL, &err), 0);
	assert_int_equal(join(f, "team", b, "a", &err), -EEXIST);
	assert_string_equal(err_code_of(&err), "name_taken");
	assert_int_equal(slot_of(b)->n_networks, 0);
	assert_int_equal(join(f, "team", b, NULL, &err), 0);
	/* Once more is fine, and changes nothing. */
	assert_int_equal(core_network_join(f->core, &f->admin, "team", b->id, "z", &member, &err),
			 0);
	assert_string_equal(member.name, hostname);
	assert_string_equal(member.address, "100.64.1.1");
	assert_int_equal(b->net.n_members, 1);
	assert_int_equal(core_network_list(f->core, &f->admin, &networks, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(networks[0].name, "team");
	assert_int_equal(networks[0].n_members, 2);
	assert_string_equal(networks[0].members[0].name, "a");
	assert_string_equal(networks[0].members[0].address, "100.64.1.0");
	core_networks_free(networks, n);
	assert_int_equal(core_network_remove(f->core, &f->admin, "team", &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "network_in_use");
	assert_int_equal(core_network_leave(f->core, &f->admin, "team", a->id, &err), 0);
	assert_int_equal(core_network_leave(f->core, &f->admin, "team", b->id, &err), 0);
	assert_int_equal(core_network_remove(f->core, &f->admin, "team", &err), 0);
	assert_int_equal(core_network_remove(f->core, &f->admin, "team", &err), -ENOENT);
	sandbox_unref(a);
	sandbox_unref(b);
}

static void test_bounds(void **state)
{
	struct fixture *f = *state;
	struct sandbox *a = make_sandbox(f, "a", "[]");
	struct err err = ERR_INIT;
	char name[8];
	int64_t created;

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		make_network(f, name);
		assert_int_equal(join(f, name, a, NULL, &err), i < SLOT_NETWORKS_MAX ? 0 : -ENOSPC);
	}
	assert_string_equal(err_code_of(&err), "limit_reached");
	assert_int_equal(core_network_create(f->core, &f->admin, "more", &created, &err), -EDQUOT);
	/* In any order. */
	for (int i = 0; i < SLOT_NETWORKS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d", (i * 3) % SLOT_NETWORKS_MAX);
		assert_int_equal(core_network_leave(f->core, &f->admin, name, a->id, &err), 0);
		for (int k = 0; k < SLOT_NETWORKS_MAX; k++) {
			bool left = false;
			char full[32];

			for (int done = 0; done <= i; done++)
				left |= (done * 3) % SLOT_NETWORKS_MAX == k;
			snprintf(full, sizeof(full), "a.n%d.internal", k);
			assert_int_equal(look_up(a, full), left ? 0 : a->net.address);
		}
	}
	assert_int_equal(a->net.n_members, 0);
	sandbox_unref(a);
}

static void test_a_child_joins_under_a_name_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct sandbox *source = make_sandbox(f, "web", "[]");
	struct sandbox_row child = { .id = "sbx_0123456789ab" };
	_cleanup_free_ struct network_member_row *members = NULL;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err;
	size_t n;

	make_network(f, "team");
	assert_int_equal(join(f, "team", source, NULL, &err), 0);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	str_copy(child.account_id, sizeof(child.account_id), f->admin.account_id);
	child.labels = (char *)"{}";
	child.uid = 900;
	assert_int_equal(sandboxes_insert(&txn, &child, NULL, 0, NULL), 0);
	assert_int_equal(networks_inherit(&txn, &child, source->id, NULL), 0);
	assert_int_equal(network_members_of(&txn, child.id, &members, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(members[0].name, "web-012345");
	free(STEAL(members));
	/* Its own name, unless somebody else has it. */
	str_copy(child.id, sizeof(child.id), "sbx_aaaaaaaaaaaa");
	str_copy(child.name, sizeof(child.name), "try-1");
	child.uid++;
	assert_int_equal(sandboxes_insert(&txn, &child, NULL, 0, NULL), 0);
	assert_int_equal(networks_inherit(&txn, &child, source->id, NULL), 0);
	assert_int_equal(network_members_of(&txn, child.id, &members, &n, NULL), 0);
	assert_string_equal(members[0].name, "try-1");
	free(STEAL(members));
	str_copy(child.id, sizeof(child.id), "sbx_bbbbbbbbbbbb");
	child.uid++;
	assert_int_equal(sandboxes_insert(&txn, &child, NULL, 0, NULL), 0);
	assert_int_equal(networks_inherit(&txn, &child, source->id, NULL), 0);
	assert_int_equal(network_members_of(&txn, child.id, &members, &n, NULL), 0);
	assert_string_equal(members[0].name, "try-1-bbbbbb");
	sandbox_unref(source);
}

static void test_networks_come_back_with_a_daemon(void **state)
{
	struct fixture *f = *state;
	struct sandbox *a = make_sandbox(f, "a", "[]"), *b = make_sandbox(f, "b", "[]");
	_cleanup_free_ char *a_id = xstrdup(a->id), *b_id = xstrdup(b->id);
	struct err err;

	make_network(f, "team");
	assert_int_equal(join(f, "team", a, NULL, &err), 0);
	assert_int_equal(join(f, "team", b, NULL, &err), 0);
	sandbox_unref(a);
	sandbox_unref(b);
	restart(f);
	a = adopt(f, a_id);
	b = adopt(f, b_id);
	assert_int_equal(look_up(a, "b.team.internal"), b->net.address);
	assert_int_equal(slot_of(a)->n_networks, 1);
	sandbox_unref(a);
	sandbox_unref(b);
}

/* ---- the end of a run ---- */

static void test_traffic_is_kept_and_the_slot_forgotten(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "a", "null");
	_cleanup_(sandbox_row_clear) struct sandbox_row row;
	uint32_t address = sb->net.address;
	struct sandbox_info info;
	struct err err;

	make_network(f, "team");
	assert_int_equal(join(f, "team", sb, NULL, &err), 0);
	fake.slots[0].counters = (struct slot_counters){ 1, 100, 2, 200, 3, 4, 0 };
	assert_int_equal(core_get(f->core, &f->admin, sb->id, &info, NULL), 0);
	assert_int_equal(info.out_bytes, 100);
	assert_int_equal(info.denied_packets, 7);
	assert_string_equal(info.address, "100.64.1.0");
	assert_string_equal(json_string_value(json_array_get(info.networks, 0)), "team");
	assert_true(json_is_null(info.egress));
	sandbox_info_clear(&info);
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
		assert_int_equal(sandbox_net_settle(sb, &txn, NULL), 0);
		assert_int_equal(db_commit(&txn, NULL), 0);
	}
	fake.events[0] = '\0';
	sandbox_net_release(sb);
	/* Nobody gets the address before it was forgotten. */
	assert_string_equal(fake.events, "forget 0\ncut 0\nrelease 0\n");
	assert_null(fake.clients.rules(fake.clients.arg, address));
	load_row(sb, &row);
	assert_false(row.has_slot);
	assert_int_equal(row.traffic.in_bytes, 200);
	assert_int_equal(core_get(f->core, &f->admin, sb->id, &info, NULL), 0);
	assert_int_equal(info.in_packets, 2);
	assert_string_equal(info.address, "");
	assert_int_equal(json_array_size(info.networks), 1); /* it comes back when it is resumed */
	sandbox_info_clear(&info);
	sandbox_unref(sb);
}

/* ---- denials ---- */

static void deny(uint32_t index, uint32_t lease, uint32_t address, uint16_t port)
{
	const struct slot_denial denial = {
		.reason = SLOT_DENIED_POLICY,
		.address = address,
		.port = port,
		.protocol = IPPROTO_TCP,
		.unreported = 5,
	};

	fake.denied(fake.denied_arg, index, lease, &denial);
}

static json_t *denials_of(struct fixture *f, struct sandbox *sb, uint64_t *ret_unreported)
{
	json_t *list = NULL;

	assert_int_equal(
		core_egress_denials(f->core, &f->admin, sb->id, &list, ret_unreported, NULL), 0);
	return list;
}

static void test_denials_name_the_rule(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[\"a.example:443\"]");
	const struct net_denial name = {
		.source = NET_DENIED_DNS,
		.name = "b.example",
		.reason = "no rule allows this name",
		.rule = "b.example",
	};
	_cleanup_json_ json_t *list = NULL;
	uint64_t unreported;

	deny(0, fake.slots[0].lease, 0xc0000207, 80);
	fake.clients.denied(fake.clients.arg, sb->net.address, &name);
	/* Of an address that the name server gave out, the name is known. */
	assert_int_equal(fake.clients.allow(fake.clients.arg, sb->net.address, "a.example",
					    0xc0000208, 1000),
			 0);
	deny(0, fake.slots[0].lease, 0xc0000208, 80);
	/* Of a sandbox that was there before. */
	deny(0, fake.slots[0].lease - 1, 0xc0000209, 80);
	deny(1, 1, 0xc0000209, 80);
	list = denials_of(f, sb, &unreported);
	assert_int_equal(json_array_size(list), 3);
	assert_int_equal(unreported, 10);
	assert_string_equal(json_get_str(json_array_get(list, 0), "rule", ""), "a.example:80");
	assert_string_equal(json_get_str(json_array_get(list, 0), "host", ""), "a.example");
	assert_string_equal(json_get_str(json_array_get(list, 1), "rule", ""), "b.example");
	assert_string_equal(json_get_str(json_array_get(list, 2), "rule", ""), "192.0.2.7:80");
	sandbox_unref(sb);
}

static void test_rebinding_opens_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[\"a.example\"]");

	assert_int_equal(fake.clients.allow(fake.clients.arg, sb->net.address, "a.example",
					    0x0a000001, 1000),
			 -EACCES);
	assert_true(fake.clients.denied_range(fake.clients.arg, 0x0a000001));
	assert_int_equal(fake.clients.allow(fake.clients.arg, fake_address(7), "a.example",
					    0xc0000201, 1000),
			 -ENOENT);
	sandbox_unref(sb);
}

struct span {
	struct sandbox *sb;
	json_t *before, *during, *after;
};

static void run_command(void *arg)
{
	struct span *span = arg;
	uint32_t lease = fake.slots[0].lease;

	deny(0, lease, 0xc0000201, 1);
	exec_span_begin(span->sb, "exec_1");
	span->before = exec_span_denied(span->sb, "exec_1");
	deny(0, lease, 0xc0000201, 2);
	span->during = exec_span_denied(span->sb, "exec_1");
	exec_span_end(span->sb, "exec_1");
	deny(0, lease, 0xc0000201, 3);
	span->after = exec_span_denied(span->sb, "exec_1");
	assert_null(exec_span_denied(span->sb, "exec_2"));
}

static void test_denials_of_a_command(void **state)
{
	struct fixture *f = *state;
	struct span span = { .sb = make_sandbox(f, "", "[]") };

	loop_call(f->config.loop, run_command, &span);
	assert_null(span.before);
	assert_int_equal(json_array_size(span.during), 1);
	assert_true(json_equal(span.during, span.after));
	assert_string_equal(json_get_str(json_array_get(span.after, 0), "target", ""),
			    "192.0.2.1:2");
	json_decref(span.during);
	json_decref(span.after);
	sandbox_unref(span.sb);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_without_a_filter_there_is_no_network),
		TEST(test_switched_off),
		TEST(test_another_range),
		TEST(test_a_slot_has_its_policy_before_the_guest_runs),
		TEST(test_a_change_is_written_before_and_after),
		TEST(test_three_states),
		TEST(test_one_malformed_rule_refuses_the_set),
		TEST(test_what_the_kernel_refuses_changes_nothing),
		TEST(test_adding_and_removing),
		TEST(test_foreign_and_unknown),
		TEST(test_a_change_that_was_cut_short_is_carried_out),
		TEST(test_what_cannot_be_taken_over_is_closed),
		TEST(test_a_slot_that_is_gone),
		TEST(test_names_are_for_members),
		TEST(test_joining),
		TEST(test_bounds),
		TEST(test_a_child_joins_under_a_name_of_its_own),
		TEST(test_networks_come_back_with_a_daemon),
		TEST(test_traffic_is_kept_and_the_slot_forgotten),
		TEST(test_denials_name_the_rule),
		TEST(test_rebinding_opens_nothing),
		TEST(test_denials_of_a_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
