/*
 * What the egress program costs: a guest's traffic through the host to a site, with the program
 * under several policies and without it, in turn. Guest and site are network namespaces of this
 * process's own, joined to the host's (another of its own) by veth pairs; no VM. Without the
 * program the guest has its unique address itself and the host routes and masquerades as it does
 * with it; with it the nftables guard of taps is in the way as well.
 *
 * Prints one JSON object: samples of each measure. bench/network.mjs makes ratios of them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "net/slot_internal.h"

#define SITE	   0x08080404U /* 8.8.4.4 */
#define BULK_PORT  9000
#define ECHO_PORT  9001
#define BULK_BYTES (256u << 20)
#define SLOTS	   200

static _Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static void sh(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *fmt, ...)
{
	char line[512];
	char *argv[] = { (char *)"sh", (char *)"-ec", line, NULL };
	va_list ap;
	pid_t pid;
	int status;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (posix_spawnp(&pid, "sh", NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		die("failed: %s", line);
}

/* --- the world --- */

struct world {
	int host_ns, guest_ns, site_ns;
	char pins[64];
	struct slots *slots;
	struct slot *slot;
};

static int open_ns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die("cannot open %s: %s", path, strerror(errno));
	return fd;
}

static int socket_in(const struct world *world, int ns)
{
	int fd, one = 1;

	setns(ns, CLONE_NEWNET);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setns(world->host_ns, CLONE_NEWNET);
	if (fd < 0)
		die("cannot make a socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void make_namespaces(struct world *world)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/run", "tmpfs", 0, NULL) < 0)
		die("cannot make namespaces: %s (root is needed)", strerror(errno));
	/* A host that forwards anyway: else the path without the program would be closed. */
	sh("ip netns add guest; ip netns add site; ip link set lo up; "
	   "echo 1 >/proc/sys/net/ipv4/ip_forward");
	sh("ip link add up0 type veth peer name s0 netns site");
	sh("ip address add 5.5.5.2/24 dev up0; ip link set up0 up; "
	   "ip -n site address add 5.5.5.1/24 dev s0; ip -n site address add 8.8.4.4/32 dev lo; "
	   "ip -n site link set lo up; ip -n site link set s0 up; ip route add default via "
	   "5.5.5.1");
	world->host_ns = open_ns("/proc/self/ns/net");
	world->guest_ns = open_ns("/run/netns/guest");
	world->site_ns = open_ns("/run/netns/site");
}

static void start_slots(struct world *world, double *ret_make_ms)
{
	struct slots_config config = {
		.instance = "bench",
		.uplink = "up0",
		.pin_dir = world->pins,
		.ready = SLOTS,
	};
	struct err err = ERR_INIT;
	int64_t from;

	snprintf(world->pins, sizeof(world->pins), "/tmp/skerry-bench-XXXXXX");
	if (!mkdtemp(world->pins) || slots_new(&config, NULL, NULL, NULL, &world->slots, &err) < 0)
		die("%s; %s", err.message, err.hint);
	from = clock_boottime_us();
	if (slots_refill(world->slots, &err) != SLOTS)
		die("%s", err.message);
	*ret_make_ms = (double)(clock_boottime_us() - from) / 1000.0 / SLOTS;
}

/* The slot's tap is put aside for a device that a namespace can be behind. */
static void move_slot_to_veth(struct world *world)
{
	struct err err = ERR_INIT;
	uint32_t ifindex;

	if (slot_take(world->slots, &world->slot, &err) < 0)
		die("%s", err.message);
	sh("ip link add skt9000 address " SLOT_GATEWAY_MAC
	   " type veth peer name eth0 address " SLOT_GUEST_MAC " netns guest");
	sh("ip -n guest address add 100.64.0.2/30 dev eth0; ip -n guest link set eth0 up; "
	   "ip -n guest link set lo up; ip link set skt9000 up; "
	   "echo 1 >/proc/sys/net/ipv4/conf/skt9000/forwarding");
	sh("ip -n guest neighbour add 100.64.0.1 lladdr " SLOT_GATEWAY_MAC " dev eth0; "
	   "ip -n guest route add default via 100.64.0.1");
	ifindex = if_nametoindex("skt9000");
	if (egress_program_attach(world->slots->program, ifindex, slot_index(world->slot), &err) <
	    0)
		die("%s", err.message);
	slot_shared(world->slot)->ifindex = ifindex;
	sh("ip route replace 100.64.1.%u/32 dev skt9000 src 100.64.0.1; "
	   "ip neighbour add 100.64.1.%u lladdr " SLOT_GUEST_MAC " dev skt9000",
	   slot_index(world->slot), slot_index(world->slot));
}

