/*
 * Policies in the kernel's maps.
 *
 * Every policy has a generation, a number that never comes again, and its entries in the maps carry
 * it. To replace a policy, the new generation's entries are written beside the old ones; then one
 * store of one word makes the program look at them; then the old ones are deleted. A daemon that
 * dies in between leaves the old policy in force, or the new one, and entries that nobody looks at,
 * which the next daemon removes.
 *
 * Learned names. The name server says which addresses a name has; the host rules that cover the
 * name say what that opens:
 *
 *   rule            TCP                                   UDP
 *   host            80, 443 by the proxy, others direct   all but 80 and 443
 *   host:port       by the proxy if 80 or 443             unless 80 or 443
 *   tcp://…         as above                              nothing
 *   udp://…         nothing                               as written
 *
 * UDP on 443 is HTTP/3, where nobody checks the name: it stays closed unless a rule asks for UDP in
 * so many words. Several names may have one address: the most that one of them allows counts.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "net/slot_internal.h"

#define NS_PER_MS 1000000ULL

/* --- generations --- */

uint32_t slots_next_generation(struct slots *slots)
{
	struct egress_settings *settings = egress_program_settings(slots->program);
	uint32_t generation;

	do
		generation = (uint32_t)++settings->generation;
	while (generation == 0);
	return generation;
}

static enum egress_state kernel_state(enum policy_state state)
{
	switch (state) {
	case POLICY_OPEN:
		return EGRESS_OPEN;
	case POLICY_LIST:
		return EGRESS_LIST;
	case POLICY_NOTHING:
		break;
	}
	return EGRESS_NOTHING;
}

/* The moment at which the policy changes. */
static void publish(struct slot *slot, uint32_t generation, enum policy_state state)
{
	uint64_t word = (uint64_t)generation << 8 | (uint64_t)kernel_state(state);

	__atomic_store_n(&slot_shared(slot)->policy, word, __ATOMIC_RELEASE);
	slot->generation = generation;
}

/* --- address rules --- */

static size_t keys_of_rule(const struct policy_address *rule, uint32_t generation,
			   struct egress_rule_key out[2])
{
	const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		if (rule->protocol != POLICY_ANY && rule->protocol != protocols[i])
			continue;
		out[n++] = (struct egress_rule_key){
			.prefixlen = EGRESS_RULE_EXACT_BITS + rule->prefix,
			.generation = generation,
			.protocol = protocols[i],
			.port_be = htons(rule->port),
			.address_be = htonl(rule->address),
		};
	}
	return n;
}

/* In one system call; the count says how far it came. */
static void delete_rules(struct slots *slots, const struct egress_rule_key *keys, size_t n)
{
	int fd = egress_program_map_fd(slots->program, EGRESS_MAP_RULES);
	uint32_t count = (uint32_t)n;

	if (n == 0 || bpf_map_delete_batch(fd, keys, &count, NULL) == 0)
		return;
	for (size_t i = count; i < n; i++)
		bpf_map_delete_elem(fd, &keys[i]);
}

static int insert_rules(struct slots *slots, const struct policy *policy, uint32_t generation,
			struct egress_rule_key **ret, size_t *ret_n)
{
	int fd = egress_program_map_fd(slots->program, EGRESS_MAP_RULES);
	struct egress_rule_key *keys = xcalloc(2 * policy->n_addresses + 1, sizeof(*keys));
	_cleanup_free_ uint32_t *present = NULL;
	uint32_t count;
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < policy->n_addresses; i++)
		n += keys_of_rule(&policy->addresses[i], generation, &keys[n]);
	present = xcalloc(n + 1, sizeof(*present));
	count = (uint32_t)n;
	rc = n > 0 ? bpf_map_update_batch(fd, keys, present, &count, NULL) : 0;
	if (rc < 0) {
		delete_rules(slots, keys, n);
		free(keys);
		return rc;
	}
	*ret = keys;
	*ret_n = n;
	return 0;
}

/* --- learned names --- */

struct entry {
	uint8_t protocol;
	uint16_t port;
	enum egress_action action;
	int64_t expires_boottime_ms;
	const char *name;
};

struct entries {
	struct entry *items;
	size_t n, capacity;
};

static void entries_clear(struct entries *set)
{
	free(set->items);
}

static int rank(enum egress_action action)
{
	switch (action) {
	case EGRESS_DIRECT:
		return 2;
	case EGRESS_VIA_PROXY:
		return 1;
	case EGRESS_DENY:
		break;
	}
	return 0;
}

static void add_entry(struct entries *set, uint8_t protocol, uint16_t port,
		      enum egress_action action, const struct learned_name *learned)
{
	const struct entry entry = { protocol, port, action, learned->expires_boottime_ms,
				     learned->name };

