/*
 * Sandboxes on the network: their slots, and who is asking when the name server or the proxy see a
 * unique address. Joins net/ to sandboxes; what an operation means is in egress.c and networks.c.
 *
 * A slot is taken before its sandbox's row says so and before its VM starts, and denies everything
 * until the row's policy is applied, which is before the guest runs. What fails on the way is a
 * failed start: there is no sandbox with a looser policy than its row's.
 *
 * net_lock guards what the loop's thread looks at (which slot is whose, rules and networks in
 * force, denials). It is held for moments and for single calls into the kernel's maps; it is taken
 * inside op_lock, and nothing but the lock of the events' queue is taken under it. Where the host
 * cannot filter there are no slots at all (core->net is NULL): sandboxes then have no network.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "core/denials.h"
#include "core/events.h"
#include "net/clients.h"
#include "net/rules.h"
#include "net/slot.h"
#include "store/networks.h"
#include "store/sandboxes.h"
#include "vmm/vmm.h"

#define NET_ADDRESS_SIZE 16 /* of an IPv4 address as text */

#define LEARNED_NAMES                                                                              \
	64	      /* addresses of names that a sandbox asked for last, to name denials by      \
		       */
#define EXEC_SPANS 32 /* commands whose denials are told apart */

struct core_net;
struct sandbox;

/* A sandbox in a network; in a table by network and name while the sandbox has a slot. */
struct net_member {
	struct net_member *next;
	struct sandbox *sandbox;
	struct network_member_row row;
};

struct learned_name {
	uint32_t address;
	char *name;
};

/* Which denials came while a command ran. Loop's thread. */
struct exec_span {
	char exec_id[EXEC_ID_SIZE];
	uint64_t after, upto;
};

/* Within struct sandbox. */
struct sandbox_net {
	/* op_lock */
	struct slot *slot; /* NULL: none */

	/* net_lock */
	bool listed;	       /* its slot is known to be its */
	uint32_t address;      /* its unique address while it has a slot; 0 */
	struct ruleset *rules; /* in force; NULL until applied */
	struct net_member members[SLOT_NETWORKS_MAX];
	size_t n_members;
	struct learned_name learned[LEARNED_NAMES];
	size_t next_learned;
	struct denials denials;
	struct denial_events denial_events;

	/* loop's thread */
	struct exec_span spans[EXEC_SPANS];
	size_t next_span;
};

void sandbox_net_init(struct sandbox_net *net, size_t denials_max);
void sandbox_net_clear(struct sandbox_net *net);

/* ---- the host (net.c) ---- */

/* Slots, name server and proxy. In mode AUTO a host that cannot is said so loudly, and 0. */
int core_net_open(struct core *core, const struct core_network_config *config, struct err *err);
/* Ends the daemon's part: what the kernel has stays. */
void core_net_close(struct core *core);
/* Why there is no network; NULL when there is one. */
const char *core_net_missing(const struct core *core);
/* "network_unavailable". */
int core_net_require(const struct core *core, struct err *err);
/* A check for the doctor. */
void core_net_check(const struct core *core, bool *ret_ok, char *detail, size_t detail_size,
		    const char **ret_fix);
/* [worker] Makes slots ready in the background. */
void core_net_refill(struct core *core);
/* What a machine that is made now has for an address inside; "" where there is no network. */
void core_net_guest_address(const struct core *core, char out[NET_ADDRESS_SIZE]);
/* The device of a machine on this slot, which may be NULL: then *ret is NULL. */
struct net_device {
	struct vmm_network network;
	char address[24], gateway[NET_ADDRESS_SIZE];
};
const struct vmm_network *net_device_of(const struct core *core, const struct slot *slot,
					struct net_device *out);
/* After all slots of living sandboxes were adopted. */
void core_net_adopted(struct core *core);

/* ---- one sandbox (net_sandbox.c); [worker, op_lock] or nobody else knows the object ---- */

/* Takes a slot for a machine with a network device, and says so in the row, which is then written.
 * "network_unavailable" where the host has none that fits it. */
int sandbox_net_take(struct sandbox *sb, struct sandbox_row *row, struct err *err);
/* Takes what the row says back from a daemon that has ended, with policy and networks of the row.
 */
void sandbox_net_adopt(struct sandbox *sb, const struct sandbox_row *row);
/* Policy and networks of the row take effect. The guest must not run before. */
int sandbox_net_apply(struct sandbox *sb, const struct sandbox_row *row, struct err *err);
/* In the transaction that ends its run, after its VM has ended. */
int sandbox_net_settle(struct sandbox *sb, struct db_txn *txn, struct err *err);
/* Gives the slot back, after that transaction; fine without one. */
void sandbox_net_release(struct sandbox *sb);
/* The daemon ends, the sandbox lives on. */
void sandbox_net_let_go(struct sandbox *sb);
/* What went through since its run began. */
void sandbox_net_traffic(struct sandbox *sb, struct traffic *ret);

/* Replaces the policy in force. */
int sandbox_net_set_rules(struct sandbox *sb, struct ruleset *rules, struct err *err);
int sandbox_net_join(struct sandbox *sb, const struct network_member_row *row, struct err *err);
int sandbox_net_leave(struct sandbox *sb, uint32_t network, struct err *err);

/* "100.64.1.7"; "" where it has none. Any thread. */
void sandbox_net_address(struct sandbox *sb, char out[NET_ADDRESS_SIZE]);

/* ---- who asks (net_clients.c); loop's thread ---- */

struct core_net {
	struct core *core;
	struct net_clients clients;
	struct slots *slots;
	struct dns_resolver *resolver;
	struct dns_server *dns;
	struct proxy *proxy;
	struct sandbox *by_index[SLOT_INDEX_MAX]; /* net_lock; no references: who leaves delists */
	struct net_member *by_name[1024];	  /* net_lock */
};

void net_clients_of(struct core_net *net, struct net_clients *ret);
void net_on_denied(void *arg, uint32_t index, uint32_t lease, const struct slot_denial *denial);
/* net_lock. */
void net_member_list(struct core_net *net, struct net_member *member);
void net_member_delist(struct core_net *net, struct net_member *member);

/* ---- commands (loop's thread) ---- */

void exec_span_begin(struct sandbox *sb, const char *exec_id);
void exec_span_end(struct sandbox *sb, const char *exec_id);
/* What was denied while it ran, or has run so far; NULL: nothing. Owned by the caller. */
json_t *exec_span_denied(struct sandbox *sb, const char *exec_id);
