/*
 * What the name server and the proxy have to know about whoever asks them. Both see only a unique
 * address (slot.h); this table of functions, given to them at their making, tells the rest, so that
 * neither knows sandboxes.
 *
 * All are called on the thread of the loop that server and proxy live on, and must not block.
 * Addresses are in host byte order, names are canonical (hostname.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/rules.h"

enum net_denial_source { NET_DENIED_DNS, NET_DENIED_TLS, NET_DENIED_HTTP };

/* Valid during the call. Each source reports at most NET_DENIALS_PER_S of a client. */
struct net_denial {
	enum net_denial_source source;
	const char *name;   /* NULL where none could be read */
	uint32_t address;   /* the other side, as the guest chose it or the name said; 0: none */
	uint16_t port;	    /* 0 in DNS */
	uint8_t protocol;   /* enum policy_protocol */
	const char *reason; /* lower case, no full stop */
	const char *rule;   /* that would allow it; NULL: none would */
};
#define NET_DENIALS_PER_S 32

struct net_clients {
	void *arg; /* of all functions */

	/* The client's rules now, a reference for the caller; NULL: there is no such client, and
	 * nothing is answered. */
	struct ruleset *(*rules)(void *arg, uint32_t client);

	/* A name that ends in ".internal": the address of the member of a network that the client
	 * is in too, or -ENOENT. */
	int (*network_name)(void *arg, uint32_t client, const char *name, uint32_t *ret_address);

	/* Opens an address of a name that the rules cover, for this client until then. 0; -EACCES:
	 * it is in a range that is always denied; another negative errno: it could not be opened.
	 * In effect when it returns. Not called in the open state. */
	int (*allow)(void *arg, uint32_t client, const char *name, uint32_t address,
		     int64_t expires_boottime_ms);

	/* Is the address in a range that is always denied? */
	bool (*denied_range)(void *arg, uint32_t address);

	void (*denied)(void *arg, uint32_t client, const struct net_denial *denial);
};

struct rate;
/* Reports a denial, within the client's rate, with the rule that would allow it: that of name (or,
 * where there is none, address), protocol and port, unless no_rule says that none would. */
void net_report(const struct net_clients *clients, uint32_t client, struct rate *rate,
		const struct net_denial *denial, bool no_rule);
