/*
 * Slots that stand ready, in the order in which they became so: an address that was in use rests
 * for as long as possible. Taking one is a matter of memory, not of devices.
 */
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "net/slot_internal.h"

static void lock_devices(struct slots *slots)
{
	pthread_mutex_lock(&slots->device_lock);
}

static void unlock_devices(struct slots *slots)
{
	pthread_mutex_unlock(&slots->device_lock);
}

void slot_enqueue(struct slot *slot)
{
	struct slots *slots = slot->owner;

	slots_lock(slots);
	slot->state = SLOT_READY;
	slot->next = NULL;
	if (slots->ready_last)
		slots->ready_last->next = slot;
	else
		slots->ready_first = slot;
	slots->ready_last = slot;
	slots->n_ready++;
	slots_unlock(slots);
}

static struct slot *dequeue(struct slots *slots)
{
	struct slot *slot;

	slots_lock(slots);
	slot = slots->ready_first;
	if (slot) {
		slots->ready_first = slot->next;
		if (!slots->ready_first)
			slots->ready_last = NULL;
		slots->n_ready--;
	}
	slots_unlock(slots);
	return slot;
}

static bool has_enough(struct slots *slots)
{
	bool enough;

	slots_lock(slots);
	enough = slots->n_ready >= slots->ready;
	slots_unlock(slots);
	return enough;
}

/* The lowest index without a slot; under device_lock. */
static int make_any_locked(struct slots *slots, struct slot **ret, struct err *err)
{
	for (uint32_t index = 0; index < slots->capacity; index++) {
		int rc;

		if (slots->table[index] || slots->unusable[index])
			continue;
		rc = slot_make(slots, index, ret, err);
		if (rc != -EEXIST)
			return rc;
		/* Somebody's device has the name: theirs. */
		slots->unusable[index] = true;
	}
	err_code(err, -ENOSPC, "limit_reached", "all %u network slots of this host are in use",
		 slots->capacity);
	err_hint(err, "destroy sandboxes, or give the daemon a larger address range");
	return -ENOSPC;
}

static int make_any(struct slots *slots, struct slot **ret, struct err *err)
{
	int rc;

	lock_devices(slots);
	rc = make_any_locked(slots, ret, err);
	unlock_devices(slots);
	return rc;
}

/* The lock is let go in between: who releases a slot does not wait for all of them. */
int slots_refill(struct slots *slots, struct err *err)
{
	struct slot *slot;
	int made = 0, rc;

	while (!has_enough(slots)) {
		rc = make_any(slots, &slot, err);
		if (rc < 0)
			return rc;
		slot_enqueue(slot);
		made++;
	}
	return made;
}

static void give_lease(struct slot *slot)
{
	struct egress_settings *settings = egress_program_settings(slot->owner->program);
	uint32_t lease;

	slots_lock(slot->owner);
	do
		lease = (uint32_t)++settings->lease;
	while (lease == 0);
	slot->state = SLOT_TAKEN;
	__atomic_store_n(&slot_shared(slot)->lease, lease, __ATOMIC_RELEASE);
	slots_unlock(slot->owner);
}

int slot_take(struct slots *slots, struct slot **ret, struct err *err)
{
	struct slot *slot = dequeue(slots);
	int rc = slot ? 0 : make_any(slots, &slot, err);

	if (rc < 0)
		return rc;
	give_lease(slot);
	*ret = slot;
	return 0;
}

int slot_adopt(struct slots *slots, uint32_t index, struct slot **ret, struct err *err)
{
	struct slot *slot;
	int rc = 0;

	lock_devices(slots);
	slot = index < slots->capacity ? slots->table[index] : NULL;
	if (slot && slot->state == SLOT_WAITING) {
		slot->state = SLOT_TAKEN;
		*ret = slot;
	} else {
		rc = err_set(err, -ENOENT, "network slot %u is not in use", index);
	}
	unlock_devices(slots);
	return rc;
}

/* Closing the tap's last descriptor empties its queue; that it opens again shows that it was the
 * last. */
static void release(struct slot *slot)
{
	struct slots *slots = slot->owner;
	int rc;

	slot_reset_kernel(slot);
	if (slot->tap_fd >= 0)
		close(STEAL_FD(slot->tap_fd));
	rc = slot_open_tap(slot);
	if (rc == 0)
		rc = egress_program_reset_flows(slots->program, slot->index);
	if (rc < 0) {
		log_warn("a network slot cannot be used again and is removed", "slot=%u errno=%d",
			 slot->index, -rc);
		slot_unmake(slot);
		return;
	}
	slot_enqueue(slot);
}

void slot_release(struct slot *slot)
{
	struct slots *slots = slot->owner;

	lock_devices(slots);
	release(slot);
	unlock_devices(slots);
}

int slots_adopt_done(struct slots *slots, struct err *err)
{
	int released = 0;

	lock_devices(slots);
	for (uint32_t i = 0; i < slots->capacity; i++) {
		if (slots->table[i] && slots->table[i]->state == SLOT_WAITING) {
			release(slots->table[i]);
			released++;
		}
	}
	unlock_devices(slots);
	return released;
}
