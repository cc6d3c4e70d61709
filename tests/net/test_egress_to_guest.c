/* The program on what goes to a guest: nothing that it did not ask for. */
#include "program_rig.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#define TO_SITE                                                                                    \
	.source = INNER, .dest = SITE, .protocol = FRAME_TCP, .source_port = 40000, .dest_port = 443
/* What the site answers, as the host's masquerade hands it on. */
#define FROM_SITE                                                                                  \
	.source = SITE, .dest = UNIQUE(0), .protocol = FRAME_TCP, .source_port = 443,              \
	.dest_port = 40000, .tcp_flags = FRAME_SYN | FRAME_ACK

static struct run deliver(struct rig *rig, const struct frame_spec *spec, uint32_t ingress,
			  uint32_t mark)
{
	struct frame frame;

	frame_build(spec, &frame);
	return rig_deliver(rig, 0, &frame, ingress, mark);
}

#define assert_arrives(rig, wanted, ...)                                                           \
	assert_int_equal(                                                                          \
		deliver(rig, &(struct frame_spec){ __VA_ARGS__ }, (rig)->uplink, 0).verdict,       \
		wanted)
#define assert_from(rig, wanted, ingress, mark, ...)                                               \
	assert_int_equal(deliver(rig, &(struct frame_spec){ __VA_ARGS__ }, ingress, mark).verdict, \
			 wanted)
#define begin(rig, ...)                                                                            \
	assert_int_equal(rig_send_spec(rig, &(struct frame_spec){ __VA_ARGS__ }).verdict, PASSED)

static void answers_arrive_at_the_inner_address(void **state)
{
	struct rig *rig = *state;
	const uint8_t protocols[] = { FRAME_TCP, FRAME_UDP, FRAME_ICMP };

	rig_policy(rig, EGRESS_OPEN);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		const struct frame_spec answer = {
			FROM_SITE,
			.protocol = protocols[i],
			.payload = 7,
			/* Of ICMP the identifier is the port. */
			.source_port = protocols[i] == FRAME_ICMP ? 40000 : 443,
		};
		struct run run;

		assert_int_equal(deliver(rig, &answer, rig->uplink, 0).verdict, DROPPED);
		begin(rig, TO_SITE, .protocol = protocols[i], .icmp_type = FRAME_ECHO);
		run = deliver(rig, &answer, rig->uplink, 0);
		assert_int_equal(run.verdict, PASSED);
		assert_int_equal(run.view.source, SITE);
		assert_int_equal(run.view.dest, INNER);
		assert_true(run.view.checksums_right);
	}
}

static void only_the_answer_is_one(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	begin(rig, TO_SITE);
	assert_arrives(rig, PASSED, FROM_SITE);
	assert_arrives(rig, DROPPED, FROM_SITE, .source_port = 444);
	assert_arrives(rig, DROPPED, FROM_SITE, .dest_port = 40001);
	assert_arrives(rig, DROPPED, FROM_SITE, .source = OTHER_SITE);
	assert_arrives(rig, DROPPED, FROM_SITE, .protocol = FRAME_UDP);
	assert_arrives(rig, DROPPED, FROM_SITE, .dest = UNIQUE(1));
	assert_arrives(rig, DROPPED, FROM_SITE, .dest = INNER);
	assert_arrives(rig, DROPPED, FROM_SITE, .protocol = FRAME_ICMP, .icmp_type = FRAME_ECHO);
}

static void frames_that_are_none(void **state)
{
	struct rig *rig = *state;
	struct frame frame;

	rig_policy(rig, EGRESS_OPEN);
	begin(rig, TO_SITE);
	assert_arrives(rig, DROPPED, FROM_SITE, .vlan = 5);
	assert_arrives(rig, DROPPED, FROM_SITE, .ethertype = FRAME_IPV6);
	assert_arrives(rig, DROPPED, FROM_SITE, .fragment = FRAME_MORE);
	assert_arrives(rig, DROPPED, FROM_SITE, .fragment = 3);
	assert_arrives(rig, DROPPED, FROM_SITE, .version_ihl = 0x46);
	assert_arrives(rig, DROPPED, FROM_SITE, .total_len = 1);
	assert_arrives(rig, DROPPED, FROM_SITE, .protocol = FRAME_SCTP);
	/* Only the program's own answer to the guest's question is marked. */
	frame_arp(NULL, GATEWAY, INNER, true, &frame);
	assert_int_equal(rig_deliver(rig, 0, &frame, 0, 0).verdict, DROPPED);
	assert_int_equal(rig_deliver(rig, 0, &frame, rig->uplink, 0).verdict, DROPPED);
	assert_int_equal(rig_deliver(rig, 0, &frame, rig->taps[0], EGRESS_MARK_PASSED).verdict,
			 PASSED);
}

