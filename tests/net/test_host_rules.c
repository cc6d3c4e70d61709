/*
 * Host rules from end to end: a guest with a real IP stack (a namespace on a wire to its slot's
 * tap), the egress program, the name server and the proxy, as the daemon puts them together. What
 * the guest sees matters less than what reaches the internet, which a packet socket there tells.
 */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "../unit/dns_build.h"
#include "base/alloc.h"
#include "base/str.h"
#include "net/dns_server.h"
#include "net/proxy.h"
#include "shell.h"
#include "upstream.h"

#define UPSTREAM IP(127, 0, 0, 2)
#define WAIT_MS	 30000
#define QUIET_MS 500

static const struct upstream_name names[] = {
	{ .name = "one.test", .ttl_s = 300, .first = SITE, .n = 1 },
	{ .name = "neighbour.test", .ttl_s = 300, .first = SITE, .n = 1 },
	{ .name = "shell.test", .ttl_s = 300, .first = OTHER_SITE, .n = 1 },
	{ .name = "metadata.test", .ttl_s = 300, .first = METADATA, .n = 1 },
	{ 0 },
};

/* The daemon's part, in small: one client. */
struct daemon {
	struct world *world;
	struct loop *loop;
	struct net_clients clients;
	pthread_mutex_t lock; /* guards rules */
	struct slot *slot;
	struct ruleset *rules;
	struct dns_resolver *resolver;
	struct dns_server *dns;
	struct proxy *proxy;
	struct upstream *upstream;
	char scratch[SCRATCH_SIZE], resolv_conf[SCRATCH_SIZE + 16];
	int guest_ns, guest_tap, end[2];
	pthread_t wire;
};

static struct ruleset *rules_of(void *arg, uint32_t client)
{
	struct daemon *daemon = arg;
	struct ruleset *rules = NULL;

	pthread_mutex_lock(&daemon->lock);
	if (slots_index_of(daemon->world->slots, client) == slot_index(daemon->slot))
		rules = ruleset_ref(daemon->rules);
	pthread_mutex_unlock(&daemon->lock);
	return rules;
}

static int network_name(void *arg, uint32_t client, const char *name, uint32_t *ret_address)
{
	return -ENOENT;
}

static int allow(void *arg, uint32_t client, const char *name, uint32_t address, int64_t expires_ms)
{
	struct daemon *daemon = arg;

	return slot_allow(daemon->slot, name, address, expires_ms);
}

static bool denied_range(void *arg, uint32_t address)
{
	struct daemon *daemon = arg;

	return slots_denied_range(daemon->world->slots, address);
}

static void denied(void *arg, uint32_t client, const struct net_denial *denial)
{
}

static void set_rules(struct daemon *daemon, const char *json)
{
	json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
	struct ruleset *rules, *old;
	struct policy policy;

	assert_int_equal(ruleset_from_json(value, 100, &rules, NULL), 0);
	json_decref(value);
	ruleset_compile(rules, &policy);
	assert_int_equal(slot_set_policy(daemon->slot, &policy, NULL), 0);
	policy_clear(&policy);
	pthread_mutex_lock(&daemon->lock);
	old = daemon->rules;
	daemon->rules = rules;
	pthread_mutex_unlock(&daemon->lock);
	ruleset_unref(old);
}

static void start_services(void *arg)
{
	struct daemon *daemon = arg;
	struct dns_server_config dns = { GATEWAY, DNS_PORT, &daemon->clients, NULL };
	struct proxy_config proxy = { GATEWAY, 0, &daemon->clients, NULL };
	struct err err = ERR_INIT;

	if (dns_resolver_new(daemon->loop, daemon->resolv_conf, &daemon->resolver, &err) < 0)
		fail_msg("%s", err.message);
	dns.resolver = proxy.resolver = daemon->resolver;
	if (dns_server_new(daemon->loop, &dns, &daemon->dns, &err) < 0 ||
	    proxy_new(daemon->loop, &proxy, &daemon->proxy, &err) < 0)
		fail_msg("%s", err.message);
}

static void stop_services(void *arg)
{
	struct daemon *daemon = arg;

	proxy_free(STEAL(daemon->proxy));
	dns_server_free(STEAL(daemon->dns));
	dns_resolver_free(STEAL(daemon->resolver));
}

