/* Slots and the egress program on real taps, with the host's routing and masquerade behind them. */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "shell.h"

#define SYN(to, to_port)                                                                           \
	.source = INNER, .dest = (to), .protocol = FRAME_TCP, .source_port = 40000,                \
	.dest_port = (to_port)
#define UDP(to, to_port)                                                                           \
	.source = INNER, .dest = (to), .protocol = FRAME_UDP, .source_port = 40000,                \
	.dest_port = (to_port)

#define send_spec(slot, ...) guest_send_spec(slot, &(struct frame_spec){ __VA_ARGS__ })

static uint32_t first_word(const struct frame *frame, size_t at)
{
	uint32_t word;

	memcpy(&word, frame->data + at, sizeof(word));
	return ntohl(word);
}

/* The guest's third packet of a handshake, or the first with data. */
static void answer_syn_ack(struct slot *slot, const struct frame *syn_ack,
			   const struct frame_view *view, const char *data)
{
	struct frame frame;
	const uint32_t ack = htonl(first_word(syn_ack, 38) + 1), seq = htonl(1001);
	const struct frame_spec spec = {
		.source = INNER,
		.dest = view->source,
		.protocol = FRAME_TCP,
		.source_port = view->dest_port,
		.dest_port = view->source_port,
		.tcp_flags = FRAME_ACK,
		.content = data,
		.payload = (uint16_t)strlen(data),
	};
	uint16_t old, sum;

	frame_build(&spec, &frame);
	memcpy(frame.data + 38, &seq, 4);
	memcpy(frame.data + 42, &ack, 4);
	/* 1000 was there, and 0: the checksum takes up the differences. */
	memcpy(&old, frame.data + 50, 2);
	sum = frame_sum(&ack, 4, (uint32_t)(uint16_t)~ntohs(old) + 1);
	old = htons((uint16_t)~sum);
	memcpy(frame.data + 50, &old, 2);
	guest_send(slot, &frame);
}

static void a_taken_slot_is_closed(void **state)
{
	struct world *world = *state;
	struct slot *slot;

	assert_int_equal(slot_take(world->slots, &slot, NULL), 0);
	send_spec(slot, UDP(SITE, 9));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 9), 0);
	assert_int_equal(slot_set_policy(slot, &(struct policy){ .state = POLICY_OPEN }, NULL), 0);
	send_spec(slot, UDP(SITE, 9));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 9), 1);
}

/* Same inner address, same MAC, same ports, same site: each gets its own answers. */
static void two_guests_that_look_alike(void **state)
{
	struct world *world = *state;
	struct slot *slots[2] = { world_take(world, POLICY_OPEN), world_take(world, POLICY_OPEN) };
	int site = world_site(world, SOCK_DGRAM, SITE, 9);

	for (int i = 0; i < 2; i++)
		send_spec(slots[i], UDP(SITE, 9), .content = i ? "b" : "a", .payload = 1);
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t len = sizeof(from);
		char byte;

		assert_int_equal(recvfrom(site, &byte, 1, 0, (struct sockaddr *)&from, &len), 1);
		assert_int_equal(ntohl(from.sin_addr.s_addr), HOST); /* masqueraded */
		assert_int_equal(sendto(site, &byte, 1, 0, (struct sockaddr *)&from, len), 1);
	}
	for (int i = 0; i < 2; i++) {
		struct frame frame;
		struct frame_view view;

		guest_expect(slots[i], FRAME_UDP, SITE, 9, &frame, &view);
		assert_int_equal(view.dest, INNER);
		assert_int_equal(view.dest_port, 40000);
		assert_int_equal(*view.payload, i ? 'b' : 'a');
		guest_expect_nothing(slots[i]);
	}
	close(site);
}

static void a_connection_to_a_site(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);
	int site = world_site(world, SOCK_STREAM, SITE, 443), connection;
	struct frame frame;
	struct frame_view view;
	char data[16] = "";

	send_spec(slot, SYN(SITE, 443));
	guest_expect(slot, FRAME_TCP, SITE, 443, &frame, &view);
	assert_int_equal(view.tcp_flags, FRAME_SYN | FRAME_ACK);
	answer_syn_ack(slot, &frame, &view, "hello");
	connection = accept(site, NULL, NULL);
	assert_true(connection >= 0);
	assert_int_equal(recv(connection, data, sizeof(data), 0), 5);
	assert_string_equal(data, "hello");
	/* Tightening cuts it, both ways. */
	assert_int_equal(slot_set_policy(slot, &(struct policy){ 0 }, NULL), 0);
	while (guest_receive(slot, 20, &frame, &view))
		;
	assert_int_equal(send(connection, "bye", 3, 0), 3);
	guest_expect_nothing(slot);
	close(connection);
	close(site);
}

