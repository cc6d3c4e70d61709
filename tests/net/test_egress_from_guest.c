/* The program on what a guest sends: every branch, from the frame to the policy. */
#include "program_rig.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <string.h>

#include "base/str.h"
#include "net/bpf/reason.h"

static const uint8_t foreign_mac[6] = { 0x02, 1, 2, 3, 4, 5 };
static const uint8_t broadcast_mac[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

/* A SYN to the site's port 443; each test changes what it is about. */
#define TO_SITE                                                                                    \
	.source = INNER, .dest = SITE, .protocol = FRAME_TCP, .source_port = 40000, .dest_port = 443

#define assert_sent(rig, wanted, ...)                                                              \
	assert_int_equal(rig_send_spec(rig, &(struct frame_spec){ __VA_ARGS__ }).verdict, wanted)

/* Denied, and the event says why; 0: without an event. What is well-formed is told so. */
#define assert_denied(rig, wanted, ...)                                                            \
	do {                                                                                       \
		struct egress_event event_;                                                        \
		bool told_ = (wanted) != 0 && (wanted) != SLOT_DENIED_FRAME &&                     \
			     (wanted) != SLOT_DENIED_PROTOCOL;                                     \
		assert_sent(rig, told_ ? ANSWERED : DROPPED, __VA_ARGS__);                         \
		assert_int_equal(rig_last_event(rig, &event_), wanted);                            \
	} while (0)

static void passes_with_the_unique_address(void **state)
{
	struct rig *rig = *state;
	const uint8_t protocols[] = { FRAME_TCP, FRAME_UDP, FRAME_ICMP };

	rig_policy(rig, EGRESS_OPEN);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		for (uint16_t payload = 0; payload < 3; payload++) {
			const struct frame_spec spec = {
				TO_SITE,
				.protocol = protocols[i],
				.icmp_type = FRAME_ECHO,
				.payload = payload,
			};
			struct run run = rig_send_spec(rig, &spec);

			assert_int_equal(run.verdict, PASSED);
			assert_int_equal(run.view.source, UNIQUE(0));
			assert_int_equal(run.view.dest, SITE);
			assert_int_equal(run.view.payload_len, payload);
			assert_true(run.view.checksums_right);
			assert_int_equal(run.mark, EGRESS_MARK_PASSED);
		}
	}
}

static void udp_without_checksum_stays_without(void **state)
{
	struct rig *rig = *state;
	struct run run;
	const struct frame_spec spec = { TO_SITE, .protocol = FRAME_UDP, .no_udp_checksum = true };

	rig_policy(rig, EGRESS_OPEN);
	run = rig_send_spec(rig, &spec);
	assert_int_equal(run.verdict, PASSED);
	assert_int_equal(run.out.data[40] << 8 | run.out.data[41], 0);
	assert_true(run.view.checksums_right);
}

static void a_device_without_a_slot_is_closed(void **state)
{
	struct rig *rig = *state;
	struct egress_slot *slot = egress_program_slot(rig->program, 0);

	rig_policy(rig, EGRESS_OPEN);
	slot->lease = 0;
	assert_denied(rig, 0, TO_SITE);
	slot->lease = 7;
	slot->ifindex++;
	assert_denied(rig, 0, TO_SITE);
	slot->ifindex--;
	assert_sent(rig, PASSED, TO_SITE);
	assert_int_equal(egress_program_forget_device(rig->program, rig->taps[0]), 0);
	assert_denied(rig, 0, TO_SITE);
	assert_int_equal(egress_program_attach(rig->program, rig->taps[0], 0, NULL), 0);
	assert_sent(rig, PASSED, TO_SITE);
}