static void a_slot_that_nobody_has_is_closed(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	begin(rig, TO_SITE);
	egress_program_slot(rig->program, 0)->lease = 0;
	assert_arrives(rig, DROPPED, FROM_SITE);
}

static void answers_meet_the_policy_of_now(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	begin(rig, TO_SITE);
	rig_policy(rig, EGRESS_NOTHING);
	assert_arrives(rig, DROPPED, FROM_SITE);
	rig_policy(rig, EGRESS_LIST);
	assert_arrives(rig, DROPPED, FROM_SITE);
	rig_rule(rig, SITE, 32, FRAME_TCP, 443);
	assert_arrives(rig, PASSED, FROM_SITE);
	/* The flow is of the new policy now, from both sides. */
	rig_policy(rig, EGRESS_OPEN);
	assert_arrives(rig, PASSED, FROM_SITE);
	assert_arrives(rig, PASSED, FROM_SITE);
	/* It never went through the proxy: its answers do not arrive when it should. */
	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 443, EGRESS_VIA_PROXY, 100);
	assert_arrives(rig, DROPPED, FROM_SITE);
}

static void set_flow(struct rig *rig, uint8_t protocol, uint32_t kind, int64_t seconds_ago)
{
	const struct egress_flow_key key = {
		.remote_be = htonl(SITE),
		.remote_port_be = htons(443),
		.guest_port_be = htons(40000),
		.protocol = protocol,
	};
	const struct egress_flow flow = {
		.seen_ns = (uint64_t)(clock_boottime_ms() - 1000 * seconds_ago) * 1000000,
		.generation = rig->generation,
		.kind = kind,
	};
	const uint32_t slot = 0;
	uint32_t id;
	int fd;

	assert_int_equal(bpf_map_lookup_elem(egress_program_map_fd(rig->program, EGRESS_MAP_FLOWS),
					     &slot, &id),
			 0);
	fd = bpf_map_get_fd_by_id(id);
	assert_true(fd >= 0);
	assert_int_equal(bpf_map_update_elem(fd, &key, &flow, BPF_ANY), 0);
	close(fd);
}

static void silence_ends_what_has_no_connection(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_OPEN);
	set_flow(rig, FRAME_UDP, EGRESS_FLOW_DIRECT, 290);
	assert_arrives(rig, PASSED, FROM_SITE, .protocol = FRAME_UDP);
	set_flow(rig, FRAME_UDP, EGRESS_FLOW_DIRECT, 310);
	assert_arrives(rig, DROPPED, FROM_SITE, .protocol = FRAME_UDP);
	/* The guest's next packet begins it anew. */
	begin(rig, TO_SITE, .protocol = FRAME_UDP);
	assert_arrives(rig, PASSED, FROM_SITE, .protocol = FRAME_UDP);
	/* Its later packets keep it alive. */
	set_flow(rig, FRAME_UDP, EGRESS_FLOW_DIRECT, 290);
	begin(rig, TO_SITE, .protocol = FRAME_UDP);
	assert_arrives(rig, PASSED, FROM_SITE, .protocol = FRAME_UDP);
	set_flow(rig, FRAME_TCP, EGRESS_FLOW_DIRECT, 100000);
	assert_arrives(rig, PASSED, FROM_SITE);
}

static void the_proxy_is_on_this_host(void **state)
{
	struct rig *rig = *state;

	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 443, EGRESS_VIA_PROXY, 100);
	set_flow(rig, FRAME_TCP, EGRESS_FLOW_PROXY, 0);
	assert_from(rig, PASSED, 0, 0, FROM_SITE);
	assert_from(rig, DROPPED, rig->uplink, 0, FROM_SITE);
	/* A newer policy that still sends it there keeps it. */
	rig_policy(rig, EGRESS_LIST);
	rig_learn(rig, SITE, FRAME_TCP, 443, EGRESS_VIA_PROXY, 100);
	assert_from(rig, PASSED, 0, 0, FROM_SITE);
	rig_policy(rig, EGRESS_LIST);
	assert_from(rig, DROPPED, 0, 0, FROM_SITE);
}

