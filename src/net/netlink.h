/*
 * Devices, addresses, routes, neighbours and rules by rtnetlink: what slots need, nothing more. One
 * socket, in the network namespace of the thread that opened it; calls are not thread-safe.
 * Addresses are IPv4 in host byte order. What exists already is no error.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct netlink;

int netlink_new(struct netlink **ret); /* 0 or -errno, as all below */
void netlink_free(struct netlink *nl); /* NULL is fine */

/* MAC and alias, without address generation for IPv6. */
int netlink_link_prepare(struct netlink *nl, uint32_t ifindex, const uint8_t mac[6],
			 const char *alias);
int netlink_link_up(struct netlink *nl, uint32_t ifindex);
int netlink_link_delete(struct netlink *nl, uint32_t ifindex);

#define NETLINK_NAME_SIZE  16
#define NETLINK_ALIAS_SIZE 256
struct netlink_link {
	uint32_t ifindex;
	char name[NETLINK_NAME_SIZE];
	char alias[NETLINK_ALIAS_SIZE]; /* "" when it has none */
};
/* All devices of the namespace; the caller frees *ret. */
int netlink_links(struct netlink *nl, struct netlink_link **ret, uint32_t *ret_n);

int netlink_address_add(struct netlink *nl, uint32_t ifindex, uint32_t address, uint8_t prefix);
int netlink_neighbour_add(struct netlink *nl, uint32_t ifindex, uint32_t address,
			  const uint8_t mac[6]);
/* address/32 is behind the device; the host's own packets to it come from source. */
int netlink_route_add(struct netlink *nl, uint32_t ifindex, uint32_t address, uint32_t source);
/* Packets with this mark are delivered to the host itself, whatever their destination: a rule of
 * this priority and a route in this table. */
int netlink_local_by_mark_add(struct netlink *nl, uint32_t loopback_ifindex, uint32_t mark,
			      uint32_t table, uint32_t priority);
int netlink_local_by_mark_delete(struct netlink *nl, uint32_t loopback_ifindex, uint32_t mark,
				 uint32_t table, uint32_t priority);
/* Does the routing table send this address out by a device (not to the host itself, nowhere, or to
 * many)? */
int netlink_is_forwarded(struct netlink *nl, uint32_t address, bool *ret);
