/*
 * The verdict on every packet of every guest, in the host's kernel, on the guest's tap.
 *
 * Theory of operation. Two programs sit on each tap: from_guest on what the guest sends, to_guest
 * on what goes to it. All guests believe in the same MAC and address; the host knows each by a
 * unique address. from_guest checks the frame, decides, and writes the unique address in; to_guest
 * decides and writes the inner address back. Between them the host routes and masquerades as it
 * always does.
 *
 * From the guest, in this order: the frame itself (packet.h); the gateway (names on port 53,
 * answers to previews, nothing else); other guests (a network in common); then, for the world,
 * ranges that are always denied, addresses that the host would deliver to itself, and the policy.
 * What the policy allowed is remembered as a flow with the policy's generation: the next packets
 * need one look-up, whatever the number of rules. A new policy has a new generation, so that each
 * flow meets it with its next packet, in either direction.
 *
 * To the guest: answers to flows that it began and that the policy still allows, errors about them,
 * members of its networks, the name server, and connections that the daemon marked as previews.
 *
 * The policy is one 64-bit word that the daemon stores after the new generation's rules are all in
 * place. A packet reads it once: it meets the old policy or the new one.
 *
 * No program, no daemon, an empty map: all of them mean that nothing passes.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "reason.h"
#include "maps.h"
#include "packet.h"

char LICENSE[] SEC("license") = "GPL";

#define AF_INET		    2
#define NS_PER_S	    1000000000ULL
#define UNCONNECTED_IDLE_NS (300 * NS_PER_S) /* UDP and ICMP flows end by silence */
#define FLOW_TOUCH_NS	    NS_PER_S	     /* how stale "seen" may get */
#define SOCKET_TIME_WAIT    6
#define SOCKET_LISTEN	    10

const volatile struct egress_config config;

#include "refuse.h" /* knows the configuration */

/* One packet's view of its slot: the policy is read once. */
struct context {
	struct egress_slot *slot;
	__u32 index;
	__u32 generation;
	__u8 state;
};

static __always_inline bool find_slot(struct __sk_buff *skb, struct context *ctx)
{
	__u32 device = skb->ifindex;
	__u32 *index = bpf_map_lookup_elem(&devices, &device);
	__u64 policy;

	if (!index)
		return false;
	ctx->index = *index;
	ctx->slot = bpf_map_lookup_elem(&slots, index);
	if (!ctx->slot || ctx->slot->lease == 0 || ctx->slot->ifindex != device)
		return false;
	policy = *(volatile __u64 *)&ctx->slot->policy;
	ctx->generation = policy >> 8;
	ctx->state = policy & 0xff;
	return true;
}

static __always_inline __be32 unique_address(const struct context *ctx)
{
	return bpf_htonl(config.first_unique + ctx->index);
}

/* The slot behind a unique address, or a number that is none. */
static __always_inline __u32 slot_of(__be32 address)
{
	return bpf_ntohl(address) - config.first_unique;
}

/* --- counting and reporting --- */

static __always_inline void count(struct __sk_buff *skb, __u32 index, bool out, bool passed)
{
	struct egress_counters *c = bpf_map_lookup_elem(&counters, &index);

	if (!c)
		return;
	if (out && passed) {
		c->out_packets++;
		c->out_bytes += skb->len;
	} else if (passed) {
		c->in_packets++;
		c->in_bytes += skb->len;
	} else if (out) {
		c->out_denied++;
	} else {
		c->in_denied++;
	}
}

/* So many a second for each slot, so that a guest cannot keep the daemon busy. The counter is not
 * exact when several CPUs meet here; it need not be. */
static __always_inline bool may_report(struct egress_slot *slot, __u64 now)
{
	__u64 second = now / NS_PER_S, window = slot->event_window;

	if (window >> 16 != second)
		window = second << 16;
	if ((window & 0xffff) >= EGRESS_EVENTS_PER_S)
		return false;
	slot->event_window = window + 1;
	return true;
}

