/* Slots over time: tenants, daemons that die, other people's devices, the end. */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/str.h"
#include "net/nft.h"
#include "net/tap.h"
#include "shell.h"

#define UDP(to, to_port)                                                                           \
	.source = INNER, .dest = (to), .protocol = FRAME_UDP, .source_port = 40000,                \
	.dest_port = (to_port)
#define send_spec(slot, ...) guest_send_spec(slot, &(struct frame_spec){ __VA_ARGS__ })

static size_t sent_through(struct world *world, struct slot *slot, uint32_t dest, uint16_t port)
{
	send_spec(slot, UDP(dest, port));
	return world_count(world, dest, FRAME_UDP, port);
}

/* A VMM: keeps the tap's descriptor, whatever becomes of the daemon. */
static int hold_tap(struct slot *slot)
{
	int fd = fcntl(slot_tap_fd(slot), F_DUPFD_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static void vmm_send(int tap, uint32_t dest, uint16_t port)
{
	struct frame frame;
	uint8_t data[10 + FRAME_MAX] = { 0 };

	frame_build(&(struct frame_spec){ UDP(dest, port) }, &frame);
	memcpy(data + 10, frame.data, frame.len);
	assert_int_equal(write(tap, data, 10 + frame.len), 10 + frame.len);
}

static void a_slot_has_nothing_of_its_last_tenant(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN), *other;
	uint32_t index = slot_index(slot), lease = slot_lease(slot);
	int site = world_site(world, SOCK_DGRAM, SITE, 9);
	struct slot_counters counters;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char byte;

	assert_int_equal(slot_join(slot, 5, NULL), 0);
	send_spec(slot, UDP(SITE, 9), .payload = 1);
	assert_int_equal(recvfrom(site, &byte, 1, 0, (struct sockaddr *)&from, &len), 1);
	/* One answer waits in the tap when the tenant goes, another one comes after. */
	assert_int_equal(sendto(site, "x", 1, 0, (struct sockaddr *)&from, len), 1);
	world_collect(world, NULL, NULL);
	slot_release(slot);
	do {
		other = world_take(world, POLICY_NOTHING);
	} while (slot_index(other) != index);
	assert_int_not_equal(slot_lease(other), lease);
	assert_int_equal(sendto(site, "x", 1, 0, (struct sockaddr *)&from, len), 1);
	guest_expect_nothing(other);
	assert_int_equal(slot_counters(other, &counters), 0);
	assert_int_equal(counters.out_packets, 0);
	assert_int_equal(counters.in_packets, 0);
	assert_int_equal(counters.in_denied, 1);
	assert_int_equal(sent_through(world, other, SITE, 9), 0);
	close(site);
}

static void a_tap_that_is_still_held_is_given_up(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);
	uint32_t address = slot_address(slot);
	int tap = hold_tap(slot);
	char name[16];
	uint8_t frame[60] = { 0 };

	snprintf(name, sizeof(name), "skt%u", slot_index(slot));
	slot_release(slot);
	assert_int_equal(if_nametoindex(name), 0);
	assert_int_equal(write(tap, frame, sizeof(frame)), -1);
	/* Its number can be had again, with a tap of its own. */
	do {
		slot = world_take(world, POLICY_OPEN);
	} while (slot_address(slot) != address);
	assert_int_equal(sent_through(world, slot, SITE, 9), 1);
	close(tap);
}

static void a_tap_without_its_program_is_closed(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);

	assert_int_equal(sent_through(world, slot, SITE, 9), 1);
	sh("tc filter del dev skt%u ingress", slot_index(slot));
	assert_int_equal(sent_through(world, slot, SITE, 9), 0);
	send_spec(slot, UDP(SITE, 9), .source = slot_address(slot));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 9), 0);
}

