/* The store's part of the network: rules and slots of sandboxes, private networks and members. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/accounts.h"
#include "store/db.h"
#include "store/egress.h"
#include "store/networks.h"
#include "store/sandboxes.h"

#define ID "sbx_00000000000a"

struct fixture {
	char dir[SCRATCH_SIZE];
	char path[SCRATCH_SIZE + 16];
	struct db *db;
	struct db_txn txn;
};

static void insert_sandbox(struct fixture *f, const char *id, int64_t uid, const char *egress)
{
	struct sandbox_row row = {
		.node_id = "node_1",
		.account_id = "acc_1",
		.status = "running",
		.labels = (char *)"{}",
		.uid = uid,
		.egress = (char *)egress,
		.guest_address = "100.64.0.2",
	};

	str_copy(row.id, sizeof(row.id), id);
	assert_int_equal(sandboxes_insert(&f->txn, &row, NULL, 0, NULL), 0);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	scratch_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/skerry.db", f->dir);
	assert_int_equal(db_open(f->path, &f->db, NULL), 0);
	assert_int_equal(db_begin_write(f->db, &f->txn, NULL), 0);
	assert_int_equal(accounts_insert(&f->txn, "acc_1", "one", 1, NULL), 0);
	assert_int_equal(accounts_insert(&f->txn, "acc_2", "two", 2, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	db_rollback(&f->txn);
	db_close(f->db);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

static void load(struct fixture *f, struct sandbox_row *row)
{
	assert_int_equal(sandboxes_get(&f->txn, ID, NULL, row, NULL), 0);
}

static void end_sandbox(struct fixture *f, const char *id)
{
	const struct sandbox_end end = {
		.status = "destroyed",
		.ended_unix_ms = 5,
		.reason = "",
		.reason_text = "",
	};

	assert_int_equal(sandboxes_end(&f->txn, id, &end, NULL), 0);
}

static void test_rules(void **state)
{
	struct fixture *f = *state;
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };

	insert_sandbox(f, ID, 1, "null");
	assert_int_equal(egress_set_next(&f->txn, ID, "[]", NULL), 0);
	load(f, &row);
	assert_string_equal(row.egress, "null");
	assert_string_equal(row.egress_next, "[]");
	sandbox_row_clear(&row);
	assert_int_equal(egress_set_next(&f->txn, ID, NULL, NULL), 0);
	load(f, &row);
	assert_null(row.egress_next);
	sandbox_row_clear(&row);
	/* "null" is text like any other: a wish to open is not the wish taken back. */
	assert_int_equal(egress_set(&f->txn, ID, "[]", NULL), 0);
	assert_int_equal(egress_set_next(&f->txn, ID, "null", NULL), 0);
	load(f, &row);
	assert_string_equal(row.egress, "[]");
	assert_string_equal(row.egress_next, "null");
	sandbox_row_clear(&row);
	assert_int_equal(egress_set(&f->txn, ID, "null", NULL), 0);
	load(f, &row);
	assert_string_equal(row.egress, "null");
	assert_null(row.egress_next);
	end_sandbox(f, ID);
	assert_int_equal(egress_set(&f->txn, ID, "[]", NULL), -ESTALE);
	assert_int_equal(egress_set_next(&f->txn, ID, "[]", NULL), -ESTALE);
}

/* Who forgets to say what it may reach says nothing. */
static void test_no_rules_are_nothing(void **state)
{
	struct fixture *f = *state;
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };

	insert_sandbox(f, ID, 1, NULL);
	load(f, &row);
	assert_string_equal(row.egress, EGRESS_NOTHING);
}

static void test_slot_and_traffic(void **state)
{
	struct fixture *f = *state;
	const struct traffic traffic = { 1, 20, 3, 40, 5 };
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };

	insert_sandbox(f, ID, 1, "[]");
	load(f, &row);
	assert_false(row.has_slot);
	assert_string_equal(row.guest_address, "100.64.0.2");
	sandbox_row_clear(&row);
	assert_int_equal(slot_set_row(&f->txn, ID, 0, NULL), 0);
	load(f, &row);
	assert_true(row.has_slot); /* slot 0 is one */
	assert_int_equal(row.slot, 0);
	sandbox_row_clear(&row);
	for (int i = 0; i < 2; i++)
		assert_int_equal(slot_clear_row(&f->txn, ID, &traffic, NULL), 0);
	assert_int_equal(slot_clear_row(&f->txn, ID, NULL, NULL), 0);
	load(f, &row);
	assert_false(row.has_slot);
	assert_int_equal(row.traffic.out_packets, 2);
	assert_int_equal(row.traffic.out_bytes, 40);
	assert_int_equal(row.traffic.in_packets, 6);
	assert_int_equal(row.traffic.in_bytes, 80);
	assert_int_equal(row.traffic.denied_packets, 10);
}

