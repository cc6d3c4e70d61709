/* The classic ioctls: for one device at boot they say it all. */
#include "guest/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "guest/init.h"

#define DEVICE	    "eth0"
#define RESOLV_CONF "/etc/resolv.conf"

static struct sockaddr *sockaddr_of(struct in_addr address, struct sockaddr_in *storage)
{
	*storage = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = address };
	return (struct sockaddr *)storage;
}

static int bring_up(int sock, const char *device)
{
	struct ifreq request = { .ifr_flags = IFF_UP | IFF_RUNNING };

	str_copy(request.ifr_name, sizeof(request.ifr_name), device);
	return ioctl(sock, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

static int set_address(int sock, unsigned long what, struct in_addr address)
{
	struct ifreq request = { .ifr_name = DEVICE };
	struct sockaddr_in storage = { 0 };

	request.ifr_addr = *sockaddr_of(address, &storage);
	return ioctl(sock, what, &request) < 0 ? -errno : 0;
}

static int add_neighbour(int sock, const struct network_setup *setup)
{
	struct arpreq request = { .arp_flags = ATF_PERM | ATF_COM, .arp_dev = DEVICE };
	struct sockaddr_in storage = { 0 };

	request.arp_pa = *sockaddr_of(setup->gateway, &storage);
	request.arp_ha.sa_family = ARPHRD_ETHER;
	memcpy(request.arp_ha.sa_data, setup->gateway_mac, sizeof(setup->gateway_mac));
	return ioctl(sock, SIOCSARP, &request) < 0 ? -errno : 0;
}

static int add_default_route(int sock, const struct network_setup *setup)
{
	const struct in_addr any = { 0 };
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY, .rt_dev = (char *)DEVICE };
	struct sockaddr_in storage = { 0 };

	route.rt_dst = *sockaddr_of(any, &storage);
	route.rt_genmask = *sockaddr_of(any, &storage);
	route.rt_gateway = *sockaddr_of(setup->gateway, &storage);
	return ioctl(sock, SIOCADDRT, &route) < 0 ? -errno : 0;
}

/* The host lets no IPv6 through: programs that try it first would only wait. */
static void disable_ipv6(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/" DEVICE "/disable_ipv6", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	fd_write_all(fd, "1", 1);
	close(fd);
}

static int set_up_device(int sock, const struct network_setup *setup)
{
	int r;

	disable_ipv6();
	r = set_address(sock, SIOCSIFADDR, setup->address);
	if (r == 0)
		r = set_address(sock, SIOCSIFNETMASK, setup->netmask);
	if (r == 0)
		r = bring_up(sock, DEVICE);
	if (r == 0)
		r = add_neighbour(sock, setup);
	if (r == 0)
		r = add_default_route(sock, setup);
	return r;
}

/* An image's own file, or link, is about the machine it was built on. */
static void write_resolv_conf(const char *text)
{
	int fd;

	unlink(RESOLV_CONF);
	fd = open(RESOLV_CONF, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || fd_write_all(fd, text, strlen(text)) < 0)
		log_error("cannot write " RESOLV_CONF, "errno=%d", errno);
	if (fd >= 0)
		close(fd);
}

static void init_resolver(const struct network_setup *setup)
{
	char address[INET_ADDRSTRLEN], text[64];
	struct stat st;

	if (!setup) {
		/* Programs take a missing file for a resolver on localhost; an image built on a
		 * host with systemd-resolved has a link to nowhere. */
		if (stat(RESOLV_CONF, &st) < 0)
			write_resolv_conf("");
		return;
	}
	inet_ntop(AF_INET, &setup->gateway, address, sizeof(address));
	snprintf(text, sizeof(text), "nameserver %s\n", address);
	write_resolv_conf(text);
}

void network_init(void)
{
	_cleanup_close_ int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct network_setup setup;
	char text[128];
	int r;

	r = sock < 0 ? -errno : bring_up(sock, "lo");
	if (r < 0)
		log_error("cannot bring up the loopback device", "errno=%d", -r);
	if (!init_parameter("skerry.net", text, sizeof(text))) {
		init_resolver(NULL);
		return;
	}
	r = network_parse(text, &setup);
	if (r < 0) {
		log_error("cannot understand skerry.net", "value=%s", text);
		init_resolver(NULL);
		return;
	}
	r = set_up_device(sock, &setup);
	if (r < 0)
		log_error("cannot set up the network", "device=" DEVICE " errno=%d", -r);
	init_resolver(&setup);
}
