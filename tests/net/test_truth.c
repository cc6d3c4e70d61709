/*
 * The truth table: every kind of packet to every kind of target under every kind of policy, in a
 * network and not. Each cell is one frame that a guest sends, with the cell's number in it; what is
 * expected is written down here as a user would say it, from the rules' text, and what happened is
 * what arrived: at the far side of the uplink, at another guest's tap, or at the host itself. Where
 * nothing is expected, nothing must be found anywhere.
 */
#include "world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/str.h"
#include "net/rules.h"
#include "shell.h"

/* --- the three axes --- */

enum kind {
	KIND_TCP,
	KIND_UDP,
	KIND_ICMP,
	KIND_SCTP,
	KIND_ARP,
	KIND_VLAN,
	KIND_FIRST_FRAGMENT,
	KIND_LATER_FRAGMENT,
	KIND_SPOOFED,
	KIND_OTHER_MAC,
	KIND_OPTIONS,
	KIND_GRE,
	KIND_IPV6_TCP,
	KIND_IPV6_UDP,
	KIND_IPV6_ICMP,
	KIND_IPV6_SCTP,
	KIND_IPV6_FRAGMENT,
	KINDS,
};

static const char *const kind_names[KINDS] = {
	"TCP",
	"UDP",
	"ICMP echo",
	"SCTP",
	"ARP",
	"VLAN",
	"first fragment",
	"later fragment",
	"spoofed source",
	"other MAC",
	"IP options",
	"GRE",
	"IPv6 TCP",
	"IPv6 UDP",
	"IPv6 ICMP",
	"IPv6 SCTP",
	"IPv6 fragment",
};

enum where { NOWHERE, FAR_SIDE, NEIGHBOUR, HOST_ITSELF };
static const char *const where_names[] = { "nowhere", "the far side", "the neighbour", "the host" };

enum target {
	TO_SITE,	    /* 8.8.4.4:9000: what most rules are about */
	TO_SITE_OTHER_PORT, /* 8.8.4.4:9001 */
	TO_SITE_HTTPS,	    /* 8.8.4.4:443, where host rules look at the name */
	TO_NEXT_ADDRESS,    /* 8.8.4.5:9000, in the CIDR */
	TO_OTHER_SITE,	    /* 9.9.9.9:9000 */
	TO_METADATA,
	TO_PRIVATE,
	TO_CARRIER,
	TO_LOOPBACK,
	TO_MULTICAST,
	TO_BROADCAST,
	TO_HOST,
	TO_NAMES, /* the gateway, port 53 */
	TO_GATEWAY,
	TO_NEIGHBOUR, /* the network's other member, if the guest is in it */
	TO_STRANGER,  /* a guest of another network */
	TARGETS,
};

struct place {
	const char *name;
	uint32_t address;
	uint16_t port;
};

static struct place places[TARGETS] = {
	[TO_SITE] = { "the site", SITE, 9000 },
	[TO_SITE_OTHER_PORT] = { "the site, another port", SITE, 9001 },
	[TO_SITE_HTTPS] = { "the site, 443", SITE, 443 },
	[TO_NEXT_ADDRESS] = { "the next address", SITE + 1, 9000 },
	[TO_OTHER_SITE] = { "another site", OTHER_SITE, 9000 },
	[TO_METADATA] = { "metadata", METADATA, 80 },
	[TO_PRIVATE] = { "a private address", IP(10, 1, 2, 3), 9000 },
	[TO_CARRIER] = { "100.100.100.200", IP(100, 100, 100, 200), 80 },
	[TO_LOOPBACK] = { "loopback", IP(127, 0, 0, 1), 9000 },
	[TO_MULTICAST] = { "multicast", IP(224, 0, 0, 251), 5353 },
	[TO_BROADCAST] = { "broadcast", IP(255, 255, 255, 255), 67 },
	[TO_HOST] = { "the host", HOST, 9000 },
	[TO_NAMES] = { "the name server", GATEWAY, 53 },
	[TO_GATEWAY] = { "the gateway", GATEWAY, 9000 },
	[TO_NEIGHBOUR] = { "the neighbour", 0, 9000 },
	[TO_STRANGER] = { "a stranger", 0, 9000 },
};

