/*
 * Slots and a name server without a kernel, for tests of what the core does with them: the real
 * functions' names, so that the real ones are not linked. What was done is written down as a text,
 * one event a line, and can be watched while it is done.
 */
#pragma once

#include "net/clients.h"
#include "net/slot.h"

#define FAKE_PROXY_PORT	   4321
#define FAKE_GUEST_ADDRESS "100.64.0.2"

struct fake_slot {
	bool taken, waiting; /* waiting: of an earlier daemon */
	uint32_t lease;
	struct policy policy;
	uint32_t networks[SLOT_NETWORKS_MAX];
	size_t n_networks;
	struct slot_counters counters;
};

struct fake_slots {
	bool broken;	     /* slots_new fails */
	bool refuse_policy;  /* slot_set_policy fails */
	bool refuse_release; /* a release is an error of the test */
	void (*on_policy)(void *arg, uint32_t index);
	void *on_policy_arg;
	struct fake_slot slots[SLOT_INDEX_MAX];
	struct net_clients clients; /* as the name server was given them */
	slot_denied_fn denied;
	void *denied_arg;
	uint16_t proxy_port;
	char events[8192];
};
extern struct fake_slots fake;

void fake_slots_reset(void);
uint32_t fake_address(uint32_t index); /* the unique address of a slot */
bool fake_in_network(uint32_t index, uint32_t network);
