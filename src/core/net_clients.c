/*
 * What the name server, the proxy and the kernel's program are told, and tell, about sandboxes.
 * They know unique addresses and slots; here is which sandbox that is. All on the loop's thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/net.h"
#include "net/clients.h"

#define INTERNAL_SUFFIX ".internal"

/* net_lock. NULL: no sandbox has that address (any more). */
static struct sandbox *client_of(struct core_net *net, uint32_t address)
{
	uint32_t index = slots_index_of(net->slots, address);

	return index < SLOT_INDEX_MAX ? net->by_index[index] : NULL;
}

/* ---- members by name ---- */

static struct net_member **bucket_of(struct core_net *net, uint32_t network, const char *name)
{
	uint32_t hash = 2166136261u ^ network; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return &net->by_name[hash % ARRAY_SIZE(net->by_name)];
}

void net_member_list(struct core_net *net, struct net_member *member)
{
	struct net_member **bucket = bucket_of(net, member->row.network, member->row.name);

	member->next = *bucket;
	*bucket = member;
}

void net_member_delist(struct core_net *net, struct net_member *member)
{
	struct net_member **p = bucket_of(net, member->row.network, member->row.name);

	while (*p && *p != member)
		p = &(*p)->next;
	if (*p)
		*p = member->next;
}

/* net_lock. */
static uint32_t address_in(struct core_net *net, uint32_t network, const char *name)
{
	const struct net_member *member = *bucket_of(net, network, name);

	while (member && !(member->row.network == network && str_eq(member->row.name, name)))
		member = member->next;
	return member ? member->sandbox->net.address : 0;
}

/* "name.network.internal" into two texts. */
static bool split_name(const char *name, char member[SANDBOX_NAME_MAX + 1],
		       char network[SANDBOX_NAME_MAX + 1])
{
	size_t len = strlen(name), suffix = strlen(INTERNAL_SUFFIX), first, second;

	if (len <= suffix || !str_eq(name + len - suffix, INTERNAL_SUFFIX))
		return false;
	len -= suffix;
	first = strcspn(name, ".");
	if (first == 0 || first >= len)
		return false;
	second = len - first - 1;
	if (first > SANDBOX_NAME_MAX || second == 0 || second > SANDBOX_NAME_MAX ||
	    memchr(name + first + 1, '.', second))
		return false;
	memcpy(member, name, first);
	member[first] = '\0';
	memcpy(network, name + first + 1, second);
	network[second] = '\0';
	return true;
}

static int on_network_name(void *arg, uint32_t client, const char *name, uint32_t *ret_address)
{
	struct core_net *net = arg;
	char member[SANDBOX_NAME_MAX + 1], network[SANDBOX_NAME_MAX + 1];
	const struct sandbox *sb;
	uint32_t address = 0;

	if (!split_name(name, member, network))
		return -ENOENT;
	pthread_mutex_lock(&net->core->net_lock);
	sb = client_of(net, client);
	for (size_t i = 0; sb && i < sb->net.n_members; i++) {
		const struct network_member_row *row = &sb->net.members[i].row;

		if (str_eq(row->network_name, network))
			address = address_in(net, row->network, member);
	}
	pthread_mutex_unlock(&net->core->net_lock);
	if (!address)
		return -ENOENT;
	*ret_address = address;
	return 0;
}

/* ---- rules and addresses of names ---- */

static struct ruleset *on_rules(void *arg, uint32_t client)
{
	struct core_net *net = arg;
	struct ruleset *rules = NULL;
	const struct sandbox *sb;

	pthread_mutex_lock(&net->core->net_lock);
	sb = client_of(net, client);
	if (sb && sb->net.rules)
		rules = ruleset_ref(sb->net.rules);
	pthread_mutex_unlock(&net->core->net_lock);
	return rules;
}

/* net_lock. So that a denial of the address can be told by the name that the guest meant. */
static void learn(struct sandbox_net *net, const char *name, uint32_t address)
{
	struct learned_name *slot;

	for (size_t i = 0; i < LEARNED_NAMES; i++) {
		if (net->learned[i].address == address && str_eq(net->learned[i].name, name))
			return;
	}
	slot = &net->learned[net->next_learned++ % LEARNED_NAMES];
	free(slot->name);
	*slot = (struct learned_name){ .address = address, .name = xstrdup(name) };
}

/* The one that was asked for last. */
static const char *learned_name(const struct sandbox_net *net, uint32_t address)
{
	for (size_t i = 1; i <= LEARNED_NAMES; i++) {
		const struct learned_name *one =
			&net->learned[(net->next_learned - i) % LEARNED_NAMES];

		if (one->name && one->address == address)
			return one->name;
	}
	return NULL;
}

static int on_allow(void *arg, uint32_t client, const char *name, uint32_t address,
		    int64_t expires_boottime_ms)
{
	struct core_net *net = arg;
	struct sandbox *sb;
	int r = -ENOENT;

	pthread_mutex_lock(&net->core->net_lock);
	sb = client_of(net, client);
	if (sb) /* listed: its slot is not released before it was delisted, which takes the lock */
		r = slot_allow(sb->net.slot, name, address, expires_boottime_ms);
	if (r == 0)
		learn(&sb->net, name, address);
	pthread_mutex_unlock(&net->core->net_lock);
	return r;
}

static bool on_denied_range(void *arg, uint32_t address)
{
	struct core_net *net = arg;

	return slots_denied_range(net->slots, address);
}

