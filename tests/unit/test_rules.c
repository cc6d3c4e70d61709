/* Egress rules: what is a rule, what is none and why, and what a set of them allows. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "net/rules.h"

static struct ruleset *set_of(const char *const *texts, size_t n)
{
	struct rule_text rules[16];
	struct ruleset *set = NULL;
	struct err err = ERR_INIT;

	assert_true(n <= ARRAY_SIZE(rules));
	for (size_t i = 0; i < n; i++)
		rules[i] = (struct rule_text){ texts[i], strlen(texts[i]) };
	if (ruleset_parse(rules, n, RULES_MAX_DEFAULT, &set, &err) < 0)
		fail_msg("%s", err.message);
	return set;
}

#define SET(...)                                                                                   \
	set_of((const char *const[]){ __VA_ARGS__ },                                               \
	       ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

static void test_canonical(void **state)
{
	static const struct {
		const char *text, *canonical;
	} cases[] = {
		{ "example.com", "example.com" },
		{ "EXAMPLE.Com.", "example.com" },
		{ "example.com:443", "example.com:443" },
		{ "example.com.:443", "example.com:443" },
		{ "TCP://Example.com:1", "tcp://example.com:1" },
		{ "udp://example.com:65535", "udp://example.com:65535" },
		{ "*.Example.com", "*.example.com" },
		{ "*.example.com:8443", "*.example.com:8443" },
		{ "udp://*.example.com", "udp://*.example.com" },
		{ "localhost", "localhost" },
		{ "a_b.example.com", "a_b.example.com" },
		{ "r3---sn-x.example.com", "r3---sn-x.example.com" },
		{ "7-zip.org", "7-zip.org" },
		{ "1.2.3.4.example", "1.2.3.4.example" },
		{ "xn--bcher-kva.example", "xn--bcher-kva.example" },
		{ "b\xc3\xbc"
		  "cher.example:80",
		  "xn--bcher-kva.example:80" },
		{ "B\xc3\x9c"
		  "CHER.example",
		  "xn--bcher-kva.example" },
		{ "*.b\xc3\xbc"
		  "cher.example",
		  "*.xn--bcher-kva.example" },
		{ "stra\xc3\x9f"
		  "e.de",
		  "xn--strae-oqa.de" },
		{ "bu\xcc\x88"
		  "cher.example",
		  "xn--bcher-kva.example" },
		{ "example\xe3\x80\x82"
		  "com",
		  "example.com" },
		{ "192.0.2.1", "192.0.2.1" },
		{ "192.0.2.1/32", "192.0.2.1" },
		{ "192.0.2.1:53", "192.0.2.1:53" },
		{ "udp://192.0.2.0/24:53", "udp://192.0.2.0/24:53" },
		{ "0.0.0.0/0", "0.0.0.0/0" },
		{ "128.0.0.0/1", "128.0.0.0/1" },
		{ "2001:DB8::1", "2001:db8::1" },
		{ "2001:db8:0:0:0:0:0:1", "2001:db8::1" },
		{ "2001:db8::/32", "2001:db8::/32" },
		{ "::/0", "::/0" },
		{ "::", "::" },
		{ "[2001:db8::1]", "2001:db8::1" },
		{ "[2001:db8::1]:443", "[2001:db8::1]:443" },
		{ "tcp://[2001:db8::/32]:443", "tcp://[2001:db8::/32]:443" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rule_fault why;
		char text[RULE_PRINT_SIZE];
		struct rule rule, again;

		if (rule_parse(cases[i].text, strlen(cases[i].text), &rule, &why) < 0)
			fail_msg("'%s' %s", cases[i].text, why.text);
		assert_string_equal(rule_print(&rule, text), cases[i].canonical);
		assert_int_equal(rule_parse(text, strlen(text), &again, &why), 0);
		rule_clear(&again);
		rule_clear(&rule);
	}
}

#define A63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A61 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_lengths(void **state)
{
	const char *longest = A63 "." A63 "." A63 "." A61;
	struct rule_fault why;
	char text[RULE_PRINT_SIZE];
	_cleanup_free_ char *wild = xasprintf("udp://*.%s:65535", longest);
	_cleanup_free_ char *longer = xasprintf("%sa", longest);
	struct rule rule;

	assert_int_equal(strlen(longest), HOSTNAME_MAX);
	assert_int_equal(rule_parse(longest, strlen(longest), &rule, &why), 0);
	rule_clear(&rule);
	assert_int_equal(rule_parse(wild, strlen(wild), &rule, &why), 0);
	assert_string_equal(rule_print(&rule, text), wild);
	rule_clear(&rule);
	assert_int_equal(rule_parse(longer, strlen(longer), &rule, &why), -EINVAL);
	assert_string_equal(why.text, "has a host name that has more than 253 bytes");
}

static void test_malformed(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "is empty" },
		{ " example.com", "has a blank or control character at position 0" },
		{ "example.com ", "has a blank or control character at position 11" },
		{ "exam ple.com", "blank" },
		{ "example.com\n", "control character" },
		{ "example.com\x7f", "control character" },
		{ "https://example.com", "is a URL" },
		{ "https://example.com/x", "is a URL" },
		{ "icmp://example.com", "is a URL" },
		{ "tcp://tcp://example.com", "has a port that is not a number" },
		{ "tcp://", "nothing behind its protocol" },
		{ "example.com/path", "has a '/'" },
		{ "example.com/24", "has a '/'" },
		{ "example.com:", "no port behind" },
		{ "example.com:0", "not 1 to 65535" },
		{ "example.com:65536", "not 1 to 65535" },
		{ "example.com:4294967297", "not 1 to 65535" },
		{ "example.com:99999999999999999999", "not 1 to 65535" },
		{ "example.com:080", "leading zero" },
		{ "example.com:+80", "not a number" },
		{ "example.com:-1", "not a number" },
		{ "example.com:http", "not a number" },
		{ "example.com:80-90", "not a number" },
		{ "example.com:*", "not a number" },
		{ ":443", "nothing before its port" },
		{ "*", "is '*'" },
		{ "*:443", "is '*'" },
		{ "*.", "is empty" },
		{ "*.*.example.com", "'*' that is not the whole first label" },
		{ "a*.example.com", "'*' that is not the whole first label" },
		{ "www.*.com", "'*' that is not the whole first label" },
		{ "*example.com", "'*' that is not the whole first label" },
		{ ".", "is empty" },
		{ ".example.com", "empty label" },
		{ "example..com", "empty label" },
		{ "example.com..", "empty label" },
		{ "-a.example.com", "begins or ends with '-'" },
		{ "a-.example.com", "begins or ends with '-'" },
		{ A63 "a.example.com", "label of more than 63 bytes" },
		{ "exa$mple.com", "character other than" },
		{ "user@example.com", "character other than" },
		{ "example.com,example.org", "character other than" },
		{ "xn--bcher-kva.\xff", "not valid UTF-8" },
		{ "a\xe2\x98\x83.com", "international name" },
		{ "\xe2\x80\x8b.com", "empty label" },
		{ "1.2.3", "not four numbers" },
		{ "1.2.3.4.5", "not four numbers" },
		{ "1.2.3.256", "not four numbers from 0 to 255" },
		{ "1.2.3.04", "leading zero" },
		{ "010.2.3.4", "leading zero" },
		{ "0x7f.1", "not four numbers" },
		{ "127.0.0.0x1", "not four numbers" },
		{ "2130706433", "not four numbers" },
		{ "1.2.3.4.", "not four numbers" },
		{ "1.2.3.-4", "has a host name" },
		{ "example.123", "not four numbers" },
		{ "\xef\xbc\x91.\xef\xbc\x92.\xef\xbc\x93.\xef\xbc\x94", "ends in a number" },
		{ "10.0.0.1/8", "write '10.0.0.0/8' for the network or '10.0.0.1'" },
		{ "10.0.0.0/33", "not 0 to 32" },
		{ "10.0.0.0/", "not 0 to 32" },
		{ "10.0.0.0/08", "not 0 to 32" },
		{ "10.0.0.0/-1", "not 0 to 32" },
		{ "10.0.0.0/8/8", "not 0 to 32" },
		{ "10.0.0.0/255.0.0.0", "not 0 to 32" },
		{ "2001:db8::1/32", "write '2001:db8::/32'" },
		{ "2001:db8::/129", "not 0 to 128" },
		{ "2001:db8::1:2:3:4:5:6:7:8", "not an IPv6 address" },
		{ "fe80::1%eth0", "zone" },
		{ "::ffff:192.0.2.1", "IPv6 clothes" },
		{ "[2001:db8::1", "without a ']'" },
		{ "[]", "other than an IPv6 address" },
		{ "[192.0.2.1]:80", "other than an IPv6 address" },
		{ "[example.com]:80", "other than an IPv6 address" },
		{ "[2001:db8::1]443", "other than a ':' and a port" },
		{ "[2001:db8::]/32:443", "inside the brackets" },
		{ "[2001:db8::1]:", "no port behind" },
		{ "[2001:db8::1]:0", "not 1 to 65535" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rule_fault why;
		char text[RULE_PRINT_SIZE];
		struct rule rule;

		if (rule_parse(cases[i].text, strlen(cases[i].text), &rule, &why) == 0)
			fail_msg("'%s' was taken as '%s'", cases[i].text, rule_print(&rule, text));
		if (!strstr(why.text, cases[i].why))
			fail_msg("'%s' %s (wanted: %s)", cases[i].text, why.text, cases[i].why);
	}
}

/* The NUL that passed a suffix check for months. */
static void test_nul(void **state)
{
	static const char text[] = "evil.test\0.example.com";
	struct rule_fault why;
	struct rule rule;

	assert_int_equal(rule_parse(text, sizeof(text) - 1, &rule, &why), -EINVAL);
	assert_string_equal(why.text, "has a NUL byte at position 9");
}