/* ---- the guest: a tap in a namespace, and a wire of one thread to the slot's tap ---- */

static void *carry(void *arg)
{
	struct daemon *daemon = arg;
	struct pollfd fds[] = { { .fd = slot_tap_fd(daemon->slot), .events = POLLIN },
				{ .fd = daemon->guest_tap, .events = POLLIN },
				{ .fd = daemon->end[0], .events = POLLIN } };
	static uint8_t data[65536];

	while (poll(fds, 3, -1) >= 0 && !fds[2].revents) {
		for (int i = 0; i < 2; i++) {
			ssize_t n = fds[i].revents ? read(fds[i].fd, data, sizeof(data)) : 0;

			/* A frame that the other end will not have is lost, as on wires. */
			if (n > 0 && write(fds[1 - i].fd, data, (size_t)n) < 0)
				continue;
		}
	}
	return NULL;
}

static void enter(int ns)
{
	assert_int_equal(setns(ns, CLONE_NEWNET), 0);
}

static void make_guest(struct daemon *daemon)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };

	sh("ip netns add guest");
	daemon->guest_ns = open("/run/netns/guest", O_RDONLY | O_CLOEXEC);
	assert_true(daemon->guest_ns >= 0);
	enter(daemon->guest_ns);
	daemon->guest_tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	str_copy(request.ifr_name, sizeof(request.ifr_name), "eth0");
	assert_int_equal(ioctl(daemon->guest_tap, TUNSETIFF, &request), 0);
	enter(daemon->world->host_ns);
	sh("ip -n guest link set eth0 address " SLOT_GUEST_MAC);
	sh("ip -n guest address add 100.64.0.2/30 dev eth0; ip -n guest link set eth0 up");
	sh("ip -n guest neighbour replace 100.64.0.1 lladdr " SLOT_GATEWAY_MAC " dev eth0");
	sh("ip -n guest route add default via 100.64.0.1");
	assert_int_equal(pipe2(daemon->end, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&daemon->wire, NULL, carry, daemon), 0);
}

static void remove_guest(struct daemon *daemon)
{
	close(daemon->end[1]);
	pthread_join(daemon->wire, NULL);
	close(daemon->end[0]);
	close(daemon->guest_tap);
	close(daemon->guest_ns);
	sh("ip netns delete guest");
}

static int guest_socket(struct daemon *daemon, int type)
{
	int fd;

	enter(daemon->guest_ns);
	fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	enter(daemon->world->host_ns);
	assert_true(fd >= 0);
	return fd;
}

static struct daemon *daemon_new(struct world *world)
{
	static const char servers[] = "nameserver 127.0.0.2\n";
	struct daemon *daemon = xcalloc(1, sizeof(*daemon));

	daemon->world = world;
	daemon->loop = world->loop;
	daemon->clients = (struct net_clients){
		daemon, rules_of, network_name, allow, denied_range, denied,
	};
	pthread_mutex_init(&daemon->lock, NULL);
	daemon->slot = world_take(world, POLICY_NOTHING);
	daemon->rules = ruleset_new(POLICY_NOTHING);
	scratch_make(daemon->scratch);
	snprintf(daemon->resolv_conf, sizeof(daemon->resolv_conf), "%s/resolv.conf",
		 daemon->scratch);
	assert_int_equal(
		file_write_durable(daemon->resolv_conf, servers, sizeof(servers) - 1, 0644), 0);
	daemon->upstream = upstream_new(UPSTREAM, names);
	loop_call(daemon->loop, start_services, daemon);
	assert_int_equal(slots_set_proxy(world->slots, proxy_port(daemon->proxy)), 0);
	make_guest(daemon);
	return daemon;
}

static void daemon_free(struct daemon *daemon)
{
	loop_call(daemon->loop, stop_services, daemon);
	remove_guest(daemon);
	upstream_free(daemon->upstream);
	scratch_remove(daemon->scratch);
	slot_release(daemon->slot);
	ruleset_unref(daemon->rules);
	pthread_mutex_destroy(&daemon->lock);
	free(daemon);
}

/* ---- what the guest does ---- */

