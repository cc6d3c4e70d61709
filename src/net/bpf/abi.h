/*
 * What the egress program (kernel) and the daemon share: the layout of the pinned maps. A daemon of
 * another EGRESS_ABI does not touch them: it says that sandboxes of the older one are still there.
 * Fixed-size types only; addresses and ports are in network byte order where the name says _be.
 */
#pragma once

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 abi_u8;
typedef __u16 abi_u16;
typedef __u32 abi_u32;
typedef __u64 abi_u64;
#else
#include <stdint.h>
typedef uint8_t abi_u8;
typedef uint16_t abi_u16;
typedef uint32_t abi_u32;
typedef uint64_t abi_u64;
#endif

#define EGRESS_ABI	    1
#define EGRESS_SLOTS	    4096
#define EGRESS_NETWORKS	    8
#define EGRESS_FLOWS	    4096    /* a slot */
#define EGRESS_RULES	    1048576 /* all slots together */
#define EGRESS_MEMBERS	    32768
#define EGRESS_EVENTS_PER_S 32
#define EGRESS_NAME_SIZE    256

/* Marks of packets (skb->mark), in an own half of the 32 bits. What comes from a tap without one
 * has not met the program: nftables drops it. */
#define EGRESS_MARK_MASK    0xffff0000U
#define EGRESS_MARK_PASSED  0x5e4b0001U
#define EGRESS_MARK_PROXY   0x5e4b0002U /* policy routing delivers it locally */
#define EGRESS_MARK_PREVIEW 0x5e4b0003U /* of the daemon's sockets that may enter a guest */

enum egress_state { EGRESS_NOTHING, EGRESS_OPEN, EGRESS_LIST };

/* Constants of an instance, set before loading. */
struct egress_config {
	abi_u32 inner_be;
	abi_u32 gateway_be;
	abi_u32 first_unique; /* host order: slot n has first_unique + n */
	abi_u32 slots;
	abi_u8 guest_mac[6];
	abi_u8 gateway_mac[6];
};

/* Map "slots", an array that the daemon maps into its memory: words change atomically. */
struct egress_slot {
	abi_u64 policy; /* generation << 8 | enum egress_state */
	abi_u32 ifindex;
	abi_u32 lease; /* 0: not in use */
	abi_u32 networks[EGRESS_NETWORKS];
	abi_u64 event_window; /* limiter of denial events, the program's: second << 16 | count */
	abi_u64 unreported;
};

/* Map "settings", one entry, mapped too. */
struct egress_settings {
	abi_u32 abi;
	abi_u32 proxy_port_be; /* 0: no proxy */
	abi_u64 generation;    /* the last one given out */
	abi_u64 lease;	       /* likewise */
	char instance[40];
};

/* Map "rules" (LPM trie): an address rule. 64 bits are exact, then the prefix of the address. */
struct egress_rule_key {
	abi_u32 prefixlen;
	abi_u32 generation;
	abi_u8 protocol; /* TCP or UDP: a rule for both is two entries */
	abi_u8 zero;
	abi_u16 port_be; /* 0: all */
	abi_u32 address_be;
};
#define EGRESS_RULE_EXACT_BITS 64

/* Map "learned" (hash): an address that stands for an allowed name. */
struct egress_learned_key {
	abi_u32 generation;
	abi_u32 address_be;
	abi_u8 protocol;
	abi_u8 zero;
	abi_u16 port_be; /* 0: all that have no entry of their own */
};
enum egress_action { EGRESS_DENY, EGRESS_DIRECT, EGRESS_VIA_PROXY };
struct egress_learned {
	abi_u64 expires_ns; /* CLOCK_BOOTTIME; for new flows */
	abi_u32 action;	    /* enum egress_action */
	abi_u32 zero;
	char name[EGRESS_NAME_SIZE]; /* for the next daemon */
};

/* Map "ranges" (LPM trie): what is denied always, and the operator's exceptions. */
struct egress_range_key {
	abi_u32 prefixlen;
	abi_u32 address_be;
};
enum egress_range { EGRESS_RANGE_DENIED = 1, EGRESS_RANGE_EXCEPTION = 2 };

/* Map "members" (hash). */
struct egress_member_key {
	abi_u32 network;
	abi_u32 slot;
};

/* Map "flows": an array of one LRU hash a slot. Ports are as the guest sends; of ICMP echo the
 * identifier is the guest's port. */
struct egress_flow_key {
	abi_u32 remote_be;
	abi_u16 remote_port_be;
	abi_u16 guest_port_be;
	abi_u8 protocol;
	abi_u8 zero[3];
};
enum egress_flow_kind { EGRESS_FLOW_DIRECT = 1, EGRESS_FLOW_PROXY, EGRESS_FLOW_PREVIEW };
struct egress_flow {
	abi_u64 seen_ns;    /* the guest's last packet */
	abi_u32 generation; /* of the policy that allowed it */
	abi_u32 kind;
};

/* Map "counters": per CPU, an entry a slot. */
struct egress_counters {
	abi_u64 out_packets, out_bytes;
	abi_u64 in_packets, in_bytes;
	abi_u64 out_denied, in_denied;
};

/* Ring buffer "events". reason is enum slot_reason of slot.h. */
struct egress_event {
	abi_u64 at_ns;
	abi_u32 slot;
	abi_u32 lease;
	abi_u32 remote_be;
	abi_u16 remote_port_be;
	abi_u8 protocol;
	abi_u8 reason;
	abi_u64 unreported; /* as the slot's, at that time */
};

#define EGRESS_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
EGRESS_SIZE(egress_config, 28);
EGRESS_SIZE(egress_slot, 64);
EGRESS_SIZE(egress_settings, 64);
EGRESS_SIZE(egress_rule_key, 16);
EGRESS_SIZE(egress_learned_key, 12);
EGRESS_SIZE(egress_learned, 272);
EGRESS_SIZE(egress_range_key, 8);
EGRESS_SIZE(egress_member_key, 8);
EGRESS_SIZE(egress_flow_key, 12);
EGRESS_SIZE(egress_flow, 16);
EGRESS_SIZE(egress_counters, 48);
EGRESS_SIZE(egress_event, 32);