/* What a rule allows, said again by hand: T for TCP, U for UDP, B for both, P for TCP that the host
 * takes for its proxy, '-' for nothing; in the order of the first five targets. */
struct policy_case {
	const char *rule; /* NULL: open; "": nothing */
	const char *allows;
};

static const struct policy_case policies[] = {
	{ NULL, NULL },
	{ "", "-----" },
	{ "site.test", "BBP--" },
	{ "site.test:9000", "B----" },
	{ "site.test:443", "--P--" },
	{ "tcp://site.test:9000", "T----" },
	{ "udp://site.test", "UUU--" },
	{ "*.test", "BBP--" },
	{ "*.site.test", "-----" }, /* not the apex */
	{ "8.8.4.4", "BBB--" },
	{ "8.8.4.0/24", "BBBB-" },
	{ "8.8.4.4:9000", "B----" },
	{ "tcp://8.8.4.0/24:9000", "T--T-" },
	{ "udp://8.8.4.4:443", "--U--" },
	{ "0.0.0.0/0", "BBBBB" },
	{ "10.0.0.0/8", "-----" }, /* denied always */
	{ "[2001:db8::88]:9000", "-----" },
};

/* --- what should happen --- */

static enum where expected_in_list(const char *allows, enum kind kind, enum target target)
{
	char what = target <= TO_OTHER_SITE ? allows[target] : '-';

	if (kind == KIND_TCP && what == 'P')
		return HOST_ITSELF;
	if ((kind == KIND_TCP && (what == 'T' || what == 'B')) ||
	    (kind == KIND_UDP && (what == 'U' || what == 'B')))
		return FAR_SIDE;
	return NOWHERE;
}

static enum where expected(const struct policy_case *policy, bool in_network, enum kind kind,
			   enum target target)
{
	if (kind != KIND_TCP && kind != KIND_UDP && kind != KIND_ICMP)
		return NOWHERE;
	if (target == TO_NEIGHBOUR)
		return in_network ? NEIGHBOUR : NOWHERE;
	if (target == TO_NAMES)
		return kind == KIND_ICMP ? NOWHERE : HOST_ITSELF;
	if (!policy->rule)
		return target <= TO_OTHER_SITE ? FAR_SIDE : NOWHERE;
	return expected_in_list(policy->allows, kind, target);
}

/* --- what is sent --- */

#define LATER_FRAGMENT 185 /* offset in units of 8 bytes */

#define MARKER "cell:"
struct marker {
	char text[5];
	uint8_t zero[3];
	uint32_t cell;
};

static void send_ipv6(struct slot *slot, enum kind kind, const struct marker *marker)
{
	static const uint8_t headers[] = { FRAME_TCP, FRAME_UDP, 58, FRAME_SCTP, 44 };
	uint8_t content[64] = { 0 };
	struct frame frame;

	content[2] = 9000 >> 8; /* ports; for ICMPv6 and fragments just bytes */
	content[3] = 9000 & 0xff;
	memcpy(content + 40, marker, sizeof(*marker));
	frame_ipv6(headers[kind - KIND_IPV6_TCP], content, sizeof(content), &frame);
	guest_send(slot, &frame);
}

static void send_arp(struct slot *slot, uint32_t target, const struct marker *marker)
{
	struct frame frame;

	/* The gateway may be asked for; the answer goes to the guest itself. */
	frame_arp(NULL, INNER, target, false, &frame);
	memcpy(frame.data + frame.len, marker, sizeof(*marker));
	frame.len += sizeof(*marker);
	guest_send(slot, &frame);
}

