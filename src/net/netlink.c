/* rtnetlink by libmnl: one request, one acknowledgement. */
#include "net/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

#define MESSAGE_SIZE 1024	 /* of every request below */
#define ANSWER_SIZE  (32 * 1024) /* the kernel's own bound of a dump's part */

struct netlink {
	struct mnl_socket *socket;
	uint32_t port;
	uint32_t sequence;
};

struct request {
	struct nlmsghdr *header;
	void *body;
	_Alignas(struct nlmsghdr) char data[MESSAGE_SIZE];
};

int netlink_new(struct netlink **ret)
{
	struct netlink *nl = xcalloc(1, sizeof(*nl));

	nl->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!nl->socket || mnl_socket_bind(nl->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		int rc = -errno;

		netlink_free(nl);
		return rc;
	}
	nl->port = mnl_socket_get_portid(nl->socket);
	*ret = nl;
	return 0;
}

void netlink_free(struct netlink *nl)
{
	if (!nl)
		return;
	if (nl->socket)
		mnl_socket_close(nl->socket);
	free(nl);
}

static void request_init(struct request *r, uint16_t type, uint16_t flags, size_t body_size)
{
	memset(r, 0, sizeof(*r));
	r->header = mnl_nlmsg_put_header(r->data);
	r->header->nlmsg_type = type;
	r->header->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	r->body = mnl_nlmsg_put_extra_header(r->header, body_size);
}