static void frames_that_are_none(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_denied(rig, 0, TO_SITE, .source_mac = foreign_mac);
	assert_denied(rig, 0, TO_SITE, .dest_mac = foreign_mac);
	assert_denied(rig, 0, TO_SITE, .dest_mac = broadcast_mac);
	assert_denied(rig, 0, TO_SITE, .vlan = 5);
	assert_denied(rig, 0, TO_SITE, .ethertype = FRAME_IPV6);
	assert_denied(rig, 0, TO_SITE, .ethertype = 0x88cc);
	assert_denied(rig, 0, TO_SITE, .ethertype = 40);
	assert_denied(rig, 0, TO_SITE, .source = UNIQUE(0));
	assert_denied(rig, 0, TO_SITE, .source = IP(1, 2, 3, 4));
	assert_denied(rig, 0, TO_SITE, .source = GATEWAY);
	assert_denied(rig, 0, TO_SITE, .source = 0);
}

static void headers_that_do_not_fit(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_denied(rig, 0, TO_SITE, .version_ihl = 0x46);
	assert_denied(rig, 0, TO_SITE, .version_ihl = 0x44);
	assert_denied(rig, 0, TO_SITE, .version_ihl = 0x65);
	assert_denied(rig, 0, TO_SITE, .total_len = 1);
	assert_denied(rig, 0, TO_SITE, .total_len = -21);
	assert_denied(rig, 0, TO_SITE, .cut = 20);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .total_len = -1);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .tcp_offset = 4);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .tcp_offset = 6);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .protocol = FRAME_UDP, .udp_len = 1);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .protocol = FRAME_UDP, .udp_len = -1);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .protocol = FRAME_UDP, .total_len = -1);
	assert_denied(rig, SLOT_DENIED_FRAME, TO_SITE, .protocol = FRAME_ICMP,
		      .icmp_type = FRAME_ECHO, .total_len = -1);
	assert_sent(rig, PASSED, TO_SITE, .padding = 10);
	assert_sent(rig, PASSED, TO_SITE, .tcp_offset = 6, .payload = 4);
	assert_sent(rig, PASSED, TO_SITE, .protocol = FRAME_UDP, .payload = 4, .udp_len = -2);
}

static void fragments(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_denied(rig, 0, TO_SITE, .fragment = FRAME_MORE);
	assert_denied(rig, 0, TO_SITE, .fragment = 1);
	assert_denied(rig, 0, TO_SITE, .fragment = FRAME_MORE | 185);
	assert_denied(rig, 0, TO_SITE, .fragment = 0x1fff);
	assert_denied(rig, 0, TO_SITE, .fragment = FRAME_RESERVED);
	assert_sent(rig, PASSED, TO_SITE, .fragment = FRAME_DONT);
}

static void protocols(void **state)
{
	struct rig *rig = *state;
	const uint8_t others[] = { 0, 2, 4, 41, 47, 50, 58, FRAME_SCTP, 136, 255 };

	rig_policy(rig, EGRESS_OPEN);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_denied(rig, SLOT_DENIED_PROTOCOL, TO_SITE, .protocol = others[i],
			      .payload = 20);
	for (unsigned int type = 0; type < 256; type++) {
		enum run_verdict wanted = type == FRAME_ECHO ? PASSED : DROPPED;

		assert_sent(rig, wanted, TO_SITE, .protocol = FRAME_ICMP,
			    .icmp_type = (uint8_t)type);
	}
}

