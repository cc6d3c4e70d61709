/*
 * Network slots: a guest's way to the world, made ahead.
 *
 * A slot is a persistent tap, a unique address on the host, and an entry in the egress program's
 * maps (bpf/egress.bpf.c). Inside, every guest has the same address and MAC, so that a fork needs
 * nothing changed; the program rewrites between the inner and the unique address and decides what
 * passes. Everything a slot is lives in the kernel, pinned: if the daemon dies, sandboxes keep
 * exactly the network they had, and the next daemon adopts it.
 *
 * A slot knows no sandbox, account or network name: the core hands it a policy, network numbers and
 * addresses that the name server learned.
 *
 * All functions may be called on any thread unless said otherwise. They act in the network
 * namespace of the thread that called slots_new and of its children: call slots_new before the
 * threads start. Addresses are in host byte order unless a name ends in _be.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"
#include "net/bpf/reason.h"
#include "net/policy.h"

struct slots;
struct slot;

#define SLOT_INDEX_MAX	  4096 /* slots a host */
#define SLOT_NETWORKS_MAX 8    /* networks a slot is in */
#define SLOT_NONE	  UINT32_MAX

#define SLOT_GUEST_MAC	    "02:5e:00:00:00:02" /* of every guest's device */
#define SLOT_GATEWAY_MAC    "02:5e:00:00:00:01" /* of every tap */
#define SLOT_DEFAULT_RANGE  0x64400000U		/* 100.64.0.0 */
#define SLOT_DEFAULT_PREFIX 10

/* The first addresses of the range: the gateway (name server, proxy, previews) is range + 1, every
 * guest sees itself at range + 2 with a prefix of 30. Unique addresses begin at range + 256. */
static inline uint32_t slot_gateway(uint32_t range)
{
	return range + 1;
}

static inline uint32_t slot_inner(uint32_t range)
{
	return range + 2;
}

#define SLOT_INNER_PREFIX 30

struct slot_cidr {
	uint32_t address;
	uint8_t prefix;
};

struct slots_config {
	const char *instance; /* who owns what is made; the same after a restart; [a-z0-9-]{1,32} */
	const char *uplink;  /* masquerade there; NULL: on every interface that is no tap of ours */
	const char *pin_dir; /* on a bpffs, or a place to mount one; e.g. /sys/fs/bpf/skerry */
	uint32_t range;	     /* 0: 100.64.0.0/10 */
	uint8_t range_prefix; /* 8 to 20 */
	uint32_t ready;	      /* slots to keep made ahead */
	const struct slot_cidr
		*exceptions; /* of the ranges denied always: the policy decides there */
	size_t n_exceptions;
};

/* A guest is told of the denials of well-formed packets: a reset for TCP, "administratively
 * prohibited" for UDP and echo. */
struct slot_denial {
	int64_t at_boottime_ms;
	enum slot_reason reason;
	uint32_t address;    /* the other side */
	uint16_t port;	     /* its port; 0 for ICMP */
	uint8_t protocol;    /* as in the IPv4 header */
	uint64_t unreported; /* denials before this one for which there was no report */
};

/* Called on the loop's thread, for packets of an IPv4 guest that asked for something (not for
 * frames that are no IPv4). Rate-limited in the kernel to SLOT_DENIALS_PER_S for each slot. index
 * and lease say whose it was: a slot that was released meanwhile has a new lease. */
typedef void (*slot_denied_fn)(void *arg, uint32_t index, uint32_t lease,
			       const struct slot_denial *denial);
#define SLOT_DENIALS_PER_S 32

struct slot_counters {
	uint64_t out_packets, out_bytes; /* passed from the guest */
	uint64_t in_packets, in_bytes;	 /* passed to the guest */
	uint64_t out_denied, in_denied;	 /* packets */
	uint64_t unreported;		 /* denials for which no event was sent */
};

/* Loads or re-uses the program and its maps, sets up gateway address, routes, forwarding and
 * masquerade, and finds the slots of an earlier daemon of the same instance: those in use wait for
 * slot_adopt. loop delivers denials and may be NULL (none are delivered). */
int slots_new(const struct slots_config *config, struct loop *loop, slot_denied_fn denied,
	      void *arg, struct slots **ret, struct err *err);