static void test_one_malformed_rule_refuses_the_set(void **state)
{
	static const struct rule_text texts[] = {
		{ "example.com", 11 },
		{ "10.0.0.1/8\x01", 11 },
		{ "x:0", 3 },
	};
	struct ruleset *set = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(ruleset_parse(texts, 3, 3, &set, &err), -EINVAL);
	assert_null(set);
	assert_string_equal(err_code_of(&err), "invalid_egress_rule");
	assert_string_equal(err.message, "egress rule [1] '10.0.0.1/8\\x01' has a blank or control "
					 "character at position 10");
	assert_int_equal(ruleset_parse(texts, 3, 2, &set, &err), -E2BIG);
	assert_string_equal(err_code_of(&err), "too_many_egress_rules");
	assert_null(set);
}

static void test_long_rule_is_quoted_short(void **state)
{
	_cleanup_free_ char *text = xmalloc(RULE_TEXT_MAX + 1);
	const struct rule_text one = { text, RULE_TEXT_MAX + 1 };
	struct ruleset *set = NULL;
	struct err err = ERR_INIT;

	for (size_t i = 0; i <= RULE_TEXT_MAX; i++)
		text[i] = i % 2 ? '\xa4' : '\xc3'; /* the cut is within no character */
	assert_int_equal(ruleset_parse(&one, 1, 10, &set, &err), -EINVAL);
	assert_non_null(strstr(err.message, "...' has more than 1024 bytes"));
	assert_true(strlen(err.message) < 200);
	assert_true(utf8_valid(err.message, strlen(err.message)));
}

