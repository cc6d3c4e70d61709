/* Private networks, the end of a run, and what was denied. */
#include "network_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

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
	rig_restart(f);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_names_are_for_members),
		RIG_TEST(test_joining),
		RIG_TEST(test_bounds),
		RIG_TEST(test_a_child_joins_under_a_name_of_its_own),
		RIG_TEST(test_networks_come_back_with_a_daemon),
		RIG_TEST(test_traffic_is_kept_and_the_slot_forgotten),
		RIG_TEST(test_denials_name_the_rule),
		RIG_TEST(test_rebinding_opens_nothing),
		RIG_TEST(test_denials_of_a_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
