/*
 * Egress rules: what a sandbox may reach, as people and agents write it, parsed, compared and
 * asked. Pure: no I/O, no clock. What the kernel makes of a set is net/policy.h; what the name
 * server and the proxy make of it is net/dns.h and net/proxy.h.
 *
 *   rule = ["tcp://" | "udp://"] target [":" port]
 *   target = host | "*." host | IPv4 | IPv4 "/" bits | "[" IPv6 ["/" bits] "]"
 *
 * IPv6 needs its brackets only before a port. Without a port a rule is for every port, without a
 * protocol for TCP and UDP (under a list nothing else passes). "*.host" means every name below
 * host, not host itself. Names are international or ASCII, in any case, with or without the last
 * dot; a rule is kept and printed in one canonical spelling.
 *
 * A set has one of three states, and none of them is the other's special case: open (null), nothing
 * (the empty list), list. It is immutable and reference-counted (any thread), so that whoever
 * decides by it sees the old set or the new one.
 *
 * One malformed rule refuses the whole set.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "net/hostname.h"
#include "net/policy.h"
#include "net/prefix.h"

#define RULES_MAX_DEFAULT 1000
#define RULE_TEXT_MAX	  1024 /* bytes of a rule as it comes in: international names are long */
/* Bytes of a canonical rule with its NUL: protocol, star, name and port at their longest. */
#define RULE_PRINT_SIZE (HOSTNAME_MAX + 16)

enum rule_kind { RULE_HOST, RULE_SUBDOMAINS, RULE_PREFIX };

struct rule {
	enum rule_kind kind;
	enum policy_protocol proto;
	uint16_t port; /* 0: every port */
	char *host;    /* RULE_HOST: the name; RULE_SUBDOMAINS: the name behind "*."; else NULL */
	struct net_prefix prefix; /* RULE_PREFIX */
};

struct ruleset {
	int refs; /* atomic */
	enum policy_state state;
	size_t n;	    /* 0 unless POLICY_LIST */
	struct rule *rules; /* in the order given, each once */
};

struct rule_text {
	const char *text; /* need not be terminated, may hold NULs */
	size_t len;
};

/* The set without rules of its own: open or nothing. */
struct ruleset *ruleset_new(enum policy_state state);

/* Parses n rules; none makes POLICY_NOTHING. -EINVAL with code "invalid_egress_rule" and a message
 * that names the first malformed rule, its index (rules[i]) and what is wrong; -E2BIG with code
 * "too_many_egress_rules" when n > max_rules. */
int ruleset_parse(const struct rule_text *texts, size_t n, size_t max_rules, struct ruleset **ret,
		  struct err *err);

/* As above from a JSON value: null, [] or a list of strings. */
int ruleset_from_json(const json_t *value, size_t max_rules, struct ruleset **ret, struct err *err);
json_t *ruleset_to_json(const struct ruleset *set); /* canonical; the caller owns it */

struct ruleset *ruleset_ref(struct ruleset *set);
void ruleset_unref(struct ruleset *set); /* NULL is fine */
static inline void cleanup_rulesetp(struct ruleset **set)
{
	ruleset_unref(*set);
}
#define _cleanup_ruleset_ _cleanup_(cleanup_rulesetp)

/* What is wrong with a rule; continues "the rule …". */
struct rule_fault {
	char text[384];
};

/* One rule; on success the caller clears it. 0, or -EINVAL with the fault. */
int rule_parse(const char *text, size_t len, struct rule *ret, struct rule_fault *fault);
void rule_clear(struct rule *rule);
const char *rule_print(const struct rule *rule, char out[RULE_PRINT_SIZE]); /* returns out */

/* Whether everything that `inner` allows is allowed by `outer` too; when not, offender (may be
 * NULL) gets the first rule of inner that goes further, or "everything" for the open set. Errs on
 * the safe side: two halves of a prefix, say, do not count as the whole. */
bool ruleset_within(const struct ruleset *inner, const struct ruleset *outer,
		    char offender[RULE_PRINT_SIZE]);

/* What slots take: everything but IPv6 rules, which compile to nothing because guests have IPv4
 * only. out is overwritten; the caller clears it. */
void ruleset_compile(const struct ruleset *set, struct policy *out);

/* A protocol and port that a rule allows for a name; port 0 is every port. */
struct rule_port {
	enum policy_protocol proto;
	uint16_t port;
};

/* All that the set's host rules allow for a canonical name, without repetitions; at most max are
 * written, the number of all is returned. 0: the name must not be resolved. Not for the open set.
 */
size_t ruleset_name_ports(const struct ruleset *set, const char *name, struct rule_port *out,
			  size_t max);

/* Whether the set allows this, in any state; proto is TCP or UDP, port is not 0. */
bool ruleset_allows_name(const struct ruleset *set, const char *name, enum policy_protocol proto,
			 uint16_t port);
bool ruleset_allows_address(const struct ruleset *set, const struct net_prefix *address,
			    enum policy_protocol proto, uint16_t port);

/* The narrowest rule that would allow what was denied: of a name where it is known (canonical),
 * else of the address; without a port where port is 0. POLICY_ANY where the protocol is not
 * known; TCP is not written out. Returns out. */
const char *rule_suggest(const char *name, const struct net_prefix *address,
			 enum policy_protocol proto, uint16_t port, char out[RULE_PRINT_SIZE]);
