/*
 * The name server that every guest has for its own: on the gateway address, by UDP and TCP. Who
 * asks is told by the unique address; what it may learn, by its rules (dns_decide.h,
 * dns_request.h).
 *
 * On the loop's thread, or before it runs.
 */
#pragma once

#include "base/err.h"
#include "loop/loop.h"
#include "net/clients.h"
#include "net/dns_resolver.h"

#define DNS_QUERIES_PER_S   300 /* of a client, by UDP and TCP; what is more goes unanswered */
#define DNS_UDP_PENDING_MAX 64	/* questions of a client under way, by UDP */
#define DNS_TCP_PER_CLIENT  8	/* connections */
#define DNS_TCP_TOTAL	    256
#define DNS_TCP_IDLE_MS	    10000
#define DNS_TCP_QUERY_MAX   4096 /* bytes of a question by TCP */

struct dns_server;

struct dns_server_config {
	uint32_t address;		   /* host byte order: the gateway's */
	uint16_t port;			   /* DNS_PORT */
	const struct net_clients *clients; /* outlives the server */
	struct dns_resolver *resolver;	   /* outlives the server */
};

int dns_server_new(struct loop *loop, const struct dns_server_config *config,
		   struct dns_server **ret, struct err *err);
void dns_server_free(struct dns_server *server); /* NULL is fine */

/* The client with this address is gone: what is under way for it is dropped, also in the resolver.
 */
void dns_server_forget(struct dns_server *server, uint32_t address);
