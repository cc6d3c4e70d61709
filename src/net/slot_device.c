/*
 * A slot's life in the kernel. It is made so that a crash at any point leaves nothing or something
 * that is provably ours: the tap ends with the daemon until it carries our alias, and a tap with
 * our alias that no entry of the slots' map names is half made and removed by the next daemon. The
 * device comes up last, with the program on it.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "net/slot_internal.h"
#include "net/tap.h"

const uint8_t slot_guest_mac[6] = { 0x02, 0x5e, 0, 0, 0, 2 };
const uint8_t slot_gateway_mac[6] = { 0x02, 0x5e, 0, 0, 0, 1 };

static void tap_name(uint32_t index, char out[TAP_NAME_SIZE])
{
	snprintf(out, TAP_NAME_SIZE, TAP_PREFIX "%u", index);
}

static struct slot *slot_new(struct slots *slots, uint32_t index, uint32_t ifindex)
{
	struct slot *slot = xcalloc(1, sizeof(*slot));

	slot->owner = slots;
	slot->index = index;
	slot->ifindex = ifindex;
	slot->tap_fd = -1;
	slots->table[index] = slot;
	return slot;
}

void slot_free(struct slot *slot)
{
	slot->owner->table[slot->index] = NULL;
	if (slot->tap_fd >= 0)
		close(slot->tap_fd);
	slot_policy_free(slot);
	free(slot);
}

static void leave_all(struct slot *slot)
{
	struct egress_slot *shared = slot_shared(slot);
	int members = egress_program_map_fd(slot->owner->program, EGRESS_MAP_MEMBERS);

	for (int i = 0; i < EGRESS_NETWORKS; i++) {
		struct egress_member_key key = { shared->networks[i], slot->index };

		if (key.network == 0)
			continue;
		__atomic_store_n(&shared->networks[i], 0, __ATOMIC_RELEASE);
		bpf_map_delete_elem(members, &key);
	}
}

/* From here on the program drops everything; nothing of the tenant is left. */
void slot_reset_kernel(struct slot *slot)
{
	struct egress_slot *shared = slot_shared(slot);

	slots_lock(slot->owner);
	__atomic_store_n(&shared->lease, 0, __ATOMIC_RELEASE);
	slot_policy_clear(slot);
	leave_all(slot);
	slots_unlock(slot->owner);
	shared->event_window = 0;
	shared->unreported = 0;
	egress_program_reset_counters(slot->owner->program, slot->index);
}

void slot_unmake(struct slot *slot)
{
	struct slots *slots = slot->owner;

	slot_reset_kernel(slot);
	slot_shared(slot)->ifindex = 0;
	egress_program_forget_device(slots->program, slot->ifindex);
	egress_program_drop_flows(slots->program, slot->index);
	netlink_link_delete(slots->nl, slot->ifindex);
	slot_free(slot);
}

static int connect_device(struct slot *slot, const char *name, struct err *err)
{
	struct slots *slots = slot->owner;
	uint32_t unique = slot_unique(slots, slot->index);
	int rc = egress_program_attach(slots->program, slot->ifindex, slot->index, err);

	if (rc < 0)
		return rc;
	rc = slots_device_settings(name, err);
	if (rc < 0)
		return rc;
	rc = egress_program_reset_flows(slots->program, slot->index);
	if (rc == 0)
		rc = netlink_link_up(slots->nl, slot->ifindex);
	if (rc == 0)
		rc = netlink_neighbour_add(slots->nl, slot->ifindex, unique, slot_guest_mac);
	if (rc == 0)
		rc = netlink_route_add(slots->nl, slot->ifindex, unique,
				       slot_gateway(slots->range));
	if (rc < 0)
		return err_set(err, rc, "cannot connect tap '%s': %s", name, strerror(-rc));
	slot_shared(slot)->ifindex = slot->ifindex;
	return 0;
}

int slot_make(struct slots *slots, uint32_t index, struct slot **ret, struct err *err)
{
	char name[TAP_NAME_SIZE], alias[ALIAS_SIZE];
	_cleanup_close_ int fd = -1;
	uint32_t ifindex = 0;
	struct slot *slot;
	int rc;

	tap_name(index, name);
	slots_alias(slots, alias);
	fd = tap_make(name, &ifindex);
	rc = fd < 0 ? fd : netlink_link_prepare(slots->nl, ifindex, slot_gateway_mac, alias);
	if (rc == 0)
		rc = tap_keep(fd);
	if (rc < 0) {
		err_set(err, rc, "cannot make tap '%s': %s", name, strerror(-rc));
		if (rc != -EEXIST)
			err_hint(err, "/dev/net/tun and root are needed (module tun)");
		return rc;
	}
	slot = slot_new(slots, index, ifindex);
	slot->tap_fd = STEAL_FD(fd);
	slot_reset_kernel(slot);
	rc = connect_device(slot, name, err);
	if (rc < 0) {
		slot_unmake(slot);
		return rc;
	}
	*ret = slot;
	return 0;
}

int slot_open_tap(struct slot *slot)
{
	char name[TAP_NAME_SIZE];

	tap_name(slot->index, name);
	slot->tap_fd = tap_open(name);
	return slot->tap_fd < 0 ? slot->tap_fd : 0;
}

int slot_find(struct slots *slots, const struct netlink_link *link, uint32_t index,
	      struct slot **ret, struct err *err)
{
	struct slot *slot = slot_new(slots, index, link->ifindex);
	struct egress_slot *shared = slot_shared(slot);
	int rc;

	if (shared->ifindex != link->ifindex) {
		log_info("a half-made network slot is removed", "tap=%s", link->name);
		slot_unmake(slot);
		return -ENOENT;
	}
	if (shared->lease != 0) {
		slot->state = SLOT_WAITING;
		/* This build's program takes the place of the earlier one; nothing else changes. */
		rc = egress_program_attach(slots->program, link->ifindex, index, err);
		if (rc < 0) {
			slot_free(slot);
			return rc;
		}
		*ret = slot;
		return 0;
	}
	slot_reset_kernel(slot);
	rc = slot_open_tap(slot);
	if (rc == 0)
		rc = connect_device(slot, link->name, err);
	if (rc < 0) {
		log_warn("a network slot cannot be used again and is removed", "tap=%s errno=%d",
			 link->name, -rc);
		slot_unmake(slot);
		return -ENOENT;
	}
	*ret = slot;
	return 0;
}