static void send_cell(struct slot *slot, enum kind kind, const struct place *place, uint32_t cell)
{
	static const uint8_t other_mac[6] = { 0x02, 9, 9, 9, 9, 9 };
	const struct marker marker = { .text = MARKER, .cell = cell };
	uint8_t first_part[LATER_FRAGMENT * 8 - 8] = { 0 };
	struct frame_spec spec = {
		.source = INNER,
		.dest = place->address,
		.protocol = FRAME_UDP,
		.source_port = (uint16_t)(20000 + cell % 40000),
		.dest_port = place->port,
		.content = &marker,
		.payload = sizeof(marker),
	};

	switch (kind) {
	case KIND_TCP:
		spec.protocol = FRAME_TCP;
		break;
	case KIND_ICMP:
		spec.protocol = FRAME_ICMP;
		spec.icmp_type = FRAME_ECHO;
		break;
	case KIND_SCTP:
		spec.protocol = FRAME_SCTP;
		break;
	case KIND_GRE:
		spec.protocol = 47;
		break;
	case KIND_VLAN:
		spec.vlan = 7;
		break;
	case KIND_FIRST_FRAGMENT:
		/* The later one completes it: connection tracking would forward the whole. */
		memcpy(first_part, &marker, sizeof(marker));
		spec.content = first_part;
		spec.payload = sizeof(first_part);
		spec.fragment = FRAME_MORE;
		break;
	case KIND_LATER_FRAGMENT:
		spec.fragment = LATER_FRAGMENT;
		break;
	case KIND_SPOOFED:
		spec.source = slot_address(slot);
		break;
	case KIND_OTHER_MAC:
		spec.source_mac = other_mac;
		break;
	case KIND_OPTIONS:
		spec.version_ihl = 0x46;
		break;
	case KIND_ARP:
		send_arp(slot, place->address, &marker);
		return;
	case KIND_UDP:
		break;
	default:
		send_ipv6(slot, kind, &marker);
		return;
	}
	guest_send_spec(slot, &spec);
}

/* --- what arrived --- */

struct table {
	uint8_t seen[KINDS * TARGETS]; /* a bit a place */
	uint32_t first;		       /* number of the first cell */
	enum where looking_at;
};

static void find_marker(void *arg, const uint8_t *data, size_t len)
{
	struct table *table = arg;
	const uint8_t *at = memmem(data, len, MARKER, strlen(MARKER));
	struct marker marker;

	if (!at || (size_t)(data + len - at) < sizeof(marker))
		return;
	memcpy(&marker, at, sizeof(marker));
	assert_in_range(marker.cell, table->first, table->first + KINDS * TARGETS - 1);
	table->seen[marker.cell - table->first] |= (uint8_t)(1U << table->looking_at);
}

struct listeners {
	int fds[6];
	size_t n;
};

/* Raw sockets see whatever the host takes for itself, before any port is looked at. */
static void listeners_open(struct listeners *listeners)
{
	static const int protocols[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_SCTP, 47 };

	listeners->n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocols[i]);
		int bytes = 4 << 20;

		assert_true(fd >= 0);
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)),
				 0);
		listeners->fds[listeners->n++] = fd;
	}
}

static void listeners_collect(const struct listeners *listeners, struct table *table)
{
	uint8_t data[2048];
	ssize_t len;

	table->looking_at = HOST_ITSELF;
	for (size_t i = 0; i < listeners->n; i++) {
		while ((len = recv(listeners->fds[i], data, sizeof(data), 0)) > 0)
			find_marker(table, data, (size_t)len);
	}
}

static void tap_collect(struct slot *slot, struct table *table)
{
	struct frame frame;
	struct frame_view view;

	table->looking_at = NEIGHBOUR;
	while (guest_receive(slot, 0, &frame, &view))
		find_marker(table, frame.data, frame.len);
}

static int proxy_open(struct world *world)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	struct sockaddr_in in = { 0 };
	socklen_t len = sizeof(in);

	assert_int_equal(setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), 0);
	world_bind(fd, GATEWAY, 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	assert_int_equal(slots_set_proxy(world->slots, ntohs(in.sin_port)), 0);
	return fd;
}

/* --- the table --- */

static void set_rule(struct slot *slot, const char *rule)
{
	const struct rule_text text = { rule, rule ? strlen(rule) : 0 };
	struct err err = ERR_INIT;
	_cleanup_ruleset_ struct ruleset *set = NULL;
	struct policy policy;

	if (!rule)
		set = ruleset_new(POLICY_OPEN);
	else if (ruleset_parse(&text, *rule ? 1 : 0, 10, &set, &err) < 0)
		fail_msg("%s", err.message);
	ruleset_compile(set, &policy);
	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	policy_clear(&policy);
}

