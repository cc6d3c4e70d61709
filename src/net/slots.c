/*
 * Slots together: start, adoption, denials, networks, end. What the kernel holds is the truth; this
 * keeps descriptors, the queue of the ready, and what is needed to replace a policy.
 */
#include "net/slot.h"

#include <arpa/inet.h>
#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "net/slot_internal.h"

#define NS_PER_MS	      1000000ULL
#define RANGE_PREFIX_SHORTEST 8
#define RANGE_PREFIX_LONGEST  20
#define INSTANCE_LEN_MAX      32

static_assert(SLOT_INDEX_MAX == EGRESS_SLOTS, "one figure");
static_assert(SLOT_NETWORKS_MAX == EGRESS_NETWORKS, "one figure");
static_assert(SLOT_DENIALS_PER_S == EGRESS_EVENTS_PER_S, "one figure");
static_assert(POLICY_NAME_MAX < EGRESS_NAME_SIZE, "a name fits");
static_assert((int)POLICY_TCP == IPPROTO_TCP && (int)POLICY_UDP == IPPROTO_UDP, "as in IPv4");

void slots_lock(struct slots *slots)
{
	pthread_mutex_lock(&slots->lock);
}

void slots_unlock(struct slots *slots)
{
	pthread_mutex_unlock(&slots->lock);
}

/* --- configuration --- */

