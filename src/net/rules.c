/* Sets of rules: parsing them whole, comparing them, asking them. */
#include "net/rules.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <arpa/inet.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define SHOWN_MAX 80 /* bytes of a malformed rule that its message quotes */

struct ruleset *ruleset_new(enum policy_state state)
{
	struct ruleset *set = xcalloc(1, sizeof(*set));

	assert(state != POLICY_LIST);
	set->refs = 1;
	set->state = state;
	return set;
}

struct ruleset *ruleset_ref(struct ruleset *set)
{
	__atomic_add_fetch(&set->refs, 1, __ATOMIC_RELAXED);
	return set;
}

void ruleset_unref(struct ruleset *set)
{
	if (!set || __atomic_sub_fetch(&set->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (size_t i = 0; i < set->n; i++)
		rule_clear(&set->rules[i]);
	free(set->rules);
	free(set);
}

static bool same_rule(const struct rule *a, const struct rule *b)
{
	return a->kind == b->kind && a->proto == b->proto && a->port == b->port &&
	       str_eq(a->host, b->host) && prefix_equal(&a->prefix, &b->prefix);
}

/* Takes over the rule, unless the set has it already. */
static void add(struct ruleset *set, struct rule *rule)
{
	for (size_t i = 0; i < set->n; i++) {
		if (same_rule(&set->rules[i], rule)) {
			rule_clear(rule);
			return;
		}
	}
	set->rules[set->n++] = *rule;
}

/* Quotes what may be anything: cut, with every byte that is not plain text in hexadecimal. */
static void show(struct rule_text rule, struct buf *out)
{
	for (size_t i = 0; i < rule.len && i < SHOWN_MAX; i++) {
		unsigned char c = (unsigned char)rule.text[i];

		if (c < ' ' || c == 0x7f || c == '\\' || c == '\'')
			buf_printf(out, "\\x%02x", c);
		else
			buf_append_char(out, (char)c);
	}
	if (rule.len > SHOWN_MAX) {
		size_t whole = utf8_whole_prefix(out->data, out->len);

		out->len = whole;
		buf_append_str(out, "...");
	}
	if (!utf8_valid(buf_str(out), out->len)) {
		buf_reset(out);
		buf_append_str(out, "(not UTF-8)");
	}
}

static int malformed(size_t index, struct rule_text rule, const char *why, struct err *err)
{
	_cleanup_buf_ struct buf shown = BUF_INIT;

	show(rule, &shown);
	err_code(err, -EINVAL, "invalid_egress_rule", "egress rule [%zu] '%s' %s", index,
		 buf_str(&shown), why);
	err_hint(err, "a rule is host, host:port, *.example.com, an address or a CIDR such as "
		      "192.0.2.0/24:443 or [2001:db8::1]:443, with 'tcp://' or 'udp://' in front "
		      "if it is "
		      "for one protocol only; the rules in force stay as they were");
	return -EINVAL;
}

int ruleset_parse(const struct rule_text *texts, size_t n, size_t max_rules, struct ruleset **ret,
		  struct err *err)
{
	_cleanup_ruleset_ struct ruleset *set = ruleset_new(POLICY_NOTHING);
	struct rule_fault fault;

	if (n > max_rules) {
		err_code(err, -E2BIG, "too_many_egress_rules",
			 "%zu egress rules are more than the %zu that a sandbox can have", n,
			 max_rules);
		err_hint(err, "put hosts together with '*.example.com' and addresses with a CIDR");
		return -E2BIG;
	}
	set->rules = n > 0 ? xcalloc(n, sizeof(*set->rules)) : NULL;
	for (size_t i = 0; i < n; i++) {
		struct rule rule;

		if (rule_parse(texts[i].text, texts[i].len, &rule, &fault) < 0)
			return malformed(i, texts[i], fault.text, err);
		add(set, &rule);
	}
	if (n > 0)
		set->state = POLICY_LIST;
	*ret = STEAL(set);
	return 0;
}

int ruleset_from_json(const json_t *value, size_t max_rules, struct ruleset **ret, struct err *err)
{
	_cleanup_free_ struct rule_text *texts = NULL;
	size_t n;

	if (json_is_null(value)) {
		*ret = ruleset_new(POLICY_OPEN);
		return 0;
	}
	if (!json_is_array(value)) {
		err_code(err, -EINVAL, "invalid_egress_rule",
			 "egress rules are neither null nor a list");
		err_hint(err, "null opens the internet, [] allows nothing, a list of strings "
			      "allows exactly that");
		return -EINVAL;
	}
	n = json_array_size(value);
	texts = xcalloc(n > 0 ? n : 1, sizeof(*texts));
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(value, i);

		if (!json_is_string(item))
			return err_code(err, -EINVAL, "invalid_egress_rule",
					"egress rule [%zu] is not a string", i);
		texts[i] = (struct rule_text){ json_string_value(item), json_string_length(item) };
	}
	return ruleset_parse(texts, n, max_rules, ret, err);
}

json_t *ruleset_to_json(const struct ruleset *set)
{
	char text[RULE_PRINT_SIZE];
	json_t *list;

	if (set->state == POLICY_OPEN)
		return json_null();
	list = json_array();
	for (size_t i = 0; i < set->n; i++) {
		if (json_array_append_new(list, json_string(rule_print(&set->rules[i], text))) < 0)
			abort();
	}
	return list;
}

static struct policy_address compile_prefix(const struct rule *rule)
{
	uint32_t address;

	memcpy(&address, rule->prefix.bytes, sizeof(address));
	return (struct policy_address){
		.address = ntohl(address),
		.prefix = rule->prefix.bits,
		.protocol = (uint8_t)rule->proto,
		.port = rule->port,
	};
}

void ruleset_compile(const struct ruleset *set, struct policy *out)
{
	size_t room = set->n > 0 ? set->n : 1;

	*out = POLICY_INIT;
	out->state = set->state;
	out->addresses = xcalloc(room, sizeof(*out->addresses));
	out->hosts = xcalloc(room, sizeof(*out->hosts));
	for (size_t i = 0; i < set->n; i++) {
		const struct rule *rule = &set->rules[i];
		struct policy_host *host;

		if (rule->kind == RULE_PREFIX) {
			if (rule->prefix.family == 4)
				out->addresses[out->n_addresses++] = compile_prefix(rule);
			continue;
		}
		host = &out->hosts[out->n_hosts++];
		host->wildcard = rule->kind == RULE_SUBDOMAINS;
		host->protocol = (uint8_t)rule->proto;
		host->port = rule->port;
		str_copy(host->name, sizeof(host->name), rule->host);
	}
}

static bool proto_within(enum policy_protocol inner, enum policy_protocol outer)
{
	return outer == POLICY_ANY || inner == outer;
}

static bool port_within(uint16_t inner, uint16_t outer)
{
	return outer == 0 || inner == outer;
}

static bool target_within(const struct rule *inner, const struct rule *outer)
{
	if (inner->kind == RULE_PREFIX || outer->kind == RULE_PREFIX)
		return inner->kind == outer->kind &&
		       prefix_contains(&outer->prefix, &inner->prefix);
	if (outer->kind == RULE_SUBDOMAINS && hostname_below(inner->host, outer->host))
		return true; /* "*.a.b" is within "*.b", and so is "a.b" */
	return inner->kind == outer->kind && str_eq(inner->host, outer->host);
}

/* For one protocol, as two rules of the outer set may share both. */
static bool rule_within(const struct rule *inner, enum policy_protocol proto,
			const struct ruleset *outer)
{
	for (size_t i = 0; i < outer->n; i++) {
		const struct rule *rule = &outer->rules[i];

		if (proto_within(proto, rule->proto) && port_within(inner->port, rule->port) &&
		    target_within(inner, rule))
			return true;
	}
	return false;
}

bool ruleset_within(const struct ruleset *inner, const struct ruleset *outer,
		    char offender[RULE_PRINT_SIZE])
{
	if (outer->state == POLICY_OPEN)
		return true;
	if (inner->state == POLICY_OPEN) {
		if (offender)
			snprintf(offender, RULE_PRINT_SIZE, "everything");
		return false;
	}
	for (size_t i = 0; i < inner->n; i++) {
		const struct rule *rule = &inner->rules[i];
		bool tcp = rule->proto == POLICY_UDP || rule_within(rule, POLICY_TCP, outer);
		bool udp = rule->proto == POLICY_TCP || rule_within(rule, POLICY_UDP, outer);

		if (tcp && udp)
			continue;
		if (offender)
			rule_print(rule, offender);
		return false;
	}
	return true;
}

static bool rule_has_name(const struct rule *rule, const char *name)
{
	if (rule->kind == RULE_SUBDOMAINS)
		return hostname_below(name, rule->host);
	return rule->kind == RULE_HOST && str_eq(rule->host, name);
}

size_t ruleset_name_ports(const struct ruleset *set, const char *name, struct rule_port *out,
			  size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct rule *rule = &set->rules[i];
		bool known = false;

		if (!rule_has_name(rule, name))
			continue;
		for (size_t k = 0; k < n && k < max; k++)
			known = known || (out[k].proto == rule->proto && out[k].port == rule->port);
		if (known)
			continue;
		if (n < max)
			out[n] = (struct rule_port){ rule->proto, rule->port };
		n++;
	}
	return n;
}

