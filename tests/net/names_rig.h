/*
 * A small world for the tests of the name server and the proxy, in network namespaces of the test's
 * own: a host with resolvers and sites, and guests behind a wire. Nothing of it is on the machine's
 * network, and all of it is gone with the test's process.
 *
 *   guests (GUEST_A, GUEST_B, STRANGER) --wire-- host (GATEWAY, resolvers) --wire-- internet
 * (SITE_*)
 *
 * The kernel's part (egress program) is played by a table here: which addresses were opened for
 * whom.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>

#include "loop/loop.h"
#include "net/clients.h"

#define GATEWAY	 0x64400001U /* 100.64.0.1 */
#define GUEST_A	 0x64400102U
#define GUEST_B	 0x64400103U
#define STRANGER 0x64400109U /* an address that belongs to no client */

/* Documentation's networks play the internet. */
#define SITE_ONE    0xc6336401U /* 198.51.100.1 */
#define SITE_TWO    0xc6336402U
#define SITE_THREE  0xc6336403U
#define HOST_PUBLIC 0xcb007101U /* 203.0.113.1: the host's own, on the internet's side */
#define NOBODY	    0xc6336463U /* no site is there; the wire leads to the host all the same */

/* Makes the namespaces. Call first, while the process has one thread; exits with 77 (skipped) and a
 * word of why where that is not possible. */
void rig_make_world(void);
void rig_run(const char *command); /* in the host's namespace; fails the test */
void rig_run_guest(const char *command);

/* A socket of a guest, bound to its address. type as socket(2). */
int rig_guest_socket(uint32_t guest, int type);
int rig_guest_connect(uint32_t guest, uint32_t to, uint16_t port); /* TCP; -errno */
/* A listening TCP socket of a site, or of the host at HOST_PUBLIC. */
int rig_site_listen(uint32_t site, uint16_t port);
struct sockaddr_in rig_address(uint32_t address, uint16_t port);

#define RIG_LOG_MAX 4096

struct rig_opened {
	uint32_t client, address;
	int64_t expires_ms;
	char name[HOSTNAME_MAX + 1];
};

struct rig_denial {
	uint32_t client, address;
	uint16_t port;
	enum net_denial_source source;
	char name[HOSTNAME_MAX + 1], reason[128], rule[RULE_PRINT_SIZE];
};

/* The clients, as the core will tell of them. */
struct rig {
	struct loop *loop;
	struct net_clients clients;
	pthread_mutex_t lock; /* guards the rest */
	struct ruleset *rules_a, *rules_b;
	struct rig_opened opened[RIG_LOG_MAX];
	struct rig_denial denials[RIG_LOG_MAX];
	size_t n_opened, n_denials;
};

struct rig *rig_new(void); /* with a running loop; both guests may reach nothing */
void rig_free(struct rig *rig);
/* JSON: null, [] or a list. */
void rig_set_rules(struct rig *rig, uint32_t guest, const char *json);
void rig_clear_logs(struct rig *rig);
bool rig_was_opened(struct rig *rig, uint32_t client, const char *name, uint32_t address);
size_t rig_count_opened(struct rig *rig, uint32_t client);
/* The last denial of the client, or an empty one. */
struct rig_denial rig_last_denial(struct rig *rig, uint32_t client);
