/*
 * Answering one question. The rules are asked twice, before the question goes upstream and when the
 * answer has come: they may have changed in between. Addresses are opened in the kernel before the
 * reply is made, so that a fast client cannot be faster than its permission.
 */
#include "net/dns_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "net/dns_decide.h"

struct dns_request {
	const struct dns_context *context;
	uint32_t client;
	struct rate *denials;
	struct dns_question question;
	size_t max; /* bytes of the reply */
	struct dns_lookup *lookup;
	dns_request_fn fn;
	void *arg;
};

void dns_request_cancel(struct dns_request *request)
{
	if (!request)
		return;
	dns_lookup_cancel(request->lookup);
	free(request);
}

/* The end of every request; frees it. */
static void reply_with(struct dns_request *request, const struct dns_reply *reply)
{
	_cleanup_buf_ struct buf message = BUF_INIT;
	dns_request_fn fn = request->fn;
	void *arg = request->arg;

	if (reply)
		dns_reply_write(&request->question, reply, request->max, &message);
	dns_request_cancel(request);
	fn(arg, reply ? &message : NULL);
}

static void reply_code(struct dns_request *request, int rcode)
{
	const struct dns_reply reply = { .rcode = rcode };

	reply_with(request, &reply);
}

static void report(struct dns_request *request, const char *host, uint32_t address,
		   const char *reason, bool no_rule)
{
	const struct net_denial denial = {
		.source = NET_DENIED_DNS,
		.name = host[0] ? host : NULL,
		.address = address,
		.reason = reason,
	};

	net_report(request->context->clients, request->client, request->denials, &denial, no_rule);
}

/* Programs ask for several kinds at once; one report is enough. */
static bool is_companion(uint16_t type)
{
	return type == DNS_AAAA || type == DNS_HTTPS || type == DNS_SVCB;
}

/* "No such name" rather than "refused": resolvers take the latter for a passing fault, and keep
 * their callers waiting. */
static void reply_not_allowed(struct dns_request *request, const char *host)
{
	char text[RULE_PRINT_SIZE + 64];
	struct dns_reply reply = { .rcode = DNS_NXDOMAIN, .explanation = text };

	if (host[0])
		snprintf(text, sizeof(text), "egress rules do not allow it; '%s' would", host);
	else
		snprintf(text, sizeof(text), "egress rules do not allow it; it is no host name");
	if (!is_companion(request->question.type))
		report(request, host, 0,
		       host[0] ? "the rules do not allow this name"
			       : "what was asked for is no host name",
		       false);
	reply_with(request, &reply);
}

static void reply_network(struct dns_request *request, const char *host)
{
	const struct net_clients *clients = request->context->clients;
	struct dns_reply reply = { .ttl_s = DNS_NETWORK_TTL_S };
	uint32_t address;

	if (clients->network_name(clients->arg, request->client, host, &address) < 0)
		reply.rcode = DNS_NXDOMAIN;
	reply.addresses = &address;
	reply.n_addresses = reply.rcode == DNS_NOERROR ? 1 : 0;
	reply_with(request, &reply);
}

/* What is left of an answer's addresses. */
struct opened {
	uint32_t addresses[DNS_ADDRESSES_MAX];
	size_t n, denied, failed;
	uint32_t denied_address; /* one of them */
};

static void open_addresses(const struct dns_request *request, const struct ruleset *rules,
			   const char *host, const struct dns_answer *answer, uint32_t left_s,
			   struct opened *ret)
{
	const struct net_clients *clients = request->context->clients;
	uint32_t open_s = left_s > DNS_OPEN_MIN_S ? left_s : DNS_OPEN_MIN_S;
	int64_t expires_ms = clock_boottime_ms() + (int64_t)open_s * 1000;
	uint32_t found[DNS_ADDRESSES_MAX];
	size_t n = dns_answer_addresses(answer, found, DNS_ADDRESSES_MAX);

