/*
 * Guests on the network: what a guest sets up at its boot still holds after a restore on another
 * slot, two guests of one saved state each have the network to themselves, and what the host says
 * about it applies to the next packet.
 */
#include "../net/world.h"
#include "vmm_fixture.h"

#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/str.h"

#define SITE_PORT 8000

struct site {
	int listening;
	pthread_t thread;
};

struct rig {
	struct world *world;
	struct fixture fixture;
	struct vmm_network network;
	struct site site;
};

struct guest {
	struct slot *slot;
	struct machine_run machine;
};

/* Answers every request with one page, until it is shut down. */
static void *serve(void *arg)
{
	static const char page[] = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello";
	const struct site *site = arg;
	char request[4096];
	int fd;

	while ((fd = accept(site->listening, NULL, NULL)) >= 0) {
		if (recv(fd, request, sizeof(request), 0) > 0)
			send(fd, page, sizeof(page) - 1, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		recv(fd, request, sizeof(request), 0);
		close(fd);
	}
	return NULL;
}

static void use_slot(struct rig *rig, struct slot *slot)
{
	rig->network = (struct vmm_network){
		.tap_fd = slot_tap_fd(slot),
		.mac = SLOT_GUEST_MAC,
		.address = "100.64.0.2/30",
		.gateway = "100.64.0.1",
		.gateway_mac = SLOT_GATEWAY_MAC,
	};
	rig->fixture.network = &rig->network;
}

static int setup(void **state)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	struct slot *slot;

	world_setup((void **)&rig->world);
	if (!rig->world)
		fail_msg("tests of the network make namespaces and taps: run as root");
	world_begin((void **)&rig->world);
	/* A template is made on a slot that nothing passes. */
	fixture_open(&rig->fixture);
	slot = world_take(rig->world, POLICY_NOTHING);
	use_slot(rig, slot);
	fixture_make_template(&rig->fixture);
	slot_release(slot);
	rig->site.listening = world_site(rig->world, SOCK_STREAM, SITE, SITE_PORT);
	assert_int_equal(pthread_create(&rig->site.thread, NULL, serve, &rig->site), 0);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;

	shutdown(rig->site.listening, SHUT_RDWR);
	pthread_join(rig->site.thread, NULL);
	close(rig->site.listening);
	fixture_close(&rig->fixture);
	world_end((void **)&rig->world);
	world_teardown((void **)&rig->world);
	free(rig);
	return 0;
}

static void guest_start(struct guest *guest, struct rig *rig)
{
	guest->slot = world_take(rig->world, POLICY_NOTHING);
	use_slot(rig, guest->slot);
	machine_prepare(&guest->machine, &rig->fixture);
	machine_start(&guest->machine);
	machine_connect(&guest->machine);
}

static void guest_end(struct guest *guest)
{
	machine_disconnect(&guest->machine);
	machine_end(&guest->machine);
	slot_release(guest->slot);
}

static void assert_says(struct guest *guest, const char *command, const char *wanted)
{
	_cleanup_free_ char *said = shell(&guest->machine.guest, "root", command);

	assert_string_equal(said, wanted);
}

#define FETCH	   "curl -s --max-time 30 http://8.8.4.4:8000/ || echo refused"
#define FETCH_SOON "curl -s --max-time 2 http://8.8.4.4:8000/ || echo refused"

/* "yes" when the address answers an echo within the seconds, "refused" when the host says so. */
#define ECHO_COMMAND                                                                               \
	"python3 -c 'import socket, struct\n"                                                      \
	"s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\n"                \
	"s.settimeout(%d)\n"                                                                       \
	"s.sendto(bytes([8, 0, 0xf7, 0xfd, 0, 1, 0, 1]), (\"%s\", 0))\n"                           \
	"try: print({0: \"yes\", 3: \"refused\"}[s.recv(100)[20]])\n"                              \
	"except TimeoutError: print(\"no\")'"

