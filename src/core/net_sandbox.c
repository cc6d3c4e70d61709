/* The slot of one sandbox: taken, filled with its policy and networks, adopted, given back. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/net.h"
#include "net/dns_server.h"
#include "net/proxy.h"
#include "store/egress.h"

void sandbox_net_init(struct sandbox_net *net, size_t denials_max)
{
	*net = (struct sandbox_net){ 0 };
	denials_init(&net->denials, denials_max);
}

void sandbox_net_clear(struct sandbox_net *net)
{
	ruleset_unref(net->rules);
	denials_clear(&net->denials);
	for (size_t i = 0; i < LEARNED_NAMES; i++)
		free(net->learned[i].name);
}

/* ---- which slot is whose ---- */

static void drop_members(struct core_net *net, struct sandbox_net *own)
{
	for (size_t i = 0; i < own->n_members; i++)
		net_member_delist(net, &own->members[i]);
	own->n_members = 0;
}

/* From here on the loop's thread finds it. */
static void list(struct sandbox *sb)
{
	struct core_net *net = sb->core->net;

	pthread_mutex_lock(&sb->core->net_lock);
	drop_members(net, &sb->net); /* of a start that failed and is tried again */
	net->by_index[slot_index(sb->net.slot)] = sb;
	sb->net.address = slot_address(sb->net.slot);
	sb->net.listed = true;
	pthread_mutex_unlock(&sb->core->net_lock);
}

/* After this nothing on the loop's thread touches its slot. */
static void delist(struct sandbox *sb)
{
	struct core_net *net = sb->core->net;
	struct sandbox_net *own = &sb->net;

	pthread_mutex_lock(&sb->core->net_lock);
	if (own->listed) {
		net->by_index[slot_index(own->slot)] = NULL;
		drop_members(net, own);
		ruleset_unref(STEAL(own->rules));
		own->listed = false;
	}
	own->address = 0;
	pthread_mutex_unlock(&sb->core->net_lock);
}

/* An errand to the loop's thread, where name server and proxy live. */
struct errand {
	struct core_net *net;
	uint32_t address;
};

static void forget_on_loop(void *arg)
{
	const struct errand *errand = arg;

	dns_server_forget(errand->net->dns, errand->address);
	proxy_forget(errand->net->proxy, errand->address);
}

/* The next sandbox with this address begins with nothing of this one's. */
static void forget_client(struct core_net *net, uint32_t address)
{
	struct errand errand = { net, address };

	loop_call(net->core->loop, forget_on_loop, &errand);
}

static void recheck_on_loop(void *arg)
{
	const struct errand *errand = arg;

	proxy_recheck(errand->net->proxy, errand->address);
}

/* Connections through the proxy that the rules no longer allow are cut. */
static void recheck_client(struct core_net *net, uint32_t address)
{
	struct errand errand = { net, address };

	loop_call(net->core->loop, recheck_on_loop, &errand);
}

/* ---- taking and giving back ---- */

/* A machine keeps the device that it was made with, and the address that its guest has. */
static int check_fits(const struct core *core, const struct sandbox_row *row, struct err *err)
{
	char here[NET_ADDRESS_SIZE];
	int r = core_net_require(core, err);

	if (r < 0)
		return r;
	core_net_guest_address(core, here);
	if (str_eq(row->guest_address, here))
		return 0;
	err_code(err, -ENOTSUP, "network_unavailable",
		 "its guest has the address %s, and those of this host have %s by now",
		 row->guest_address, here);
	err_hint(err, "set the range in section [network] of skerryd.conf back to what it was");
	return -ENOTSUP;
}

int sandbox_net_take(struct sandbox *sb, struct sandbox_row *row, struct err *err)
{
	int r = 0;

	row->has_slot = false;
	if (!row->guest_address[0])
		return 0;
	r = check_fits(sb->core, row, err);
	if (r < 0)
		return r;
	if (!sb->net.slot)
		r = slot_take(sb->core->net->slots, &sb->net.slot, err);
	if (r < 0)
		return err_wrap(err, r, "take a network slot");
	row->has_slot = true;
	row->slot = slot_index(sb->net.slot);
	core_net_refill(sb->core);
	return 0;
}

