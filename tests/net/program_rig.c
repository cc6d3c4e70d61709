/* See program_rig.h. */
#include "program_rig.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/pkt_cls.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "net/tap.h"
#include "shell.h"

/* Forwarding must be on: the program asks the routing table as the kernel would. */
static void setup_namespace(struct rig *rig)
{
	const struct {
		const char *name;
		uint32_t *ifindex;
	} devices[] = {
		{ "tap0", &rig->taps[0] },
		{ "tap1", &rig->taps[1] },
		{ "up0", &rig->uplink },
	};

	for (size_t i = 0; i < 3; i++) {
		rig->tap_fds[i] = tap_make(devices[i].name, devices[i].ifindex);
		assert_true(rig->tap_fds[i] >= 0);
		sh("ip link set %s up", devices[i].name);
	}
	sh("echo 1 >/proc/sys/net/ipv4/ip_forward");
	sh("ip link set lo up; ip address add 5.5.5.2/24 dev up0");
	sh("ip route add default via 5.5.5.1; ip route add unreachable 6.6.6.6");
}

int rig_setup(void **state)
{
	const struct egress_config config = {
		.inner_be = htonl(INNER),
		.gateway_be = htonl(GATEWAY),
		.first_unique = UNIQUE(0),
		.slots = SLOTS,
		.guest_mac = { 0x02, 0x5e, 0, 0, 0, 2 },
		.gateway_mac = { 0x02, 0x5e, 0, 0, 0, 1 },
	};
	struct rig *rig;
	struct err err = ERR_INIT;

	if (geteuid() != 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return 0; /* each test skips itself */
	rig = xcalloc(1, sizeof(*rig));
	assert_int_equal(unshare(CLONE_NEWNET | CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	scratch_make(rig->pins);
	setup_namespace(rig);
	if (egress_program_new(&config, rig->pins, "test", &rig->program, &err) < 0)
		fail_msg("%s; %s", err.message, err.hint);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(egress_program_attach(rig->program, rig->taps[i], i, NULL), 0);
	*state = rig;
	return 0;
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;

	if (!rig)
		return 0;
	egress_program_unpin(rig->program);
	egress_program_free(rig->program);
	umount2(rig->pins, MNT_DETACH);
	scratch_remove(rig->pins);
	for (size_t i = 0; i < 3; i++)
		close(rig->tap_fds[i]);
	free(rig);
	return 0;
}

static void empty_map(struct rig *rig, enum egress_map map, size_t key_size)
{
	int fd = egress_program_map_fd(rig->program, map);
	char key[64];

	assert_true(key_size <= sizeof(key));
	while (bpf_map_get_next_key(fd, NULL, key) == 0)
		assert_int_equal(bpf_map_delete_elem(fd, key), 0);
}

int rig_reset(void **state)
{
	struct rig *rig = *state;
	struct egress_event event;

	if (!rig) {
		print_message("needs root, /dev/net/tun and BPF\n");
		skip();
		return 0; /* skip() does not come back, which the analyzer does not know */
	}
	for (uint32_t i = 0; i < 2; i++) {
		*egress_program_slot(rig->program, i) = (struct egress_slot){
			.ifindex = rig->taps[i],
			.lease = 7 + i,
		};
		assert_int_equal(egress_program_reset_flows(rig->program, i), 0);
		assert_int_equal(egress_program_reset_counters(rig->program, i), 0);
	}
	empty_map(rig, EGRESS_MAP_RULES, sizeof(struct egress_rule_key));
	empty_map(rig, EGRESS_MAP_LEARNED, sizeof(struct egress_learned_key));
	empty_map(rig, EGRESS_MAP_MEMBERS, sizeof(struct egress_member_key));
	empty_map(rig, EGRESS_MAP_RANGES, sizeof(struct egress_range_key));
	egress_program_settings(rig->program)->proxy_port_be = 0;
	rig_policy(rig, EGRESS_NOTHING);
	rig_last_event(rig, &event);
	return 0;
}

void rig_policy(struct rig *rig, enum egress_state state)
{
	rig->generation++;
	egress_program_slot(rig->program, 0)->policy = (uint64_t)rig->generation << 8 | state;
}

void rig_rule(struct rig *rig, uint32_t address, uint8_t prefix, uint8_t protocol, uint16_t port)
{
	const struct egress_rule_key key = {
		.prefixlen = EGRESS_RULE_EXACT_BITS + prefix,
		.generation = rig->generation,
		.protocol = protocol,
		.port_be = htons(port),
		.address_be = htonl(address),
	};
	const uint32_t present = 1;

	assert_int_equal(bpf_map_update_elem(egress_program_map_fd(rig->program, EGRESS_MAP_RULES),
					     &key, &present, BPF_ANY),
			 0);
}

void rig_learn(struct rig *rig, uint32_t address, uint8_t protocol, uint16_t port,
	       enum egress_action action, int64_t seconds)
{
	const struct egress_learned_key key = {
		.generation = rig->generation,
		.address_be = htonl(address),
		.protocol = protocol,
		.port_be = htons(port),
	};
	const struct egress_learned value = {
		.expires_ns = (uint64_t)(clock_boottime_ms() + 1000 * seconds) * 1000000,
		.action = action,
		.name = "site.test",
	};

	assert_int_equal(
		bpf_map_update_elem(egress_program_map_fd(rig->program, EGRESS_MAP_LEARNED), &key,
				    &value, BPF_ANY),
		0);
}

void rig_join(struct rig *rig, uint32_t slot, uint32_t network)
{
	const struct egress_member_key key = { network, slot };
	const uint32_t present = 1;
	struct egress_slot *shared = egress_program_slot(rig->program, slot);

	assert_int_equal(
		bpf_map_update_elem(egress_program_map_fd(rig->program, EGRESS_MAP_MEMBERS), &key,
				    &present, BPF_ANY),
		0);
	for (int i = 0; i < EGRESS_NETWORKS; i++) {
		if (shared->networks[i] == 0) {
			shared->networks[i] = network;
			return;
		}
	}
	fail_msg("no place for a network");
}

void rig_leave(struct rig *rig, uint32_t slot, uint32_t network)
{
	const struct egress_member_key key = { network, slot };
	struct egress_slot *shared = egress_program_slot(rig->program, slot);

	for (int i = 0; i < EGRESS_NETWORKS; i++) {
		if (shared->networks[i] == network)
			shared->networks[i] = 0;
	}
	assert_int_equal(
		bpf_map_delete_elem(egress_program_map_fd(rig->program, EGRESS_MAP_MEMBERS), &key),
		0);
}

void rig_range(struct rig *rig, uint32_t address, uint8_t prefix, enum egress_range kind)
{
	const struct egress_range_key key = { prefix, htonl(address) };
	const uint32_t value = kind;

	assert_int_equal(bpf_map_update_elem(egress_program_map_fd(rig->program, EGRESS_MAP_RANGES),
					     &key, &value, BPF_ANY),
			 0);
}

static struct run run(struct rig *rig, enum egress_direction direction, const struct frame *frame,
		      struct __sk_buff *skb)
{
	struct run result = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->data,
		    .data_size_in = (uint32_t)frame->len, .data_out = result.out.data,
		    .data_size_out = sizeof(result.out.data), .ctx_in = skb,
		    .ctx_size_in = sizeof(*skb), .ctx_out = skb, .ctx_size_out = sizeof(*skb),
		    .repeat = 1);

	assert_int_equal(bpf_prog_test_run_opts(egress_program_fd(rig->program, direction), &opts),
			 0);
	result.out.len = opts.data_size_out;
	result.mark = skb->mark;
	frame_read(result.out.data, result.out.len, &result.view);
	switch (opts.retval) {
	case TC_ACT_OK:
		result.verdict = PASSED;
		break;
	case TC_ACT_SHOT:
		result.verdict = DROPPED;
		break;
	case TC_ACT_REDIRECT:
		result.verdict = ANSWERED;
		break;
	default:
		fail_msg("verdict %u", opts.retval);
	}
	return result;
}

struct run rig_send(struct rig *rig, uint32_t slot, const struct frame *frame)
{
	struct __sk_buff skb = { .ifindex = rig->taps[slot], .ingress_ifindex = rig->taps[slot] };

	return run(rig, EGRESS_FROM_GUEST, frame, &skb);
}

struct run rig_send_spec(struct rig *rig, const struct frame_spec *spec)
{
	struct frame frame;

	frame_build(spec, &frame);
	return rig_send(rig, 0, &frame);
}

struct run rig_deliver(struct rig *rig, uint32_t slot, const struct frame *frame,
		       uint32_t ingress_ifindex, uint32_t mark)
{
	struct __sk_buff skb = {
		.ifindex = rig->taps[slot],
		.ingress_ifindex = ingress_ifindex,
		.mark = mark,
	};

	return run(rig, EGRESS_TO_GUEST, frame, &skb);
}

static int keep_last(void *arg, void *data, size_t size)
{
	assert_int_equal(size, sizeof(struct egress_event));
	memcpy(arg, data, size);
	return 0;
}

int rig_last_event(struct rig *rig, struct egress_event *ret)
{
	struct ring_buffer *ring;

	*ret = (struct egress_event){ 0 };
	ring = ring_buffer__new(egress_program_map_fd(rig->program, EGRESS_MAP_EVENTS), keep_last,
				ret, NULL);
	assert_non_null(ring);
	assert_true(ring_buffer__consume(ring) >= 0);
	ring_buffer__free(ring);
	return ret->reason;
}