static bool wait_for(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, ms) > 0;
}

/* TCP; -1 when it does not come about within the time. */
static int guest_connect(struct daemon *daemon, uint32_t address, uint16_t port, int ms)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(port),
					.sin_addr.s_addr = htonl(address) };
	int fd = guest_socket(daemon, SOCK_STREAM), error = 0;
	socklen_t len = sizeof(error);

	fd_set_nonblock(fd, true);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
	    (errno != EINPROGRESS || !wait_for(fd, POLLOUT, ms) ||
	     getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0)) {
		close(fd);
		return -1;
	}
	fd_set_nonblock(fd, false);
	return fd;
}

/* Asks for an address; 0 when there is none. Again after a while, as resolvers do. */
static uint32_t guest_resolve(struct daemon *daemon, const char *name)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(DNS_PORT),
					.sin_addr.s_addr = htonl(GATEWAY) };
	int fd = guest_socket(daemon, SOCK_DGRAM);
	struct buf message = BUF_INIT;
	uint8_t data[512];
	uint32_t address = 0;
	ssize_t n = -1;

	dns_put_header(&message, 5, 0x0100, 1, 0);
	dns_put_question(&message, name, 1);
	for (int i = 0; i < 6 && n < 0; i++) {
		sendto(fd, message.data, message.len, 0, (const struct sockaddr *)&to, sizeof(to));
		if (wait_for(fd, POLLIN, WAIT_MS / 6))
			n = recv(fd, data, sizeof(data), 0);
	}
	assert_true(n >= 12);
	if (data[7] > 0) { /* the address is the last thing in the message */
		memcpy(&address, data + n - 4, 4);
		address = ntohl(address);
	}
	buf_clear(&message);
	close(fd);
	return address;
}

/* A small hello for a name. */
static struct buf hello_for(const char *name)
{
	size_t len = strlen(name);
	struct buf hello = BUF_INIT;

	buf_append(&hello, "\x16\x03\x01", 3);
	dns_put16(&hello, (unsigned)len + 56);
	dns_put16(&hello, 0x0100);
	dns_put16(&hello, (unsigned)len + 52);
	dns_put16(&hello, 0x0303);
	for (int i = 0; i < 16; i++)
		dns_put16(&hello, 0);
	buf_append(&hello, "\0\0\2\x13\1\1\0", 7);
	dns_put16(&hello, (unsigned)len + 9);
	dns_put16(&hello, 0);
	dns_put16(&hello, (unsigned)len + 5);
	dns_put16(&hello, (unsigned)len + 3);
	buf_append_char(&hello, 0);
	dns_put16(&hello, (unsigned)len);
	buf_append(&hello, name, len);
	return hello;
}

static void say_hello(int fd, const char *name)
{
	struct buf hello = hello_for(name);

	assert_int_equal(fd_write_all(fd, hello.data, hello.len), 0);
	buf_clear(&hello);
}

/* The next connection to a site, and what it was sent first. */
static int site_accept(int site, void *data, size_t len)
{
	int fd = wait_for(site, POLLIN, WAIT_MS) ? accept(site, NULL, NULL) : -1;

	assert_true(fd >= 0);
	assert_int_equal(fd_read_full(fd, data, len), len);
	return fd;
}

static void name_then_connection(void **state)
{
	struct daemon *daemon = daemon_new(*state);
	int site = world_site(daemon->world, SOCK_STREAM, SITE, 443), guest, server;
	struct buf hello = hello_for("one.test");
	uint8_t data[256];

	set_rules(daemon, "[\"one.test:443\"]");
	assert_int_equal(guest_connect(daemon, SITE, 443, QUIET_MS), -1); /* not asked for yet */
	assert_int_equal(guest_resolve(daemon, "one.test"), SITE);
	guest = guest_connect(daemon, SITE, 443, WAIT_MS);
	assert_true(guest >= 0);
	say_hello(guest, "one.test");
	server = site_accept(site, data, hello.len);
	assert_memory_equal(data, hello.data, hello.len);
	assert_int_equal(fd_write_all(server, "answer", 6), 0);
	assert_int_equal(fd_read_full(guest, data, 6), 6);
	assert_memory_equal(data, "answer", 6);
	assert_int_equal(guest_connect(daemon, SITE, 8443, QUIET_MS), -1); /* another port */
	close(server);
	close(guest);
	close(site);
	buf_clear(&hello);
	daemon_free(daemon);
}