void sandbox_net_release(struct sandbox *sb)
{
	struct slot *slot = sb->net.slot;
	uint32_t address = sb->net.address;

	if (!slot)
		return;
	delist(sb);
	sb->net.slot = NULL;
	if (address) /* before anybody else gets it */
		forget_client(sb->core->net, address);
	slot_release(slot);
	core_net_refill(sb->core);
}

void sandbox_net_let_go(struct sandbox *sb)
{
	if (!sb->net.slot)
		return;
	delist(sb);
	sb->net.slot =
		NULL; /* the kernel keeps it for the next daemon; slots_free frees the rest */
}

void sandbox_net_traffic(struct sandbox *sb, struct traffic *ret)
{
	struct slot_counters counters;

	*ret = (struct traffic){ 0 };
	pthread_mutex_lock(&sb->core->net_lock);
	if (sb->net.listed && slot_counters(sb->net.slot, &counters) == 0)
		*ret = (struct traffic){
			.out_packets = counters.out_packets,
			.out_bytes = counters.out_bytes,
			.in_packets = counters.in_packets,
			.in_bytes = counters.in_bytes,
			.denied_packets = counters.out_denied + counters.in_denied,
		};
	pthread_mutex_unlock(&sb->core->net_lock);
}

int sandbox_net_settle(struct sandbox *sb, struct db_txn *txn, struct err *err)
{
	struct traffic traffic;

	if (!sb->net.slot)
		return 0;
	sandbox_net_traffic(sb, &traffic);
	return slot_clear_row(txn, sb->id, &traffic, err);
}

/* ---- what is in force ---- */

static int parse_rules(const struct core *core, const char *text, struct ruleset **ret,
		       struct err *err)
{
	_cleanup_json_ json_t *value = NULL;
	int r = json_parse(text, strlen(text), &value, err);

	/* The limit may have been lowered since: what was accepted stays. */
	if (r == 0)
		r = ruleset_from_json(value, POLICY_RULES_MAX, ret, err);
	return r < 0 ? err_wrap(err, r, "egress rules '%.80s' of the database", text) : 0;
}

int sandbox_net_set_rules(struct sandbox *sb, struct ruleset *rules, struct err *err)
{
	struct policy policy = POLICY_INIT;
	struct ruleset *old;
	int r;

	if (!sb->net.slot)
		return 0;
	ruleset_compile(rules, &policy);
	r = slot_set_policy(sb->net.slot, &policy, err);
	policy_clear(&policy);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->core->net_lock);
	old = sb->net.rules;
	sb->net.rules = ruleset_ref(rules);
	pthread_mutex_unlock(&sb->core->net_lock);
	ruleset_unref(old);
	recheck_client(sb->core->net, slot_address(sb->net.slot));
	return 0;
}

int sandbox_net_join(struct sandbox *sb, const struct network_member_row *row, struct err *err)
{
	struct sandbox_net *own = &sb->net;
	struct net_member *member;
	int r;

	if (!own->slot)
		return 0;
	r = slot_join(own->slot, row->network, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->core->net_lock);
	member = &own->members[own->n_members++];
	*member = (struct net_member){ .sandbox = sb, .row = *row };
	net_member_list(sb->core->net, member);
	pthread_mutex_unlock(&sb->core->net_lock);
	return 0;
}

