/* resolv.conf(5), of which only the servers count: search lists are the guest's own matter. */
#include "net/dns_resolv_conf.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>

#include "base/str.h"
#include "net/dns_message.h"

#define KEYWORD "nameserver"

/* "address" or, for link-local ones, "address%interface". */
static bool parse_address(char *text, union dns_server_address *ret)
{
	char *zone = strchr(text, '%');

	*ret = (union dns_server_address){ 0 };
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(DNS_PORT);
		return true;
	}
	if (zone)
		*zone++ = '\0';
	if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) != 1)
		return false;
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(DNS_PORT);
	ret->v6.sin6_scope_id = zone ? if_nametoindex(zone) : 0;
	return !zone || ret->v6.sin6_scope_id != 0;
}

static void parse_line(const char *line, size_t len, struct dns_servers *ret)
{
	const size_t keyword = sizeof(KEYWORD) - 1;
	char word[INET6_ADDRSTRLEN + IF_NAMESIZE];
	size_t n = 0;

	if (len <= keyword || memcmp(line, KEYWORD, keyword) != 0)
		return;
	line += keyword;
	len -= keyword;
	if (*line != ' ' && *line != '\t')
		return;
	while (len > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		len--;
	}
	while (n < len && !strchr(" \t\r#;", line[n])) /* strchr finds a NUL too */
		n++;
	if (n == 0 || n >= sizeof(word) || ret->n == DNS_SERVERS_MAX)
		return;
	memcpy(word, line, n);
	word[n] = '\0';
	if (parse_address(word, &ret->list[ret->n]))
		ret->n++;
}

void dns_resolv_conf_parse(const char *text, size_t len, struct dns_servers *ret)
{
	const char *end = text + len;

	ret->n = 0;
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		parse_line(text, (size_t)(stop - text), ret);
		text = stop + 1;
	}
	if (ret->n == 0) {
		ret->list[0] = (union dns_server_address){ 0 };
		ret->list[0].v4.sin_family = AF_INET;
		ret->list[0].v4.sin_port = htons(DNS_PORT);
		ret->list[0].v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ret->n = 1;
	}
}

socklen_t dns_server_address_len(const union dns_server_address *address)
{
	return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}