static void members_of_a_network(void **state)
{
	struct rig *rig = *state;

	assert_from(rig, DROPPED, rig->taps[1], EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(1));
	rig_join(rig, 0, 3);
	rig_join(rig, 1, 3);
	assert_from(rig, PASSED, rig->taps[1], EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(1));
	assert_from(rig, PASSED, rig->taps[1], EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(1),
		    .protocol = FRAME_ICMP, .icmp_type = FRAME_ECHO);
	/* The address is believed only of what came through that slot's tap and program. */
	assert_from(rig, DROPPED, rig->uplink, EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(1));
	assert_from(rig, DROPPED, rig->taps[1], 0, FROM_SITE, .source = UNIQUE(1));
	assert_from(rig, DROPPED, 0, 0, FROM_SITE, .source = UNIQUE(1));
	assert_from(rig, DROPPED, rig->taps[1], EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(2));
	rig_leave(rig, 1, 3);
	assert_from(rig, DROPPED, rig->taps[1], EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(1));
	rig_join(rig, 1, 3);
	rig_leave(rig, 0, 3);
	assert_from(rig, DROPPED, rig->taps[1], EGRESS_MARK_PASSED, FROM_SITE, .source = UNIQUE(1));
}

static void the_name_server_answers(void **state)
{
	struct rig *rig = *state;

	assert_from(rig, PASSED, 0, 0, FROM_SITE, .source = GATEWAY, .source_port = 53);
	assert_from(rig, PASSED, 0, 0, FROM_SITE, .source = GATEWAY, .source_port = 53,
		    .protocol = FRAME_UDP);
	assert_from(rig, DROPPED, rig->uplink, 0, FROM_SITE, .source = GATEWAY, .source_port = 53,
		    .protocol = FRAME_UDP);
	assert_from(rig, DROPPED, 0, 0, FROM_SITE, .source = SITE, .source_port = 53,
		    .protocol = FRAME_UDP);
	assert_from(rig, DROPPED, 0, 0, FROM_SITE, .source = GATEWAY, .source_port = 54);
	assert_from(rig, DROPPED, 0, 0, FROM_SITE, .source = GATEWAY, .protocol = FRAME_ICMP,
		    .icmp_type = FRAME_ECHO);
}

static void previews_are_marked_connections(void **state)
{
	struct rig *rig = *state;
	const struct frame_spec in = { .source = GATEWAY,
				       .dest = UNIQUE(0),
				       .protocol = FRAME_TCP,
				       .source_port = 50000,
				       .dest_port = 8080 };
	const struct frame_spec out = { .source = INNER,
					.dest = GATEWAY,
					.protocol = FRAME_TCP,
					.source_port = 8080,
					.dest_port = 50000,
					.tcp_flags = FRAME_SYN | FRAME_ACK };
	struct frame_spec other = in;

	assert_int_equal(deliver(rig, &in, 0, 0).verdict, DROPPED);
	assert_int_equal(rig_send_spec(rig, &out).verdict, ANSWERED);
	assert_int_equal(deliver(rig, &in, rig->uplink, EGRESS_MARK_PREVIEW).verdict, DROPPED);
	other.source = SITE;
	assert_int_equal(deliver(rig, &other, 0, EGRESS_MARK_PREVIEW).verdict, DROPPED);
	other = in;
	other.protocol = FRAME_UDP;
	assert_int_equal(deliver(rig, &other, 0, EGRESS_MARK_PREVIEW).verdict, DROPPED);

	assert_int_equal(deliver(rig, &in, 0, EGRESS_MARK_PREVIEW).verdict, PASSED);
	assert_int_equal(rig_send_spec(rig, &out).verdict, PASSED);
	/* Packets that the kernel sends for the connection without the socket's mark. */
	assert_int_equal(deliver(rig, &in, 0, 0).verdict, PASSED);
	/* The policy is about what the guest begins. */
	rig_policy(rig, EGRESS_NOTHING);
	assert_int_equal(rig_send_spec(rig, &out).verdict, PASSED);
	/* And the guest cannot begin one. */
	other = out;
	other.dest_port = 50001;
	assert_int_equal(rig_send_spec(rig, &other).verdict, ANSWERED);
}

/* What the program answers itself comes from the guest's own tap and is for the inner address; no
 * packet that was routed is. */
static void refusals_pass_as_they_are(void **state)
{
	struct rig *rig = *state;
	struct run run;
	const struct frame_spec refusal = { FROM_SITE, .dest = INNER };

	run = deliver(rig, &refusal, rig->taps[0], EGRESS_MARK_PASSED);
	assert_int_equal(run.verdict, PASSED);
	assert_int_equal(run.view.source, SITE);
	assert_int_equal(deliver(rig, &refusal, rig->taps[0], 0).verdict, DROPPED);
	assert_int_equal(deliver(rig, &refusal, rig->taps[1], EGRESS_MARK_PASSED).verdict, DROPPED);
	assert_int_equal(deliver(rig, &refusal, rig->uplink, EGRESS_MARK_PASSED).verdict, DROPPED);
	assert_int_equal(deliver(rig, &refusal, 0, EGRESS_MARK_PASSED).verdict, DROPPED);
}