/* The same guest once more, on a device without a program: 100.65.0.2 is in the range that is
 * masqueraded. */
static void make_plain_path(void)
{
	sh("ip link add plain0 type veth peer name eth1 netns guest; "
	   "ip address add 100.65.0.1/30 dev plain0; ip link set plain0 up; "
	   "echo 1 >/proc/sys/net/ipv4/conf/plain0/forwarding; "
	   "ip -n guest address add 100.65.0.2/30 dev eth1; ip -n guest link set eth1 up; "
	   "ip -n guest rule add from 100.65.0.2 lookup 5; "
	   "ip -n guest route add default via 100.65.0.1 table 5");
}

/* --- servers: one thread each, one connection at a time --- */

static int listen_at_site(const struct world *world, uint16_t port)
{
	const struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd = socket_in(world, world->site_ns);

	if (bind(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 64) < 0)
		die("cannot listen: %s", strerror(errno));
	return fd;
}

/* Reads to the end, answers with one byte. */
static void *serve_bulk(void *arg)
{
	static char data[1 << 20];
	int listening = *(int *)arg, fd;

	while ((fd = accept(listening, NULL, NULL)) >= 0) {
		while (recv(fd, data, sizeof(data), 0) > 0)
			;
		send(fd, data, 1, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

static void *serve_echo(void *arg)
{
	int listening = *(int *)arg, fd, one = 1;
	char data[64];
	ssize_t n;

	while ((fd = accept(listening, NULL, NULL)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		while ((n = recv(fd, data, sizeof(data), 0)) > 0)
			send(fd, data, (size_t)n, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

/* --- measures --- */

static int connect_from(const struct world *world, uint32_t source, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(source) };
	int fd = socket_in(world, world->guest_ns);

	if (bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		die("cannot bind: %s", strerror(errno));
	in.sin_addr.s_addr = htonl(SITE);
	in.sin_port = htons(port);
	if (connect(fd, (struct sockaddr *)&in, sizeof(in)) < 0)
		die("cannot connect: %s", strerror(errno));
	return fd;
}

static double bulk_mb_per_s(const struct world *world, uint32_t source)
{
	static char data[1 << 20];
	int fd = connect_from(world, source, BULK_PORT);
	int64_t from = clock_boottime_us();

	for (size_t sent = 0; sent < BULK_BYTES;) {
		ssize_t n = send(fd, data, sizeof(data), 0);

		if (n < 0)
			die("cannot send: %s", strerror(errno));
		sent += (size_t)n;
	}
	shutdown(fd, SHUT_WR);
	if (recv(fd, data, 1, 0) != 1)
		die("no answer");
	close(fd);
	return BULK_BYTES / (double)(clock_boottime_us() - from);
}

static double round_trip_us(const struct world *world, uint32_t source)
{
	enum { TRIPS = 2000 };
	int fd = connect_from(world, source, ECHO_PORT);
	char byte = 'x';
	int64_t from = 0;

	for (int i = -100; i < TRIPS; i++) {
		if (i == 0)
			from = clock_boottime_us();
		if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
			die("no echo");
	}
	close(fd);
	return (double)(clock_boottime_us() - from) / TRIPS;
}

/* A request of its own connection: every one is a new flow for the program. */
static double request_us(const struct world *world, uint32_t source)
{
	enum { REQUESTS = 200 };
	int64_t from = clock_boottime_us();

	for (int i = 0; i < REQUESTS; i++) {
		int fd = connect_from(world, source, ECHO_PORT);
		char byte = 'x';

		if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
			die("no echo");
		close(fd);
	}
	return (double)(clock_boottime_us() - from) / REQUESTS;
}

/* n rules, of which the last allows the site: 0 is the open policy. */
static double set_rules_us(struct world *world, uint32_t n)
{
	_cleanup_free_ struct policy_address *rules = xcalloc(n + 1, sizeof(*rules));
	const struct policy policy = { .state = n ? POLICY_LIST : POLICY_OPEN,
				       .addresses = rules,
				       .n_addresses = n };
	struct err err = ERR_INIT;
	int64_t from;

	for (uint32_t i = 0; i < n; i++)
		rules[i] = (struct policy_address){ .address = 0x14000000U + 4096 * i,
						    .prefix = i % 2 ? 20 : 32,
						    .protocol = POLICY_ANY,
						    .port = i % 3 ? 443 : 0 };
	if (n)
		rules[n - 1] = (struct policy_address){ SITE, 32, POLICY_TCP, 0 };
	from = clock_boottime_us();
	if (slot_set_policy(world->slot, &policy, &err) < 0)
		die("%s", err.message);
	return (double)(clock_boottime_us() - from);
}

static double take_us(struct world *world)
{
	int64_t from = clock_boottime_us();
	struct err err = ERR_INIT;
	struct slot *slot;
	double taken;

	if (slot_take(world->slots, &slot, &err) < 0)
		die("%s", err.message);
	taken = (double)(clock_boottime_us() - from);
	slot_release(slot);
	return taken;
}

/* --- samples --- */

struct variant {
	const char *name;
	uint32_t source;
	int rules; /* -1: no program */
};

static const struct variant variants[] = {
	{ "none", 0x64410002U, -1 },
	{ "open", 0x64400002U, 0 },
	{ "ten", 0x64400002U, 10 },
	{ "thousand", 0x64400002U, 1000 },
};
#define VARIANTS   4
#define ROUNDS_MAX 100

typedef double (*measure_fn)(const struct world *world, uint32_t source);

/* In turn, so that what the machine does meanwhile meets all alike. */
static void measure(struct world *world, const char *name, measure_fn fn, int rounds)
{
	static double samples[VARIANTS][ROUNDS_MAX];

	for (int round = -1; round < rounds; round++) {
		for (int v = 0; v < VARIANTS; v++) {
			double sample;

			if (variants[v].rules >= 0)
				set_rules_us(world, (uint32_t)variants[v].rules);
			sample = fn(world, variants[v].source);
			if (round >= 0)
				samples[v][round] = sample;
		}
	}
	printf("\"%s\": {", name);
	for (int v = 0; v < VARIANTS; v++) {
		printf("%s\"%s\": [", v ? ", " : "", variants[v].name);
		for (int round = 0; round < rounds; round++)
			printf("%s%.3f", round ? ", " : "", samples[v][round]);
		printf("]");
	}
	printf("}, ");
}

static void measure_changes(struct world *world, int rounds)
{
	printf("\"change_us\": [");
	for (int i = 0; i < rounds; i++) {
		set_rules_us(world, 1000);
		printf("%s%.1f", i ? ", " : "", set_rules_us(world, 1000));
	}
	printf("], \"take_us\": [");
	for (int i = 0; i < rounds; i++)
		printf("%s%.1f", i ? ", " : "", take_us(world));
	printf("]");
}

static void remove_pins(const struct world *world)
{
	umount2(world->pins, MNT_DETACH);
	rmdir(world->pins);
}

int main(int argc, char **argv)
{
	struct world world = { 0 };
	int64_t rounds = 0;
	int bulk, echo;
	pthread_t threads[2];
	double make_ms;

	if (argc != 2 || str_to_i64(argv[1], &rounds) < 0 || rounds < 1 || rounds > ROUNDS_MAX)
		die("usage: net_bench ROUNDS (1 to %d)", ROUNDS_MAX);
	log_init(LOG_LVL_ERROR);
	make_namespaces(&world);
	start_slots(&world, &make_ms);
	move_slot_to_veth(&world);
	make_plain_path();
	bulk = listen_at_site(&world, BULK_PORT);
	echo = listen_at_site(&world, ECHO_PORT);
	pthread_create(&threads[0], NULL, serve_bulk, &bulk);
	pthread_create(&threads[1], NULL, serve_echo, &echo);

	printf("{\"slots\": %d, \"make_ms\": %.3f, ", SLOTS, make_ms);
	measure(&world, "bulk_mb_per_s", bulk_mb_per_s, (int)rounds);
	measure(&world, "round_trip_us", round_trip_us, (int)rounds);
	measure(&world, "request_us", request_us, (int)rounds);
	measure_changes(&world, (int)rounds);
	printf("}\n");

	slots_destroy(world.slots);
	remove_pins(&world);
	return 0;
}