static void guests_do_not_notice_that_the_daemon_died(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING), *fence;
	uint32_t index = slot_index(slot), fence_index = slot_index(world->fence_slot);
	uint32_t lease = slot_lease(slot);
	int tap = hold_tap(slot), fence_tap = hold_tap(world->fence_slot);
	const struct policy_host host = { .name = "site.test", .port = 22 };
	struct policy_address rule = { OTHER_SITE, 32, POLICY_UDP, 9 };
	struct policy policy = { .state = POLICY_LIST,
				 .addresses = &rule,
				 .n_addresses = 1,
				 .hosts = (struct policy_host *)&host,
				 .n_hosts = 1 };
	size_t n = 0;

	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	assert_int_equal(slot_allow(slot, "site.test", SITE, clock_boottime_ms() + 60000), 0);
	assert_int_equal(slot_join(slot, 5, NULL), 0);
	slots_free(world->slots);
	world->slots = NULL;
	for (int i = 0; i < 3; i++) {
		vmm_send(tap, SITE, 22);
		vmm_send(tap, OTHER_SITE, 9);
		vmm_send(tap, SITE, 23);
	}
	world_start_slots(world);
	assert_int_equal(slot_adopt(world->slots, fence_index, &fence, NULL), 0);
	assert_int_equal(slot_adopt(world->slots, index, &slot, NULL), 0);
	assert_int_equal(slot_adopt(world->slots, index, &slot, NULL), -ENOENT);
	assert_int_equal(slots_adopt_done(world->slots, NULL), 0);
	assert_int_equal(slot_lease(slot), lease);
	assert_int_equal(slot_tap_fd(slot), -1);
	world->fence_slot = world_take(world, POLICY_OPEN);
	world_collect(world, NULL, NULL);

	/* Replacing the policy keeps what the name server had learned, and forgets what the new one
	 * does not allow. */
	policy.n_addresses = 0;
	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	vmm_send(tap, OTHER_SITE, 9);
	vmm_send(tap, SITE, 23);
	vmm_send(tap, SITE, 22);
	n = world_count(world, SITE, FRAME_UDP, 22);
	assert_int_equal(n, 1);
	vmm_send(tap, OTHER_SITE, 9);
	assert_int_equal(world_count(world, OTHER_SITE, FRAME_UDP, 9), 0);
	assert_int_equal(slot_leave(slot, 5, NULL), 0);
	slot_release(slot);
	slot_release(fence);
	close(tap);
	close(fence_tap);
}

static void packets_pass_while_no_daemon_lives(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	int tap = hold_tap(slot);
	struct slot_counters counters;
	uint32_t index = slot_index(slot);

	world_open_address(slot, SITE, 32, POLICY_UDP, 9);
	slots_free(world->slots);
	world->slots = NULL;
	vmm_send(tap, SITE, 9);
	vmm_send(tap, SITE, 10);
	vmm_send(tap, OTHER_SITE, 9);
	world_start_slots(world);
	assert_int_equal(slot_adopt(world->slots, index, &slot, NULL), 0);
	assert_int_equal(slot_counters(slot, &counters), 0);
	assert_int_equal(counters.out_packets, 1);
	assert_int_equal(counters.out_denied, 2);
	close(tap);
}

static void what_nobody_adopts_is_released(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);
	uint32_t index = slot_index(slot);

	slots_free(world->slots);
	world_start_slots(world);
	assert_int_equal(slots_adopt_done(world->slots, NULL), 2); /* the fence's too */
	assert_int_equal(slot_adopt(world->slots, index, &slot, NULL), -ENOENT);
	assert_int_equal(slot_adopt(world->slots, 4000, &slot, NULL), -ENOENT);
	assert_int_equal(slot_adopt(world->slots, UINT32_MAX, &slot, NULL), -ENOENT);
	/* Made once, used again: nothing is made. */
	assert_int_equal(slots_refill(world->slots, NULL), 0);
	world->fence_slot = world_take(world, POLICY_OPEN);
	assert_int_equal(sent_through(world, world_take(world, POLICY_OPEN), SITE, 9), 1);
}

/* A daemon that died between making a tap and entering it in the map. */
static void half_made_slots_are_removed(void **state)
{
	struct world *world = *state;

	slots_free(world->slots);
	sh("ip tuntap add skt77 mode tap; ip link set skt77 alias 'skerry test'");
	sh("ip tuntap add skt78 mode tap; ip link set skt78 alias 'skerry other'");
	sh("ip tuntap add skt079 mode tap; ip link set skt079 alias 'skerry test'");
	world_start_slots(world);
	assert_int_equal(if_nametoindex("skt77"), 0);
	assert_int_not_equal(if_nametoindex("skt78"), 0);
	assert_int_not_equal(if_nametoindex("skt079"), 0);
	sh("ip link del skt78; ip link del skt079");
	slots_adopt_done(world->slots, NULL);
}

