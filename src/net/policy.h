/*
 * What a sandbox may reach, in the compiled form: made by the rules' compiler, consumed by slots
 * (addresses go into the kernel's maps) and by the name server and the proxy (hosts).
 *
 * The zero value denies everything. A policy is immutable once it is handed to others. Not here:
 * the grammar (rules.h) and what is denied in every state (slot.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As in the IPv4 header; 0 is TCP and UDP both. */
enum policy_protocol { POLICY_ANY = 0, POLICY_TCP = 6, POLICY_UDP = 17 };

enum policy_state {
	POLICY_NOTHING, /* rules: [] */
	POLICY_OPEN,	/* rules: null */
	POLICY_LIST,
};

#define POLICY_NAME_MAX	 253  /* characters of a host name, without the root's dot */
#define POLICY_RULES_MAX 4096 /* addresses and hosts together; slots refuse more */

/* An address or a CIDR. IPv6 rules compile to nothing: a guest has IPv4 only. */
struct policy_address {
	uint32_t address; /* host byte order, bits beyond the prefix are 0 */
	uint8_t prefix;	  /* 0 to 32 */
	uint8_t protocol; /* enum policy_protocol */
	uint16_t port;	  /* host byte order, 0: all */
};

/* A name, lower case, in ASCII (A-labels), without a dot at the end. A wildcard "*.example.com" is
 * stored as "example.com": it matches every name below, at any depth, not the name itself. */
struct policy_host {
	char name[POLICY_NAME_MAX + 1];
	bool wildcard;
	uint8_t protocol; /* enum policy_protocol */
	uint16_t port;	  /* host byte order, 0: all */
};

struct policy {
	enum policy_state state;
	struct policy_address *addresses; /* used in POLICY_LIST only, as hosts */
	size_t n_addresses;
	struct policy_host *hosts;
	size_t n_hosts;
};

#define POLICY_INIT ((struct policy){ 0 })

void policy_clear(struct policy *policy); /* frees what it holds; it denies everything then */
void policy_copy(struct policy *out, const struct policy *from); /* out is overwritten */

/* Does this rule cover the name, whatever the port? The name is as in struct policy_host; the
 * caller has refused names with bytes that do not belong into one (a NUL above all). */
bool policy_host_covers(const struct policy_host *host, const char *name);
/* The first rule that covers name for protocol and port (POLICY_ANY and 0: for anything at all), or
 * NULL. In POLICY_OPEN and POLICY_NOTHING there are no rules: NULL. */
const struct policy_host *policy_find_host(const struct policy *policy, const char *name,
					   uint8_t protocol, uint16_t port);
/* Does an address rule (not a host rule, not POLICY_OPEN) allow this? Address in host order. */
bool policy_allows_address(const struct policy *policy, uint32_t address, uint8_t protocol,
			   uint16_t port);