	for (size_t i = 0; i < set->n; i++) {
		struct entry *other = &set->items[i];

		if (other->protocol != protocol || other->port != port)
			continue;
		if (rank(action) > rank(other->action) ||
		    (action == other->action &&
		     entry.expires_boottime_ms > other->expires_boottime_ms))
			*other = entry;
		return;
	}
	if (set->n == set->capacity) {
		set->capacity = set->capacity ? 2 * set->capacity : 8;
		set->items = xrealloc(set->items, set->capacity * sizeof(*set->items));
	}
	set->items[set->n++] = entry;
}

static bool has_names(uint16_t port)
{
	return port == 80 || port == 443;
}

static void add_tcp(struct entries *set, const struct policy_host *rule,
		    const struct learned_name *learned)
{
	if (rule->protocol == POLICY_UDP)
		return;
	add_entry(set, IPPROTO_TCP, rule->port,
		  has_names(rule->port) ? EGRESS_VIA_PROXY : EGRESS_DIRECT, learned);
	if (rule->port != 0)
		return;
	add_entry(set, IPPROTO_TCP, 80, EGRESS_VIA_PROXY, learned);
	add_entry(set, IPPROTO_TCP, 443, EGRESS_VIA_PROXY, learned);
}

static void add_udp(struct entries *set, const struct policy_host *rule,
		    const struct learned_name *learned)
{
	bool asked_for = rule->protocol == POLICY_UDP;
	enum egress_action web = asked_for ? EGRESS_DIRECT : EGRESS_DENY;

	if (rule->protocol == POLICY_TCP || (has_names(rule->port) && !asked_for))
		return;
	add_entry(set, IPPROTO_UDP, rule->port, EGRESS_DIRECT, learned);
	if (rule->port != 0)
		return;
	add_entry(set, IPPROTO_UDP, 80, web, learned);
	add_entry(set, IPPROTO_UDP, 443, web, learned);
}

/* What all names of the address open. */
static void collect(const struct slot *slot, const struct policy *policy, uint32_t address,
		    struct entries *set)
{
	for (size_t i = 0; i < slot->n_names; i++) {
		const struct learned_name *learned = &slot->names[i];

		if (learned->address != address)
			continue;
		for (size_t j = 0; j < policy->n_hosts; j++) {
			if (!policy_host_covers(&policy->hosts[j], learned->name))
				continue;
			add_tcp(set, &policy->hosts[j], learned);
			add_udp(set, &policy->hosts[j], learned);
		}
	}
}

static struct egress_learned_key learned_key(uint32_t generation, uint32_t address,
					     const struct entry *entry)
{
	return (struct egress_learned_key){
		.generation = generation,
		.address_be = htonl(address),
		.protocol = entry->protocol,
		.port_be = htons(entry->port),
	};
}

