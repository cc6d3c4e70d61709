/*
 * Compiled policies: copies and matches. Names are compared as whole labels, so that
 * "badexample.com" is not below "example.com".
 */
#include "net/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void policy_clear(struct policy *policy)
{
	free(policy->addresses);
	free(policy->hosts);
	*policy = POLICY_INIT;
}

void policy_copy(struct policy *out, const struct policy *from)
{
	*out = *from;
	out->addresses = NULL;
	out->hosts = NULL;
	if (from->n_addresses > 0) {
		out->addresses = xcalloc(from->n_addresses, sizeof(*out->addresses));
		memcpy(out->addresses, from->addresses,
		       from->n_addresses * sizeof(*out->addresses));
	}
	if (from->n_hosts > 0) {
		out->hosts = xcalloc(from->n_hosts, sizeof(*out->hosts));
		memcpy(out->hosts, from->hosts, from->n_hosts * sizeof(*out->hosts));
	}
}

bool policy_host_covers(const struct policy_host *host, const char *name)
{
	size_t suffix = strlen(host->name), len = strlen(name);

	if (!host->wildcard)
		return strcmp(host->name, name) == 0;
	return suffix > 0 && len > suffix + 1 && name[len - suffix - 1] == '.' &&
	       strcmp(name + len - suffix, host->name) == 0;
}

/* wanted is of the question, rule of the rule; 0 stands for all on both sides. */
static bool overlaps(uint16_t rule, uint16_t wanted)
{
	return rule == 0 || wanted == 0 || rule == wanted;
}

const struct policy_host *policy_find_host(const struct policy *policy, const char *name,
					   uint8_t protocol, uint16_t port)
{
	if (policy->state != POLICY_LIST)
		return NULL;
	for (size_t i = 0; i < policy->n_hosts; i++) {
		const struct policy_host *host = &policy->hosts[i];

		if (overlaps(host->protocol, protocol) && overlaps(host->port, port) &&
		    policy_host_covers(host, name))
			return host;
	}
	return NULL;
}

bool policy_allows_address(const struct policy *policy, uint32_t address, uint8_t protocol,
			   uint16_t port)
{
	if (policy->state != POLICY_LIST)
		return false;
	for (size_t i = 0; i < policy->n_addresses; i++) {
		const struct policy_address *rule = &policy->addresses[i];
		uint32_t mask = rule->prefix == 0 ? 0 : UINT32_MAX << (32 - rule->prefix);

		if ((address & mask) == rule->address && overlaps(rule->protocol, protocol) &&
		    overlaps(rule->port, port))
			return true;
	}
	return false;
}