static size_t compare(const struct table *table, const struct policy_case *policy, bool in_network)
{
	size_t wrong = 0;

	for (size_t i = 0; i < KINDS * TARGETS; i++) {
		enum kind kind = (enum kind)(i / TARGETS);
		enum target target = (enum target)(i % TARGETS);
		enum where should = expected(policy, in_network, kind, target);
		unsigned int wanted = should == NOWHERE ? 0 : 1U << should;

		if (table->seen[i] == wanted)
			continue;
		wrong++;
		print_error("rule '%s'%s: %s to %s should arrive at %s, was seen at %s%s%s%s\n",
			    policy->rule ? policy->rule : "open", in_network ? " in a network" : "",
			    kind_names[kind], places[target].name, where_names[should],
			    table->seen[i] ? "" : "nothing",
			    table->seen[i] & 1U << FAR_SIDE ? "the far side " : "",
			    table->seen[i] & 1U << NEIGHBOUR ? "a neighbour " : "",
			    table->seen[i] & 1U << HOST_ITSELF ? "the host" : "");
	}
	return wrong;
}

static void the_table(void **state)
{
	struct world *world = *state;
	struct slot *guest = world_take(world, POLICY_NOTHING);
	struct slot *neighbour = world_take(world, POLICY_NOTHING);
	struct slot *stranger = world_take(world, POLICY_NOTHING);
	int proxy = proxy_open(world);
	struct listeners listeners;
	uint32_t cells = 0;
	size_t wrong = 0;

	places[TO_NEIGHBOUR].address = slot_address(neighbour);
	places[TO_STRANGER].address = slot_address(stranger);
	listeners_open(&listeners);
	assert_int_equal(slot_join(neighbour, 1, NULL), 0);
	assert_int_equal(slot_join(stranger, 2, NULL), 0);
	for (int in_network = 0; in_network < 2; in_network++) {
		if (in_network)
			assert_int_equal(slot_join(guest, 1, NULL), 0);
		for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
			struct table table = { .first = cells };

			set_rule(guest, policies[i].rule);
			assert_int_equal(
				slot_allow(guest, "site.test", SITE, clock_boottime_ms() + 600000),
				0);
			for (size_t cell = 0; cell < KINDS * TARGETS; cell++)
				send_cell(guest, (enum kind)(cell / TARGETS),
					  &places[cell % TARGETS], cells++);
			table.looking_at = FAR_SIDE;
			world_collect(world, find_marker, &table);
			listeners_collect(&listeners, &table);
			tap_collect(neighbour, &table);
			tap_collect(stranger, &table);
			wrong += compare(&table, &policies[i], in_network);
		}
	}
	print_message("%u cells\n", cells);
	assert_true(cells >= 500);
	assert_int_equal(wrong, 0);
	for (size_t i = 0; i < listeners.n; i++)
		close(listeners.fds[i]);
	close(proxy);
}

/* Towards a guest: what the far side, a stranger and the host send to it unasked. */
static void nothing_enters_unasked(void **state)
{
	struct world *world = *state;
	struct slot *guest = world_take(world, POLICY_OPEN);
	static const uint8_t protocols[] = { FRAME_TCP, FRAME_UDP, FRAME_ICMP, FRAME_SCTP };
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(slot_address(guest)),
	};
	struct slot_counters counters;

	/* The far side knows a route to guests, and the host would forward. */
	sh("ip -n internet route replace 100.64.0.0/10 via 5.5.5.2");
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		int far = world_internet_socket(world, AF_INET, SOCK_RAW, protocols[i]);
		int host = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, protocols[i]);
		struct frame frame;

		frame_build(&(struct frame_spec){ .source = HOST,
						  .dest = slot_address(guest),
						  .protocol = protocols[i],
						  .icmp_type = FRAME_ECHO,
						  .dest_port = 9000 },
			    &frame);
		assert_true(sendto(far, frame.data + 34, frame.len - 34, 0, (struct sockaddr *)&to,
				   sizeof(to)) > 0);
		assert_true(sendto(host, frame.data + 34, frame.len - 34, 0, (struct sockaddr *)&to,
				   sizeof(to)) > 0);
		close(far);
		close(host);
	}
	world_collect(world, NULL, NULL);
	guest_expect_nothing(guest);
	assert_int_equal(slot_counters(guest, &counters), 0);
	assert_int_equal(counters.in_denied, 2 * ARRAY_SIZE(protocols));
	sh("ip -n internet route del 100.64.0.0/10");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_table),
		TEST(nothing_enters_unasked),
	};

	return cmocka_run_group_tests(tests, world_setup, world_teardown);
}