static int open_address(struct slot *slot, const struct policy *policy, uint32_t generation,
			uint32_t address)
{
	int fd = egress_program_map_fd(slot->owner->program, EGRESS_MAP_LEARNED);
	_cleanup_(entries_clear) struct entries set = { 0 };

	collect(slot, policy, address, &set);
	for (size_t i = 0; i < set.n; i++) {
		const struct entry *entry = &set.items[i];
		struct egress_learned_key key = learned_key(generation, address, entry);
		struct egress_learned value = {
			.expires_ns = (uint64_t)entry->expires_boottime_ms * NS_PER_MS,
			.action = entry->action,
		};
		int rc;

		str_copy(value.name, sizeof(value.name), entry->name);
		rc = bpf_map_update_elem(fd, &key, &value, BPF_ANY);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void close_address(struct slot *slot, const struct policy *policy, uint32_t generation,
			  uint32_t address)
{
	int fd = egress_program_map_fd(slot->owner->program, EGRESS_MAP_LEARNED);
	_cleanup_(entries_clear) struct entries set = { 0 };

	collect(slot, policy, address, &set);
	for (size_t i = 0; i < set.n; i++) {
		struct egress_learned_key key = learned_key(generation, address, &set.items[i]);

		bpf_map_delete_elem(fd, &key);
	}
}

static void close_all_addresses(struct slot *slot, const struct policy *policy, uint32_t generation)
{
	int fd = egress_program_map_fd(slot->owner->program, EGRESS_MAP_LEARNED);

	for (size_t i = 0; i < slot->n_names; i++)
		close_address(slot, policy, generation, slot->names[i].address);
	for (size_t i = 0; i < slot->n_inherited; i++) {
		if (slot->inherited[i].generation == generation)
			bpf_map_delete_elem(fd, &slot->inherited[i]);
	}
}

static int open_all_addresses(struct slot *slot, const struct policy *policy, uint32_t generation)
{
	for (size_t i = 0; i < slot->n_names; i++) {
		int rc = open_address(slot, policy, generation, slot->names[i].address);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static struct learned_name *find_name(struct slot *slot, const char *name, uint32_t address)
{
	for (size_t i = 0; i < slot->n_names; i++) {
		struct learned_name *learned = &slot->names[i];

		if (learned->address == address && strcmp(learned->name, name) == 0)
			return learned;
	}
	return NULL;
}

static void remove_name(struct slot *slot, size_t i)
{
	free(slot->names[i].name);
	slot->names[i] = slot->names[--slot->n_names];
}

/* Expired entries are kept for the flows that began in time; the longest expired makes room. */
static int make_room(struct slot *slot)
{
	size_t oldest = 0;
	uint32_t address;

	if (slot->n_names < SLOT_LEARNED_MAX)
		return 0;
	for (size_t i = 1; i < slot->n_names; i++) {
		if (slot->names[i].expires_boottime_ms < slot->names[oldest].expires_boottime_ms)
			oldest = i;
	}
	if (slot->names[oldest].expires_boottime_ms > clock_boottime_ms())
		return -ENOSPC;
	address = slot->names[oldest].address;
	close_address(slot, &slot->policy, slot->generation, address);
	remove_name(slot, oldest);
	return open_address(slot, &slot->policy, slot->generation, address);
}

static struct learned_name *add_name(struct slot *slot, const char *name, uint32_t address)
{
	struct learned_name *learned;

	if (slot->n_names == slot->names_capacity) {
		slot->names_capacity = slot->names_capacity ? 2 * slot->names_capacity : 16;
		slot->names = xrealloc(slot->names, slot->names_capacity * sizeof(*slot->names));
	}
	learned = &slot->names[slot->n_names++];
	*learned = (struct learned_name){ .name = xstrdup(name), .address = address };
	return learned;
}

static int allow(struct slot *slot, const char *name, uint32_t address, int64_t expires_boottime_ms)
{
	struct learned_name *learned;
	int rc;

	if (!policy_find_host(&slot->policy, name, POLICY_ANY, 0))
		return 0;
	learned = find_name(slot, name, address);
	if (!learned) {
		rc = make_room(slot);
		if (rc < 0)
			return rc;
		learned = add_name(slot, name, address);
	}
	if (expires_boottime_ms > learned->expires_boottime_ms)
		learned->expires_boottime_ms = expires_boottime_ms;
	return open_address(slot, &slot->policy, slot->generation, address);
}

int slot_allow(struct slot *slot, const char *name, uint32_t address, int64_t expires_boottime_ms)
{
	struct slots *slots = slot->owner;
	int rc;

	if (strlen(name) > POLICY_NAME_MAX)
		return -ENAMETOOLONG;
	slots_lock(slots);
	rc = slots_denies(slots, address) ? -EACCES
					  : allow(slot, name, address, expires_boottime_ms);
	slots_unlock(slots);
	return rc;
}

/* --- replacing --- */

static void forget_uncovered_names(struct slot *slot)
{
	for (size_t i = slot->n_names; i > 0; i--) {
		if (!policy_find_host(&slot->policy, slot->names[i - 1].name, POLICY_ANY, 0))
			remove_name(slot, i - 1);
	}
}

static int replace(struct slot *slot, const struct policy *policy)
{
	struct slots *slots = slot->owner;
	uint32_t generation = slots_next_generation(slots), before = slot->generation;
	struct egress_rule_key *rules = NULL;
	size_t n_rules = 0;
	int rc = 0;

	if (policy->state == POLICY_LIST) {
		rc = insert_rules(slots, policy, generation, &rules, &n_rules);
		if (rc == 0)
			rc = open_all_addresses(slot, policy, generation);
	}
	if (rc < 0) {
		close_all_addresses(slot, policy, generation);
		delete_rules(slots, rules, n_rules);
		free(rules);
		return rc;
	}
	publish(slot, generation, policy->state);

	close_all_addresses(slot, &slot->policy, before);
	delete_rules(slots, slot->rules, slot->n_rules);
	free(slot->rules);
	slot->rules = rules;
	slot->n_rules = n_rules;
	free(slot->inherited);
	slot->inherited = NULL;
	slot->n_inherited = 0;
	policy_clear(&slot->policy);
	policy_copy(&slot->policy, policy);
	forget_uncovered_names(slot);
	return 0;
}

int slot_set_policy(struct slot *slot, const struct policy *policy, struct err *err)
{
	struct slots *slots = slot->owner;
	int rc;

	if (policy->n_addresses + policy->n_hosts > POLICY_RULES_MAX) {
		err_code(err, -E2BIG, "limit_reached",
			 "%zu rules are more than the %d of a sandbox",
			 policy->n_addresses + policy->n_hosts, POLICY_RULES_MAX);
		err_hint(err, "use wildcards and CIDRs in their place");
		return -E2BIG;
	}
	slots_lock(slots);
	rc = replace(slot, policy);
	slots_unlock(slots);
	if (rc < 0) {
		err_set(err, rc, "cannot enter the rules into the kernel's maps: %s",
			strerror(-rc));
		err_hint(err, "the rules before are still in force");
		return rc;
	}
	return 0;
}

void slot_policy_clear(struct slot *slot)
{
	const struct policy nothing = POLICY_INIT;

	/* Nothing to insert: it cannot fail. */
	replace(slot, &nothing);
}

void slot_policy_free(struct slot *slot)
{
	for (size_t i = 0; i < slot->n_names; i++)
		free(slot->names[i].name);
	free(slot->names);
	free(slot->rules);
	free(slot->inherited);
	policy_clear(&slot->policy);
}

/* --- what an earlier daemon left --- */

/* The waiting slot of a generation; last is the one before, mostly the same. */
static struct slot *slot_of_generation(struct slots *slots, struct slot *last, uint32_t generation)
{
	if (last && last->generation == generation)
		return last;
	for (uint32_t i = 0; i < slots->capacity; i++) {
		struct slot *slot = slots->table[i];

		if (slot && slot->state == SLOT_WAITING && slot->generation == generation)
			return slot;
	}
	return NULL;
}

static void inherit_rule(struct slot *slot, const struct egress_rule_key *key)
{
	slot->rules = xrealloc(slot->rules, (slot->n_rules + 1) * sizeof(*slot->rules));
	slot->rules[slot->n_rules++] = *key;
}

static void inherit_learned(struct slot *slot, const struct egress_learned_key *key,
			    struct egress_learned *value)
{
	uint32_t address = ntohl(key->address_be);
	int64_t expires_ms = (int64_t)(value->expires_ns / NS_PER_MS);
	struct learned_name *learned;

	slot->inherited =
		xrealloc(slot->inherited, (slot->n_inherited + 1) * sizeof(*slot->inherited));
	slot->inherited[slot->n_inherited++] = *key;
	value->name[sizeof(value->name) - 1] = '\0';
	if (slot->n_names >= SLOT_LEARNED_MAX)
		return;
	learned = find_name(slot, value->name, address);
	if (!learned)
		learned = add_name(slot, value->name, address);
	if (expires_ms > learned->expires_boottime_ms)
		learned->expires_boottime_ms = expires_ms;
}

/* Reads all keys first: deleting while walking would start the walk again. */
static void *all_keys(int fd, size_t key_size, size_t *ret_n)
{
	char *keys = NULL, *last = NULL;
	size_t n = 0, capacity = 0;

	for (;;) {
		if (n == capacity) {
			capacity = capacity ? 2 * capacity : 256;
			keys = xrealloc(keys, capacity * key_size);
			last = n ? keys + (n - 1) * key_size : NULL;
		}
		if (n == EGRESS_RULES || bpf_map_get_next_key(fd, last, keys + n * key_size) < 0)
			break;
		last = keys + n * key_size;
		n++;
	}
	*ret_n = n;
	return keys;
}

void slots_policy_inherit(struct slots *slots)
{
	int rules = egress_program_map_fd(slots->program, EGRESS_MAP_RULES);
	int learned = egress_program_map_fd(slots->program, EGRESS_MAP_LEARNED);
	_cleanup_free_ struct egress_rule_key *rule_keys = NULL;
	_cleanup_free_ struct egress_learned_key *learned_keys = NULL;
	size_t n_rules = 0, n_learned = 0;
	struct slot *slot = NULL;

	for (uint32_t i = 0; i < slots->capacity; i++) {
		if (slots->table[i])
			slots->table[i]->generation =
				(uint32_t)(slot_shared(slots->table[i])->policy >> 8);
	}
	rule_keys = all_keys(rules, sizeof(*rule_keys), &n_rules);
	for (size_t i = 0; i < n_rules; i++) {
		slot = slot_of_generation(slots, slot, rule_keys[i].generation);
		if (slot)
			inherit_rule(slot, &rule_keys[i]);
		else
			bpf_map_delete_elem(rules, &rule_keys[i]);
	}
	learned_keys = all_keys(learned, sizeof(*learned_keys), &n_learned);
	for (size_t i = 0; i < n_learned; i++) {
		struct egress_learned value;

		slot = slot_of_generation(slots, slot, learned_keys[i].generation);
		if (slot && bpf_map_lookup_elem(learned, &learned_keys[i], &value) == 0)
			inherit_learned(slot, &learned_keys[i], &value);
		else
			bpf_map_delete_elem(learned, &learned_keys[i]);
	}
}