static void arp_is_answered(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	struct frame frame;
	struct frame_view view;

	frame_arp(NULL, INNER, GATEWAY, false, &frame);
	guest_send(slot, &frame);
	assert_true(guest_receive(slot, 5000, &frame, &view));
	assert_int_equal(view.ethertype, FRAME_ARP);
	assert_int_equal(first_word(&frame, 28), GATEWAY);
	frame_arp(NULL, INNER, SITE, false, &frame);
	guest_send(slot, &frame);
	guest_expect_nothing(slot);
}

/* Frames that the kernel would take apart before the program sees them, or that are too short for
 * its tests. */
static void odd_frames_are_dropped(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);
	struct slot_counters before, after;
	struct frame frame;

	assert_int_equal(slot_counters(slot, &before), 0);
	send_spec(slot, UDP(SITE, 9), .vlan = 1);
	send_spec(slot, UDP(SITE, 9), .vlan = 4095);
	send_spec(slot, UDP(SITE, 9), .ethertype = 0x88a8);
	frame_build(&(struct frame_spec){ UDP(SITE, 9) }, &frame);
	for (frame.len = 41; frame.len >= 14; frame.len--)
		guest_send(slot, &frame);
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 9), 0);
	assert_int_equal(slot_counters(slot, &after), 0);
	assert_int_equal(after.out_denied - before.out_denied, 3 + 28);
	assert_int_equal(after.out_packets, before.out_packets);
}

static void networks_join_and_leave_live(void **state)
{
	struct world *world = *state;
	struct slot *a = world_take(world, POLICY_NOTHING), *b = world_take(world, POLICY_NOTHING);
	struct slot *stranger = world_take(world, POLICY_OPEN);
	struct frame frame;
	struct frame_view view;

	send_spec(a, SYN(slot_address(b), 80));
	guest_expect_refusal(a, slot_address(b));
	guest_expect_nothing(b);
	assert_int_equal(slot_join(a, 5, NULL), 0);
	assert_int_equal(slot_join(b, 5, NULL), 0);
	assert_int_equal(slot_join(b, 5, NULL), 0);
	send_spec(a, SYN(slot_address(b), 80));
	guest_expect(b, FRAME_TCP, slot_address(a), 40000, &frame, &view);
	assert_int_equal(view.dest, INNER);
	assert_true(view.checksums_right);
	send_spec(b, UDP(slot_address(a), 81));
	guest_expect(a, FRAME_UDP, slot_address(b), 40000, &frame, &view);
	send_spec(stranger, SYN(slot_address(b), 80));
	send_spec(stranger, UDP(slot_address(a), 80));
	guest_expect_nothing(a);
	guest_expect_nothing(b);
	/* One's own unique address, too. */
	send_spec(a, UDP(slot_address(a), 82));
	guest_expect(a, FRAME_UDP, slot_address(a), 40000, &frame, &view);
	assert_int_equal(slot_leave(b, 5, NULL), 0);
	send_spec(a, SYN(slot_address(b), 80));
	send_spec(b, UDP(slot_address(a), 80));
	guest_expect_refusal(a, slot_address(b));
	guest_expect_refusal(b, slot_address(a));
	guest_expect_nothing(a);
	guest_expect_nothing(b);
	for (uint32_t network = 10; network < 10 + SLOT_NETWORKS_MAX; network++)
		assert_int_equal(slot_join(b, network, NULL), 0);
	assert_int_equal(slot_join(b, 99, NULL), -ENOSPC);
}