static __always_inline void report(const struct context *ctx, const struct packet *p, __u8 reason)
{
	__u64 now = bpf_ktime_get_boot_ns();
	struct egress_event *event = NULL;

	if (may_report(ctx->slot, now))
		event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&ctx->slot->unreported, 1);
		return;
	}
	event->at_ns = now;
	event->slot = ctx->index;
	event->lease = ctx->slot->lease;
	event->remote_be = p->dest;
	event->remote_port_be = p->protocol == IPPROTO_ICMP ? 0 : p->dest_port;
	event->protocol = p->protocol;
	event->reason = reason;
	event->unreported = ctx->slot->unreported;
	bpf_ringbuf_submit(event, 0);
}

/* --- the policy --- */

static __always_inline bool in_rules(const struct context *ctx, __u8 protocol, __be32 remote,
				     __be16 port)
{
	struct egress_rule_key key = {
		.prefixlen = EGRESS_RULE_EXACT_BITS + 32,
		.generation = ctx->generation,
		.protocol = protocol,
		.port_be = port,
		.address_be = remote,
	};

	return bpf_map_lookup_elem(&rules, &key) != NULL;
}

static __always_inline enum egress_action ask_learned(const struct context *ctx, __u8 protocol,
						      __be32 remote, __be16 port, bool is_new)
{
	struct egress_learned_key key = {
		.generation = ctx->generation,
		.address_be = remote,
		.protocol = protocol,
		.port_be = port,
	};
	struct egress_learned *entry = bpf_map_lookup_elem(&learned, &key);

	if (!entry) {
		key.port_be = 0;
		entry = bpf_map_lookup_elem(&learned, &key);
	}
	if (!entry || (is_new && bpf_ktime_get_boot_ns() >= entry->expires_ns))
		return EGRESS_DENY;
	return entry->action;
}

/* What the policy says about a flow to remote: port; is_new: it begins with this packet. */
static __always_inline enum egress_action ask_policy(const struct context *ctx, __u8 protocol,
						     __be32 remote, __be16 port, bool is_new)
{
	if (ctx->state == EGRESS_OPEN)
		return EGRESS_DIRECT;
	if (ctx->state != EGRESS_LIST || protocol == IPPROTO_ICMP)
		return EGRESS_DENY;
	if (in_rules(ctx, protocol, remote, port) || in_rules(ctx, protocol, remote, 0))
		return EGRESS_DIRECT;
	return ask_learned(ctx, protocol, remote, port, is_new);
}

static __always_inline bool is_denied_range(__be32 address)
{
	struct egress_range_key key = { .prefixlen = 32, .address_be = address };
	__u32 *kind = bpf_map_lookup_elem(&ranges, &key);

	return kind && *kind == EGRESS_RANGE_DENIED;
}

/* Would the host forward this, or take it for itself (or drop it, having no route)? The routing
 * table knows, also of addresses that the host got a moment ago. */
static __always_inline bool is_forwarded(struct __sk_buff *skb, const struct context *ctx,
					 const struct packet *p)
{
	struct bpf_fib_lookup lookup = {
		.family = AF_INET,
		.l4_protocol = p->protocol,
		.ifindex = skb->ifindex,
		.ipv4_src = unique_address(ctx),
		.ipv4_dst = p->dest,
	};

	switch (bpf_fib_lookup(skb, &lookup, sizeof(lookup), 0)) {
	case BPF_FIB_LKUP_RET_SUCCESS:
	case BPF_FIB_LKUP_RET_NO_NEIGH:
	case BPF_FIB_LKUP_RET_FRAG_NEEDED:
	case BPF_FIB_LKUP_RET_UNSUPP_LWT:
		return true;
	default:
		return false;
	}
}

/* Networks that both slots are in; each has at most EGRESS_NETWORKS. */
static __always_inline bool share_network(const struct egress_slot *slot, __u32 other)
{
	for (int i = 0; i < EGRESS_NETWORKS; i++) {
		struct egress_member_key key = { .network = slot->networks[i], .slot = other };

		if (key.network != 0 && bpf_map_lookup_elem(&members, &key))
			return true;
	}
	return false;
}

