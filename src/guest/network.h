/*
 * The guest's side of its network, set up once, at boot: loopback, and the one device if the
 * machine has one. Every guest has the same address, route and neighbour, so that one that is
 * restored or forked has nothing to change: the host tells guests apart (net/slot.h).
 */
#pragma once

#include <netinet/in.h>
#include <stdint.h>

struct network_setup {
	struct in_addr address, netmask, gateway;
	uint8_t gateway_mac[6];
};

/* What the host wrote on the kernel's command line: ADDRESS/PREFIX,GATEWAY,MAC. 0 or -EINVAL. */
int network_parse(const char *text, struct network_setup *ret);

/* Loopback, the device, and /etc/resolv.conf. Failures are logged: a guest without its network is
 * still a guest. */
void network_init(void);
