/* The decision about a question. */
#include "net/dns_decide.h"

#include "base/str.h"

/* Zone transfers, ANY, and what tunnels are made of are not among them. */
static bool is_known_type(uint16_t type)
{
	static const uint16_t types[] = { DNS_A,     DNS_NS,   DNS_CNAME, DNS_SOA,   DNS_PTR,
					  DNS_MX,    DNS_TXT,  DNS_AAAA,  DNS_SRV,   DNS_NAPTR,
					  DNS_SSHFP, DNS_TLSA, DNS_SVCB,  DNS_HTTPS, DNS_CAA };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i] == type)
			return true;
	}
	return false;
}

static bool is_reverse(const char *host)
{
	return hostname_below(host, "in-addr.arpa") || hostname_below(host, "ip6.arpa");
}

/* Guests have IPv4 only. And under rules a client must not learn the keys of an encrypted hello,
 * which the proxy would refuse: without them it sends a plain one. */
static bool is_withheld(uint16_t type, const struct ruleset *rules)
{
	return type == DNS_AAAA ||
	       (rules->state != POLICY_OPEN && (type == DNS_HTTPS || type == DNS_SVCB));
}

enum dns_action dns_decide(const struct dns_question *question, const struct ruleset *rules,
			   char host[HOSTNAME_MAX + 1])
{
	bool is_host = dns_name_to_host(&question->name, host) == 0;

	if (!is_host)
		host[0] = '\0';
	if (!is_known_type(question->type))
		return DNS_REFUSED_TYPE;
	if (is_host &&
	    (str_eq(host, DNS_NETWORK_DOMAIN) || hostname_below(host, DNS_NETWORK_DOMAIN)))
		return DNS_NETWORK;
	if (rules->state != POLICY_OPEN) {
		if (is_host && is_reverse(host))
			return DNS_NOT_THERE;
		if (!is_host || ruleset_name_ports(rules, host, NULL, 0) == 0)
			return DNS_NOT_ALLOWED;
	}
	return is_withheld(question->type, rules) ? DNS_EMPTY : DNS_FORWARD;
}