/* --- flows --- */

static __always_inline void *flow_table(const struct context *ctx)
{
	return bpf_map_lookup_elem(&flows, &ctx->index);
}

static __always_inline bool is_idle(const struct egress_flow *flow, __u8 protocol)
{
	return protocol != IPPROTO_TCP &&
	       bpf_ktime_get_boot_ns() - flow->seen_ns > UNCONNECTED_IDLE_NS;
}

static __always_inline int remember(void *table, const struct egress_flow_key *key,
				    __u32 generation, __u32 kind)
{
	struct egress_flow flow = {
		.seen_ns = bpf_ktime_get_boot_ns(),
		.generation = generation,
		.kind = kind,
	};

	return bpf_map_update_elem(table, key, &flow, BPF_ANY) == 0 ? 0 : SLOT_DENIED_POLICY;
}

/* --- from the guest --- */

/* The world: 0 and the kind of flow, or why not. */
static __always_inline int decide_world(struct __sk_buff *skb, const struct context *ctx,
					const struct packet *p, __u32 *ret_kind)
{
	struct egress_flow_key key = {
		.remote_be = p->dest,
		.remote_port_be = p->dest_port,
		.guest_port_be = p->source_port,
		.protocol = p->protocol,
	};
	bool begins = p->protocol == IPPROTO_TCP && (p->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	void *table = flow_table(ctx);
	struct egress_flow *flow;
	enum egress_action action;
	bool is_new;
	__u64 now;

	if (!table)
		return SLOT_DENIED_POLICY;
	flow = bpf_map_lookup_elem(table, &key);
	is_new = !flow || begins || is_idle(flow, p->protocol);
	if (!is_new && flow->generation == ctx->generation) {
		now = bpf_ktime_get_boot_ns();
		if (now - flow->seen_ns > FLOW_TOUCH_NS)
			flow->seen_ns = now;
		*ret_kind = flow->kind;
		return 0;
	}
	if (is_denied_range(p->dest))
		return SLOT_DENIED_RANGE;
	if (!is_forwarded(skb, ctx, p))
		return SLOT_DENIED_HOST;
	action = ask_policy(ctx, p->protocol, p->dest, p->dest_port, is_new);
	if (action == EGRESS_DENY)
		return SLOT_DENIED_POLICY;
	*ret_kind = action == EGRESS_VIA_PROXY ? EGRESS_FLOW_PROXY : EGRESS_FLOW_DIRECT;
	/* What the proxy carries stays with it when the rules are loosened. */
	if (!is_new && flow->kind == EGRESS_FLOW_PROXY)
		*ret_kind = EGRESS_FLOW_PROXY;
	return remember(table, &key, ctx->generation, *ret_kind);
}

/* The gateway's own address: names, and answers to what the daemon began. */
static __always_inline int decide_gateway(const struct context *ctx, const struct packet *p)
{
	struct egress_flow_key key = {
		.remote_be = p->dest,
		.remote_port_be = p->dest_port,
		.guest_port_be = p->source_port,
		.protocol = p->protocol,
	};
	void *table = flow_table(ctx);
	struct egress_flow *flow;

	if (p->protocol == IPPROTO_ICMP)
		return SLOT_DENIED_HOST;
	if (p->dest_port == bpf_htons(53))
		return 0;
	flow = table ? bpf_map_lookup_elem(table, &key) : NULL;
	return flow && flow->kind == EGRESS_FLOW_PREVIEW ? 0 : SLOT_DENIED_HOST;
}

static __always_inline int decide_from_guest(struct __sk_buff *skb, const struct context *ctx,
					     const struct packet *p, __u32 *ret_kind)
{
	__u32 other = slot_of(p->dest);

	if (p->dest == config.gateway_be)
		return decide_gateway(ctx, p);
	if (other < config.slots) {
		if (!share_network(ctx->slot, other))
			return SLOT_DENIED_NEIGHBOUR;
		return p->protocol == IPPROTO_ICMP && p->icmp_type != ICMP_ECHO &&
				       p->icmp_type != ICMP_ECHO_ANSWER
			       ? SLOT_DENIED_PROTOCOL
			       : 0;
	}
	if (p->protocol == IPPROTO_ICMP && p->icmp_type != ICMP_ECHO)
		return SLOT_DENIED_PROTOCOL;
	return decide_world(skb, ctx, p, ret_kind);
}

/* A socket of this 4-tuple that is more than a listener; 0 when there is none. */
static __always_inline bool is_connected(struct __sk_buff *skb, struct bpf_sock_tuple *tuple)
{
	struct bpf_sock *sk =
		bpf_skc_lookup_tcp(skb, tuple, sizeof(tuple->ipv4), BPF_F_CURRENT_NETNS, 0);
	bool connected;

	if (!sk)
		return false;
	connected = sk->state != SOCKET_LISTEN && sk->state != SOCKET_TIME_WAIT;
	bpf_sk_release(sk);
	return connected;
}

/* Hands the packet to the transparent proxy, which sees the address that the guest meant: the mark
 * makes the host deliver it to itself, and a packet of no connection yet is given the listener. */
static __always_inline int hand_to_proxy(struct __sk_buff *skb, const struct context *ctx,
					 const struct packet *p)
{
	__u32 zero = 0;
	struct egress_settings *s = bpf_map_lookup_elem(&settings, &zero);
	struct bpf_sock_tuple tuple = {
		.ipv4 = {
			.saddr = unique_address(ctx),
			.daddr = p->dest,
			.sport = p->source_port,
			.dport = p->dest_port,
		},
	};
	struct bpf_sock *sk;
	long rc = -1;

	if (!s || s->proxy_port_be == 0)
		return SLOT_DENIED_PROXY;
	skb->mark = EGRESS_MARK_PROXY;
	if (is_connected(skb, &tuple))
		return 0;
	tuple.ipv4.daddr = config.gateway_be;
	tuple.ipv4.dport = s->proxy_port_be;
	sk = bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return SLOT_DENIED_PROXY;
	if (sk->state == SOCKET_LISTEN)
		rc = bpf_sk_assign(skb, sk, 0);
	bpf_sk_release(sk);
	return rc == 0 ? 0 : SLOT_DENIED_PROXY;
}

struct arp_packet {
	__be16 hardware, protocol;
	__u8 hardware_len, protocol_len;
	__be16 operation;
	__u8 sender_mac[6];
	__be32 sender;
	__u8 target_mac[6];
	__be32 target;
} __attribute__((packed));

#define ARP_REQUEST bpf_htons(1)
#define ARP_ANSWER  bpf_htons(2)

static __always_inline void set_mac(__u8 *out, const volatile __u8 *mac)
{
	for (int i = 0; i < 6; i++)
		out[i] = mac[i];
}

/* Asked for the gateway, answers at once on the same tap; no question gets further than this. */
static __always_inline int answer_arp(struct __sk_buff *skb)
{
	struct arp_packet arp;
	struct eth_frame eth = { .type = ETHERTYPE_ARP };

	if (bpf_skb_load_bytes(skb, ETH_SIZE, &arp, sizeof(arp)) < 0)
		return TC_ACT_SHOT;
	if (arp.hardware != bpf_htons(1) || arp.protocol != ETHERTYPE_IPV4 ||
	    arp.hardware_len != 6 || arp.protocol_len != 4 || arp.operation != ARP_REQUEST ||
	    !mac_is(arp.sender_mac, config.guest_mac) || arp.sender != config.inner_be ||
	    arp.target != config.gateway_be)
		return TC_ACT_SHOT;
	arp.operation = ARP_ANSWER;
	arp.sender = config.gateway_be;
	arp.target = config.inner_be;
	set_mac(arp.sender_mac, config.gateway_mac);
	set_mac(arp.target_mac, config.guest_mac);
	set_mac(eth.source, config.gateway_mac);
	set_mac(eth.dest, config.guest_mac);
	if (bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) < 0 ||
	    bpf_skb_store_bytes(skb, ETH_SIZE, &arp, sizeof(arp), 0) < 0)
		return TC_ACT_SHOT;
	skb->mark = EGRESS_MARK_PASSED;
	return bpf_redirect(skb->ifindex, 0);
}

