/* Reporting what was denied. */
#include "net/clients.h"

#include <arpa/inet.h>

#include "base/clock.h"
#include "net/rate.h"

void net_report(const struct net_clients *clients, uint32_t client, struct rate *rate,
		const struct net_denial *denial, bool no_rule)
{
	struct net_prefix address = prefix_of_ipv4((struct in_addr){ htonl(denial->address) });
	struct net_denial full = *denial;
	char rule[RULE_PRINT_SIZE];

	if (!rate_take(rate, NET_DENIALS_PER_S, clock_boottime_ms()))
		return;
	full.rule = NULL;
	if (!no_rule && (full.name || full.address))
		full.rule = rule_suggest(full.name, &address, (enum policy_protocol)full.protocol,
					 full.port, rule);
	clients->denied(clients->arg, client, &full);
}