int sandbox_net_leave(struct sandbox *sb, uint32_t network, struct err *err)
{
	struct sandbox_net *own = &sb->net;
	struct core_net *net = sb->core->net;
	int r;

	if (!own->slot)
		return 0;
	r = slot_leave(own->slot, network, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sb->core->net_lock);
	for (size_t i = 0; i < own->n_members; i++) {
		struct net_member *last = &own->members[own->n_members - 1];

		if (own->members[i].row.network != network)
			continue;
		net_member_delist(net, &own->members[i]);
		if (&own->members[i] != last) {
			net_member_delist(net, last);
			own->members[i] = *last;
			net_member_list(net, &own->members[i]);
		}
		own->n_members--;
		break;
	}
	pthread_mutex_unlock(&sb->core->net_lock);
	return 0;
}

static int load_members(struct sandbox *sb, struct network_member_row **ret, size_t *ret_n,
			struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(sb->core->db, &txn, err);

	return r < 0 ? r : network_members_of(&txn, sb->id, ret, ret_n, err);
}

int sandbox_net_apply(struct sandbox *sb, const struct sandbox_row *row, struct err *err)
{
	_cleanup_free_ struct network_member_row *members = NULL;
	_cleanup_ruleset_ struct ruleset *rules = NULL;
	size_t n = 0;
	int r;

	if (!sb->net.slot)
		return 0;
	r = parse_rules(sb->core, row->egress ? row->egress : EGRESS_NOTHING, &rules, err);
	if (r == 0)
		r = load_members(sb, &members, &n, err);
	if (r < 0)
		return r;
	list(sb);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = sandbox_net_join(sb, &members[i], err);
	if (r == 0)
		r = sandbox_net_set_rules(sb, rules, err);
	return r < 0 ? err_wrap(err, r, "the network of sandbox '%s'", sb->id) : 0;
}

/* ---- after a restart of the daemon ---- */

static void write_done(struct sandbox *sb, const char *egress)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;
	int r = db_begin_write(sb->core->db, &txn, &err);

	if (r == 0)
		r = egress_set(&txn, sb->id, egress, &err);
	if (r == 0)
		r = event_egress(&txn, sb, egress, &err);
	if (r == 0)
		r = db_commit(&txn, &err);
	if (r < 0) /* the next start does it again */
		log_warn("a change of egress rules that was carried out cannot be written",
			 "sandbox=%s error=\"%s\"", sb->id, err.message);
}

/* Its slot goes on with what is in force, which is what the row says, or what it was being changed
 * to. What cannot be made to agree with the row is closed. */
static void adopt_policy(struct sandbox *sb, const struct sandbox_row *row)
{
	struct err err = ERR_INIT;
	_cleanup_ruleset_ struct ruleset *nothing = NULL;
	struct sandbox_row wanted = *row;

	if (row->egress_next)
		wanted.egress = row->egress_next;
	if (sandbox_net_apply(sb, &wanted, &err) == 0) {
		if (row->egress_next)
			write_done(sb, row->egress_next);
		return;
	}
	log_error("the network of a sandbox cannot be taken over and is closed",
		  "sandbox=%s error=\"%s\"", sb->id, err.message);
	nothing = ruleset_new(POLICY_NOTHING);
	if (sandbox_net_set_rules(sb, nothing, &err) < 0)
		sandbox_net_release(sb);
}

void sandbox_net_adopt(struct sandbox *sb, const struct sandbox_row *row)
{
	struct core_net *net = sb->core->net;
	struct err err = ERR_INIT;

	if (!net || !row->has_slot)
		return;
	if (slot_adopt(net->slots, row->slot, &sb->net.slot, &err) < 0) {
		log_error("the slot of a sandbox is gone: it has no network",
			  "sandbox=%s slot=%u error=\"%s\"", sb->id, row->slot, err.message);
		return;
	}
	adopt_policy(sb, row);
}

void sandbox_net_address(struct sandbox *sb, char out[NET_ADDRESS_SIZE])
{
	struct in_addr in;

	pthread_mutex_lock(&sb->core->net_lock);
	in.s_addr = htonl(sb->net.address);
	pthread_mutex_unlock(&sb->core->net_lock);
	out[0] = '\0';
	if (in.s_addr)
		inet_ntop(AF_INET, &in, out, NET_ADDRESS_SIZE);
}