static void other_peoples_devices_stay(void **state)
{
	struct world *world = *state;
	char name[16];

	sh("ip tuntap add skt5 mode tap");
	for (int i = 0; i < 6; i++) {
		struct slot *slot = world_take(world, POLICY_OPEN);

		assert_int_not_equal(slot_index(slot), 5);
	}
	slots_destroy(world->slots);
	world->slots = NULL;
	assert_int_not_equal(if_nametoindex("skt5"), 0);
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "skt%d", i);
		assert_int_equal(if_nametoindex(name) != 0, i == 5);
	}
	sh("ip link del skt5");
}

static void a_device_that_somebody_removed(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);
	uint32_t index = slot_index(slot);

	sh("ip link del skt%u", index);
	slots_free(world->slots);
	world_start_slots(world);
	assert_int_equal(slot_adopt(world->slots, index, &slot, NULL), -ENOENT);
	slots_adopt_done(world->slots, NULL);
	world->fence_slot = world_take(world, POLICY_OPEN);
	assert_int_equal(sent_through(world, world_take(world, POLICY_OPEN), SITE, 9), 1);
}

static void another_installation_is_refused(void **state)
{
	struct world *world = *state;
	struct slots_config config = world->config;
	struct slots *slots;
	struct err err = ERR_INIT;

	config.instance = "second";
	assert_int_equal(slots_new(&config, NULL, NULL, NULL, &slots, &err), -EBUSY);
	assert_non_null(strstr(err.message, "'test'"));
	/* Nothing of ours was touched. */
	assert_int_equal(sent_through(world, world_take(world, POLICY_OPEN), SITE, 9), 1);
}

static void configurations_that_cannot_be(void **state)
{
	struct world *world = *state;
	struct slots_config config = world->config;
	struct slots *slots;

	config.instance = "No Name";
	assert_int_equal(slots_new(&config, NULL, NULL, NULL, &slots, NULL), -EINVAL);
	config = world->config;
	config.uplink = "nothere0";
	assert_int_equal(slots_new(&config, NULL, NULL, NULL, &slots, NULL), -ENODEV);
	config = world->config;
	config.range = IP(100, 64, 0, 1);
	config.range_prefix = 16;
	assert_int_equal(slots_new(&config, NULL, NULL, NULL, &slots, NULL), -EINVAL);
	config.range = IP(100, 64, 0, 0);
	config.range_prefix = 24;
	assert_int_equal(slots_new(&config, NULL, NULL, NULL, &slots, NULL), -EINVAL);
}

/* Forwarding, masquerade, pins, devices: as if we had never been. */
static void the_end_leaves_nothing(void **state)
{
	struct world *world = *state;

	assert_true(nft_forwards_only_guests("skerry"));
	sh("[ $(cat /proc/sys/net/ipv4/conf/up0/forwarding) = 1 ]");
	sh("[ $(cat /proc/sys/net/ipv4/ip_forward) = 0 ]");
	world_take(world, POLICY_OPEN);
	slots_destroy(world->slots);
	world->slots = NULL;
	sh("[ $(cat /proc/sys/net/ipv4/conf/up0/forwarding) = 0 ]");
	sh("! ip -o link | grep -E 'skt|skerry'");
	sh("[ -z \"$(nft list tables)\" ]");
	sh("! ip rule | grep fwmark");
	sh("[ -z \"$(ip route show table 24139 2>/dev/null)\" ]");
	sh("! ip route | grep 100.64");
	sh("[ -z \"$(ls %s | grep -v '[.]debug$')\" ]", world->pins); /* the file system's own */
}

static void a_host_that_forwards_goes_on_to(void **state)
{
	struct world *world = *state;

	slots_destroy(world->slots);
	sh("echo 1 >/proc/sys/net/ipv4/ip_forward");
	world_start_slots(world);
	assert_false(nft_forwards_only_guests("skerry"));
	slots_destroy(world->slots);
	world->slots = NULL;
	sh("[ $(cat /proc/sys/net/ipv4/ip_forward) = 1 ]");
	sh("echo 0 >/proc/sys/net/ipv4/ip_forward");
}