static void arp_is_answered_for_the_gateway_alone(void **state)
{
	struct rig *rig = *state;
	static const uint8_t gateway_mac[6] = { 0x02, 0x5e, 0, 0, 0, 1 };
	struct frame frame;
	struct run run;

	frame_arp(NULL, INNER, GATEWAY, false, &frame);
	run = rig_send(rig, 0, &frame);
	assert_int_equal(run.verdict, ANSWERED);
	assert_int_equal(run.mark, EGRESS_MARK_PASSED);
	assert_memory_equal(run.out.data, frame.data + 6, 6);
	assert_memory_equal(run.out.data + 6, gateway_mac, 6);
	assert_int_equal(run.out.data[21], 2);
	assert_memory_equal(run.out.data + 22, gateway_mac, 6);
	assert_memory_equal(run.out.data + 28, "\x64\x40\x00\x01", 4);
	assert_memory_equal(run.out.data + 38, "\x64\x40\x00\x02", 4);

	frame_arp(NULL, INNER, SITE, false, &frame);
	assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
	frame_arp(NULL, UNIQUE(1), GATEWAY, false, &frame);
	assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
	frame_arp(NULL, INNER, GATEWAY, true, &frame);
	assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
	frame_arp(foreign_mac, INNER, GATEWAY, false, &frame);
	assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
	for (size_t at = 14; at < 20; at++) { /* hardware, protocol, their lengths */
		frame_arp(NULL, INNER, GATEWAY, false, &frame);
		frame.data[at] ^= 1;
		assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
	}
	frame_arp(NULL, INNER, GATEWAY, false, &frame);
	frame.data[22] ^= 4; /* says another MAC than it comes from */
	assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
	frame.data[22] ^= 4;
	frame.len = 41;
	assert_int_equal(rig_send(rig, 0, &frame).verdict, DROPPED);
}

static void the_gateway_answers_names_only(void **state)
{
	struct rig *rig = *state;
	const uint8_t protocols[] = { FRAME_TCP, FRAME_UDP };

	rig_policy(rig, EGRESS_OPEN);
	for (size_t i = 0; i < 2; i++) {
		assert_sent(rig, PASSED, TO_SITE, .dest = GATEWAY, .protocol = protocols[i],
			    .dest_port = 53);
		assert_denied(rig, SLOT_DENIED_HOST, TO_SITE, .dest = GATEWAY,
			      .protocol = protocols[i], .dest_port = 80);
	}
	assert_denied(rig, SLOT_DENIED_HOST, TO_SITE, .dest = GATEWAY, .protocol = FRAME_ICMP,
		      .icmp_type = FRAME_ECHO);
	/* Names work in every state: the server decides. */
	rig_policy(rig, EGRESS_NOTHING);
	assert_sent(rig, PASSED, TO_SITE, .dest = GATEWAY, .protocol = FRAME_UDP, .dest_port = 53);
}

static void the_host_is_closed(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_denied(rig, SLOT_DENIED_HOST, TO_SITE, .dest = HOST);
	assert_denied(rig, SLOT_DENIED_HOST, TO_SITE, .dest = IP(5, 5, 5, 255));
	assert_denied(rig, SLOT_DENIED_HOST, TO_SITE, .dest = IP(127, 0, 0, 1));
	assert_denied(rig, SLOT_DENIED_HOST, TO_SITE, .dest = NOWHERE);
}

static void ranges_and_exceptions(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	rig_range(rig, IP(10, 0, 0, 0), 8, EGRESS_RANGE_DENIED);
	rig_range(rig, IP(10, 9, 0, 0), 16, EGRESS_RANGE_EXCEPTION);
	assert_denied(rig, SLOT_DENIED_RANGE, TO_SITE, .dest = IP(10, 8, 0, 1));
	assert_denied(rig, SLOT_DENIED_RANGE, TO_SITE, .dest = IP(10, 0, 0, 0));
	assert_denied(rig, SLOT_DENIED_RANGE, TO_SITE, .dest = IP(10, 255, 255, 255));
	assert_sent(rig, PASSED, TO_SITE, .dest = IP(10, 9, 0, 1));
	assert_sent(rig, PASSED, TO_SITE, .dest = IP(11, 0, 0, 1));
	/* An exception opens nothing by itself: the policy decides there. */
	rig_policy(rig, EGRESS_NOTHING);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest = IP(10, 9, 0, 2));
	rig_policy(rig, EGRESS_LIST);
	rig_rule(rig, IP(10, 8, 0, 0), 16, FRAME_TCP, 0);
	assert_denied(rig, SLOT_DENIED_RANGE, TO_SITE, .dest = IP(10, 8, 0, 1));
}

