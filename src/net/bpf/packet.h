/*
 * Reading a frame: what the program accepts as one at all. Everything else (other ethertypes, VLAN
 * tags, fragments, IP options, lengths that do not fit) is refused before any address is looked at,
 * so that what follows need not know of it. Included by egress.bpf.c alone.
 */
#pragma once

#define ETH_SIZE 14
#define IP_SIZE	 20
#define L4_AT	 (ETH_SIZE + IP_SIZE)

#define AT_IP_CHECKSUM	(ETH_SIZE + 10)
#define AT_IP_SOURCE	(ETH_SIZE + 12)
#define AT_IP_DEST	(ETH_SIZE + 16)
#define AT_TCP_CHECKSUM (L4_AT + 16)
#define AT_UDP_CHECKSUM (L4_AT + 6)

#define ETHERTYPE_IPV4 bpf_htons(0x0800)
#define ETHERTYPE_ARP  bpf_htons(0x0806)

#define FRAGMENT_BITS                                                                              \
	bpf_htons(0xbfff) /* reserved, more fragments, offset; not "don't fragment"                \
			   */

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

#define ICMP_ECHO_ANSWER  0
#define ICMP_UNREACHABLE  3
#define ICMP_ECHO	  8
#define ICMP_TIME_IS_OVER 11

struct eth_frame {
	__u8 dest[6];
	__u8 source[6];
	__be16 type;
} __attribute__((packed));

struct ip_packet {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_len;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__be32 source;
	__be32 dest;
};

/* The first bytes of TCP, UDP or ICMP. */
union l4_head {
	struct {
		__be16 source;
		__be16 dest;
		__be32 seq;
		__be32 ack;
		__u8 offset;
		__u8 flags;
		__be16 window;
	} tcp;
	struct {
		__be16 source;
		__be16 dest;
		__be16 len;
		__be16 checksum;
	} udp;
	struct {
		__u8 type;
		__u8 code;
		__be16 checksum;
		__be16 id;
		__be16 sequence;
	} icmp;
};

struct packet {
	__be32 source, dest;
	__be16 source_port, dest_port; /* of ICMP echo: both the identifier */
	__u8 protocol;
	__u8 tcp_flags;
	__u8 icmp_type;
	__u16 l4_len;
};

static __always_inline bool mac_is(const __u8 *mac, const volatile __u8 *wanted)
{
	bool same = true;

	for (int i = 0; i < 6; i++)
		same = same && mac[i] == wanted[i];
	return same;
}

static __always_inline bool is_ipv4_whole(const struct ip_packet *ip, __u32 available)
{
	__u32 total = bpf_ntohs(ip->total_len);

	return ip->version_ihl == 0x45 && (ip->fragment & FRAGMENT_BITS) == 0 && total >= IP_SIZE &&
	       total <= available;
}

static __always_inline int read_tcp(struct __sk_buff *skb, struct packet *p)
{
	union l4_head head;

	if (p->l4_len < 20 || bpf_skb_load_bytes(skb, L4_AT, &head.tcp, sizeof(head.tcp)) < 0)
		return SLOT_DENIED_FRAME;
	__u32 header = (head.tcp.offset >> 4) * 4;

	if (header < 20 || header > p->l4_len)
		return SLOT_DENIED_FRAME;
	p->source_port = head.tcp.source;
	p->dest_port = head.tcp.dest;
	p->tcp_flags = head.tcp.flags;
	return 0;
}

static __always_inline int read_udp(struct __sk_buff *skb, struct packet *p)
{
	union l4_head head;

	if (p->l4_len < 8 || bpf_skb_load_bytes(skb, L4_AT, &head.udp, sizeof(head.udp)) < 0)
		return SLOT_DENIED_FRAME;
	/* A guest's large send (segmentation offload) has the whole length too. */
	if (bpf_ntohs(head.udp.len) < 8 || bpf_ntohs(head.udp.len) > p->l4_len)
		return SLOT_DENIED_FRAME;
	p->source_port = head.udp.source;
	p->dest_port = head.udp.dest;
	return 0;
}

static __always_inline int read_icmp(struct __sk_buff *skb, struct packet *p)
{
	union l4_head head;

	if (p->l4_len < 8 || bpf_skb_load_bytes(skb, L4_AT, &head.icmp, sizeof(head.icmp)) < 0)
		return SLOT_DENIED_FRAME;
	p->icmp_type = head.icmp.type;
	if (head.icmp.type == ICMP_ECHO || head.icmp.type == ICMP_ECHO_ANSWER)
		p->source_port = p->dest_port = head.icmp.id;
	return 0;
}

/* 0, or why the frame is refused. The Ethernet header has been looked at. */
static __always_inline int read_ipv4(struct __sk_buff *skb, struct packet *p)
{
	struct ip_packet ip;

	if (bpf_skb_load_bytes(skb, ETH_SIZE, &ip, sizeof(ip)) < 0 ||
	    !is_ipv4_whole(&ip, skb->len - ETH_SIZE))
		return SLOT_DENIED_FRAME;
	p->source = ip.source;
	p->dest = ip.dest;
	p->protocol = ip.protocol;
	p->l4_len = bpf_ntohs(ip.total_len) - IP_SIZE;
	switch (ip.protocol) {
	case IPPROTO_TCP:
		return read_tcp(skb, p);
	case IPPROTO_UDP:
		return read_udp(skb, p);
	case IPPROTO_ICMP:
		return read_icmp(skb, p);
	default:
		return SLOT_DENIED_PROTOCOL;
	}
}

/* Changes an address in the IPv4 header (at: AT_IP_SOURCE or AT_IP_DEST) and the checksums that
 * cover it. 0 or negative; the packet must be dropped then. */
static __always_inline long rewrite_address(struct __sk_buff *skb, const struct packet *p, __u32 at,
					    __be32 old, __be32 new)
{
	long rc = 0;

	if (p->protocol == IPPROTO_TCP)
		rc = bpf_l4_csum_replace(skb, AT_TCP_CHECKSUM, old, new, BPF_F_PSEUDO_HDR | 4);
	else if (p->protocol == IPPROTO_UDP)
		rc = bpf_l4_csum_replace(skb, AT_UDP_CHECKSUM, old, new,
					 BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | 4);
	if (rc < 0)
		return rc;
	rc = bpf_l3_csum_replace(skb, AT_IP_CHECKSUM, old, new, 4);
	if (rc < 0)
		return rc;
	return bpf_skb_store_bytes(skb, at, &new, 4, 0);
}