static void test_three_states(void **state)
{
	const struct net_prefix address = { .family = 4, .bits = 32, .bytes = { 192, 0, 2, 1 } };
	static const struct {
		const char *json;
		enum policy_state state;
		bool allows;
	} cases[] = {
		{ "null", POLICY_OPEN, true },
		{ "[]", POLICY_NOTHING, false },
		{ "[\"example.com\"]", POLICY_LIST, false },
		{ "[\"192.0.2.1:443\"]", POLICY_LIST, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *value = json_loads(cases[i].json, JSON_DECODE_ANY, NULL);
		_cleanup_json_ json_t *back = NULL;
		_cleanup_ruleset_ struct ruleset *set = NULL;

		assert_int_equal(ruleset_from_json(value, 10, &set, NULL), 0);
		assert_int_equal(set->state, cases[i].state);
		assert_int_equal(ruleset_allows_address(set, &address, POLICY_TCP, 443),
				 cases[i].allows);
		back = ruleset_to_json(set);
		assert_true(json_equal(value, back));
	}
}

static void test_json_that_is_no_set(void **state)
{
	static const char *const cases[] = { "{}", "true", "\"\"", "0", "[null]", "[[]]", "[1]" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *value = json_loads(cases[i], JSON_DECODE_ANY, NULL);
		struct ruleset *set = NULL;
		struct err err = ERR_INIT;

		assert_int_equal(ruleset_from_json(value, 10, &set, &err), -EINVAL);
		assert_null(set);
		assert_string_equal(err_code_of(&err), "invalid_egress_rule");
	}
}

static void test_order_is_kept_and_repeats_are_not(void **state)
{
	_cleanup_ruleset_ struct ruleset *set =
		SET("b.example", "a.example:1", "B.example.", "a.example", "tcp://a.example:1");
	_cleanup_json_ json_t *list = ruleset_to_json(set);
	_cleanup_free_ char *text = json_dumps(list, JSON_COMPACT);

	assert_string_equal(text,
			    "[\"b.example\",\"a.example:1\",\"a.example\",\"tcp://a.example:1\"]");
}

static void test_names(void **state)
{
	_cleanup_ruleset_ struct ruleset *set =
		SET("example.com:443", "*.example.com:8443", "udp://time.example.com:123",
		    "tcp://anyport.example.com", "192.0.2.1");
	static const struct {
		const char *name;
		enum policy_protocol proto;
		uint16_t port;
		bool allowed;
	} cases[] = {
		{ "example.com", POLICY_TCP, 443, true },
		{ "example.com", POLICY_UDP, 443, true },
		{ "example.com", POLICY_TCP, 8443, false }, /* the apex is not below itself */
		{ "www.example.com", POLICY_TCP, 443, false },
		{ "www.example.com", POLICY_TCP, 8443, true },
		{ "a.b.example.com", POLICY_TCP, 8443, true },
		{ "notexample.com", POLICY_TCP, 8443, false },
		{ "example.com.evil.test", POLICY_TCP, 443, false },
		{ "time.example.com", POLICY_UDP, 123, true },
		{ "time.example.com", POLICY_TCP, 123, false },
		{ "anyport.example.com", POLICY_TCP, 1, true },
		{ "anyport.example.com", POLICY_UDP, 1, false },
		{ "192.0.2.1", POLICY_TCP, 1, false }, /* an address is no name */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			ruleset_allows_name(set, cases[i].name, cases[i].proto, cases[i].port),
			cases[i].allowed);
}

static void test_ports_of_a_name(void **state)
{
	_cleanup_ruleset_ struct ruleset *set =
		SET("a.test:443", "*.test:443", "udp://a.test:53", "b.test");
	struct rule_port ports[4];

	assert_int_equal(ruleset_name_ports(set, "a.test", ports, 4), 2);
	assert_int_equal(ports[0].port, 443);
	assert_int_equal(ports[0].proto, POLICY_ANY);
	assert_int_equal(ports[1].port, 53);
	assert_int_equal(ports[1].proto, POLICY_UDP);
	assert_int_equal(ruleset_name_ports(set, "a.test", ports, 1), 2);
	assert_int_equal(ruleset_name_ports(set, "b.test", ports, 4), 2);
	assert_int_equal(ports[1].port, 0);
	assert_int_equal(ruleset_name_ports(set, "test", ports, 4), 0);
}

static void test_addresses(void **state)
{
	_cleanup_ruleset_ struct ruleset *set =
		SET("192.0.2.0/25:443", "udp://198.51.100.7", "2001:db8::/33", "0.0.0.0/1:22");
	static const struct {
		const char *address;
		enum policy_protocol proto;
		uint16_t port;
		bool allowed;
	} cases[] = {
		{ "192.0.2.127", POLICY_TCP, 443, true },
		{ "192.0.2.128", POLICY_TCP, 443, false },
		{ "192.0.2.1", POLICY_TCP, 80, false },
		{ "198.51.100.7", POLICY_UDP, 80, true },
		{ "198.51.100.7", POLICY_TCP, 80, false },
		{ "2001:db8:7fff::1", POLICY_TCP, 80, true },
		{ "2001:db8:8000::1", POLICY_TCP, 80, false },
		{ "127.255.255.255", POLICY_TCP, 22, true },
		{ "128.0.0.0", POLICY_TCP, 22, false },
		{ "::", POLICY_TCP, 22, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct net_prefix address;

		assert_int_equal(
			prefix_parse(cases[i].address, strlen(cases[i].address), &address, NULL),
			0);
		assert_int_equal(
			ruleset_allows_address(set, &address, cases[i].proto, cases[i].port),
			cases[i].allowed);
	}
}

static void test_within(void **state)
{
	static const struct {
		const char *inner, *outer, *offender; /* JSON; NULL: it is within */
	} cases[] = {
		{ "null", "null", NULL },
		{ "[]", "null", NULL },
		{ "[\"a.test\"]", "null", NULL },
		{ "null", "[]", "everything" },
		{ "null", "[\"0.0.0.0/0\",\"::/0\"]", "everything" },
		{ "[]", "[]", NULL },
		{ "[]", "[\"a.test\"]", NULL },
		{ "[\"a.test\"]", "[]", "a.test" },
		{ "[\"a.test\",\"b.test\"]", "[\"b.test\",\"a.test\"]", NULL },
		{ "[\"a.test\",\"b.test:1\"]", "[\"a.test\"]", "b.test:1" },
		{ "[\"a.test:443\"]", "[\"a.test\"]", NULL },
		{ "[\"a.test\"]", "[\"a.test:443\"]", "a.test" },
		{ "[\"tcp://a.test\"]", "[\"a.test\"]", NULL },
		{ "[\"a.test\"]", "[\"tcp://a.test\"]", "a.test" },
		{ "[\"a.test\"]", "[\"tcp://a.test\",\"udp://a.test\"]", NULL },
		{ "[\"udp://a.test\"]", "[\"tcp://a.test\"]", "udp://a.test" },
		{ "[\"x.a.test\"]", "[\"*.a.test\"]", NULL },
		{ "[\"a.test\"]", "[\"*.a.test\"]", "a.test" },
		{ "[\"*.a.test\"]", "[\"*.a.test\"]", NULL },
		{ "[\"*.x.a.test\"]", "[\"*.a.test\"]", NULL },
		{ "[\"*.a.test\"]", "[\"*.x.a.test\"]", "*.a.test" },
		{ "[\"*.a.test\"]", "[\"a.test\"]", "*.a.test" },
		{ "[\"*.ba.test\"]", "[\"*.a.test\"]", "*.ba.test" },
		{ "[\"192.0.2.1:443\"]", "[\"192.0.2.0/24\"]", NULL },
		{ "[\"192.0.2.0/24\"]", "[\"192.0.2.1\"]", "192.0.2.0/24" },
		{ "[\"192.0.2.0/24\"]", "[\"0.0.0.0/0\"]", NULL },
		{ "[\"0.0.0.0/0\"]", "[\"0.0.0.0/1\",\"128.0.0.0/1\"]", "0.0.0.0/0" },
		{ "[\"2001:db8::1\"]", "[\"0.0.0.0/0\"]", "2001:db8::1" },
		{ "[\"a.test\"]", "[\"0.0.0.0/0\"]", "a.test" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *inner = json_loads(cases[i].inner, JSON_DECODE_ANY, NULL);
		_cleanup_json_ json_t *outer = json_loads(cases[i].outer, JSON_DECODE_ANY, NULL);
		_cleanup_ruleset_ struct ruleset *a = NULL;
		_cleanup_ruleset_ struct ruleset *b = NULL;
		char offender[RULE_PRINT_SIZE] = "";

		assert_int_equal(ruleset_from_json(inner, 10, &a, NULL), 0);
		assert_int_equal(ruleset_from_json(outer, 10, &b, NULL), 0);
		if (ruleset_within(a, b, offender) != (cases[i].offender == NULL))
			fail_msg("%s in %s", cases[i].inner, cases[i].outer);
		assert_string_equal(offender, cases[i].offender ? cases[i].offender : "");
	}
}

static void test_compile(void **state)
{
	_cleanup_ruleset_ struct ruleset *set = SET("a.test:443", "udp://*.b.test", "2001:db8::1",
						    "tcp://192.0.2.0/24:22", "0.0.0.0/0");
	_cleanup_ruleset_ struct ruleset *open = ruleset_new(POLICY_OPEN);
	struct policy policy;

	ruleset_compile(set, &policy);
	assert_int_equal(policy.state, POLICY_LIST);
	assert_int_equal(policy.n_hosts, 2);
	assert_string_equal(policy.hosts[0].name, "a.test");
	assert_false(policy.hosts[0].wildcard);
	assert_int_equal(policy.hosts[0].protocol, 0);
	assert_int_equal(policy.hosts[0].port, 443);
	assert_string_equal(policy.hosts[1].name, "b.test");
	assert_true(policy.hosts[1].wildcard);
	assert_int_equal(policy.hosts[1].protocol, 17);
	assert_int_equal(policy.n_addresses, 2);
	assert_int_equal(policy.addresses[0].address, 0xc0000200);
	assert_int_equal(policy.addresses[0].prefix, 24);
	assert_int_equal(policy.addresses[0].protocol, 6);
	assert_int_equal(policy.addresses[0].port, 22);
	assert_int_equal(policy.addresses[1].prefix, 0);
	policy_clear(&policy);
	ruleset_compile(open, &policy);
	assert_int_equal(policy.state, POLICY_OPEN);
	assert_int_equal(policy.n_hosts + policy.n_addresses, 0);
	policy_clear(&policy);
}

/* What is suggested must do what it says. */
static void test_suggestions(void **state)
{
	const struct net_prefix v4 = { .family = 4, .bits = 32, .bytes = { 192, 0, 2, 1 } };
	const struct net_prefix v6 = { .family = 6, .bits = 128, .bytes = { 0x20, 1, [15] = 1 } };
	char text[RULE_PRINT_SIZE];

	assert_string_equal(rule_suggest("a.test", &v4, POLICY_TCP, 443, text), "a.test:443");
	{
		_cleanup_ruleset_ struct ruleset *set = SET(text);

		assert_true(ruleset_allows_name(set, "a.test", POLICY_TCP, 443));
	}
	assert_string_equal(rule_suggest("a.test", NULL, POLICY_ANY, 0, text), "a.test");
	assert_string_equal(rule_suggest("a.test", NULL, POLICY_UDP, 443, text),
			    "udp://a.test:443");
	assert_string_equal(rule_suggest(NULL, &v4, POLICY_TCP, 25, text), "192.0.2.1:25");
	assert_string_equal(rule_suggest(NULL, &v4, POLICY_UDP, 53, text), "udp://192.0.2.1:53");
	assert_string_equal(rule_suggest(NULL, &v6, POLICY_TCP, 443, text), "[2001::1]:443");
	{
		_cleanup_ruleset_ struct ruleset *set = SET(text);

		assert_true(ruleset_allows_address(set, &v6, POLICY_TCP, 443));
		assert_false(ruleset_allows_address(set, &v4, POLICY_TCP, 443));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_one_malformed_rule_refuses_the_set),
		cmocka_unit_test(test_long_rule_is_quoted_short),
		cmocka_unit_test(test_three_states),
		cmocka_unit_test(test_json_that_is_no_set),
		cmocka_unit_test(test_order_is_kept_and_repeats_are_not),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_ports_of_a_name),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_within),
		cmocka_unit_test(test_compile),
		cmocka_unit_test(test_suggestions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