static void the_gateway_has_names_and_nothing_else(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	int server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct frame frame;
	struct frame_view view;
	char byte;

	world_bind(server, GATEWAY, 53);
	world_bind(other, 0, 54);
	send_spec(slot, UDP(GATEWAY, 53), .content = "q", .payload = 1);
	assert_int_equal(recvfrom(server, &byte, 1, 0, (struct sockaddr *)&from, &len), 1);
	assert_int_equal(slots_index_of(world->slots, ntohl(from.sin_addr.s_addr)),
			 slot_index(slot));
	assert_int_equal(sendto(server, "a", 1, 0, (struct sockaddr *)&from, len), 1);
	guest_expect(slot, FRAME_UDP, GATEWAY, 53, &frame, &view);
	send_spec(slot, UDP(GATEWAY, 54), .payload = 1);
	send_spec(slot, UDP(HOST, 54), .payload = 1);
	world_collect(world, NULL, NULL);
	assert_int_equal(recv(other, &byte, 1, 0), -1);
	guest_expect_refusal(slot, GATEWAY);
	guest_expect_refusal(slot, HOST);
	/* Nor does the host reach into the guest as it likes. */
	assert_int_equal(sendto(other, "x", 1, 0, (struct sockaddr *)&from, len), 1);
	guest_expect_nothing(slot);
	close(server);
	close(other);
}

