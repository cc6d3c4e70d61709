/*
 * The transparent proxy for host rules on ports 443 and 80. Addresses are shared, so that an
 * address that was opened for one name would open its neighbours: here the name that the client
 * says (TLS server name, HTTP Host) is read and checked, the connection is made to the address of
 * that very name, as the host's resolvers say (never to the address that the guest chose), and
 * bytes go both ways from then on. TLS is not ended here; nothing is decrypted.
 *
 * The egress program steers connections to the listening socket (slots_set_proxy); the accepted
 * socket's own address is the one the guest had dialled.
 *
 * On the loop's thread, or before it runs.
 */
#pragma once

#include "base/err.h"
#include "loop/loop.h"
#include "net/clients.h"
#include "net/dns_resolver.h"

#define PROXY_PER_CLIENT	  256 /* connections */
#define PROXY_TOTAL		  4096
#define PROXY_BUFFER		  65536	 /* bytes under way, in each direction of a connection */
#define PROXY_HELLO_MS		  10000	 /* for the client to say whom it wants */
#define PROXY_CONNECT_MS	  10000	 /* for each address to answer */
#define PROXY_ADDRESSES_MAX	  4	 /* addresses of a name that are tried */
#define PROXY_IDLE_MS		  600000 /* without a byte in either direction */
#define PROXY_HALF_CLOSED_IDLE_MS 120000 /* likewise, when one side has ended */
#define PROXY_LINGER_MS		  5000	 /* for a refused client to read why */

struct proxy;

struct proxy_config {
	uint32_t address;		   /* host byte order: the gateway's */
	uint16_t port;			   /* 0: the kernel's choice */
	const struct net_clients *clients; /* outlives the proxy */
	struct dns_resolver *resolver;	   /* outlives the proxy */
};

int proxy_new(struct loop *loop, const struct proxy_config *config, struct proxy **ret,
	      struct err *err);
void proxy_free(struct proxy *proxy); /* cuts all connections; NULL is fine */
uint16_t proxy_port(const struct proxy *proxy);

/* The rules of the client with this address have changed: cuts its connections that they no longer
 * allow. */
void proxy_recheck(struct proxy *proxy, uint32_t address);
/* The client is gone: cuts its connections. */
void proxy_forget(struct proxy *proxy, uint32_t address);