static void neighbour_sees_no_packet(void **state)
{
	struct daemon *daemon = daemon_new(*state);
	uint8_t data[16];
	int guest;

	set_rules(daemon, "[\"one.test:443\"]");
	assert_int_equal(guest_resolve(daemon, "neighbour.test"), 0);
	assert_int_equal(guest_resolve(daemon, "one.test"), SITE);
	world_collect(daemon->world, NULL, NULL);
	guest = guest_connect(daemon, SITE, 443, WAIT_MS); /* it is the proxy that answers */
	assert_true(guest >= 0);
	say_hello(guest, "neighbour.test");
	assert_int_equal(fd_read_full(guest, data, sizeof(data)), 7);
	assert_memory_equal(data, "\x15\x03\x03\x00\x02\x02\x31", 7);
	assert_int_equal(world_count(daemon->world, SITE, FRAME_TCP, 443), 0);
	close(guest);
	daemon_free(daemon);
}

/* On a port where names are not said the address decides, and the site is reached without the
 * proxy. */
static void other_ports_are_direct(void **state)
{
	struct daemon *daemon = daemon_new(*state);
	int site = world_site(daemon->world, SOCK_STREAM, OTHER_SITE, 22), guest, server;
	char data[8];

	set_rules(daemon, "[\"shell.test:22\"]");
	assert_int_equal(guest_resolve(daemon, "shell.test"), OTHER_SITE);
	guest = guest_connect(daemon, OTHER_SITE, 22, WAIT_MS);
	assert_true(guest >= 0);
	assert_int_equal(fd_write_all(guest, "SSH-2.0", 7), 0);
	server = site_accept(site, data, 7);
	assert_memory_equal(data, "SSH-2.0", 7);
	assert_int_equal(guest_connect(daemon, OTHER_SITE, 443, QUIET_MS), -1);
	close(server);
	close(guest);
	close(site);
	daemon_free(daemon);
}

static void rebinding_opens_nothing(void **state)
{
	struct daemon *daemon = daemon_new(*state);

	set_rules(daemon, "[\"metadata.test\"]");
	assert_int_equal(guest_resolve(daemon, "metadata.test"), 0);
	world_collect(daemon->world, NULL, NULL);
	assert_int_equal(guest_connect(daemon, METADATA, 80, QUIET_MS), -1);
	assert_int_equal(world_count(daemon->world, METADATA, FRAME_TCP, 80), 0);
	daemon_free(daemon);
}

/* The daemon dies: what was allowed directly goes on, what needs the proxy or a name stays closed.
 */
static void services_that_die_leave_nothing_open(void **state)
{
	struct daemon *daemon = daemon_new(*state);
	int site = world_site(daemon->world, SOCK_STREAM, OTHER_SITE, 2222), guest, server;
	char data[8];

	set_rules(daemon, "[\"shell.test:2222\", \"one.test\"]");
	assert_int_equal(guest_resolve(daemon, "shell.test"), OTHER_SITE);
	assert_int_equal(guest_resolve(daemon, "one.test"), SITE);
	guest = guest_connect(daemon, OTHER_SITE, 2222, WAIT_MS);
	assert_true(guest >= 0);
	loop_call(daemon->loop, stop_services, daemon);
	world_collect(daemon->world, NULL, NULL);
	assert_int_equal(guest_connect(daemon, SITE, 443, QUIET_MS), -1);
	assert_int_equal(guest_connect(daemon, SITE, 80, QUIET_MS), -1);
	assert_int_equal(world_count(daemon->world, SITE, FRAME_TCP, 443), 0);
	assert_int_equal(fd_write_all(guest, "SSH-2.0", 7), 0);
	server = site_accept(site, data, 7);
	close(server);
	close(guest);
	close(site);
	daemon_free(daemon);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(name_then_connection),
		TEST(neighbour_sees_no_packet),
		TEST(other_ports_are_direct),
		TEST(rebinding_opens_nothing),
		TEST(services_that_die_leave_nothing_open),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
