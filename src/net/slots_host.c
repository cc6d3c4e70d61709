/*
 * What the host has once for all slots: the gateway's address on a device of its own, forwarding,
 * the way to the transparent proxy, and the nftables table.
 *
 * Forwarding. The kernel forwards a packet when the device it came in by may forward: the taps, and
 * for the answers the uplink. Where the host forwards for others already (net.ipv4.ip_forward), we
 * change nothing and forbid nothing. Where it does not, we switch on the uplink only, and a chain
 * of ours drops whatever is neither from nor to a guest: the host becomes no router for its
 * neighbours. Removing us switches it off again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "net/nft.h"
#include "net/slot_internal.h"
#include "net/tap.h"

static int ipv4_setting_write(const char *device, const char *setting, const char *value)
{
	char path[128];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", device, setting);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, value, strlen(value));
}

static bool ipv4_setting_is(const char *device, const char *setting, char wanted)
{
	char path[128], value = 0;
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/%s", device, setting);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &value, 1) == 1 && value == wanted;
}

/* A kernel without IPv6 has no such file, and nothing to keep off. */
static int disable_ipv6(const char *device)
{
	char path[128];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", device);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return fd_write_all(fd, "1", 1);
}

int slots_device_settings(const char *name, struct err *err)
{
	int rc = ipv4_setting_write(name, "forwarding", "1");

	/* Two members of a network are behind different taps: nothing to redirect; and one that
	 * talks to its own unique address shall not hear of a shorter way. */
	if (rc == 0)
		rc = ipv4_setting_write(name, "send_redirects", "0");
	if (rc == 0)
		rc = disable_ipv6(name);
	if (rc < 0)
		return err_set(err, rc, "cannot set up device '%s' below /proc/sys/net: %s", name,
			       strerror(-rc));
	return 0;
}

void slots_alias(const struct slots *slots, char out[ALIAS_SIZE])
{
	snprintf(out, ALIAS_SIZE, "skerry %s", slots->instance);
}

static int find_link(struct slots *slots, const char *name, struct netlink_link *ret)
{
	_cleanup_free_ struct netlink_link *links = NULL;
	uint32_t n = 0;
	int rc = netlink_links(slots->nl, &links, &n);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(links[i].name, name) == 0) {
			*ret = links[i];
			return 0;
		}
	}
	return -ENODEV;
}

/* A tap that nobody opens: a device that is always there, for an address that is always local. */
static int make_gateway_device(struct slots *slots, uint32_t *ret_ifindex, struct err *err)
{
	char alias[ALIAS_SIZE];
	struct netlink_link link;
	_cleanup_close_ int fd = -1;
	uint32_t ifindex = 0;
	int rc = find_link(slots, GATEWAY_DEVICE, &link);

	slots_alias(slots, alias);
	if (rc == 0 && strcmp(link.alias, alias) == 0) {
		*ret_ifindex = link.ifindex;
		return 0;
	}
	if (rc == 0) {
		err_set(err, -EBUSY, "device '%s' belongs to another installation ('%s')",
			GATEWAY_DEVICE, link.alias);
		err_hint(err, "one installation a host; if that one is gone, remove the "
			      "device: ip link delete " GATEWAY_DEVICE);
		return -EBUSY;
	}
	fd = tap_make(GATEWAY_DEVICE, &ifindex);
	rc = fd < 0 ? fd : netlink_link_prepare(slots->nl, ifindex, slot_gateway_mac, alias);
	if (rc == 0)
		rc = tap_keep(fd);
	if (rc < 0) {
		err_set(err, rc, "cannot make device '%s': %s", GATEWAY_DEVICE, strerror(-rc));
		err_hint(err, "/dev/net/tun and root are needed (module tun)");
		return rc;
	}
	*ret_ifindex = ifindex;
	return 0;
}

static int setup_gateway(struct slots *slots, struct err *err)
{
	uint32_t ifindex = 0;
	int rc = make_gateway_device(slots, &ifindex, err);

	if (rc < 0)
		return rc;
	rc = slots_device_settings(GATEWAY_DEVICE, err);
	if (rc < 0)
		return rc;
	rc = netlink_address_add(slots->nl, ifindex, slot_gateway(slots->range), 32);
	if (rc == 0)
		rc = netlink_link_up(slots->nl, ifindex);
	if (rc == 0)
		rc = netlink_local_by_mark_add(slots->nl, if_nametoindex("lo"), EGRESS_MARK_PROXY,
					       PROXY_TABLE, PROXY_PRIORITY);
	if (rc < 0)
		return err_set(err, rc, "cannot set up the gateway address of guests: %s",
			       strerror(-rc));
	return 0;
}

/* The device whose packets the host must forward for the answers: the uplink, or all. */
static const char *forwarding_device(const struct slots *slots)
{
	return slots->uplink ? slots->uplink : "all";
}

static int setup_forwarding(const struct slots *slots, struct err *err)
{
	const char *device = forwarding_device(slots);
	int rc = ipv4_setting_write(device, "forwarding", "1");

	if (rc < 0) {
		err_set(err, rc, "cannot let device '%s' forward: %s", device, strerror(-rc));
		err_hint(err, "is it the name of a network device? See 'ip link'");
		return rc;
	}
	log_info("forwarding is on for guests, and for nothing else", "device=%s", device);
	return 0;
}

/* The table first: with it the host forwards no more than before, at any moment. */
int slots_host_setup(struct slots *slots, struct err *err)
{
	bool forwards = ipv4_setting_is("all", "forwarding", '1');
	bool for_us_only = !forwards || (!slots->uplink && nft_forwards_only_guests(NFT_TABLE));
	const struct nft_plan plan = {
		.table = NFT_TABLE,
		.taps = TAP_PREFIX,
		.uplink = slots->uplink,
		.gateway = slot_gateway(slots->range),
		.range = slots->range,
		.range_prefix = slots->range_prefix,
		.forward_only_guests = for_us_only,
	};
	int rc = nft_install(&plan, err);

	if (rc == 0)
		rc = setup_gateway(slots, err);
	if (rc == 0 && for_us_only)
		rc = setup_forwarding(slots, err);
	return rc;
}

void slots_host_remove(struct slots *slots)
{
	struct netlink_link link;
	char alias[ALIAS_SIZE];

	slots_alias(slots, alias);
	if (nft_forwards_only_guests(NFT_TABLE))
		ipv4_setting_write(forwarding_device(slots), "forwarding", "0");
	nft_remove(NFT_TABLE, NULL);
	netlink_local_by_mark_delete(slots->nl, if_nametoindex("lo"), EGRESS_MARK_PROXY,
				     PROXY_TABLE, PROXY_PRIORITY);
	if (find_link(slots, GATEWAY_DEVICE, &link) == 0 && strcmp(link.alias, alias) == 0)
		netlink_link_delete(slots->nl, link.ifindex);
}
