/* The host's resolvers, from the text of resolv.conf(5). Pure. */
#pragma once

#include <stddef.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define DNS_SERVERS_MAX 4

union dns_server_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct dns_servers {
	union dns_server_address list[DNS_SERVERS_MAX];
	size_t n;
};

/* The "nameserver" lines, in their order, up to DNS_SERVERS_MAX; lines that make no sense are
 * skipped. None: as resolv.conf(5) has it, the server of this machine. */
void dns_resolv_conf_parse(const char *text, size_t len, struct dns_servers *ret);
socklen_t dns_server_address_len(const union dns_server_address *address);