SEC("tc")
int from_guest(struct __sk_buff *skb)
{
	struct context ctx = {};
	struct packet p = {};
	struct eth_frame eth;
	__u32 kind = 0;
	int reason = 0;

	if (!find_slot(skb, &ctx))
		return TC_ACT_SHOT;
	if (skb->vlan_present || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) < 0 ||
	    !mac_is(eth.source, config.guest_mac))
		goto drop;
	if (eth.type == ETHERTYPE_ARP) {
		int action = answer_arp(skb);

		count(skb, ctx.index, true, action != TC_ACT_SHOT);
		return action;
	}
	if (eth.type != ETHERTYPE_IPV4 || !mac_is(eth.dest, config.gateway_mac))
		goto drop;
	reason = read_ipv4(skb, &p);
	if (p.source != config.inner_be)
		goto drop;
	if (reason == 0)
		reason = decide_from_guest(skb, &ctx, &p, &kind);
	if (reason == 0 && kind == EGRESS_FLOW_PROXY)
		reason = hand_to_proxy(skb, &ctx, &p);
	if (reason != 0) {
		report(&ctx, &p, reason);
		count(skb, ctx.index, true, false);
		return reason == SLOT_DENIED_FRAME || reason == SLOT_DENIED_PROTOCOL
			       ? TC_ACT_SHOT
			       : refuse(skb, &p);
	}
	if (rewrite_address(skb, &p, AT_IP_SOURCE, config.inner_be, unique_address(&ctx)) < 0)
		goto drop;
	if (kind != EGRESS_FLOW_PROXY)
		skb->mark = EGRESS_MARK_PASSED;
	count(skb, ctx.index, true, true);
	return TC_ACT_OK;