static void neighbours_need_a_network_in_common(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_denied(rig, SLOT_DENIED_NEIGHBOUR, TO_SITE, .dest = UNIQUE(1));
	rig_join(rig, 0, 3);
	rig_join(rig, 1, 4);
	assert_denied(rig, SLOT_DENIED_NEIGHBOUR, TO_SITE, .dest = UNIQUE(1));
	rig_join(rig, 1, 3);
	assert_sent(rig, PASSED, TO_SITE, .dest = UNIQUE(1));
	assert_denied(rig, SLOT_DENIED_NEIGHBOUR, TO_SITE, .dest = UNIQUE(2));
	assert_denied(rig, SLOT_DENIED_NEIGHBOUR, TO_SITE, .dest = UNIQUE(SLOTS - 1));
	/* Whatever the policy says. */
	rig_policy(rig, EGRESS_NOTHING);
	assert_sent(rig, PASSED, TO_SITE, .dest = UNIQUE(1), .protocol = FRAME_UDP);
	assert_sent(rig, PASSED, TO_SITE, .dest = UNIQUE(1), .protocol = FRAME_ICMP,
		    .icmp_type = FRAME_ECHO);
	assert_sent(rig, PASSED, TO_SITE, .dest = UNIQUE(1), .protocol = FRAME_ICMP,
		    .icmp_type = 0);
	assert_denied(rig, SLOT_DENIED_PROTOCOL, TO_SITE, .dest = UNIQUE(1), .protocol = FRAME_ICMP,
		      .icmp_type = 5);
	assert_denied(rig, SLOT_DENIED_PROTOCOL, TO_SITE, .dest = UNIQUE(1),
		      .protocol = FRAME_SCTP);
	rig_leave(rig, 1, 3);
	assert_denied(rig, SLOT_DENIED_NEIGHBOUR, TO_SITE, .dest = UNIQUE(1));
	rig_join(rig, 1, 3);
	rig_leave(rig, 0, 3);
	assert_denied(rig, SLOT_DENIED_NEIGHBOUR, TO_SITE, .dest = UNIQUE(1));
}

static void all_places_for_networks_count(void **state)
{
	struct rig *rig = *state;

	for (uint32_t network = 1; network <= EGRESS_NETWORKS; network++)
		rig_join(rig, 0, network);
	rig_join(rig, 1, EGRESS_NETWORKS);
	assert_sent(rig, PASSED, TO_SITE, .dest = UNIQUE(1));
}

static void nothing_and_open(void **state)
{
	struct rig *rig = *state;

	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .protocol = FRAME_UDP);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .protocol = FRAME_ICMP,
		      .icmp_type = FRAME_ECHO);
	rig_policy(rig, EGRESS_OPEN);
	assert_sent(rig, PASSED, TO_SITE);
	/* A state that nobody knows is closed. */
	egress_program_slot(rig->program, 0)->policy = (uint64_t)++rig->generation << 8 | 77;
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE);
}

static void lists_know_prefix_protocol_and_port(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_LIST);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE);
	rig_rule(rig, SITE, 32, FRAME_TCP, 443);
	assert_sent(rig, PASSED, TO_SITE);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 444);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .protocol = FRAME_UDP);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .protocol = FRAME_ICMP,
		      .icmp_type = FRAME_ECHO);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest = SITE + 1);
	rig_rule(rig, IP(8, 8, 4, 0), 24, FRAME_UDP, 0);
	assert_sent(rig, PASSED, TO_SITE, .dest = SITE + 1, .protocol = FRAME_UDP, .dest_port = 1);
	assert_sent(rig, PASSED, TO_SITE, .protocol = FRAME_UDP, .dest_port = 65535);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest = SITE + 1);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest = IP(8, 8, 5, 0),
		      .protocol = FRAME_UDP);
	rig_rule(rig, 0, 0, FRAME_TCP, 22);
	assert_sent(rig, PASSED, TO_SITE, .dest = OTHER_SITE, .dest_port = 22);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest = OTHER_SITE, .dest_port = 23);
	/* Port 0 on the wire is not "all ports". */
	rig_policy(rig, EGRESS_LIST);
	rig_rule(rig, SITE, 32, FRAME_TCP, 443);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 0);
}