/* ---- denials ---- */

static void log_denial(const struct sandbox *sb, const struct denial *denial)
{
	const struct in_addr in = { htonl(denial->address) };
	char address[INET_ADDRSTRLEN];

	log_debug("egress denied",
		  "sandbox=%s host=%s address=%s port=%u protocol=%u reason=\"%s\"", sb->id,
		  denial->host ? denial->host : "-",
		  inet_ntop(AF_INET, &in, address, sizeof(address)), denial->port, denial->protocol,
		  denial->reason);
}

static void on_name_denied(void *arg, uint32_t client, const struct net_denial *denial)
{
	struct core_net *net = arg;
	const struct denial what = {
		.host = denial->name,
		.address = denial->address,
		.port = denial->port,
		.protocol = denial->protocol,
		.reason = denial->reason,
		.rule = denial->rule,
	};
	struct sandbox *sb;

	pthread_mutex_lock(&net->core->net_lock);
	sb = client_of(net, client);
	if (sb) {
		denials_add(&sb->net.denials, &what, clock_unix_ms());
		event_denied(sb, &what, 0);
		log_denial(sb, &what);
	}
	pthread_mutex_unlock(&net->core->net_lock);
}

static const char *reason_text(enum slot_reason reason)
{
	switch (reason) {
	case SLOT_DENIED_FRAME:
		return "the packet is malformed, a fragment, or not from this sandbox's address";
	case SLOT_DENIED_PROTOCOL:
		return "no protocol but TCP, UDP and ping leaves a sandbox";
	case SLOT_DENIED_RANGE:
		return "private, link-local, metadata and reserved addresses cannot be reached";
	case SLOT_DENIED_HOST:
		return "the host of the sandbox cannot be reached";
	case SLOT_DENIED_NEIGHBOUR:
		return "it is a sandbox that is in no network with this one";
	case SLOT_DENIED_POLICY:
		return "no egress rule allows it";
	case SLOT_DENIED_PROXY:
		return "the check of names for host rules is not running";
	}
	return "it is not allowed";
}

void net_on_denied(void *arg, uint32_t index, uint32_t lease, const struct slot_denial *denial)
{
	struct core_net *net = arg;
	const struct in_addr in = { htonl(denial->address) };
	const struct net_prefix prefix = prefix_of_ipv4(in);
	struct denial what = {
		.address = denial->address,
		.port = denial->port,
		.protocol = denial->protocol,
		.reason = reason_text(denial->reason),
	};
	char rule[RULE_PRINT_SIZE];
	struct sandbox *sb;

	if (index >= SLOT_INDEX_MAX)
		return;
	pthread_mutex_lock(&net->core->net_lock);
	sb = net->by_index[index];
	if (sb && slot_lease(sb->net.slot) == lease) {
		what.host = learned_name(&sb->net, denial->address);
		if (denial->reason == SLOT_DENIED_POLICY)
			what.rule = rule_suggest(what.host, &prefix,
						 denial->protocol == POLICY_UDP ? POLICY_UDP
										: POLICY_TCP,
						 denial->port, rule);
		sb->net.denials.unreported += denial->unreported;
		denials_add(&sb->net.denials, &what, clock_unix_ms());
		event_denied(sb, &what, denial->unreported);
		log_denial(sb, &what);
	}
	pthread_mutex_unlock(&net->core->net_lock);
}

void net_clients_of(struct core_net *net, struct net_clients *ret)
{
	*ret = (struct net_clients){
		.arg = net,
		.rules = on_rules,
		.network_name = on_network_name,
		.allow = on_allow,
		.denied_range = on_denied_range,
		.denied = on_name_denied,
	};
}

/* ---- denials of commands ---- */

static struct exec_span *span_of(struct sandbox *sb, const char *exec_id)
{
	for (size_t i = 0; i < EXEC_SPANS; i++) {
		if (str_eq(sb->net.spans[i].exec_id, exec_id))
			return &sb->net.spans[i];
	}
	return NULL;
}

static uint64_t denials_now(struct sandbox *sb)
{
	uint64_t seq;

	pthread_mutex_lock(&sb->core->net_lock);
	seq = sb->net.denials.seq;
	pthread_mutex_unlock(&sb->core->net_lock);
	return seq;
}

void exec_span_begin(struct sandbox *sb, const char *exec_id)
{
	struct exec_span *span = &sb->net.spans[sb->net.next_span++ % EXEC_SPANS];

	str_copy(span->exec_id, sizeof(span->exec_id), exec_id);
	span->after = denials_now(sb);
	span->upto = UINT64_MAX;
}

void exec_span_end(struct sandbox *sb, const char *exec_id)
{
	struct exec_span *span = span_of(sb, exec_id);

	if (!span)
		return;
	if (sb->core->net) /* what was denied came before the exit, but by another way */
		slots_deliver(sb->core->net->slots);
	span->upto = denials_now(sb);
}

json_t *exec_span_denied(struct sandbox *sb, const char *exec_id)
{
	const struct exec_span *span = span_of(sb, exec_id);
	json_t *list = NULL;

	if (!span)
		return NULL;
	pthread_mutex_lock(&sb->core->net_lock);
	if (sb->net.denials.seq > span->after)
		list = denials_short_json(&sb->net.denials, span->after, span->upto);
	pthread_mutex_unlock(&sb->core->net_lock);
	return list;
}