/* A neighbour of the host's on the uplink knows the gateway address, and is not let in. */
static void strangers_do_not_reach_the_gateway(void **state)
{
	struct world *world = *state;
	int server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int stranger = world_internet_socket(world, AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(53) };
	char byte;

	world_bind(server, 0, 53);
	sh("ip -n internet route replace 100.64.0.1/32 via 5.5.5.2");
	to.sin_addr.s_addr = htonl(HOST);
	assert_int_equal(sendto(stranger, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	world_collect(world, NULL, NULL);
	assert_int_equal(recv(server, &byte, 1, 0), 1);
	to.sin_addr.s_addr = htonl(GATEWAY);
	assert_int_equal(sendto(stranger, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	world_collect(world, NULL, NULL);
	assert_int_equal(recv(server, &byte, 1, 0), -1);
	sh("ip -n internet route del 100.64.0.1/32");
	close(server);
	close(stranger);
}

static int proxy_listen(struct world *world)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	struct sockaddr_in in = { 0 };
	socklen_t len = sizeof(in);

	assert_int_equal(setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), 0);
	world_bind(fd, GATEWAY, 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	assert_int_equal(slots_set_proxy(world->slots, ntohs(in.sin_port)), 0);
	return fd;
}

static void host_rule(struct slot *slot, const char *name, uint8_t protocol, uint16_t port)
{
	struct policy_host host = { .protocol = protocol, .port = port };
	const struct policy policy = { .state = POLICY_LIST, .hosts = &host, .n_hosts = 1 };

	str_copy(host.name, sizeof(host.name), name);
	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
}

static void host_rules_go_through_the_proxy(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	int proxy = proxy_listen(world), connection;
	struct sockaddr_in local = { 0 }, peer = { 0 };
	socklen_t len = sizeof(local);
	struct frame frame;
	struct frame_view view;
	char data[16] = "";

	host_rule(slot, "site.test", POLICY_ANY, 443);
	send_spec(slot, SYN(SITE, 443));
	guest_expect_refusal(slot, SITE);
	assert_int_equal(slot_allow(slot, "site.test", SITE, clock_boottime_ms() + 60000), 0);
	send_spec(slot, SYN(SITE, 443));
	guest_expect(slot, FRAME_TCP, SITE, 443, &frame, &view);
	assert_int_equal(view.tcp_flags, FRAME_SYN | FRAME_ACK);
	answer_syn_ack(slot, &frame, &view, "hello");
	connection = accept(proxy, NULL, NULL);
	assert_true(connection >= 0);
	assert_int_equal(recv(connection, data, sizeof(data), 0), 5);
	assert_int_equal(getsockname(connection, (struct sockaddr *)&local, &len), 0);
	assert_int_equal(ntohl(local.sin_addr.s_addr), SITE);
	assert_int_equal(ntohs(local.sin_port), 443);
	len = sizeof(peer);
	assert_int_equal(getpeername(connection, (struct sockaddr *)&peer, &len), 0);
	assert_int_equal(ntohl(peer.sin_addr.s_addr), slot_address(slot));
	assert_int_equal(send(connection, "world", 5, 0), 5);
	do
		guest_expect(slot, FRAME_TCP, SITE, 443, &frame, &view);
	while (view.payload_len == 0);
	assert_memory_equal(view.payload, "world", 5);
	/* Nothing of it went to the site itself, and the proxy is not to be had by its own name. */
	assert_int_equal(world_count(world, SITE, FRAME_TCP, 443), 0);
	send_spec(slot, SYN(GATEWAY, ntohs(local.sin_port)));
	/* Another policy that covers the name: the connection goes on. */
	host_rule(slot, "site.test", POLICY_TCP, 0);
	assert_int_equal(send(connection, "again", 5, 0), 5);
	guest_expect(slot, FRAME_TCP, SITE, 443, &frame, &view);
	/* One that does not: it is cut. */
	host_rule(slot, "other.test", POLICY_ANY, 0);
	while (guest_receive(slot, 20, &frame, &view))
		;
	assert_int_equal(send(connection, "never", 5, 0), 5);
	guest_expect_nothing(slot);
	close(connection);
	close(proxy);
}

/* The proxy has died: closed, not open. */
static void without_the_proxy_nothing_passes(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	int proxy = proxy_listen(world), web = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	close(proxy);
	/* Not even a web server of the host's that listens on every address. */
	world_bind(web, 0, 80);
	assert_int_equal(listen(web, 1), 0);
	host_rule(slot, "site.test", POLICY_ANY, 0);
	assert_int_equal(slot_allow(slot, "site.test", SITE, clock_boottime_ms() + 60000), 0);
	send_spec(slot, SYN(SITE, 80));
	guest_expect_refusal(slot, SITE);
	assert_int_equal(world_count(world, SITE, FRAME_TCP, 80), 0);
	close(web);
}

struct port_case {
	uint8_t rule_protocol;
	uint16_t rule_port;
	uint8_t protocol;
	uint16_t port;
	bool direct;
};

/* What a rule opens at the addresses of its name, apart from what the proxy carries. */
static void host_rules_open_ports(void **state)
{
	static const struct port_case cases[] = {
		{ POLICY_ANY, 0, FRAME_TCP, 22, true },
		{ POLICY_ANY, 0, FRAME_UDP, 123, true },
		{ POLICY_ANY, 0, FRAME_UDP, 443, false },
		{ POLICY_ANY, 0, FRAME_TCP, 443, false },
		{ POLICY_ANY, 0, FRAME_TCP, 80, false },
		{ POLICY_ANY, 0, FRAME_UDP, 80, false },
		{ POLICY_ANY, 22, FRAME_TCP, 22, true },
		{ POLICY_ANY, 22, FRAME_TCP, 23, false },
		{ POLICY_ANY, 22, FRAME_UDP, 22, true },
		{ POLICY_ANY, 443, FRAME_UDP, 443, false },
		{ POLICY_TCP, 0, FRAME_TCP, 22, true },
		{ POLICY_TCP, 0, FRAME_UDP, 22, false },
		{ POLICY_UDP, 0, FRAME_UDP, 443, true },
		{ POLICY_UDP, 443, FRAME_UDP, 443, true },
		{ POLICY_UDP, 0, FRAME_TCP, 22, false },
		{ POLICY_UDP, 53, FRAME_UDP, 53, true },
		{ POLICY_UDP, 53, FRAME_TCP, 53, false },
	};
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct port_case *c = &cases[i];

		host_rule(slot, "site.test", c->rule_protocol, c->rule_port);
		assert_int_equal(slot_allow(slot, "site.test", SITE, clock_boottime_ms() + 60000),
				 0);
		assert_int_equal(
			slot_allow(slot, "other.test", OTHER_SITE, clock_boottime_ms() + 60000), 0);
		send_spec(slot, UDP(SITE, c->port), .protocol = c->protocol);
		if (world_count(world, SITE, c->protocol, c->port) != c->direct)
			fail_msg("rule %u/%u, packet %u/%u", c->rule_protocol, c->rule_port,
				 c->protocol, c->port);
		send_spec(slot, UDP(OTHER_SITE, c->port), .protocol = c->protocol);
		assert_int_equal(world_count(world, OTHER_SITE, c->protocol, c->port), 0);
	}
}

static void names_share_an_address(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	struct policy_host hosts[] = {
		{ .name = "a.test", .protocol = POLICY_ANY, .port = 0 },
		{ .name = "b.test", .protocol = POLICY_UDP, .port = 443 },
	};
	struct policy policy = { .state = POLICY_LIST, .hosts = hosts, .n_hosts = 2 };
	int64_t later = clock_boottime_ms() + 60000;

	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	assert_int_equal(slot_allow(slot, "a.test", SITE, later), 0);
	send_spec(slot, UDP(SITE, 443));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 443), 0);
	assert_int_equal(slot_allow(slot, "b.test", SITE, later), 0);
	send_spec(slot, UDP(SITE, 443));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 443), 1);
	/* Without b's rule its name is forgotten, a's stays. */
	policy.n_hosts = 1;
	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	send_spec(slot, UDP(SITE, 443));
	send_spec(slot, UDP(SITE, 444));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 443), 0);
	send_spec(slot, UDP(SITE, 444));
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 444), 1);
}