drop:
	count(skb, ctx.index, true, false);
	return TC_ACT_SHOT;
}

/* --- to the guest --- */

/* Is this an answer to a flow that the guest began and that the policy still allows? What should go
 * through the proxy now and did not is not. */
static __always_inline bool is_answer(struct __sk_buff *skb, const struct context *ctx,
				      const struct egress_flow_key *key)
{
	void *table = flow_table(ctx);
	struct egress_flow *flow = table ? bpf_map_lookup_elem(table, key) : NULL;
	enum egress_action action;

	if (!flow || flow->kind == EGRESS_FLOW_PREVIEW || is_idle(flow, key->protocol))
		return false;
	/* The proxy is on this host. */
	if (flow->kind == EGRESS_FLOW_PROXY && skb->ingress_ifindex != 0)
		return false;
	if (flow->generation == ctx->generation)
		return true;
	action = ask_policy(ctx, key->protocol, key->remote_be, key->remote_port_be, false);
	if (action == EGRESS_DENY ||
	    (action == EGRESS_VIA_PROXY && flow->kind != EGRESS_FLOW_PROXY))
		return false;
	flow->generation = ctx->generation;
	return true;
}

/* The host's own packets, from the gateway's address. */
static __always_inline bool is_from_daemon(struct __sk_buff *skb, const struct context *ctx,
					   const struct packet *p,
					   const struct egress_flow_key *key)
{
	void *table = flow_table(ctx);
	struct egress_flow *flow;

	if (skb->ingress_ifindex != 0 || p->source != config.gateway_be ||
	    p->protocol == IPPROTO_ICMP)
		return false;
	if (p->source_port == bpf_htons(53))
		return true;
	if (p->protocol != IPPROTO_TCP || !table)
		return false;
	if (skb->mark == EGRESS_MARK_PREVIEW)
		return remember(table, key, 0, EGRESS_FLOW_PREVIEW) == 0;
	flow = bpf_map_lookup_elem(table, key);
	return flow && flow->kind == EGRESS_FLOW_PREVIEW;
}

