/*
 * What the files that make up slots share.
 *
 * Two mutexes, so that what the loop's thread calls (slot_allow, slots_denied_range) never waits
 * for a device that is being made: device_lock guards the table of slots and every change of
 * devices, lock guards policies, names, networks, leases and the queue of the ready. Whoever needs
 * both takes device_lock first. Functions below say which they are called with.
 */
#pragma once

#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>

#include "net/netlink.h"
#include "net/program.h"
#include "net/slot.h"

#define TAP_PREFIX     "skt"
#define GATEWAY_DEVICE "skerry-gw"
#define NFT_TABLE      "skerry"
#define FIRST_UNIQUE   256    /* offset in the range */
#define PROXY_TABLE    0x5e4b /* routing table for what goes to the proxy */
#define PROXY_PRIORITY 90     /* before anything that a VPN adds */
#define TAP_NAME_SIZE  IFNAMSIZ
#define ALIAS_SIZE     64

enum slot_state {
	SLOT_READY,   /* made, denies everything, in the queue */
	SLOT_TAKEN,   /* somebody's */
	SLOT_WAITING, /* in use by a sandbox of the daemon before; see slot_adopt */
};

/* An answer of the name server. */
struct learned_name {
	char *name;
	uint32_t address;
	int64_t expires_boottime_ms;
};

struct slot {
	struct slots *owner;
	uint32_t index;
	uint32_t ifindex;
	int tap_fd;
	enum slot_state state;
	struct slot *next; /* in the queue of the ready */

	struct policy policy;
	uint32_t generation;
	struct egress_rule_key *rules; /* that are in the kernel, of this generation */
	size_t n_rules;
	struct learned_name *names;
	size_t n_names, names_capacity;
	struct egress_learned_key *inherited; /* learned entries whose names nobody knows */
	size_t n_inherited;
};

struct slots {
	pthread_mutex_t device_lock, lock;
	struct egress_program *program;
	struct netlink *nl;	  /* under device_lock */
	struct netlink *nl_query; /* under lock */
	struct slot *table[EGRESS_SLOTS];
	bool unusable[EGRESS_SLOTS]; /* a device of that name is not ours */
	struct slot *ready_first, *ready_last;
	uint32_t n_ready;

	char *instance, *uplink;
	uint32_t range, ready;
	uint8_t range_prefix;
	uint32_t capacity; /* slots that the range has addresses for */
	struct slot_cidr *exceptions;
	size_t n_exceptions;

	struct loop *loop;
	struct loop_io *io;
	struct ring_buffer *ring;
	slot_denied_fn denied;
	void *denied_arg;
};

extern const uint8_t slot_guest_mac[6], slot_gateway_mac[6];

void slots_lock(struct slots *slots); /* lock, not device_lock */
void slots_unlock(struct slots *slots);

/* slots_host.c: what a host needs once. */
int slots_host_setup(struct slots *slots, struct err *err);
void slots_host_remove(struct slots *slots);
/* Lets the device forward IPv4, keeps IPv6 off it; for every tap. */
int slots_device_settings(const char *name, struct err *err);
void slots_alias(const struct slots *slots, char out[ALIAS_SIZE]);

/* slot_ranges.c: what is denied in every state. */
int slots_ranges_install(struct slots *slots, struct err *err);
bool slots_denies(struct slots *slots, uint32_t address); /* under lock */

/* slot_device.c: a slot's life in the kernel. All under device_lock, none under lock. */
int slot_make(struct slots *slots, uint32_t index, struct slot **ret, struct err *err);
/* Takes over a tap that an earlier daemon made; its slot is SLOT_WAITING or SLOT_READY. */
int slot_find(struct slots *slots, const struct netlink_link *link, uint32_t index,
	      struct slot **ret, struct err *err);
void slot_unmake(struct slot *slot); /* from the kernel too; frees it */
void slot_free(struct slot *slot);   /* the daemon's part only */
void slot_reset_kernel(struct slot *slot);
/* A tap that is free is opened, which also shows that nobody holds it. */
int slot_open_tap(struct slot *slot);
static inline uint32_t slot_unique(const struct slots *slots, uint32_t index)
{
	return slots->range + FIRST_UNIQUE + index;
}
static inline struct egress_slot *slot_shared(const struct slot *slot)
{
	return egress_program_slot(slot->owner->program, slot->index);
}

/* slot_pool.c */
void slot_enqueue(struct slot *slot); /* ready, at the end of the queue; not under lock */

/* slot_policy.c: under lock */
uint32_t slots_next_generation(struct slots *slots);
void slot_policy_clear(struct slot *slot); /* denies everything, forgets rules and names */
/* Reads what the kernel has of slots in use, so that it can be replaced later. Called once. */
void slots_policy_inherit(struct slots *slots);
void slot_policy_free(struct slot *slot); /* memory only */