static void assert_echo(struct guest *guest, uint32_t address, int seconds, const char *wanted)
{
	_cleanup_free_ char *dotted = xasprintf("%u.%u.%u.%u", address >> 24, address >> 16 & 255,
						address >> 8 & 255, address & 255);
	_cleanup_free_ char *command = xasprintf(ECHO_COMMAND, seconds, dotted);

	assert_says(guest, command, wanted);
}

static void set_policy(struct guest *guest, enum policy_state state)
{
	const struct policy policy = { .state = state };

	assert_int_equal(slot_set_policy(guest->slot, &policy, NULL), 0);
}

static void a_restored_guest_is_on_the_network(void **state)
{
	struct rig *rig = *state;
	struct guest guest;
	struct slot_counters counters;

	guest_start(&guest, rig);
	assert_says(&guest, "cat /etc/resolv.conf", "nameserver 100.64.0.1");
	assert_says(&guest, "ip -4 -o address show eth0 | awk '{print $4}'", "100.64.0.2/30");
	assert_says(&guest, "cat /sys/class/net/eth0/address", SLOT_GUEST_MAC);
	assert_says(&guest, "ip neighbour | awk '{print $1, $5, $6}'",
		    "100.64.0.1 " SLOT_GATEWAY_MAC " PERMANENT");
	assert_says(&guest, "ip -6 address show eth0", "");
	assert_says(&guest, FETCH_SOON, "refused");
	set_policy(&guest, POLICY_OPEN);
	assert_says(&guest, FETCH, "hello");
	assert_echo(&guest, SITE, 20, "yes");
	assert_int_equal(slot_counters(guest.slot, &counters), 0);
	assert_true(counters.out_packets >= 5 && counters.in_packets >= 4);
	world_open_address(guest.slot, SITE, 32, POLICY_TCP, SITE_PORT + 1);
	assert_says(&guest, FETCH_SOON, "refused");
	world_open_address(guest.slot, SITE, 32, POLICY_TCP, SITE_PORT);
	assert_says(&guest, FETCH, "hello");
	guest_end(&guest);
}

/* Of one saved state, so with one address and one MAC between them. */
static void two_guests_do_not_meet_unless_in_a_network(void **state)
{
	struct rig *rig = *state;
	struct guest a, b;

	guest_start(&a, rig);
	guest_start(&b, rig);
	set_policy(&a, POLICY_OPEN);
	set_policy(&b, POLICY_OPEN);
	assert_says(&a, FETCH, "hello");
	assert_says(&b, FETCH, "hello");
	assert_echo(&a, slot_address(b.slot), 20, "refused");
	assert_int_equal(slot_join(a.slot, 1, NULL), 0);
	assert_int_equal(slot_join(b.slot, 1, NULL), 0);
	assert_echo(&a, slot_address(b.slot), 20, "yes");
	assert_int_equal(slot_leave(b.slot, 1, NULL), 0);
	assert_echo(&a, slot_address(b.slot), 20, "refused");
	guest_end(&a);
	guest_end(&b);
}

/* A large answer, with what both sides offload: checksums and segmentation. */
static void bulk_data_is_whole(void **state)
{
	struct rig *rig = *state;
	struct guest a, b;
	_cleanup_free_ char *fetch = NULL;

	guest_start(&a, rig);
	guest_start(&b, rig);
	assert_int_equal(slot_join(a.slot, 1, NULL), 0);
	assert_int_equal(slot_join(b.slot, 1, NULL), 0);
	assert_says(&a,
		    "cd /tmp && seq 1 300000 >data && (nohup python3 -m http.server 80 >/dev/null "
		    "2>&1 & ) && for i in $(seq 100); do curl -s -o /dev/null localhost && break; "
		    "sleep 0.2; done; md5sum <data",
		    "daef482d6c698625ab13d987d14e8781  -");
	fetch = xasprintf("curl -s --max-time 120 http://100.64.1.%u/data | md5sum",
			  slot_index(a.slot));
	assert_says(&b, fetch, "daef482d6c698625ab13d987d14e8781  -");
	guest_end(&a);
	guest_end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_restored_guest_is_on_the_network),
		cmocka_unit_test(two_guests_do_not_meet_unless_in_a_network),
		cmocka_unit_test(bulk_data_is_whole),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