/* An ICMP error ("too big", "unreachable", "time is over") carries the head of the packet that it
 * is about, with the unique address as its source: it must be of a flow of this guest, and the
 * guest must find its own address in there. The inner header's checksum takes up the change, so
 * that the sum over both, and with it the ICMP checksum, stays as it is. */
#define INNER_AT (L4_AT + 8)

static __always_inline bool is_error_about_flow(struct __sk_buff *skb, const struct context *ctx,
						const struct packet *p)
{
	struct egress_flow_key key = {};
	struct ip_packet ip;
	union l4_head head;
	__be32 inner = config.inner_be;

	if (p->icmp_type != ICMP_UNREACHABLE && p->icmp_type != ICMP_TIME_IS_OVER)
		return false;
	if (p->l4_len < 8 + IP_SIZE + 8 || bpf_skb_load_bytes(skb, INNER_AT, &ip, sizeof(ip)) < 0 ||
	    bpf_skb_load_bytes(skb, INNER_AT + IP_SIZE, &head.udp, sizeof(head.udp)) < 0)
		return false;
	if (ip.version_ihl != 0x45 || (ip.fragment & FRAGMENT_BITS) != 0 ||
	    ip.source != unique_address(ctx))
		return false;
	key.remote_be = ip.dest;
	key.protocol = ip.protocol;
	if (ip.protocol == IPPROTO_TCP || ip.protocol == IPPROTO_UDP) {
		key.guest_port_be = head.udp.source;
		key.remote_port_be = head.udp.dest;
	} else if (ip.protocol == IPPROTO_ICMP && head.icmp.type == ICMP_ECHO) {
		key.guest_port_be = key.remote_port_be = head.icmp.id;
	} else {
		return false;
	}
	if (!is_answer(skb, ctx, &key))
		return false;
	return bpf_l3_csum_replace(skb, INNER_AT + 10, ip.source, inner, 4) == 0 &&
	       bpf_skb_store_bytes(skb, INNER_AT + 12, &inner, 4, 0) == 0;
}

static __always_inline bool may_enter(struct __sk_buff *skb, const struct context *ctx,
				      const struct packet *p)
{
	struct egress_flow_key key = {
		.remote_be = p->source,
		.remote_port_be = p->source_port,
		.guest_port_be = p->dest_port,
		.protocol = p->protocol,
	};
	__u32 other = slot_of(p->source);
	struct egress_slot *sender;

	if (other < config.slots) {
		/* A unique address is believed only of what came through that slot's tap. */
		sender = bpf_map_lookup_elem(&slots, &other);
		return sender && sender->ifindex == skb->ingress_ifindex &&
		       skb->mark == EGRESS_MARK_PASSED && share_network(ctx->slot, other);
	}
	if (is_from_daemon(skb, ctx, p, &key))
		return true;
	if (p->protocol == IPPROTO_ICMP && p->icmp_type != ICMP_ECHO_ANSWER)
		return is_error_about_flow(skb, ctx, p);
	return is_answer(skb, ctx, &key);
}

SEC("tc")
int to_guest(struct __sk_buff *skb)
{
	struct context ctx = {};
	struct packet p = {};
	struct eth_frame eth;

	if (!find_slot(skb, &ctx))
		return TC_ACT_SHOT;
	if (skb->vlan_present || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)) < 0)
		goto drop;
	/* Our own answer; the host has permanent neighbours and asks for nobody. */
	if (eth.type == ETHERTYPE_ARP) {
		if (skb->mark != EGRESS_MARK_PASSED)
			goto drop;
		return TC_ACT_OK;
	}
	if (eth.type != ETHERTYPE_IPV4 || read_ipv4(skb, &p) != 0)
		goto drop;
	if (is_refusal(skb, &p))
		return TC_ACT_OK;
	if (p.dest != unique_address(&ctx) || !may_enter(skb, &ctx, &p))
		goto drop;
	if (rewrite_address(skb, &p, AT_IP_DEST, p.dest, config.inner_be) < 0)
		goto drop;
	count(skb, ctx.index, false, true);
	return TC_ACT_OK;
drop:
	count(skb, ctx.index, false, false);
	return TC_ACT_SHOT;
}
