/*
 * The egress program alone, run by the kernel on frames of the test's making (BPF_PROG_TEST_RUN),
 * in a network namespace and with maps of its own: two slots, an uplink with an address and a
 * default route, nothing else.
 */
#pragma once

#include "../unit/unit.h"

#include "frame.h"
#include "net/program.h"

#define IP(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

#define GATEWAY	     IP(100, 64, 0, 1)
#define INNER	     IP(100, 64, 0, 2)
#define UNIQUE(slot) (IP(100, 64, 1, 0) + (slot))
#define HOST	     IP(5, 5, 5, 2) /* the uplink's address, in 5.5.5.0/24 */
#define SITE	     IP(8, 8, 4, 4)
#define OTHER_SITE   IP(9, 9, 9, 9)
#define NOWHERE	     IP(6, 6, 6, 6) /* the routing table says so */
#define SLOTS	     8		    /* that the program knows; 0 and 1 have devices */

enum run_verdict { PASSED, DROPPED, ANSWERED };

struct rig {
	struct egress_program *program;
	char pins[SCRATCH_SIZE];
	uint32_t taps[2], uplink;
	int tap_fds[3];
	uint32_t generation; /* given to slot 0 last */
};

/* Skips the whole group, loudly, where there is no root or no BPF; else the group's setup. */
int rig_setup(void **state);
int rig_teardown(void **state);
/* Before each test: both slots in use, nothing allowed, no flows, networks, rules. */
int rig_reset(void **state);

void rig_policy(struct rig *rig, enum egress_state state); /* of slot 0; a new generation */
void rig_rule(struct rig *rig, uint32_t address, uint8_t prefix, uint8_t protocol, uint16_t port);
void rig_learn(struct rig *rig, uint32_t address, uint8_t protocol, uint16_t port,
	       enum egress_action action, int64_t seconds);
void rig_join(struct rig *rig, uint32_t slot, uint32_t network);
void rig_leave(struct rig *rig, uint32_t slot, uint32_t network);
void rig_range(struct rig *rig, uint32_t address, uint8_t prefix, enum egress_range kind);

struct run {
	enum run_verdict verdict;
	struct frame out; /* what the program made of it */
	struct frame_view view;
	uint32_t mark;
};

/* What a guest sends on the tap of slot. */
struct run rig_send(struct rig *rig, uint32_t slot, const struct frame *frame);
struct run rig_send_spec(struct rig *rig, const struct frame_spec *spec); /* slot 0 */
/* What the host sends to the tap of slot; ingress_ifindex 0: the host's own. */
struct run rig_deliver(struct rig *rig, uint32_t slot, const struct frame *frame,
		       uint32_t ingress_ifindex, uint32_t mark);

/* The reason in the last event, with its contents; 0 when there was none. */
int rig_last_event(struct rig *rig, struct egress_event *ret);
