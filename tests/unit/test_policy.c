/* Compiled policies: which names and addresses they cover. */
#include "unit.h"

#include <string.h>

#include "base/str.h"
#include "net/policy.h"

static bool covers(const char *rule, bool wildcard, const char *name)
{
	struct policy_host host = { .wildcard = wildcard };

	str_copy(host.name, sizeof(host.name), rule);
	return policy_host_covers(&host, name);
}

static void names_match_whole_labels(void **state)
{
	assert_true(covers("example.com", false, "example.com"));
	assert_false(covers("example.com", false, "www.example.com"));
	assert_false(covers("example.com", false, "example.co"));
	assert_false(covers("example.com", false, ""));
	assert_true(covers("example.com", true, "www.example.com"));
	assert_true(covers("example.com", true, "a.b.example.com"));
	assert_false(covers("example.com", true, "example.com"));
	assert_false(covers("example.com", true, ".example.com"));
	assert_false(covers("example.com", true, "badexample.com"));
	assert_false(covers("example.com", true, "www.example.com.evil.org"));
	assert_false(covers("", true, "example.com."));
}

static void hosts_are_found_by_port_and_protocol(void **state)
{
	struct policy_host hosts[] = {
		{ .name = "a.org", .port = 443, .protocol = POLICY_TCP },
		{ .name = "b.org" },
		{ .name = "c.org", .wildcard = true, .port = 53, .protocol = POLICY_UDP },
	};
	struct policy policy = { .state = POLICY_LIST, .hosts = hosts, .n_hosts = 3 };

	assert_ptr_equal(policy_find_host(&policy, "a.org", POLICY_TCP, 443), &hosts[0]);
	assert_ptr_equal(policy_find_host(&policy, "a.org", POLICY_ANY, 0), &hosts[0]);
	assert_null(policy_find_host(&policy, "a.org", POLICY_UDP, 443));
	assert_null(policy_find_host(&policy, "a.org", POLICY_TCP, 80));
	assert_ptr_equal(policy_find_host(&policy, "b.org", POLICY_UDP, 7), &hosts[1]);
	assert_ptr_equal(policy_find_host(&policy, "x.c.org", POLICY_UDP, 53), &hosts[2]);
	assert_null(policy_find_host(&policy, "c.org", POLICY_UDP, 53));
	policy.state = POLICY_OPEN;
	assert_null(policy_find_host(&policy, "b.org", POLICY_TCP, 80));
	policy.state = POLICY_NOTHING;
	assert_null(policy_find_host(&policy, "b.org", POLICY_TCP, 80));
}

static void addresses_match_by_prefix(void **state)
{
	struct policy_address rules[] = {
		{ 0x01020300, 24, POLICY_TCP, 443 },
		{ 0x01020304, 32, POLICY_ANY, 0 },
	};
	struct policy_address everything = { 0, 0, POLICY_UDP, 0 };
	struct policy policy = { .state = POLICY_LIST, .addresses = rules, .n_addresses = 2 };

	assert_true(policy_allows_address(&policy, 0x010203ff, POLICY_TCP, 443));
	assert_false(policy_allows_address(&policy, 0x010203ff, POLICY_TCP, 80));
	assert_false(policy_allows_address(&policy, 0x010204ff, POLICY_TCP, 443));
	assert_true(policy_allows_address(&policy, 0x01020304, POLICY_UDP, 9));
	policy.addresses = &everything;
	policy.n_addresses = 1;
	assert_true(policy_allows_address(&policy, 0xfffffffe, POLICY_UDP, 1));
	assert_false(policy_allows_address(&policy, 0xfffffffe, POLICY_TCP, 1));
	policy.state = POLICY_NOTHING;
	assert_false(policy_allows_address(&policy, 0xfffffffe, POLICY_UDP, 1));
}

static void copies_are_apart(void **state)
{
	struct policy_address rule = { 0x01020304, 32, POLICY_ANY, 0 };
	struct policy_host host = { .name = "a.org" };
	struct policy policy = { .state = POLICY_LIST,
				 .addresses = &rule,
				 .n_addresses = 1,
				 .hosts = &host,
				 .n_hosts = 1 };
	struct policy copy;

	policy_copy(&copy, &policy);
	rule.prefix = 8;
	host.name[0] = 'b';
	assert_int_equal(copy.addresses[0].prefix, 32);
	assert_string_equal(copy.hosts[0].name, "a.org");
	policy_clear(&copy);
	assert_int_equal(copy.state, POLICY_NOTHING);
	assert_null(policy_find_host(&copy, "a.org", POLICY_ANY, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_match_whole_labels),
		cmocka_unit_test(hosts_are_found_by_port_and_protocol),
		cmocka_unit_test(addresses_match_by_prefix),
		cmocka_unit_test(copies_are_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
