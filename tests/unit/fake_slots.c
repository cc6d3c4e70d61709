/* See fake_slots.h. */
#include "fake_slots.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "net/dns_server.h"
#include "net/proxy.h"

#define FIRST_ADDRESS (SLOT_DEFAULT_RANGE + 256)

struct fake_slots fake;

struct slots {
	struct slot *table[SLOT_INDEX_MAX];
};

struct slot {
	uint32_t index;
};

__attribute__((format(printf, 1, 2))) static void event(const char *fmt, ...)
{
	size_t len = strlen(fake.events);
	va_list args;

	va_start(args, fmt);
	vsnprintf(fake.events + len, sizeof(fake.events) - len, fmt, args);
	va_end(args);
}

void fake_slots_reset(void)
{
	for (size_t i = 0; i < SLOT_INDEX_MAX; i++)
		policy_clear(&fake.slots[i].policy);
	fake = (struct fake_slots){ 0 };
}

uint32_t fake_address(uint32_t index)
{
	return FIRST_ADDRESS + index;
}

bool fake_in_network(uint32_t index, uint32_t network)
{
	const struct fake_slot *slot = &fake.slots[index];

	for (size_t i = 0; i < slot->n_networks; i++) {
		if (slot->networks[i] == network)
			return true;
	}
	return false;
}

/* ---- slots ---- */

int slots_new(const struct slots_config *config, struct loop *loop, slot_denied_fn denied,
	      void *arg, struct slots **ret, struct err *err)
{
	if (fake.broken) {
		err_set(err, -EPERM, "the program cannot be loaded");
		err_hint(err, "give the daemon CAP_BPF");
		return -EPERM;
	}
	*ret = xcalloc(1, sizeof(**ret));
	fake.denied = denied;
	fake.denied_arg = arg;
	return 0;
}

void slots_free(struct slots *slots)
{
	for (size_t i = 0; slots && i < SLOT_INDEX_MAX; i++)
		free(slots->table[i]);
	free(slots);
}

void slots_destroy(struct slots *slots)
{
	event("destroy\n");
	slots_free(slots);
}

uint32_t slots_gateway(const struct slots *slots)
{
	return slot_gateway(SLOT_DEFAULT_RANGE);
}

uint32_t slots_inner(const struct slots *slots)
{
	return slot_inner(SLOT_DEFAULT_RANGE);
}

uint32_t slots_index_of(const struct slots *slots, uint32_t address)
{
	return address - FIRST_ADDRESS < SLOT_INDEX_MAX ? address - FIRST_ADDRESS : SLOT_NONE;
}

bool slots_denied_range(struct slots *slots, uint32_t address)
{
	return address >> 24 == 10;
}

void slots_deliver(struct slots *slots)
{
}

int slots_refill(struct slots *slots, struct err *err)
{
	return 0;
}

static struct slot *slot_of(struct slots *slots, uint32_t index)
{
	if (!slots->table[index])
		slots->table[index] = xcalloc(1, sizeof(struct slot));
	slots->table[index]->index = index;
	return slots->table[index];
}

int slot_take(struct slots *slots, struct slot **ret, struct err *err)
{
	uint32_t index = 0;

	while (fake.slots[index].taken || fake.slots[index].waiting)
		index++;
	fake.slots[index].taken = true;
	fake.slots[index].lease++;
	event("take %u\n", index);
	*ret = slot_of(slots, index);
	return 0;
}

int slot_adopt(struct slots *slots, uint32_t index, struct slot **ret, struct err *err)
{
	if (!fake.slots[index].waiting)
		return err_set(err, -ENOENT, "slot %u is not in use", index);
	fake.slots[index].waiting = false;
	fake.slots[index].taken = true;
	event("adopt %u\n", index);
	*ret = slot_of(slots, index);
	return 0;
}

int slots_adopt_done(struct slots *slots, struct err *err)
{
	int n = 0;

	for (uint32_t i = 0; i < SLOT_INDEX_MAX; i++) {
		n += fake.slots[i].waiting;
		fake.slots[i].waiting = false;
	}
	return n;
}

void slot_release(struct slot *slot)
{
	struct fake_slot *s = &fake.slots[slot->index];

	event("release %u\n", slot->index);
	policy_clear(&s->policy);
	*s = (struct fake_slot){ .lease = s->lease };
}

uint32_t slot_index(const struct slot *slot)
{
	return slot->index;
}

uint32_t slot_lease(const struct slot *slot)
{
	return fake.slots[slot->index].lease;
}

uint32_t slot_address(const struct slot *slot)
{
	return fake_address(slot->index);
}

int slot_tap_fd(const struct slot *slot)
{
	return -1;
}

int slot_set_policy(struct slot *slot, const struct policy *policy, struct err *err)
{
	struct fake_slot *s = &fake.slots[slot->index];

	if (fake.on_policy)
		fake.on_policy(fake.on_policy_arg, slot->index);
	if (fake.refuse_policy)
		return err_set(err, -ENOMEM, "the map is full");
	policy_clear(&s->policy);
	policy_copy(&s->policy, policy);
	event("policy %u %s\n", slot->index,
	      policy->state == POLICY_OPEN	? "open"
	      : policy->state == POLICY_NOTHING ? "nothing"
						: "list");
	return 0;
}

int slot_allow(struct slot *slot, const char *name, uint32_t address, int64_t expires_boottime_ms)
{
	event("allow %u %s\n", slot->index, name);
	return address >> 24 == 10 ? -EACCES : 0;
}

int slot_join(struct slot *slot, uint32_t network, struct err *err)
{
	struct fake_slot *s = &fake.slots[slot->index];

	if (fake_in_network(slot->index, network))
		return 0;
	if (s->n_networks == SLOT_NETWORKS_MAX)
		return err_set(err, -ENOSPC, "in too many networks");
	s->networks[s->n_networks++] = network;
	return 0;
}

int slot_leave(struct slot *slot, uint32_t network, struct err *err)
{
	struct fake_slot *s = &fake.slots[slot->index];

	for (size_t i = 0; i < s->n_networks; i++) {
		if (s->networks[i] == network)
			s->networks[i] = s->networks[--s->n_networks];
	}
	return 0;
}

int slot_counters(const struct slot *slot, struct slot_counters *ret)
{
	*ret = fake.slots[slot->index].counters;
	return 0;
}

/* ---- names ---- */

struct dns_server {
	int unused;
};

int dns_server_new(struct loop *loop, const struct dns_server_config *config,
		   struct dns_server **ret, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	fake.clients = *config->clients;
	return 0;
}

void dns_server_free(struct dns_server *server)
{
	free(server);
}

void dns_server_forget(struct dns_server *server, uint32_t address)
{
	event("forget %u\n", address - FIRST_ADDRESS);
}

/* ---- the proxy ---- */

struct proxy {
	int unused;
};

int slots_set_proxy(struct slots *slots, uint16_t port)
{
	assert_non_null(slots);
	fake.proxy_port = port;
	return 0;
}

int proxy_new(struct loop *loop, const struct proxy_config *config, struct proxy **ret,
	      struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	return 0;
}

void proxy_free(struct proxy *proxy)
{
	free(proxy);
}

uint16_t proxy_port(const struct proxy *proxy)
{
	return FAKE_PROXY_PORT;
}

void proxy_recheck(struct proxy *proxy, uint32_t address)
{
	event("recheck %u\n", address - FIRST_ADDRESS);
}

void proxy_forget(struct proxy *proxy, uint32_t address)
{
	event("cut %u\n", address - FIRST_ADDRESS);
}

uint32_t slots_preview_mark(void)
{
	return 1;
}