static void rules_of_another_generation_are_none(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_LIST);
	rig_rule(rig, SITE, 32, FRAME_TCP, 443);
	rig_policy(rig, EGRESS_LIST);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE);
}

static void learned_addresses_expire_for_new_flows(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 22, EGRESS_DIRECT, 100);
	assert_sent(rig, PASSED, TO_SITE, .dest_port = 22);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 23);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 22, .protocol = FRAME_UDP);
	rig_learn(rig, SITE, FRAME_TCP, 22, EGRESS_DIRECT, -1);
	/* The flow goes on, a new one does not begin, not even from the same port. */
	assert_sent(rig, PASSED, TO_SITE, .dest_port = 22, .tcp_flags = FRAME_ACK);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 22);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 22, .source_port = 40001);
	/* The same under a new policy that still knows the name. */
	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 22, EGRESS_DIRECT, -1);
	assert_sent(rig, PASSED, TO_SITE, .dest_port = 22, .tcp_flags = FRAME_ACK);
	/* And not under one that does not. */
	rig_policy(rig, EGRESS_LIST);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .dest_port = 22, .tcp_flags = FRAME_ACK);
}

static void learned_ports_of_their_own_come_first(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_UDP, 0, EGRESS_DIRECT, 100);
	rig_learn(rig, SITE, FRAME_UDP, 443, EGRESS_DENY, 100);
	assert_sent(rig, PASSED, TO_SITE, .protocol = FRAME_UDP, .dest_port = 444);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .protocol = FRAME_UDP);
	/* A rule about the address itself is stronger. */
	rig_rule(rig, SITE, 32, FRAME_UDP, 443);
	assert_sent(rig, PASSED, TO_SITE, .protocol = FRAME_UDP);
}

/* The kernel lets bpf_sk_assign work on a device only: that part is in test_slots.c. */
static void without_a_proxy_its_flows_are_closed(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 443, EGRESS_VIA_PROXY, 100);
	assert_denied(rig, SLOT_DENIED_PROXY, TO_SITE);
	/* A port where nobody listens. */
	egress_program_settings(rig->program)->proxy_port_be = htons(9);
	assert_denied(rig, SLOT_DENIED_PROXY, TO_SITE);
}

static void tightening_cuts_flows(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_sent(rig, PASSED, TO_SITE);
	assert_sent(rig, PASSED, TO_SITE, .protocol = FRAME_UDP);
	rig_policy(rig, EGRESS_LIST);
	rig_rule(rig, SITE, 32, FRAME_TCP, 443);
	assert_sent(rig, PASSED, TO_SITE, .tcp_flags = FRAME_ACK);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .protocol = FRAME_UDP);
	rig_policy(rig, EGRESS_NOTHING);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE, .tcp_flags = FRAME_ACK);
	rig_policy(rig, EGRESS_OPEN);
	assert_sent(rig, PASSED, TO_SITE, .tcp_flags = FRAME_ACK);
	/* An open flow whose name must be checked now is taken away from its path: there is no
	 * proxy here, and it is closed. */
	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 443, EGRESS_VIA_PROXY, 100);
	assert_denied(rig, SLOT_DENIED_PROXY, TO_SITE, .tcp_flags = FRAME_ACK);
}

static void a_slot_without_a_flow_table_is_closed(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	assert_int_equal(egress_program_drop_flows(rig->program, 0), 0);
	assert_denied(rig, SLOT_DENIED_POLICY, TO_SITE);
}