static void answers_in_denied_ranges_open_nothing(void **state)
{
	static const uint32_t addresses[] = {
		IP(10, 1, 2, 3),
		IP(127, 0, 0, 1),
		METADATA,
		HOST,
		IP(192, 168, 1, 1),
		GATEWAY,
		IP(100, 64, 1, 1),
		IP(224, 0, 0, 1),
		IP(255, 255, 255, 255),
		0,
		IP(172, 31, 0, 1),
		IP(5, 5, 5, 255),
	};
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);

	host_rule(slot, "site.test", POLICY_ANY, 0);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		assert_true(slots_denied_range(world->slots, addresses[i]));
		assert_int_equal(
			slot_allow(slot, "site.test", addresses[i], clock_boottime_ms() + 60000),
			-EACCES);
	}
	assert_false(slots_denied_range(world->slots, SITE));
}

static void previews_enter_by_mark(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(slot_address(slot)),
		.sin_port = htons(8080),
	};
	uint32_t mark = slots_preview_mark();
	struct frame frame;
	struct frame_view view;
	char data[8] = "";

	for (int marked = 0; marked < 2; marked++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		const struct frame_spec spec = {
			.source = INNER,
			.dest = GATEWAY,
			.protocol = FRAME_TCP,
			.source_port = 8080,
			.tcp_flags = FRAME_SYN | FRAME_ACK,
		};
		struct frame_spec answer = spec;
		uint32_t ack;
		uint16_t sum;

		if (marked)
			assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)),
					 0);
		world_bind(fd, GATEWAY, 0);
		assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), -1);
		assert_int_equal(errno, EINPROGRESS);
		if (!marked) {
			guest_expect_nothing(slot);
			close(fd);
			continue;
		}
		assert_true(guest_receive(slot, 5000, &frame, &view));
		assert_int_equal(view.source, GATEWAY);
		assert_int_equal(view.dest, INNER);
		assert_int_equal(view.dest_port, 8080);
		answer.dest_port = view.source_port;
		ack = htonl(first_word(&frame, 38) + 1);
		frame_build(&answer, &frame);
		memcpy(frame.data + 42, &ack, 4);
		memcpy(&sum, frame.data + 50, 2);
		sum = htons((uint16_t)~frame_sum(&ack, 4, (uint16_t)~ntohs(sum)));
		memcpy(frame.data + 50, &sum, 2);
		guest_send(slot, &frame);
		assert_int_equal(poll(&p, 1, 5000), 1);
		assert_int_equal(send(fd, "GET", 3, 0), 3);
		do
			guest_expect(slot, FRAME_TCP, GATEWAY, view.source_port, &frame, &view);
		while (view.payload_len == 0);
		assert_memory_equal(view.payload, "GET", 3);
		assert_int_equal(recv(fd, data, sizeof(data), MSG_DONTWAIT), -1);
		close(fd);
	}
}

