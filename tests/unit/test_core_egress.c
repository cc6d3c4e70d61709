/* What the core does with slots and rules, and after a restart of the daemon. */
#include "network_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/egress.h"

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
	rig_open(f);
	assert_check(f, false, "no network: the program cannot be loaded", "CAP_BPF");
	sb = make_sandbox(f, "", "null");
	assert_null(sb->net.slot);
	assert_string_equal(fake.events, "");
	err = ERR_INIT;
	assert_int_equal(set_rules(f, sb, "[]", &err), -ENOTSUP);
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
	rig_open(f);
	assert_check(f, false, "switched off", "mode = auto");
}

static void test_uninstalling(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "", "[]");
	struct err err = ERR_INIT;

	assert_int_equal(core_network_uninstall(f->core, &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "network_in_use");
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
		assert_int_equal(sandbox_net_settle(sb, &txn, NULL), 0);
		assert_int_equal(db_commit(&txn, NULL), 0);
	}
	sandbox_net_release(sb);
	assert_int_equal(core_network_uninstall(f->core, &err), 0);
	assert_non_null(strstr(fake.events, "destroy\n"));
	assert_null(f->core->net);
	sandbox_unref(sb);
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
	assert_int_equal(set_rules(f, sb, "[\"EXAMPLE.com.:443\"]", &err), 0);
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
	assert_int_equal(set_rules(f, sb, "[]", &err), 0);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_NOTHING);
	assert_int_equal(set_rules(f, sb, "[\"192.0.2.0/24\"]", &err), 0);
	assert_int_equal(slot_of(sb)->policy.state, POLICY_LIST);
	assert_int_equal(set_rules(f, sb, "null", &err), 0);
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
		assert_int_equal(set_rules(f, sb, bad[i], &err), -EINVAL);
	assert_string_equal(err_code_of(&err), "invalid_egress_rule");
	assert_int_equal(set_rules(f, sb,
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
	assert_int_equal(set_rules(f, sb, "null", &err), -ENOMEM);
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
	assert_int_equal(set_rules(f, sb, "null", &err), 0);
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
	rig_restart(f);
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
	rig_restart(f);
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
	rig_restart(f);
	fake.slots[0].waiting = false;
	sb = adopt(f, id);
	assert_null(sb->net.slot);
	sandbox_net_address(sb, address);
	assert_string_equal(address, "");
	assert_null(fake.clients.rules(fake.clients.arg, fake_address(0)));
	sandbox_unref(sb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_without_a_filter_there_is_no_network),
		RIG_TEST(test_switched_off),
		RIG_TEST(test_another_range),
		RIG_TEST(test_uninstalling),
		RIG_TEST(test_a_slot_has_its_policy_before_the_guest_runs),
		RIG_TEST(test_a_change_is_written_before_and_after),
		RIG_TEST(test_three_states),
		RIG_TEST(test_one_malformed_rule_refuses_the_set),
		RIG_TEST(test_what_the_kernel_refuses_changes_nothing),
		RIG_TEST(test_adding_and_removing),
		RIG_TEST(test_foreign_and_unknown),
		RIG_TEST(test_a_change_that_was_cut_short_is_carried_out),
		RIG_TEST(test_what_cannot_be_taken_over_is_closed),
		RIG_TEST(test_a_slot_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
