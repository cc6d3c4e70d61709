/*
 * One question of one client, from its bytes to those of its reply: decided by the rules, asked
 * upstream, and what the answer says checked and opened before the client learns it. Knows no
 * sockets. On the loop's thread.
 */
#pragma once

#include "net/clients.h"
#include "net/dns_resolver.h"
#include "net/rate.h"

/* An address is open for at least this long, so that a program that was told a life of 0 s can
 * still connect; flows that have begun outlive it anyway. */
#define DNS_OPEN_MIN_S 60
/* Leaving a network is live, and so must be forgetting its names. */
#define DNS_NETWORK_TTL_S 5

struct dns_context {
	const struct net_clients *clients;
	struct dns_resolver *resolver;
};

struct dns_request;

/* reply is borrowed; NULL: say nothing. */
typedef void (*dns_request_fn)(void *arg, const struct buf *reply);

/* fn is called once, perhaps within this call: then NULL is returned. by_udp: the reply fits what
 * the client said it takes. denials is the client's, and outlives the request. */
struct dns_request *dns_request_start(const struct dns_context *context, uint32_t client,
				      struct rate *denials, const uint8_t *data, size_t len,
				      bool by_udp, dns_request_fn fn, void *arg);
void dns_request_cancel(struct dns_request *request); /* fn is not called; NULL is fine */
