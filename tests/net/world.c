/* See world.h. */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "shell.h"

#define VNET_HEADER_SIZE 10 /* IFF_VNET_HDR: zeros say "no offload" */
#define PATIENCE_MS	 10000
#define QUIET_MS	 20 /* frames are forwarded while they are written: nothing comes later */
#define FENCE_PORT	 7777

/* --- namespaces --- */

static void stay_on_one_cpu(void)
{
	cpu_set_t cpus;
	int cpu = sched_getcpu();

	assert_true(cpu >= 0);
	CPU_ZERO(&cpus);
	CPU_SET((size_t)cpu, &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

static void make_internet(void)
{
	sh("ip netns add internet");
	sh("ip link set lo up");
	sh("ip link add up0 type veth peer name peer0 netns internet");
	sh("ip address add 5.5.5.2/24 dev up0; ip link set up0 up");
	sh("ip netns exec internet ip link set lo up");
	sh("ip -n internet address add 5.5.5.1/24 dev peer0; ip -n internet link set peer0 up");
	/* Everything that is asked for exists there, private and special addresses too. */
	sh("ip -n internet route add local 0.0.0.0/1 dev lo");
	sh("ip -n internet route add local 128.0.0.0/1 dev lo");
	sh("ip -n internet route add 5.5.5.2/32 dev peer0");
	sh("ip route add default via 5.5.5.1");
	sh("ip route add 169.254.169.254/32 via 5.5.5.1");
	/* IPv6 would get through, if anything of it passed the tap. */
	sh("[ ! -d /proc/sys/net/ipv6 ] || { echo 1 >/proc/sys/net/ipv6/conf/all/forwarding; "
	   "ip -6 address add 2001:db8::2/64 dev up0 nodad; "
	   "ip -6 route add default via 2001:db8::1 dev up0; "
	   "ip -6 neighbour replace 2001:db8::1 dev up0 lladdr 02:00:00:00:00:09; }");
	/* The kernel's own chatter would be noise. */
	sh("ip netns exec internet sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'");
}

static int open_capture(struct world *world)
{
	int fd = world_internet_socket(world, AF_PACKET, SOCK_RAW, 0), bytes = 64 << 20;
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
	};

	assert_int_equal(setns(world->internet_ns, CLONE_NEWNET), 0);
	address.sll_ifindex = (int)if_nametoindex("peer0");
	assert_int_equal(setns(world->host_ns, CLONE_NEWNET), 0);
	assert_int_not_equal(address.sll_ifindex, 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

int world_setup(void **state)
{
	struct world *world;

	if (geteuid() != 0 || access("/dev/net/tun", R_OK | W_OK) < 0)
		return 0; /* world_begin says so for each test */
	log_init(LOG_LVL_ERROR);
	world = xcalloc(1, sizeof(*world));
	pthread_mutex_init(&world->lock, NULL);
	stay_on_one_cpu();
	assert_int_equal(unshare(CLONE_NEWNET | CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("none", "/run", "tmpfs", 0, NULL), 0); /* for ip netns */
	scratch_make(world->pins);
	make_internet();
	world->host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	world->internet_ns = open("/run/netns/internet", O_RDONLY | O_CLOEXEC);
	assert_true(world->host_ns >= 0 && world->internet_ns >= 0);
	world->capture = open_capture(world);
	assert_int_equal(loop_new(&world->loop, NULL), 0);
	assert_int_equal(loop_start(world->loop, "loop", NULL), 0);
	*state = world;
	return 0;
}

int world_teardown(void **state)
{
	struct world *world = *state;

	if (!world)
		return 0;
	loop_free(world->loop);
	close(world->capture);
	close(world->host_ns);
	close(world->internet_ns);
	umount2(world->pins, MNT_DETACH);
	scratch_remove(world->pins);
	pthread_mutex_destroy(&world->lock);
	free(world);
	return 0;
}

static void on_denied(void *arg, uint32_t index, uint32_t lease, const struct slot_denial *denial)
{
	struct world *world = arg;

	pthread_mutex_lock(&world->lock);
	if (world->n_denials < DENIALS_KEPT)
		world->denials[world->n_denials++] = (struct denial){ index, lease, *denial };
	pthread_mutex_unlock(&world->lock);
}

void world_start_slots(struct world *world)
{
	struct err err = ERR_INIT;

	if (slots_new(&world->config, world->loop, on_denied, world, &world->slots, &err) < 0)
		fail_msg("%s; %s", err.message, err.hint);
}

int world_begin(void **state)
{
	struct world *world = *state;

	if (!world) {
		print_message("needs root, /dev/net/tun and BPF\n");
		skip();
		return 0; /* skip() does not come back, which the analyzer does not know */
	}
	world->config = (struct slots_config){
		.instance = "test",
		.uplink = "up0",
		.pin_dir = world->pins,
		.ready = 4,
	};
	world->n_denials = 0;
	world_start_slots(world);
	assert_int_equal(slots_refill(world->slots, NULL), 4);
	world->fence_slot = world_take(world, POLICY_OPEN);
	world_collect(world, NULL, NULL);
	return 0;
}

int world_end(void **state)
{
	struct world *world = *state;

	if (world && world->slots)
		slots_destroy(world->slots);
	if (world)
		world->slots = NULL;
	return 0;
}

/* --- the internet --- */

int world_internet_socket(struct world *world, int domain, int type, int protocol)
{
	int fd;

	assert_int_equal(setns(world->internet_ns, CLONE_NEWNET), 0);
	fd = socket(domain, type | SOCK_CLOEXEC, protocol);
	assert_int_equal(setns(world->host_ns, CLONE_NEWNET), 0);
	assert_true(fd >= 0);
	return fd;
}

void world_bind(int fd, uint32_t address, uint16_t port)
{
	const struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(address),
		.sin_port = htons(port),
	};

	assert_int_equal(bind(fd, (const struct sockaddr *)&in, sizeof(in)), 0);
}

int world_site(struct world *world, int type, uint32_t address, uint16_t port)
{
	int fd = world_internet_socket(world, AF_INET, type, 0);

	world_bind(fd, address, port);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static void send_fence(struct world *world)
{
	const uint32_t number = htonl(++world->fence);
	const struct frame_spec spec = {
		.source = INNER,
		.dest = FENCE_SITE,
		.protocol = FRAME_UDP,
		.source_port = FENCE_PORT,
		.dest_port = FENCE_PORT,
		.content = &number,
		.payload = sizeof(number),
	};

	guest_send_spec(world->fence_slot, &spec);
}

static bool is_fence(const struct world *world, const uint8_t *data, size_t len)
{
	const uint32_t number = htonl(world->fence);
	struct frame_view view;

	return frame_read(data, len, &view) && view.dest == FENCE_SITE &&
	       view.payload_len == sizeof(number) &&
	       memcmp(view.payload, &number, sizeof(number)) == 0;
}

size_t world_collect(struct world *world, world_packet_fn fn, void *arg)
{
	int64_t deadline = clock_boottime_ms() + PATIENCE_MS;
	size_t n = 0;

	send_fence(world);
	for (;;) {
		struct pollfd p = { .fd = world->capture, .events = POLLIN };
		struct sockaddr_ll from = { 0 };
		socklen_t from_len = sizeof(from);
		uint8_t data[65536];
		ssize_t len;

		if (poll(&p, 1, clock_remaining_ms(deadline)) <= 0)
			fail_msg("the fence did not arrive");
		len = recvfrom(world->capture, data, sizeof(data), 0, (struct sockaddr *)&from,
			       &from_len);
		assert_true(len > 0);
		if (from.sll_pkttype == PACKET_OUTGOING)
			continue;
		if (is_fence(world, data, (size_t)len))
			return n;
		n++;
		if (fn)
			fn(arg, data, (size_t)len);
	}
}

struct counter {
	uint32_t dest;
	uint8_t protocol;
	uint16_t port;
	size_t n;
};

static void count_packet(void *arg, const uint8_t *data, size_t len)
{
	struct counter *counter = arg;
	struct frame_view view;

	if (frame_read(data, len, &view) && view.dest == counter->dest &&
	    view.protocol == counter->protocol && view.dest_port == counter->port)
		counter->n++;
}

size_t world_count(struct world *world, uint32_t dest, uint8_t protocol, uint16_t port)
{
	struct counter counter = { dest, protocol, port, 0 };

	world_collect(world, count_packet, &counter);
	return counter.n;
}

/* --- guests --- */

struct slot *world_take(struct world *world, enum policy_state state)
{
	const struct policy policy = { .state = state };
	struct slot *slot;

	assert_int_equal(slot_take(world->slots, &slot, NULL), 0);
	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
	return slot;
}

void world_open_address(struct slot *slot, uint32_t address, uint8_t prefix, uint8_t protocol,
			uint16_t port)
{
	struct policy_address rule = { address, prefix, protocol, port };
	const struct policy policy = { .state = POLICY_LIST, .addresses = &rule, .n_addresses = 1 };

	assert_int_equal(slot_set_policy(slot, &policy, NULL), 0);
}

void guest_send(struct slot *slot, const struct frame *frame)
{
	uint8_t data[VNET_HEADER_SIZE + FRAME_MAX] = { 0 };
	size_t len = VNET_HEADER_SIZE + frame->len;

	memcpy(data + VNET_HEADER_SIZE, frame->data, frame->len);
	assert_int_equal(write(slot_tap_fd(slot), data, len), len);
}

void guest_send_spec(struct slot *slot, const struct frame_spec *spec)
{
	struct frame frame;

	frame_build(spec, &frame);
	guest_send(slot, &frame);
}

bool guest_receive(struct slot *slot, int timeout_ms, struct frame *ret, struct frame_view *view)
{
	struct pollfd p = { .fd = slot_tap_fd(slot), .events = POLLIN };
	uint8_t data[VNET_HEADER_SIZE + FRAME_MAX];
	ssize_t len;

	if (poll(&p, 1, timeout_ms) <= 0)
		return false;
	len = read(p.fd, data, sizeof(data));
	assert_true(len > VNET_HEADER_SIZE);
	ret->len = (size_t)len - VNET_HEADER_SIZE;
	memcpy(ret->data, data + VNET_HEADER_SIZE, ret->len);
	frame_read(ret->data, ret->len, view);
	return true;
}

void guest_expect(struct slot *slot, uint8_t protocol, uint32_t source, uint16_t source_port,
		  struct frame *ret, struct frame_view *view)
{
	int64_t deadline = clock_boottime_ms() + PATIENCE_MS;

	while (guest_receive(slot, clock_remaining_ms(deadline), ret, view)) {
		if (view->protocol == protocol && view->source == source &&
		    view->source_port == source_port)
			return;
	}
	fail_msg("the guest did not get what it should");
}

void guest_expect_refusal(struct slot *slot, uint32_t from)
{
	struct frame frame = { 0 };
	struct frame_view view = { 0 };

	assert_true(guest_receive(slot, PATIENCE_MS, &frame, &view));
	assert_int_equal(view.source, from);
	assert_int_equal(view.dest, INNER);
	assert_true(view.checksums_right);
	if (view.protocol == FRAME_TCP) {
		assert_true(view.tcp_flags & FRAME_RST);
		return;
	}
	assert_int_equal(view.protocol, FRAME_ICMP);
	assert_int_equal(view.source_port, 3); /* type and code */
	assert_int_equal(view.dest_port, 13);
}

void guest_expect_nothing(struct slot *slot)
{
	struct frame frame;
	struct frame_view view;

	if (guest_receive(slot, QUIET_MS, &frame, &view))
		fail_msg("the guest got a frame: ethertype %04x, protocol %u, from %08x",
			 view.ethertype, view.protocol, view.source);
}

size_t world_denials(struct world *world, uint32_t index)
{
	size_t n = 0;

	pthread_mutex_lock(&world->lock);
	for (size_t i = 0; i < world->n_denials; i++)
		n += world->denials[i].index == index;
	pthread_mutex_unlock(&world->lock);
	return n;
}