/* Sends and reads until the acknowledgement or the end of the dump; each part goes to fn. */
static int exchange(struct netlink *nl, struct request *r, mnl_cb_t fn, void *arg)
{
	_cleanup_free_ char *answer = xmalloc(ANSWER_SIZE);
	uint32_t sequence = ++nl->sequence;
	int rc = 1;

	r->header->nlmsg_seq = sequence;
	if (mnl_socket_sendto(nl->socket, r->header, r->header->nlmsg_len) < 0)
		return -errno;
	while (rc > 0) {
		ssize_t n = mnl_socket_recvfrom(nl->socket, answer, ANSWER_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		rc = mnl_cb_run(answer, (size_t)n, sequence, nl->port, fn, arg);
	}
	return rc < 0 ? -errno : 0;
}

static int request_send(struct netlink *nl, struct request *r)
{
	int rc;

	r->header->nlmsg_flags |= NLM_F_ACK;
	rc = exchange(nl, r, NULL, NULL);
	return rc == -EEXIST ? 0 : rc;
}

int netlink_link_prepare(struct netlink *nl, uint32_t ifindex, const uint8_t mac[6],
			 const char *alias)
{
	struct request r;
	struct ifinfomsg *link;
	struct nlattr *families, *ipv6;

	request_init(&r, RTM_NEWLINK, 0, sizeof(*link));
	link = r.body;
	link->ifi_family = AF_UNSPEC;
	link->ifi_index = (int)ifindex;
	mnl_attr_put(r.header, IFLA_ADDRESS, 6, mac);
	mnl_attr_put_str(r.header, IFLA_IFALIAS, alias);
	if (if_nametoindex("lo") != 0 && access("/proc/sys/net/ipv6", F_OK) == 0) {
		families = mnl_attr_nest_start(r.header, IFLA_AF_SPEC);
		ipv6 = mnl_attr_nest_start(r.header, AF_INET6);
		mnl_attr_put_u8(r.header, IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE);
		mnl_attr_nest_end(r.header, ipv6);
		mnl_attr_nest_end(r.header, families);
	}
	return request_send(nl, &r);
}

int netlink_link_up(struct netlink *nl, uint32_t ifindex)
{
	struct request r;
	struct ifinfomsg *link;

	request_init(&r, RTM_NEWLINK, 0, sizeof(*link));
	link = r.body;
	link->ifi_family = AF_UNSPEC;
	link->ifi_index = (int)ifindex;
	link->ifi_flags = IFF_UP;
	link->ifi_change = IFF_UP;
	return request_send(nl, &r);
}

int netlink_link_delete(struct netlink *nl, uint32_t ifindex)
{
	struct request r;
	struct ifinfomsg *link;
	int rc;

	request_init(&r, RTM_DELLINK, 0, sizeof(*link));
	link = r.body;
	link->ifi_family = AF_UNSPEC;
	link->ifi_index = (int)ifindex;
	rc = request_send(nl, &r);
	return rc == -ENODEV ? 0 : rc;
}

struct link_list {
	struct netlink_link *items;
	uint32_t n;
};

static int on_link_attribute(const struct nlattr *attribute, void *arg)
{
	struct netlink_link *link = arg;

	if (mnl_attr_get_type(attribute) == IFLA_IFNAME)
		str_copy(link->name, sizeof(link->name), mnl_attr_get_str(attribute));
	else if (mnl_attr_get_type(attribute) == IFLA_IFALIAS)
		str_copy(link->alias, sizeof(link->alias), mnl_attr_get_str(attribute));
	return MNL_CB_OK;
}

static int on_link(const struct nlmsghdr *header, void *arg)
{
	const struct ifinfomsg *body = mnl_nlmsg_get_payload(header);
	struct link_list *list = arg;
	struct netlink_link *link;

	if (header->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	list->items = xrealloc(list->items, (list->n + 1) * sizeof(*list->items));
	link = &list->items[list->n++];
	*link = (struct netlink_link){ .ifindex = (uint32_t)body->ifi_index };
	return mnl_attr_parse(header, sizeof(*body), on_link_attribute, link);
}

int netlink_links(struct netlink *nl, struct netlink_link **ret, uint32_t *ret_n)
{
	struct link_list list = { 0 };
	struct request r;
	int rc;

	request_init(&r, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
	rc = exchange(nl, &r, on_link, &list);
	if (rc < 0) {
		free(list.items);
		return rc;
	}
	*ret = list.items;
	*ret_n = list.n;
	return 0;
}

int netlink_address_add(struct netlink *nl, uint32_t ifindex, uint32_t address, uint8_t prefix)
{
	struct request r;
	struct ifaddrmsg *body;

	request_init(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(*body));
	body = r.body;
	body->ifa_family = AF_INET;
	body->ifa_prefixlen = prefix;
	body->ifa_scope = RT_SCOPE_UNIVERSE;
	body->ifa_index = ifindex;
	mnl_attr_put_u32(r.header, IFA_LOCAL, htonl(address));
	mnl_attr_put_u32(r.header, IFA_ADDRESS, htonl(address));
	return request_send(nl, &r);
}

int netlink_neighbour_add(struct netlink *nl, uint32_t ifindex, uint32_t address,
			  const uint8_t mac[6])
{
	struct request r;
	struct ndmsg *body;

	request_init(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*body));
	body = r.body;
	body->ndm_family = AF_INET;
	body->ndm_ifindex = (int)ifindex;
	body->ndm_state = NUD_PERMANENT;
	mnl_attr_put_u32(r.header, NDA_DST, htonl(address));
	mnl_attr_put(r.header, NDA_LLADDR, 6, mac);
	return request_send(nl, &r);
}

static void route_init(struct request *r, uint16_t type, uint16_t flags, const struct rtmsg *values,
		       uint32_t ifindex)
{
	request_init(r, type, flags, sizeof(*values));
	memcpy(r->body, values, sizeof(*values));
	mnl_attr_put_u32(r->header, RTA_OIF, ifindex);
}

int netlink_route_add(struct netlink *nl, uint32_t ifindex, uint32_t address, uint32_t source)
{
	const struct rtmsg values = {
		.rtm_family = AF_INET,
		.rtm_dst_len = 32,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
	};
	struct request r;

	route_init(&r, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &values, ifindex);
	mnl_attr_put_u32(r.header, RTA_DST, htonl(address));
	mnl_attr_put_u32(r.header, RTA_PREFSRC, htonl(source));
	return request_send(nl, &r);
}

static int local_route(struct netlink *nl, uint16_t type, uint16_t flags, uint32_t loopback_ifindex,
		       uint32_t table)
{
	const struct rtmsg values = {
		.rtm_family = AF_INET,
		.rtm_table = RT_TABLE_UNSPEC,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = RT_SCOPE_HOST,
		.rtm_type = RTN_LOCAL,
	};
	struct request r;

	route_init(&r, type, flags, &values, loopback_ifindex);
	mnl_attr_put_u32(r.header, RTA_TABLE, table);
	return request_send(nl, &r);
}

static int mark_rule(struct netlink *nl, uint16_t type, uint16_t flags, uint32_t mark,
		     uint32_t table, uint32_t priority)
{
	struct request r;
	struct fib_rule_hdr *body;

	request_init(&r, type, flags, sizeof(*body));
	body = r.body;
	body->family = AF_INET;
	body->action = FR_ACT_TO_TBL;
	mnl_attr_put_u32(r.header, FRA_PRIORITY, priority);
	mnl_attr_put_u32(r.header, FRA_FWMARK, mark);
	mnl_attr_put_u32(r.header, FRA_FWMASK, UINT32_MAX);
	mnl_attr_put_u32(r.header, FRA_TABLE, table);
	return request_send(nl, &r);
}

int netlink_local_by_mark_add(struct netlink *nl, uint32_t loopback_ifindex, uint32_t mark,
			      uint32_t table, uint32_t priority)
{
	int rc = local_route(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, loopback_ifindex,
			     table);

	return rc < 0 ? rc
		      : mark_rule(nl, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, mark, table,
				  priority);
}

int netlink_local_by_mark_delete(struct netlink *nl, uint32_t loopback_ifindex, uint32_t mark,
				 uint32_t table, uint32_t priority)
{
	int rule = mark_rule(nl, RTM_DELRULE, 0, mark, table, priority);
	int route = local_route(nl, RTM_DELROUTE, 0, loopback_ifindex, table);

	if (rule < 0 && rule != -ENOENT)
		return rule;
	return route < 0 && route != -ESRCH ? route : 0;
}

static int on_route(const struct nlmsghdr *header, void *arg)
{
	const struct rtmsg *body = mnl_nlmsg_get_payload(header);
	bool *forwarded = arg;

	if (header->nlmsg_type == RTM_NEWROUTE)
		*forwarded = body->rtm_type == RTN_UNICAST;
	return MNL_CB_OK;
}

int netlink_is_forwarded(struct netlink *nl, uint32_t address, bool *ret)
{
	struct request r;
	struct rtmsg *body;
	bool forwarded = false;
	int rc;

	request_init(&r, RTM_GETROUTE, NLM_F_ACK, sizeof(*body));
	body = r.body;
	body->rtm_family = AF_INET;
	body->rtm_dst_len = 32;
	mnl_attr_put_u32(r.header, RTA_DST, htonl(address));
	rc = exchange(nl, &r, on_route, &forwarded);
	if (rc < 0 && rc != -ENETUNREACH && rc != -EHOSTUNREACH && rc != -EINVAL && rc != -EACCES)
		return rc;
	*ret = rc == 0 && forwarded;
	return 0;
}
