/*
 * Telling a guest that its packet was denied: a reset for TCP, "administratively prohibited" for
 * UDP and echo. Who hears nothing waits for minutes. The frame that was denied becomes the answer
 * and goes back by the tap it came from: one for one, so that nothing is amplified. Included by
 * egress.bpf.c alone.
 */
#pragma once

#define ICMP_PROHIBITED 13 /* code of "unreachable" */

struct pseudo_header {
	__be32 source, dest;
	__u8 zero;
	__u8 protocol;
	__be16 len;
};

struct tcp_header {
	__be16 source, dest;
	__be32 seq, ack;
	__u8 offset, flags;
	__be16 window, checksum, urgent;
};

struct icmp_error {
	__u8 type, code;
	__be16 checksum;
	__be32 unused;
	struct ip_packet about;
	__u8 about_l4[8];
};

static __always_inline __u16 fold(__s64 sum)
{
	__u32 folded = (__u32)sum;

	folded = (folded >> 16) + (folded & 0xffff);
	folded += folded >> 16;
	return (__u16)~folded;
}

/* The Ethernet and IPv4 headers of an answer from the other side, in a frame of the right length.
 */
static __always_inline bool begin_answer(struct __sk_buff *skb, const struct packet *p,
					 __u8 protocol, __u16 l4_len)
{
	struct eth_frame eth = { .type = ETHERTYPE_IPV4 };
	struct ip_packet ip = {
		.version_ihl = 0x45,
		.total_len = bpf_htons(IP_SIZE + l4_len),
		.ttl = 64,
		.protocol = protocol,
		.source = p->dest,
		.dest = p->source,
	};

	ip.checksum = fold(bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	for (int i = 0; i < 6; i++) {
		eth.dest[i] = config.guest_mac[i];
		eth.source[i] = config.gateway_mac[i];
	}
	return bpf_skb_change_tail(skb, L4_AT + l4_len, 0) == 0 &&
	       bpf_skb_store_bytes(skb, 0, &eth, sizeof(eth), 0) == 0 &&
	       bpf_skb_store_bytes(skb, ETH_SIZE, &ip, sizeof(ip), 0) == 0;
}

/* As RFC 9293 has it: at the sequence number that the guest expects, or acknowledging what it sent.
 */
static __always_inline bool make_reset(struct __sk_buff *skb, const struct packet *p)
{
	struct tcp_header tcp;
	struct pseudo_header pseudo = {
		.source = p->dest,
		.dest = p->source,
		.protocol = IPPROTO_TCP,
		.len = bpf_htons(sizeof(tcp)),
	};
	struct tcp_header reset = {
		.source = p->dest_port,
		.dest = p->source_port,
		.offset = sizeof(tcp) / 4 << 4,
		.flags = TCP_RST,
	};
	__u32 sent;

	if (p->tcp_flags & TCP_RST || bpf_skb_load_bytes(skb, L4_AT, &tcp, sizeof(tcp)) < 0)
		return false;
	if (p->tcp_flags & TCP_ACK) {
		reset.seq = tcp.ack;
	} else {
		sent = p->l4_len - (tcp.offset >> 4) * 4 + !!(p->tcp_flags & TCP_SYN) +
		       !!(p->tcp_flags & TCP_FIN);
		reset.ack = bpf_htonl(bpf_ntohl(tcp.seq) + sent);
		reset.flags |= TCP_ACK;
	}
	reset.checksum = fold(
		bpf_csum_diff(NULL, 0, (__be32 *)&reset, sizeof(reset),
			      (__u32)bpf_csum_diff(NULL, 0, (__be32 *)&pseudo, sizeof(pseudo), 0)));
	return begin_answer(skb, p, IPPROTO_TCP, sizeof(reset)) &&
	       bpf_skb_store_bytes(skb, L4_AT, &reset, sizeof(reset), 0) == 0;
}

static __always_inline bool make_icmp_error(struct __sk_buff *skb, const struct packet *p)
{
	struct icmp_error error = { .type = ICMP_UNREACHABLE, .code = ICMP_PROHIBITED };

	if (p->protocol == IPPROTO_ICMP && p->icmp_type != ICMP_ECHO)
		return false;
	if (bpf_skb_load_bytes(skb, ETH_SIZE, &error.about, sizeof(error.about)) < 0 ||
	    bpf_skb_load_bytes(skb, L4_AT, error.about_l4, sizeof(error.about_l4)) < 0)
		return false;
	error.checksum = fold(bpf_csum_diff(NULL, 0, (__be32 *)&error, sizeof(error), 0));
	return begin_answer(skb, p, IPPROTO_ICMP, sizeof(error)) &&
	       bpf_skb_store_bytes(skb, L4_AT, &error, sizeof(error), 0) == 0;
}

/* The program's answer for a packet that was denied: back to the guest, or nowhere. */
static __always_inline int refuse(struct __sk_buff *skb, const struct packet *p)
{
	bool made = p->protocol == IPPROTO_TCP ? make_reset(skb, p) : make_icmp_error(skb, p);

	if (!made)
		return TC_ACT_SHOT;
	skb->mark = EGRESS_MARK_PASSED;
	return bpf_redirect(skb->ifindex, 0);
}

/* What refuse sent passes to_guest as it is: it is addressed as no packet is that was routed. */
static __always_inline bool is_refusal(const struct __sk_buff *skb, const struct packet *p)
{
	return skb->mark == EGRESS_MARK_PASSED && skb->ingress_ifindex == skb->ifindex &&
	       p->dest == config.inner_be;
}