bool ruleset_allows_name(const struct ruleset *set, const char *name, enum policy_protocol proto,
			 uint16_t port)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct rule *rule = &set->rules[i];

		if (rule_has_name(rule, name) && proto_within(proto, rule->proto) &&
		    port_within(port, rule->port))
			return true;
	}
	return set->state == POLICY_OPEN;
}

bool ruleset_allows_address(const struct ruleset *set, const struct net_prefix *address,
			    enum policy_protocol proto, uint16_t port)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct rule *rule = &set->rules[i];

		if (rule->kind == RULE_PREFIX && prefix_contains(&rule->prefix, address) &&
		    proto_within(proto, rule->proto) && port_within(port, rule->port))
			return true;
	}
	return set->state == POLICY_OPEN;
}

const char *rule_suggest(const char *name, const struct net_prefix *address,
			 enum policy_protocol proto, uint16_t port, char out[RULE_PRINT_SIZE])
{
	struct rule rule = {
		.kind = name ? RULE_HOST : RULE_PREFIX,
		.proto = proto == POLICY_UDP ? POLICY_UDP : POLICY_ANY,
		.port = port,
		.host = (char *)(uintptr_t)name,
	};

	if (!name)
		rule.prefix = *address;
	return rule_print(&rule, out);
}