static void slots_have_their_own_policies(void **state)
{
	struct rig *rig = *state;
	struct frame frame;
	struct run run;

	frame_build(&(struct frame_spec){ TO_SITE }, &frame);
	rig_policy(rig, EGRESS_OPEN);
	assert_int_equal(rig_send(rig, 1, &frame).verdict, ANSWERED);
	egress_program_slot(rig->program, 1)->policy = 1000000 << 8 | EGRESS_OPEN;
	run = rig_send(rig, 1, &frame);
	assert_int_equal(run.verdict, PASSED);
	assert_int_equal(run.view.source, UNIQUE(1));
}

static void packets_are_counted(void **state)
{
	struct rig *rig = *state;
	struct egress_counters counters;

	rig_policy(rig, EGRESS_OPEN);
	assert_sent(rig, PASSED, TO_SITE, .payload = 100);
	assert_sent(rig, PASSED, TO_SITE, .payload = 100);
	assert_sent(rig, DROPPED, TO_SITE, .source_mac = foreign_mac);
	assert_int_equal(egress_program_counters(rig->program, 0, &counters), 0);
	assert_int_equal(counters.out_packets, 2);
	assert_int_equal(counters.out_bytes, 2 * (14 + 20 + 20 + 100));
	assert_int_equal(counters.out_denied, 1);
	assert_int_equal(counters.in_packets, 0);
	assert_int_equal(egress_program_counters(rig->program, 1, &counters), 0);
	assert_int_equal(counters.out_packets, 0);
}

static void denials_say_what_and_whose(void **state)
{
	struct rig *rig = *state;
	struct egress_event event;

	assert_sent(rig, ANSWERED, TO_SITE, .protocol = FRAME_UDP, .dest_port = 5353);
	assert_int_equal(rig_last_event(rig, &event), SLOT_DENIED_POLICY);
	assert_int_equal(event.slot, 0);
	assert_int_equal(event.lease, 7);
	assert_int_equal(event.remote_be, htonl(SITE));
	assert_int_equal(event.remote_port_be, htons(5353));
	assert_int_equal(event.protocol, FRAME_UDP);
	assert_true(event.at_ns > 0);
}

/* More than a second's worth in one burst: the rest is a figure. A burst that crosses a second may
 * bring twice as many. */
static void a_flood_costs_few_events(void **state)
{
	struct rig *rig = *state;
	struct egress_slot *slot = egress_program_slot(rig->program, 0);
	struct egress_event event;

	for (int i = 0; i < 1000; i++)
		assert_sent(rig, ANSWERED, TO_SITE);
	assert_in_range(slot->unreported, 1000 - 4 * EGRESS_EVENTS_PER_S,
			1000 - EGRESS_EVENTS_PER_S);
	rig_last_event(rig, &event);
	/* The limit is the slot's own. */
	slot->event_window = 0;
	slot->unreported = 5;
	assert_sent(rig, ANSWERED, TO_SITE);
	assert_int_equal(rig_last_event(rig, &event), SLOT_DENIED_POLICY);
	assert_int_equal(event.unreported, 5);
}

static uint32_t word_at(const struct frame *frame, size_t at)
{
	uint32_t word;

	memcpy(&word, frame->data + at, sizeof(word));
	return ntohl(word);
}