	*ret = (struct opened){ 0 };
	for (size_t i = 0; i < n; i++) {
		int r = clients->denied_range(clients->arg, found[i]) ? -EACCES : 0;

		if (r == 0 && rules->state == POLICY_LIST)
			r = clients->allow(clients->arg, request->client, host, found[i],
					   expires_ms);
		if (r == 0) {
			ret->addresses[ret->n++] = found[i];
		} else if (r == -EACCES) {
			ret->denied_address = found[i];
			ret->denied++;
		} else {
			ret->failed++;
		}
	}
}

static void reply_answer(struct dns_request *request, const struct ruleset *rules, const char *host,
			 const struct dns_answer *answer, uint32_t left_s)
{
	struct opened opened;
	struct dns_reply reply = {
		.rcode = dns_answer_rcode(answer),
		.answer = answer,
		.ttl_s = left_s,
	};

	open_addresses(request, rules, host, answer, left_s, &opened);
	reply.addresses = opened.addresses;
	reply.n_addresses = opened.n;
	if (opened.denied > 0) {
		report(request, host, opened.denied_address,
		       "the name's address is in a range that is always denied", true);
		reply.explanation = "the name's address is in a range that is always denied";
	}
	if (opened.n == 0 && opened.failed > 0)
		reply = (struct dns_reply){ .rcode = DNS_SERVFAIL };
	reply_with(request, &reply);
}

static void on_lookup(void *arg, struct dns_answer *answer, uint32_t left_s);

static void forward(struct dns_request *request)
{
	request->lookup = dns_resolver_ask(request->context->resolver, request->client,
					   &request->question.name, request->question.type,
					   on_lookup, request);
	if (!request->lookup)
		reply_code(request, DNS_SERVFAIL);
}

/* Acts on the rules as they are now; answer is what upstream said, where it was asked already. */
static void act(struct dns_request *request, const struct dns_answer *answer, uint32_t left_s,
		bool asked)
{
	const struct net_clients *clients = request->context->clients;
	_cleanup_ruleset_ struct ruleset *rules = clients->rules(clients->arg, request->client);
	char host[HOSTNAME_MAX + 1];

	if (!rules) {
		reply_with(request, NULL);
		return;
	}
	switch (dns_decide(&request->question, rules, host)) {
	case DNS_FORWARD:
		if (!asked)
			forward(request);
		else if (answer)
			reply_answer(request, rules, host, answer, left_s);
		else
			reply_code(request, DNS_SERVFAIL);
		break;
	case DNS_EMPTY:
		reply_code(request, DNS_NOERROR);
		break;
	case DNS_NETWORK:
		reply_network(request, host);
		break;
	case DNS_NOT_ALLOWED:
		reply_not_allowed(request, host);
		break;
	case DNS_NOT_THERE:
		reply_code(request, DNS_NXDOMAIN);
		break;
	case DNS_REFUSED_TYPE:
		reply_code(request, DNS_REFUSED);
		break;
	}
}

static void on_lookup(void *arg, struct dns_answer *answer, uint32_t left_s)
{
	struct dns_request *request = arg;

	request->lookup = NULL;
	act(request, answer, left_s, true);
}

/* Whether fn was called within the call is told by a flag on the caller's stack, as the request is
 * gone then. */
struct first_reply {
	dns_request_fn fn;
	void *arg;
	bool done;
};

static void on_first_reply(void *arg, const struct buf *reply)
{
	struct first_reply *first = arg;

	first->done = true;
	first->fn(first->arg, reply);
}

struct dns_request *dns_request_start(const struct dns_context *context, uint32_t client,
				      struct rate *denials, const uint8_t *data, size_t len,
				      bool by_udp, dns_request_fn fn, void *arg)
{
	struct dns_request *request = xcalloc(1, sizeof(*request));
	struct first_reply first = { .fn = fn, .arg = arg };
	int r = dns_question_parse(data, len, &request->question);

	request->context = context;
	request->client = client;
	request->denials = denials;
	request->max = by_udp ? request->question.udp_max : DNS_MESSAGE_MAX;
	request->fn = on_first_reply;
	request->arg = &first;
	if (r < 0)
		reply_with(request, NULL);
	else if (r > 0)
		reply_code(request, r);
	else
		act(request, NULL, 0, false);
	if (first.done)
		return NULL;
	request->fn = fn;
	request->arg = arg;
	return request;
}