static bool is_instance(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= INSTANCE_LEN_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static int check_config(const struct slots_config *config, struct err *err)
{
	uint32_t mask;

	if (!is_instance(config->instance))
		return err_set(err, -EINVAL, "'%s' is no name of an installation",
			       config->instance);
	if (config->uplink && if_nametoindex(config->uplink) == 0) {
		err_set(err, -ENODEV, "the uplink '%s' is no network device of this host",
			config->uplink);
		err_hint(err, "'ip route get 1.1.1.1' shows the right one after 'dev'");
		return -ENODEV;
	}
	if (config->range == 0)
		return 0;
	if (config->range_prefix < RANGE_PREFIX_SHORTEST ||
	    config->range_prefix > RANGE_PREFIX_LONGEST)
		return err_set(err, -EINVAL,
			       "a range of guest addresses has a prefix of %d to %d bits, not %u",
			       RANGE_PREFIX_SHORTEST, RANGE_PREFIX_LONGEST, config->range_prefix);
	mask = UINT32_MAX << (32 - config->range_prefix);
	if ((config->range & ~mask) != 0)
		return err_set(err, -EINVAL,
			       "the range of guest addresses has bits set beyond its "
			       "prefix of %u",
			       config->range_prefix);
	return 0;
}

static void take_config(struct slots *slots, const struct slots_config *config)
{
	uint32_t addresses;

	slots->instance = xstrdup(config->instance);
	slots->uplink = config->uplink ? xstrdup(config->uplink) : NULL;
	slots->range = config->range ? config->range : SLOT_DEFAULT_RANGE;
	slots->range_prefix = config->range ? config->range_prefix : SLOT_DEFAULT_PREFIX;
	slots->ready = config->ready;
	slots->n_exceptions = config->n_exceptions;
	slots->exceptions = xcalloc(config->n_exceptions + 1, sizeof(*slots->exceptions));
	for (size_t i = 0; i < config->n_exceptions; i++)
		slots->exceptions[i] = config->exceptions[i];
	/* The last address of the range stays free: it looks like a broadcast. */
	addresses = (UINT32_C(1) << (32 - slots->range_prefix)) - FIRST_UNIQUE - 1;
	slots->capacity = addresses < EGRESS_SLOTS ? addresses : EGRESS_SLOTS;
}

static int load_program(struct slots *slots, const char *pin_dir, struct err *err)
{
	struct egress_config config = {
		.inner_be = htonl(slot_inner(slots->range)),
		.gateway_be = htonl(slot_gateway(slots->range)),
		.first_unique = slot_unique(slots, 0),
		.slots = slots->capacity,
	};

	memcpy(config.guest_mac, slot_guest_mac, sizeof(config.guest_mac));
	memcpy(config.gateway_mac, slot_gateway_mac, sizeof(config.gateway_mac));
	return egress_program_new(&config, pin_dir, slots->instance, &slots->program, err);
}

/* --- denials --- */

static int on_event(void *arg, void *data, size_t size)
{
	struct slots *slots = arg;
	const struct egress_event *event = data;
	struct slot_denial denial;

	if (size < sizeof(*event))
		return 0;
	denial = (struct slot_denial){
		.at_boottime_ms = (int64_t)(event->at_ns / NS_PER_MS),
		.reason = (enum slot_reason)event->reason,
		.address = ntohl(event->remote_be),
		.port = ntohs(event->remote_port_be),
		.protocol = event->protocol,
		.unreported = event->unreported,
	};
	slots->denied(slots->denied_arg, event->slot, event->lease, &denial);
	return 0;
}

static void on_events(void *arg, uint32_t events)
{
	struct slots *slots = arg;

	ring_buffer__consume(slots->ring);
}

void slots_deliver(struct slots *slots)
{
	if (slots->io)
		ring_buffer__consume(slots->ring);
}

static void stop_events(void *arg)
{
	struct slots *slots = arg;

	loop_io_remove(slots->io);
	slots->io = NULL;
}

static void watch_events(void *arg)
{
	struct slots *slots = arg;

	slots->io = loop_io_add(slots->loop, ring_buffer__epoll_fd(slots->ring), EPOLLIN, on_events,
				slots);
}

static int start_events(struct slots *slots, struct err *err)
{
	if (!slots->loop)
		return 0;
	slots->ring = ring_buffer__new(egress_program_map_fd(slots->program, EGRESS_MAP_EVENTS),
				       on_event, slots, NULL);
	if (!slots->ring)
		return err_set(err, -errno, "cannot read the egress program's denials: %s",
			       strerror(errno));
	loop_call(slots->loop, watch_events, slots);
	if (!slots->io)
		return err_set(err, -ENOSPC, "cannot watch the egress program's denials");
	return 0;
}

/* --- start and end --- */

/* The index in a tap's name; strict, so that "skt01" or "skt1x" is nobody's. */
static bool parse_tap_name(const struct slots *slots, const char *name, uint32_t *ret_index)
{
	char again[TAP_NAME_SIZE];
	int64_t index;

	if (!str_starts(name, TAP_PREFIX) || str_to_i64(name + strlen(TAP_PREFIX), &index) < 0 ||
	    index < 0 || index >= slots->capacity)
		return false;
	snprintf(again, sizeof(again), TAP_PREFIX "%u", (unsigned int)index);
	if (strcmp(again, name) != 0)
		return false;
	*ret_index = (uint32_t)index;
	return true;
}

/* A slot of the map whose tap is gone: somebody removed the device, or the host's network
 * namespace is another one. */
static void clear_vanished(struct slots *slots)
{
	for (uint32_t i = 0; i < slots->capacity; i++) {
		struct egress_slot *shared = egress_program_slot(slots->program, i);

		if (slots->table[i] || (shared->ifindex == 0 && shared->lease == 0))
			continue;
		log_warn("a network slot has lost its tap", "slot=%u lease=%u", i, shared->lease);
		shared->lease = 0;
		egress_program_forget_device(slots->program, shared->ifindex);
		egress_program_drop_flows(slots->program, i);
		memset(shared, 0, sizeof(*shared));
	}
}

static int find_slots(struct slots *slots, struct err *err)
{
	_cleanup_free_ struct netlink_link *links = NULL;
	char alias[ALIAS_SIZE];
	uint32_t n = 0, index;
	int rc = netlink_links(slots->nl, &links, &n);

	if (rc < 0)
		return err_set(err, rc, "cannot list network devices: %s", strerror(-rc));
	slots_alias(slots, alias);
	for (uint32_t i = 0; i < n; i++) {
		struct slot *slot = NULL;

		if (!parse_tap_name(slots, links[i].name, &index))
			continue;
		if (strcmp(links[i].alias, alias) != 0) {
			slots->unusable[index] = true;
			continue;
		}
		rc = slot_find(slots, &links[i], index, &slot, err);
		if (rc < 0 && rc != -ENOENT)
			return rc;
		if (slot && slot->state == SLOT_READY)
			slot_enqueue(slot);
	}
	clear_vanished(slots);
	slots_policy_inherit(slots);
	return 0;
}

static int start(struct slots *slots, const char *pin_dir, struct err *err)
{
	int rc = netlink_new(&slots->nl);

	if (rc == 0)
		rc = netlink_new(&slots->nl_query);
	if (rc < 0)
		return err_set(err, rc, "cannot open a netlink socket: %s", strerror(-rc));
	rc = load_program(slots, pin_dir, err);
	if (rc == 0)
		rc = slots_ranges_install(slots, err);
	if (rc == 0)
		rc = slots_host_setup(slots, err);
	if (rc == 0)
		rc = find_slots(slots, err);
	if (rc == 0)
		rc = start_events(slots, err);
	return rc;
}

int slots_new(const struct slots_config *config, struct loop *loop, slot_denied_fn denied,
	      void *arg, struct slots **ret, struct err *err)
{
	struct slots *slots;
	int rc = check_config(config, err);

	if (rc < 0)
		return rc;
	slots = xcalloc(1, sizeof(*slots));
	pthread_mutex_init(&slots->device_lock, NULL);
	pthread_mutex_init(&slots->lock, NULL);
	take_config(slots, config);
	slots->loop = denied ? loop : NULL;
	slots->denied = denied;
	slots->denied_arg = arg;
	rc = start(slots, config->pin_dir, err);
	if (rc < 0) {
		slots_free(slots);
		return err_wrap(err, rc, "cannot set up the network of guests");
	}
	*ret = slots;
	return 0;
}

void slots_free(struct slots *slots)
{
	if (!slots)
		return;
	if (slots->io)
		loop_call(slots->loop, stop_events, slots);
	ring_buffer__free(slots->ring);
	for (uint32_t i = 0; i < slots->capacity; i++) {
		if (slots->table[i])
			slot_free(slots->table[i]);
	}
	egress_program_free(slots->program);
	netlink_free(slots->nl);
	netlink_free(slots->nl_query);
	pthread_mutex_destroy(&slots->lock);
	pthread_mutex_destroy(&slots->device_lock);
	free(slots->instance);
	free(slots->uplink);
	free(slots->exceptions);
	free(slots);
}

void slots_destroy(struct slots *slots)
{
	int rc;

	for (uint32_t i = 0; i < slots->capacity; i++) {
		if (slots->table[i])
			slot_unmake(slots->table[i]);
	}
	slots_host_remove(slots);
	rc = egress_program_unpin(slots->program);
	if (rc < 0)
		log_warn("pins of the egress program are left over", "errno=%d", -rc);
	slots_free(slots);
}

/* --- small questions --- */

uint32_t slots_gateway(const struct slots *slots)
{
	return slot_gateway(slots->range);
}

uint32_t slots_inner(const struct slots *slots)
{
	return slot_inner(slots->range);
}

uint32_t slots_index_of(const struct slots *slots, uint32_t address)
{
	uint32_t index = address - slot_unique(slots, 0);

	return index < slots->capacity ? index : SLOT_NONE;
}

int slots_set_proxy(struct slots *slots, uint16_t port)
{
	struct egress_settings *settings = egress_program_settings(slots->program);

	__atomic_store_n(&settings->proxy_port_be, htons(port), __ATOMIC_RELEASE);
	return 0;
}

uint32_t slots_preview_mark(void)
{
	return EGRESS_MARK_PREVIEW;
}

uint32_t slot_index(const struct slot *slot)
{
	return slot->index;
}

uint32_t slot_lease(const struct slot *slot)
{
	return slot_shared(slot)->lease;
}

uint32_t slot_address(const struct slot *slot)
{
	return slot_unique(slot->owner, slot->index);
}

int slot_tap_fd(const struct slot *slot)
{
	return slot->tap_fd;
}

int slot_counters(const struct slot *slot, struct slot_counters *ret)
{
	struct egress_counters counters;
	int rc = egress_program_counters(slot->owner->program, slot->index, &counters);

	if (rc < 0)
		return rc;
	*ret = (struct slot_counters){
		.out_packets = counters.out_packets,
		.out_bytes = counters.out_bytes,
		.in_packets = counters.in_packets,
		.in_bytes = counters.in_bytes,
		.out_denied = counters.out_denied,
		.in_denied = counters.in_denied,
		.unreported = __atomic_load_n(&slot_shared(slot)->unreported, __ATOMIC_RELAXED),
	};
	return 0;
}

/* --- networks --- */

/* The place of a network in the slot's list; network 0 finds a free one. -1: none. */
static int find_network(const struct slot *slot, uint32_t network)
{
	const struct egress_slot *shared = slot_shared(slot);

	for (int i = 0; i < EGRESS_NETWORKS; i++) {
		if (shared->networks[i] == network)
			return i;
	}
	return -1;
}

static int join(struct slot *slot, uint32_t network)
{
	const struct egress_member_key key = { network, slot->index };
	const uint32_t present = 1;
	int place, rc;

	if (find_network(slot, network) >= 0)
		return 0;
	place = find_network(slot, 0);
	if (place < 0)
		return -ENOSPC;
	rc = bpf_map_update_elem(egress_program_map_fd(slot->owner->program, EGRESS_MAP_MEMBERS),
				 &key, &present, BPF_ANY);
	if (rc == 0)
		__atomic_store_n(&slot_shared(slot)->networks[place], network, __ATOMIC_RELEASE);
	return rc;
}

int slot_join(struct slot *slot, uint32_t network, struct err *err)
{
	int rc = network == 0 ? -EINVAL : 0;

	slots_lock(slot->owner);
	if (rc == 0)
		rc = join(slot, network);
	slots_unlock(slot->owner);
	if (rc == -ENOSPC) {
		err_code(err, rc, "limit_reached", "a sandbox is in at most %d networks",
			 EGRESS_NETWORKS);
		err_hint(err, "let it leave one first");
		return rc;
	}
	if (rc < 0)
		return err_set(err, rc, "cannot join network %u: %s", network, strerror(-rc));
	return 0;
}

int slot_leave(struct slot *slot, uint32_t network, struct err *err)
{
	const struct egress_member_key key = { network, slot->index };
	int place, rc = 0;

	if (network == 0)
		return err_set(err, -EINVAL, "0 is no network");
	slots_lock(slot->owner);
	place = find_network(slot, network);
	if (place >= 0) {
		__atomic_store_n(&slot_shared(slot)->networks[place], 0, __ATOMIC_RELEASE);
		rc = bpf_map_delete_elem(
			egress_program_map_fd(slot->owner->program, EGRESS_MAP_MEMBERS), &key);
	}
	slots_unlock(slot->owner);
	if (rc < 0 && rc != -ENOENT)
		return err_set(err, rc, "cannot leave network %u: %s", network, strerror(-rc));
	return 0;
}