/* Ends this daemon's part only; what the kernel has stays. NULL is fine. */
void slots_free(struct slots *slots);
/* Removes everything of this instance from the kernel: taps, maps, program, routes, masquerade.
 * For uninstalling and tests; frees slots. */
void slots_destroy(struct slots *slots);

uint32_t slots_gateway(const struct slots *slots);
uint32_t slots_inner(const struct slots *slots);
/* Which slot has this unique address (of a name server's or proxy's client)? SLOT_NONE if none. */
uint32_t slots_index_of(const struct slots *slots, uint32_t address);
/* Where the transparent proxy listens: TCP, the gateway address, this port, with IP_TRANSPARENT and
 * SO_REUSEADDR (so that its connections, which are local to the sites' addresses, do not keep a web
 * server of the host from its port), without SO_REUSEPORT (kernels before 6.6 hand nothing to such
 * sockets). The original destination is the accepted socket's own address, its peer's address says
 * the slot. 0: there is no proxy, and what would go to it is denied. */
int slots_set_proxy(struct slots *slots, uint16_t port);
/* What the daemon's socket needs before it connects from the gateway address into a guest (TCP):
 * SO_MARK with this value. The answer to such a connection is the only unasked way into a guest. */
uint32_t slots_preview_mark(void);
/* Makes ready slots up to config.ready; blocks, for a worker. Returns how many were made or
 * -errno. */
int slots_refill(struct slots *slots, struct err *err);

/* Loop's thread. Delivers the denials that wait, without waiting for the loop's next round. */
void slots_deliver(struct slots *slots);

/* Takes a ready slot, or makes one. It denies everything until slot_set_policy. */
int slot_take(struct slots *slots, struct slot **ret, struct err *err);
/* After a restart: the slot that the sandbox's row names, with policy, networks and flows as they
 * were. -ENOENT when it is not in use. */
int slot_adopt(struct slots *slots, uint32_t index, struct slot **ret, struct err *err);
/* After the last slot_adopt: releases what nobody adopted. Returns how many. */
int slots_adopt_done(struct slots *slots, struct err *err);
/* The guest is gone: denies everything, forgets all that was its, makes the slot ready again. When
 * a process still holds the tap, the slot is given up instead and its tap removed. */
void slot_release(struct slot *slot);

uint32_t slot_index(const struct slot *slot);	/* stable across restarts: for the row */
uint32_t slot_lease(const struct slot *slot);	/* changes with every slot_take */
uint32_t slot_address(const struct slot *slot); /* unique, for names of private networks */
/* The tap, for the VMM (IFF_TAP, IFF_NO_PI, IFF_VNET_HDR); it stays the slot's. -1 for an adopted
 * slot, whose tap the VMM holds. */
int slot_tap_fd(const struct slot *slot);

/* Replaces the policy, atomically: every packet meets the old one or the new one. Established flows
 * are measured against the new one with their next packet. Addresses learned for names that the new
 * policy still covers stay open. */
int slot_set_policy(struct slot *slot, const struct policy *policy, struct err *err);
/* The name server's answer: address belongs to name until expires_boottime_ms. Opens what the host
 * rules of the slot's policy say for that name; a name that no rule covers opens nothing. New flows
 * are allowed until the expiry, flows that began by then go on. -EACCES when the address is in a
 * range that is always denied (rebinding: drop the answer), -ENOSPC at the slot's cap. In
 * POLICY_OPEN and POLICY_NOTHING nothing is opened and 0 returned. */
int slot_allow(struct slot *slot, const char *name, uint32_t address, int64_t expires_boottime_ms);
#define SLOT_LEARNED_MAX 4096 /* addresses a slot; the longest expired make room */
/* Is the address always denied: in a range (private, metadata …), the host's own, or without a
 * route? For answers of names, and before the proxy dials. */
bool slots_denied_range(struct slots *slots, uint32_t address);

/* Private networks: two slots with a network in common reach each other at their unique addresses.
 * -ENOSPC at SLOT_NETWORKS_MAX. Leaving works from the next packet on. */
int slot_join(struct slot *slot, uint32_t network, struct err *err);
int slot_leave(struct slot *slot, uint32_t network, struct err *err);

int slot_counters(const struct slot *slot, struct slot_counters *ret);