/* A path with smaller packets behind the uplink: the guest hears of it. */
static void packets_too_big_are_answered(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_OPEN);
	struct frame frame;
	struct frame_view view;

	sh("ip link set up0 mtu 1400");
	send_spec(slot, UDP(SITE, 9), .payload = 1450, .fragment = FRAME_DONT);
	assert_true(guest_receive(slot, 5000, &frame, &view));
	sh("ip link set up0 mtu 1500");
	assert_int_equal(view.protocol, FRAME_ICMP);
	assert_int_equal(view.source_port, 3); /* type and code */
	assert_int_equal(view.dest_port, 4);
	assert_int_equal(view.dest, INNER);
	assert_true(view.checksums_right);
	assert_int_equal(first_word(&frame, 14 + 20 + 8 + 12), INNER);
	assert_int_equal(world_count(world, SITE, FRAME_UDP, 9), 0);
}

static void denials_are_reported(void **state)
{
	struct world *world = *state;
	struct slot *slot = world_take(world, POLICY_NOTHING);
	int64_t deadline = clock_boottime_ms() + 5000;

	send_spec(slot, SYN(SITE, 443));
	while (world_denials(world, slot_index(slot)) == 0 && clock_boottime_ms() < deadline)
		usleep(1000);
	assert_int_equal(world_denials(world, slot_index(slot)), 1);
	assert_int_equal(world->denials[0].lease, slot_lease(slot));
	assert_int_equal(world->denials[0].what.address, SITE);
	assert_int_equal(world->denials[0].what.port, 443);
	assert_int_equal(world->denials[0].what.protocol, FRAME_TCP);
	assert_int_equal(world->denials[0].what.reason, SLOT_DENIED_POLICY);
}

/* Two lists take turns while the guest sends to what neither allows, and to what one of them does:
 * the first never passes. */
struct flipper {
	struct slot *slot;
	bool stop;
	int flips;
};

static void *flip(void *arg)
{
	struct flipper *flipper = arg;
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	while (!__atomic_load_n(&flipper->stop, __ATOMIC_RELAXED)) {
		int i = __atomic_add_fetch(&flipper->flips, 1, __ATOMIC_RELAXED);

		world_open_address(flipper->slot, i % 2 ? SITE : OTHER_SITE, 32, FRAME_UDP, 9);
	}
	return NULL;
}

struct tally {
	size_t allowed, forbidden;
};

static void tally_packet(void *arg, const uint8_t *data, size_t len)
{
	struct tally *tally = arg;
	struct frame_view view;

	assert_true(frame_read(data, len, &view));
	if ((view.dest == SITE || view.dest == OTHER_SITE) && view.dest_port == 9)
		tally->allowed++;
	else
		tally->forbidden++;
}

static void a_policy_is_replaced_at_once(void **state)
{
	struct world *world = *state;
	struct flipper flipper = { .slot = world_take(world, POLICY_NOTHING) };
	const uint32_t nowhere = IP(8, 8, 4, 5);
	struct tally tally = { 0 };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, flip, &flipper), 0);
	for (int i = 0; i < 4000 || __atomic_load_n(&flipper.flips, __ATOMIC_RELAXED) < 50; i++) {
		/* New flows and one that goes on. */
		send_spec(flipper.slot, UDP(nowhere, 9), .source_port = (uint16_t)(1000 + i));
		send_spec(flipper.slot, UDP(nowhere, 9));
		send_spec(flipper.slot, UDP(SITE, 9));
		send_spec(flipper.slot, UDP(OTHER_SITE, 9));
		send_spec(flipper.slot, UDP(SITE, 10));
		if (i % 50 == 0)
			sched_yield(); /* there may be but one CPU */
	}
	__atomic_store_n(&flipper.stop, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	world_collect(world, tally_packet, &tally);
	assert_int_equal(tally.forbidden, 0);
	assert_true(tally.allowed > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_taken_slot_is_closed),
		TEST(two_guests_that_look_alike),
		TEST(a_connection_to_a_site),
		TEST(arp_is_answered),
		TEST(odd_frames_are_dropped),
		TEST(networks_join_and_leave_live),
		TEST(the_gateway_has_names_and_nothing_else),
		TEST(strangers_do_not_reach_the_gateway),
		TEST(host_rules_go_through_the_proxy),
		TEST(without_the_proxy_nothing_passes),
		TEST(host_rules_open_ports),
		TEST(names_share_an_address),
		TEST(answers_in_denied_ranges_open_nothing),
		TEST(previews_enter_by_mark),
		TEST(packets_too_big_are_answered),
		TEST(denials_are_reported),
		TEST(a_policy_is_replaced_at_once),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