/* An ICMP error as a router sends it: the head of the packet that it is about. */
static struct frame_spec error_about(const struct frame_spec *packet, struct frame *storage)
{
	frame_build(packet, storage);
	return (struct frame_spec){
		.source = IP(7, 7, 7, 7),
		.dest = UNIQUE(0),
		.protocol = FRAME_ICMP,
		.icmp_type = 3,
		.icmp_code = 4,
		.content = storage->data + 14,
		.payload = 28,
	};
}

static void errors_about_flows_arrive(void **state)
{
	struct rig *rig = *state;
	const uint8_t protocols[] = { FRAME_TCP, FRAME_UDP, FRAME_ICMP };

	rig_policy(rig, EGRESS_OPEN);
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		const struct frame_spec sent = { TO_SITE, .source = UNIQUE(0),
						 .protocol = protocols[i],
						 .icmp_type = FRAME_ECHO };
		struct frame storage;
		struct frame_spec error = error_about(&sent, &storage);
		struct run run;

		assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
		begin(rig, TO_SITE, .protocol = protocols[i], .icmp_type = FRAME_ECHO);
		run = deliver(rig, &error, rig->uplink, 0);
		assert_int_equal(run.verdict, PASSED);
		assert_int_equal(run.view.dest, INNER);
		assert_true(run.view.checksums_right);
		/* The guest finds its own address in it, under a checksum that fits. */
		assert_memory_equal(run.view.payload + 12, "\x64\x40\x00\x02", 4);
		assert_int_equal(frame_sum(run.view.payload, 20, 0), 0xffff);
		error.icmp_type = 11;
		assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, PASSED);
		error.icmp_type = 5; /* a redirect */
		assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	}
}

static void errors_about_nothing_do_not(void **state)
{
	struct rig *rig = *state;
	struct frame_spec sent = { TO_SITE, .source = UNIQUE(0) }, wrong, error;
	struct frame storage;

	rig_policy(rig, EGRESS_OPEN);
	begin(rig, TO_SITE);
	error = error_about(&sent, &storage);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, PASSED);
	error.payload = 27;
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	wrong = sent;
	wrong.source = UNIQUE(1);
	error = error_about(&wrong, &storage);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	wrong = sent;
	wrong.dest_port = 444;
	error = error_about(&wrong, &storage);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	wrong = sent;
	wrong.version_ihl = 0x46;
	error = error_about(&wrong, &storage);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	wrong = sent;
	wrong.fragment = FRAME_MORE;
	error = error_about(&wrong, &storage);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	wrong = sent;
	wrong.protocol = FRAME_SCTP;
	error = error_about(&wrong, &storage);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
	/* The policy has changed since. */
	error = error_about(&sent, &storage);
	rig_policy(rig, EGRESS_NOTHING);
	assert_int_equal(deliver(rig, &error, rig->uplink, 0).verdict, DROPPED);
}

static void packets_are_counted(void **state)
{
	struct rig *rig = *state;
	struct egress_counters counters;

	rig_policy(rig, EGRESS_OPEN);
	begin(rig, TO_SITE);
	assert_arrives(rig, PASSED, FROM_SITE, .payload = 10);
	assert_arrives(rig, DROPPED, FROM_SITE, .source_port = 444);
	assert_int_equal(egress_program_counters(rig->program, 0, &counters), 0);
	assert_int_equal(counters.in_packets, 1);
	assert_int_equal(counters.in_bytes, 14 + 20 + 20 + 10);
	assert_int_equal(counters.in_denied, 1);
	assert_int_equal(counters.out_packets, 1);
}

#define TEST(name) cmocka_unit_test_setup(name, rig_reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answers_arrive_at_the_inner_address),
		TEST(only_the_answer_is_one),
		TEST(frames_that_are_none),
		TEST(a_slot_that_nobody_has_is_closed),
		TEST(answers_meet_the_policy_of_now),
		TEST(silence_ends_what_has_no_connection),
		TEST(the_proxy_is_on_this_host),
		TEST(members_of_a_network),
		TEST(the_name_server_answers),
		TEST(previews_are_marked_connections),
		TEST(refusals_pass_as_they_are),
		TEST(errors_about_flows_arrive),
		TEST(errors_about_nothing_do_not),
		TEST(packets_are_counted),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
