/*
 * A DNS message, taken as a guest's question, as an upstream server's answer, and as resolv.conf. A
 * question is replied to, and the reply must be an answer to it; what is kept of an answer is
 * bounded.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "net/dns_decide.h"
#include "net/dns_resolv_conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_reply(const struct dns_question *question, const struct dns_reply *reply)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct dns_answer *answer = NULL;
	int r;

	dns_reply_write(question, reply, question->udp_max, &out);
	REQUIRE(out.len >= 12 && out.len <= question->udp_max);
	r = dns_answer_parse((const uint8_t *)out.data, out.len, question->id, &question->name,
			     question->type, &answer);
	if (r == 0)
		REQUIRE(dns_answer_rcode(answer) == reply->rcode);
	dns_answer_unref(answer);
}

static void fuzz_question(const uint8_t *data, size_t size, struct dns_question *question)
{
	const struct dns_reply reply = { .rcode = DNS_NXDOMAIN, .explanation = "x" };
	char host[HOSTNAME_MAX + 1], again[HOSTNAME_MAX + 1];
	struct ruleset *rules;

	if (dns_question_parse(data, size, question) != 0)
		return;
	REQUIRE(question->has_name && question->name.len > 0);
	rules = ruleset_new(POLICY_OPEN);
	(void)dns_decide(question, rules, host);
	REQUIRE(host[0] == '\0' ||
		(hostname_canon(host, strlen(host), again, NULL) == 0 && str_eq(host, again)));
	ruleset_unref(rules);
	check_reply(question, &reply);
}

/* As if it had been asked for: the message's own id, name and type. */
static void fuzz_answer(const uint8_t *data, size_t size)
{
	_cleanup_free_ uint8_t *copy = xmalloc(size + 1);
	uint32_t addresses[DNS_ADDRESSES_MAX];
	struct dns_question question;
	struct dns_answer *answer;
	struct dns_reply reply;

	memcpy(copy, data, size);
	copy[2] = 0x01;
	memset(copy + 6, 0, 6); /* the question alone */
	if (dns_question_parse(copy, size, &question) != 0)
		return;
	memcpy(copy, data, size);
	copy[2] = 0x81;
	if (dns_answer_parse(copy, size, question.id, &question.name, question.type, &answer) < 0)
		return;
	reply = (struct dns_reply){
		.rcode = dns_answer_rcode(answer),
		.answer = answer,
		.addresses = addresses,
		.n_addresses = dns_answer_addresses(answer, addresses, DNS_ADDRESSES_MAX),
		.ttl_s = dns_answer_ttl_s(answer),
	};
	REQUIRE(reply.n_addresses <= DNS_ADDRESSES_MAX && reply.ttl_s <= INT32_MAX);
	check_reply(&question, &reply);
	dns_answer_unref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dns_question question;
	struct dns_servers servers;

	fuzz_question(data, size, &question);
	if (size >= 12)
		fuzz_answer(data, size);
	dns_resolv_conf_parse((const char *)data, size, &servers);
	REQUIRE(servers.n >= 1 && servers.n <= DNS_SERVERS_MAX);
	return 0;
}
