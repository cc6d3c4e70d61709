/* What the host tells a guest about its network. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "guest/network.h"

static void the_usual_one(void **state)
{
	struct network_setup setup;

	assert_int_equal(network_parse("100.64.0.2/30,100.64.0.1,02:5e:00:00:00:01", &setup), 0);
	assert_int_equal(ntohl(setup.address.s_addr), 0x64400002);
	assert_int_equal(ntohl(setup.netmask.s_addr), 0xfffffffc);
	assert_int_equal(ntohl(setup.gateway.s_addr), 0x64400001);
	assert_memory_equal(setup.gateway_mac, "\x02\x5e\x00\x00\x00\x01", 6);
	assert_int_equal(network_parse("1.2.3.4/32,1.2.3.5,ff:ff:ff:ff:ff:ff", &setup), 0);
	assert_int_equal(ntohl(setup.netmask.s_addr), UINT32_MAX);
}

static void what_is_none(void **state)
{
	static const char *const texts[] = {
		"",
		"100.64.0.2",
		"100.64.0.2/30",
		"100.64.0.2/30,100.64.0.1",
		"100.64.0.2/30,100.64.0.1,",
		"100.64.0.2/0,100.64.0.1,02:5e:00:00:00:01",
		"100.64.0.2/33,100.64.0.1,02:5e:00:00:00:01",
		"100.64.0/30,100.64.0.1,02:5e:00:00:00:01",
		"100.64.0.2/30,gateway,02:5e:00:00:00:01",
		"100.64.0.2/30,100.64.0.1,02:5e:00:00:00",
		"100.64.0.2/30,100.64.0.1,02:5e:00:00:00:01:02",
		"100.64.0.2/30,100.64.0.1,02:5e:00:00:00:0g",
		"100.64.0.2/30,100.64.0.1,02:5e:00:00:00:01 ",
	};
	struct network_setup setup;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(network_parse(texts[i], &setup), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_usual_one),
		cmocka_unit_test(what_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
