/* The text that says how the network is set up. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ether.h>
#include <string.h>

#include "base/str.h"
#include "guest/network.h"

/* "02:5e:00:00:00:01": with both digits of each byte, so that its length is known. */
static int parse_mac(const char *text, uint8_t out[6])
{
	struct ether_addr mac;

	if (strlen(text) != strlen("00:00:00:00:00:00") || !ether_aton_r(text, &mac))
		return -EINVAL;
	memcpy(out, mac.ether_addr_octet, 6);
	return 0;
}

int network_parse(const char *text, struct network_setup *ret)
{
	struct network_setup setup;
	char copy[128], *slash, *gateway, *mac;
	int64_t prefix;

	if (!str_copy(copy, sizeof(copy), text))
		return -EINVAL;
	slash = strchr(copy, '/');
	gateway = slash ? strchr(slash, ',') : NULL;
	mac = gateway ? strchr(gateway + 1, ',') : NULL;
	if (!mac)
		return -EINVAL;
	*slash++ = *gateway++ = *mac++ = '\0';
	if (str_to_i64(slash, &prefix) < 0 || prefix < 1 || prefix > 32 ||
	    inet_pton(AF_INET, copy, &setup.address) != 1 ||
	    inet_pton(AF_INET, gateway, &setup.gateway) != 1 ||
	    parse_mac(mac, setup.gateway_mac) < 0)
		return -EINVAL;
	setup.netmask.s_addr = htonl(UINT32_MAX << (32 - prefix));
	*ret = setup;
	return 0;
}
