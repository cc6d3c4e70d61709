/*
 * A small world for the network tests: the host (this process's network namespace), an internet
 * behind its uplink (a second one) with sites, and slots whose guests are played by whoever writes
 * frames to their taps. Nothing of the real host is touched: namespaces, mounts and BPF pins are
 * the test's own.
 *
 *   guest (tap) ── host: up0 5.5.5.2 ── peer0 5.5.5.1: internet (all sites' addresses)
 *
 * What arrives in the internet is seen by a packet socket there: that is the oracle, never what a
 * guest is told. The test runs on one CPU, so that frames arrive in the order they were sent in.
 */
#pragma once

#include "../unit/unit.h"

#include "frame.h"
#include "loop/loop.h"
#include "net/slot.h"

#define IP(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (d))

#define GATEWAY	   IP(100, 64, 0, 1)
#define INNER	   IP(100, 64, 0, 2)
#define HOST	   IP(5, 5, 5, 2)
#define SITE	   IP(8, 8, 4, 4)
#define OTHER_SITE IP(9, 9, 9, 9)
#define METADATA   IP(169, 254, 169, 254)
#define FENCE_SITE IP(7, 7, 7, 7)

struct denial {
	uint32_t index, lease;
	struct slot_denial what;
};
#define DENIALS_KEPT 256

struct world {
	char pins[SCRATCH_SIZE];
	int host_ns, internet_ns;
	int capture;		 /* packet socket in the internet */
	uint32_t fence;		 /* number of the last one */
	struct slot *fence_slot; /* open, for fences */
	struct loop *loop;
	struct slots *slots;
	struct slots_config config;
	pthread_mutex_t lock;
	struct denial denials[DENIALS_KEPT];
	size_t n_denials;
};

/* Makes the world without slots; *state stays NULL where there is no root or no tun. */
int world_setup(void **state);
int world_teardown(void **state);
/* Before each test: skips it where there is no world; new slots. After it: all gone. */
int world_begin(void **state);
int world_end(void **state);
void world_start_slots(struct world *world); /* a daemon; slots_free is its death */

/* A socket made in the internet. */
int world_internet_socket(struct world *world, int domain, int type, int protocol);
void world_bind(int fd, uint32_t address, uint16_t port);
/* A TCP listener or UDP socket of a site. */
int world_site(struct world *world, int type, uint32_t address, uint16_t port);

struct slot *world_take(struct world *world, enum policy_state state);
void world_open_address(struct slot *slot, uint32_t address, uint8_t prefix, uint8_t protocol,
			uint16_t port); /* a list of one rule */

/* The guest sends, on the tap. */
void guest_send(struct slot *slot, const struct frame *frame);
void guest_send_spec(struct slot *slot, const struct frame_spec *spec);
/* The next frame that reaches the guest within the time; false when there is none. */
bool guest_receive(struct slot *slot, int timeout_ms, struct frame *ret, struct frame_view *view);
/* Skips frames until one of this protocol from this address and port; fails after some seconds. */
void guest_expect(struct slot *slot, uint8_t protocol, uint32_t source, uint16_t source_port,
		  struct frame *ret, struct frame_view *view);
/* The program's answer to a packet that was denied, next of all: a reset, or "prohibited". */
void guest_expect_refusal(struct slot *slot, uint32_t from);
void guest_expect_nothing(struct slot *slot);

/* Every packet that the internet got since the last call, up to a fence that this call sends. fn
 * sees each whole frame; NULL: they are thrown away. Returns how many there were. */
typedef void (*world_packet_fn)(void *arg, const uint8_t *data, size_t len);
size_t world_collect(struct world *world, world_packet_fn fn, void *arg);
/* How many of them were IPv4 to this address, protocol and port? */
size_t world_count(struct world *world, uint32_t dest, uint8_t protocol, uint16_t port);

size_t world_denials(struct world *world, uint32_t index); /* so far, of this slot */