static void exceptions_of_the_operator(void **state)
{
	struct world *world = *state;
	const struct slot_cidr exception = { IP(10, 7, 0, 0), 16 };
	struct slot *slot = world_take(world, POLICY_OPEN);

	assert_int_equal(sent_through(world, slot, IP(10, 7, 0, 1), 9), 0);
	slots_destroy(world->slots);
	world->config.exceptions = &exception;
	world->config.n_exceptions = 1;
	world_start_slots(world);
	world->fence_slot = world_take(world, POLICY_OPEN);
	slot = world_take(world, POLICY_OPEN);
	assert_int_equal(sent_through(world, slot, IP(10, 7, 0, 1), 9), 1);
	assert_int_equal(sent_through(world, slot, IP(10, 8, 0, 1), 9), 0);
	assert_false(slots_denied_range(world->slots, IP(10, 7, 255, 255)));
	assert_true(slots_denied_range(world->slots, IP(10, 8, 0, 0)));
	/* Taken back: closed again with the next start. */
	slots_free(world->slots);
	world->config.n_exceptions = 0;
	world_start_slots(world);
	assert_true(slots_denied_range(world->slots, IP(10, 7, 0, 1)));
	slots_adopt_done(world->slots, NULL);
	world->fence_slot = world_take(world, POLICY_OPEN);
	slot = world_take(world, POLICY_OPEN);
	assert_int_equal(sent_through(world, slot, IP(10, 7, 0, 1), 9), 0);
}

static void a_thousand_rules(void **state)
{
	enum { RULES = 1000 };
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	static struct policy_address rules[POLICY_RULES_MAX + 1];
	struct policy policy = { .state = POLICY_LIST, .addresses = rules, .n_addresses = RULES };

	for (uint32_t i = 0; i < ARRAY_SIZE(rules); i++)
		rules[i] = (struct policy_address){ IP(20, 0, 0, 0) + 16 * i, 28, POLICY_ANY, 0 };
	for (int i = 0; i < 3; i++)
		assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	assert_int_equal(sent_through(world, slot, IP(20, 0, 0, 0) + 16 * (RULES - 1), 9), 1);
	assert_int_equal(sent_through(world, slot, IP(20, 0, 0, 0) + 16 * RULES, 9), 0);
	policy.n_addresses = ARRAY_SIZE(rules);
	assert_int_equal(slot_set_policy(slot, &policy, NULL), -E2BIG);
	/* The set before stays. */
	assert_int_equal(sent_through(world, slot, IP(20, 0, 0, 5), 9), 1);
}

/* The cap of learned addresses: the longest expired makes room, a fresh one does not. */
static void learned_addresses_are_capped(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	struct policy_host host = { .name = "site.test", .port = 9 };
	const struct policy policy = { .state = POLICY_LIST, .hosts = &host, .n_hosts = 1 };
	int64_t now = clock_boottime_ms();

	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	assert_int_equal(slot_allow(slot, "site.test", IP(20, 0, 0, 0), now - 1), 0);
	for (uint32_t i = 1; i < SLOT_LEARNED_MAX; i++)
		assert_int_equal(slot_allow(slot, "site.test", IP(20, 0, 0, 0) + i, now + 600000),
				 0);
	assert_int_equal(slot_allow(slot, "site.test", SITE, now + 600000), 0);
	assert_int_equal(slot_allow(slot, "site.test", OTHER_SITE, now + 600000), -ENOSPC);
	assert_int_equal(sent_through(world, slot, SITE, 9), 1);
	assert_int_equal(sent_through(world, slot, IP(20, 0, 0, 0), 9), 0);
	assert_int_equal(sent_through(world, slot, OTHER_SITE, 9), 0);
	/* A name that no rule covers opens nothing, and costs nothing. */
	assert_int_equal(slot_allow(slot, "else.test", OTHER_SITE, now + 600000), 0);
	assert_int_equal(sent_through(world, slot, OTHER_SITE, 9), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slot_has_nothing_of_its_last_tenant),
		TEST(a_tap_that_is_still_held_is_given_up),
		TEST(a_tap_without_its_program_is_closed),
		TEST(guests_do_not_notice_that_the_daemon_died),
		TEST(packets_pass_while_no_daemon_lives),
		TEST(what_nobody_adopts_is_released),
		TEST(half_made_slots_are_removed),
		TEST(other_peoples_devices_stay),
		TEST(a_device_that_somebody_removed),
		TEST(another_installation_is_refused),
		TEST(configurations_that_cannot_be),
		TEST(the_end_leaves_nothing),
		TEST(a_host_that_forwards_goes_on_to),
		TEST(exceptions_of_the_operator),
		TEST(a_thousand_rules),
		TEST(learned_addresses_are_capped),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