static void a_denied_connection_is_reset(void **state)
{
	struct rig *rig = *state;
	struct frame frame;
	struct run run;

	run = rig_send_spec(rig, &(struct frame_spec){ TO_SITE, .payload = 3, .padding = 9 });
	assert_int_equal(run.verdict, ANSWERED);
	assert_int_equal(run.mark, EGRESS_MARK_PASSED);
	assert_int_equal(run.out.len, 54);
	assert_memory_equal(run.out.data, "\x02\x5e\x00\x00\x00\x02\x02\x5e\x00\x00\x00\x01", 12);
	assert_int_equal(run.view.source, SITE);
	assert_int_equal(run.view.dest, INNER);
	assert_int_equal(run.view.source_port, 443);
	assert_int_equal(run.view.dest_port, 40000);
	assert_int_equal(run.view.tcp_flags, FRAME_RST | FRAME_ACK);
	assert_int_equal(word_at(&run.out, 38), 0);
	assert_int_equal(word_at(&run.out, 42), 1000 + 3 + 1); /* data and SYN */
	assert_true(run.view.checksums_right);
	/* One that was open is reset where the guest stands. */
	frame_build(&(struct frame_spec){ TO_SITE, .tcp_flags = FRAME_ACK }, &frame);
	memcpy(frame.data + 42, "\x12\x34\x56\x78", 4);
	run = rig_send(rig, 0, &frame);
	assert_int_equal(run.view.tcp_flags, FRAME_RST);
	assert_int_equal(word_at(&run.out, 38), 0x12345678);
	assert_true(run.view.checksums_right);
	/* A reset is not answered. */
	assert_sent(rig, DROPPED, TO_SITE, .tcp_flags = FRAME_RST);
	assert_sent(rig, DROPPED, TO_SITE, .tcp_flags = FRAME_RST | FRAME_ACK);
}

static void other_denied_packets_are_prohibited(void **state)
{
	struct rig *rig = *state;
	const uint8_t protocols[] = { FRAME_UDP, FRAME_ICMP };

	for (size_t i = 0; i < 2; i++) {
		for (uint16_t payload = 0; payload < 200; payload = (uint16_t)(payload * 2 + 1)) {
			const struct frame_spec spec = { TO_SITE, .protocol = protocols[i],
							 .icmp_type = FRAME_ECHO,
							 .payload = payload };
			struct frame frame;
			struct run run;

			frame_build(&spec, &frame);
			run = rig_send(rig, 0, &frame);
			assert_int_equal(run.verdict, ANSWERED);
			assert_int_equal(run.out.len, 14 + 20 + 8 + 28);
			assert_int_equal(run.view.protocol, FRAME_ICMP);
			assert_int_equal(run.view.source_port, 3); /* type and code */
			assert_int_equal(run.view.dest_port, 13);
			assert_int_equal(run.view.source, SITE);
			assert_int_equal(run.view.dest, INNER);
			assert_true(run.view.checksums_right);
			assert_memory_equal(run.view.payload, frame.data + 14, 28);
		}
	}
	assert_sent(rig, DROPPED, TO_SITE, .protocol = FRAME_ICMP, .icmp_type = 3);
	assert_sent(rig, DROPPED, TO_SITE, .protocol = FRAME_ICMP, .icmp_type = 0);
}

#define TEST(name) cmocka_unit_test_setup(name, rig_reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(passes_with_the_unique_address),
		TEST(udp_without_checksum_stays_without),
		TEST(a_device_without_a_slot_is_closed),
		TEST(frames_that_are_none),
		TEST(headers_that_do_not_fit),
		TEST(fragments),
		TEST(protocols),
		TEST(arp_is_answered_for_the_gateway_alone),
		TEST(the_gateway_answers_names_only),
		TEST(the_host_is_closed),
		TEST(ranges_and_exceptions),
		TEST(neighbours_need_a_network_in_common),
		TEST(all_places_for_networks_count),
		TEST(nothing_and_open),
		TEST(lists_know_prefix_protocol_and_port),
		TEST(rules_of_another_generation_are_none),
		TEST(learned_addresses_expire_for_new_flows),
		TEST(learned_ports_of_their_own_come_first),
		TEST(without_a_proxy_its_flows_are_closed),
		TEST(tightening_cuts_flows),
		TEST(a_slot_without_a_flow_table_is_closed),
		TEST(slots_have_their_own_policies),
		TEST(packets_are_counted),
		TEST(denials_say_what_and_whose),
		TEST(a_flood_costs_few_events),
		TEST(a_denied_connection_is_reset),
		TEST(other_denied_packets_are_prohibited),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