static struct network_row network_of(uint32_t number, const char *account, const char *name)
{
	struct network_row row = { .number = number, .created_unix_ms = 7 };

	str_copy(row.account_id, sizeof(row.account_id), account);
	str_copy(row.name, sizeof(row.name), name);
	return row;
}

static void test_networks(void **state)
{
	struct fixture *f = *state;
	struct network_row a = network_of(5, "acc_1", "b"), same = network_of(6, "acc_1", "b"),
			   taken = network_of(5, "acc_1", "c"), other = network_of(7, "acc_2", "b"),
			   first = network_of(8, "acc_1", "a"), found;
	_cleanup_free_ struct network_row *rows = NULL;
	struct err err = ERR_INIT;
	int64_t count;
	size_t n;

	assert_int_equal(networks_insert(&f->txn, &a, NULL), 0);
	assert_int_equal(networks_insert(&f->txn, &same, NULL), -EEXIST);
	assert_int_equal(networks_insert(&f->txn, &taken, NULL), -EEXIST);
	assert_int_equal(networks_insert(&f->txn, &other, NULL), 0);
	assert_int_equal(networks_insert(&f->txn, &first, NULL), 0);
	assert_int_equal(networks_by_name(&f->txn, "acc_2", "b", &found, NULL), 0);
	assert_int_equal(found.number, 7);
	assert_int_equal(networks_by_name(&f->txn, "acc_2", "a", &found, &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "network_not_found");
	assert_int_equal(networks_list(&f->txn, "acc_1", &rows, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].name, "a");
	assert_int_equal(rows[0].created_unix_ms, 7);
	assert_int_equal(networks_delete(&f->txn, 5, NULL), 0);
	assert_int_equal(networks_count(&f->txn, "acc_1", &count, NULL), 0);
	assert_int_equal(count, 1);
}

static void test_members(void **state)
{
	struct fixture *f = *state;
	struct network_row team = network_of(1, "acc_1", "team"),
			   pair = network_of(2, "acc_1", "pair");
	_cleanup_free_ struct network_member_row *members = NULL, *of = NULL;
	bool taken;
	size_t n;

	insert_sandbox(f, ID, 1, "[]");
	insert_sandbox(f, "sbx_00000000000b", 2, "[]");
	assert_int_equal(networks_insert(&f->txn, &team, NULL), 0);
	assert_int_equal(networks_insert(&f->txn, &pair, NULL), 0);
	assert_int_equal(network_members_insert(&f->txn, 1, ID, "db", NULL), 0);
	assert_int_equal(network_members_insert(&f->txn, 1, ID, "other", NULL), -EEXIST);
	assert_int_equal(network_members_insert(&f->txn, 1, "sbx_00000000000b", "db", NULL),
			 -EEXIST);
	assert_int_equal(network_members_insert(&f->txn, 1, "sbx_00000000000b", "a", NULL), 0);
	assert_int_equal(network_members_insert(&f->txn, 2, ID, "db", NULL), 0);
	assert_int_equal(network_members_name_taken(&f->txn, 1, "db", &taken, NULL), 0);
	assert_true(taken);
	assert_int_equal(network_members_name_taken(&f->txn, 2, "a", &taken, NULL), 0);
	assert_false(taken);
	assert_int_equal(network_members_list(&f->txn, 1, &members, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(members[0].name, "a");
	assert_string_equal(members[1].sandbox_id, ID);
	assert_int_equal(network_members_of(&f->txn, ID, &of, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(of[0].network_name, "pair");
	assert_int_equal(of[1].network, 1);
	/* One with members stays. */
	assert_true(networks_delete(&f->txn, 2, NULL) < 0);
	assert_int_equal(network_members_delete(&f->txn, 2, ID, NULL), 0);
	assert_int_equal(network_members_delete(&f->txn, 2, ID, NULL), -ENOENT);
	assert_int_equal(networks_delete(&f->txn, 2, NULL), 0);
	free(STEAL(of));
	assert_int_equal(network_members_delete_all(&f->txn, ID, NULL), 0);
	assert_int_equal(network_members_of(&f->txn, ID, &of, &n, NULL), 0);
	assert_int_equal(n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rules),
		TEST(test_no_rules_are_nothing),
		TEST(test_slot_and_traffic),
		TEST(test_networks),
		TEST(test_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
