/*
 * Asks the host's resolvers for clients: with time-outs, further tries and other servers, a cache
 * and a bound of questions under way for each client, so that none takes the others' turn. Knows no
 * rules.
 *
 * Used on the loop's thread, or before it runs; the same goes for making and freeing.
 */
#pragma once

#include "base/err.h"
#include "loop/loop.h"
#include "net/dns_message.h"

#define DNS_TRY_MS	      2000 /* for one server to answer */
#define DNS_ROUNDS	      2	   /* through the list of servers */
#define DNS_PENDING_MAX	      64   /* questions of a client under way */
#define DNS_PENDING_TOTAL_MAX 1024 /* of all clients */
#define DNS_RESOLV_CONF	      "/etc/resolv.conf"
#define DNS_RESOLV_CONF_MAX   65536
#define DNS_RELOAD_MS	      5000 /* how often it is looked at for changes */

struct dns_resolver;
struct dns_lookup;

/* resolv_conf is read now and again when it has changed; NULL: DNS_RESOLV_CONF. */
int dns_resolver_new(struct loop *loop, const char *resolv_conf, struct dns_resolver **ret,
		     struct err *err);
void dns_resolver_free(struct dns_resolver *resolver); /* cancels what is under way; NULL is fine */

/* The answer is borrowed; it may say that the name does not exist, or that the server failed. NULL:
 * no server answered. left_s is how long it lives (0: it must not be kept). */
typedef void (*dns_lookup_fn)(void *arg, struct dns_answer *answer, uint32_t left_s);

/* address is the client's. fn is called once, never within this call, unless the lookup is
 * cancelled before. NULL: the client, or all together, have too many under way. */
struct dns_lookup *dns_resolver_ask(struct dns_resolver *resolver, uint32_t address,
				    const struct dns_name *name, uint16_t type, dns_lookup_fn fn,
				    void *arg);
void dns_lookup_cancel(struct dns_lookup *lookup); /* NULL is fine */

/* The client is gone: its cache is forgotten. Lookups under way are their owners' to cancel. */
void dns_resolver_forget(struct dns_resolver *resolver, uint32_t address);
