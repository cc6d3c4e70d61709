/* Denials as a list: repetitions, the bound, what of them belongs to a command. */
#include "unit.h"

#include <netinet/in.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/denials.h"

#define SITE 0xc0000201 /* 192.0.2.1 */

static struct denial denial_of(const char *host, uint16_t port)
{
	return (struct denial){
		.host = host,
		.address = SITE,
		.port = port,
		.protocol = IPPROTO_TCP,
		.reason = "no egress rule allows it",
		.rule = "example.com:443",
	};
}

static void test_repetitions_are_one(void **state)
{
	struct denials d;
	struct denial what = denial_of(NULL, 443);
	_cleanup_json_ json_t *all = NULL;
	json_t *item;

	denials_init(&d, 4);
	for (int i = 0; i < 7; i++)
		denials_add(&d, &what, 1000 + i);
	what.port = 80;
	denials_add(&d, &what, 2000);
	what.port = 443;
	denials_add(&d, &what, 3000);
	assert_int_equal(d.n, 2);
	assert_int_equal(d.seq, 9);
	all = denials_json(&d);
	assert_int_equal(json_array_size(all), 2);
	item = json_array_get(all, 0); /* newest first */
	assert_int_equal(json_get_int(item, "port", 0), 443);
	assert_int_equal(json_get_int(item, "count", 0), 8);
	assert_string_equal(json_get_str(item, "at", ""), "1970-01-01T00:00:03.000Z");
	assert_string_equal(json_get_str(item, "first_at", ""), "1970-01-01T00:00:01.000Z");
	assert_string_equal(json_get_str(item, "address", ""), "192.0.2.1");
	assert_true(json_is_null(json_object_get(item, "host")));
	assert_string_equal(json_get_str(item, "protocol", ""), "tcp");
	assert_string_equal(json_get_str(item, "rule", ""), "example.com:443");
	denials_clear(&d);
}

/* Of a name the address may change; of addresses without a name each is its own. */
static void test_what_is_the_same(void **state)
{
	struct denials d;
	struct denial what = denial_of("a.example", 443);

	denials_init(&d, 8);
	denials_add(&d, &what, 1);
	what.address++;
	denials_add(&d, &what, 2);
	assert_int_equal(d.n, 1);
	what.host = NULL;
	denials_add(&d, &what, 3);
	what.address++;
	denials_add(&d, &what, 4);
	assert_int_equal(d.n, 3);
	what.protocol = IPPROTO_UDP;
	denials_add(&d, &what, 5);
	what.reason = "another";
	denials_add(&d, &what, 6);
	assert_int_equal(d.n, 5);
	denials_clear(&d);
}

static void test_the_oldest_makes_room(void **state)
{
	struct denials d;
	_cleanup_json_ json_t *all = NULL;

	denials_init(&d, 3);
	for (uint16_t port = 1; port <= 100; port++) {
		struct denial what = denial_of(NULL, port);

		denials_add(&d, &what, port);
	}
	all = denials_json(&d);
	assert_int_equal(json_array_size(all), 3);
	assert_int_equal(json_get_int(json_array_get(all, 0), "port", 0), 100);
	assert_int_equal(json_get_int(json_array_get(all, 2), "port", 0), 98);
	denials_clear(&d);
	denials_add(&d, &(struct denial){ .reason = "usable after being cleared" }, 1);
	assert_int_equal(d.n, 1);
	denials_clear(&d);
}

static void test_of_a_command(void **state)
{
	struct denials d;
	struct denial before = denial_of("before.example", 1), during = denial_of("b.example", 2),
		      after = denial_of("after.example", 3);
	_cleanup_json_ json_t *list = NULL;
	uint64_t from, upto;

	denials_init(&d, 8);
	denials_add(&d, &before, 1);
	from = d.seq;
	assert_null(denials_short_json(&d, from, UINT64_MAX));
	during.protocol = IPPROTO_UDP;
	denials_add(&d, &during, 2);
	upto = d.seq;
	denials_add(&d, &after, 3);
	list = denials_short_json(&d, from, upto);
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(json_get_str(json_array_get(list, 0), "target", ""),
			    "udp://b.example:2");
	assert_string_equal(json_get_str(json_array_get(list, 0), "rule", ""), "example.com:443");
	/* One that was there before and came again while the command ran is the command's too. */
	denials_add(&d, &before, 4);
	json_decref(list);
	list = denials_short_json(&d, upto, UINT64_MAX);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(json_get_str(json_array_get(list, 1), "target", ""),
			    "before.example:1");
	denials_clear(&d);
}

static void test_a_short_list_is_short(void **state)
{
	struct denials d;
	_cleanup_json_ json_t *list = NULL;

	denials_init(&d, 100);
	for (uint16_t port = 1; port <= 50; port++) {
		struct denial what = denial_of(NULL, port);

		denials_add(&d, &what, port);
	}
	list = denials_short_json(&d, 0, UINT64_MAX);
	assert_int_equal(json_array_size(list), DENIALS_SHOWN);
	assert_string_equal(json_get_str(json_array_get(list, DENIALS_SHOWN - 1), "target", ""),
			    "192.0.2.1:50");
	denials_clear(&d);
}

static void test_icmp_has_no_port(void **state)
{
	struct denials d;
	_cleanup_json_ json_t *list = NULL, *all = NULL;
	const struct denial ping = {
		.address = SITE,
		.protocol = IPPROTO_ICMP,
		.reason = "no egress rule allows it",
	};

	denials_init(&d, 4);
	denials_add(&d, &ping, 1);
	list = denials_short_json(&d, 0, UINT64_MAX);
	assert_string_equal(json_get_str(json_array_get(list, 0), "target", ""), "icmp 192.0.2.1");
	assert_true(json_is_null(json_object_get(json_array_get(list, 0), "rule")));
	all = denials_json(&d);
	assert_true(json_is_null(json_object_get(json_array_get(all, 0), "port")));
	denials_clear(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repetitions_are_one),
		cmocka_unit_test(test_what_is_the_same),
		cmocka_unit_test(test_the_oldest_makes_room),
		cmocka_unit_test(test_of_a_command),
		cmocka_unit_test(test_a_short_list_is_short),
		cmocka_unit_test(test_icmp_has_no_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
