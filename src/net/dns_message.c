/* DNS messages, by ldns. */
#include "net/dns_message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

#define HEADER_SIZE	     12
#define EDE_OPTION	     15 /* RFC 8914 */
#define EDE_BLOCKED	     15
#define EXPLANATION_MAX	     200
#define QUERY_ADDITIONAL_MAX 4 /* OPT, and whatever a client may sign with */

struct dns_answer {
	int refs;
	ldns_pkt *pkt;
	uint16_t type;
	struct dns_name name; /* at the end of the chain */
	size_t n_chain;
	const ldns_rr *chain[DNS_CHAIN_MAX]; /* CNAMEs, of pkt */
};

DEFINE_CLEANUP(ldns_pkt *, cleanup_pktp, ldns_pkt_free);

/* ldns says NULL when there is no memory. */
static void *must(void *p)
{
	if (!p) {
		log_error("out of memory", "%s", "");
		abort();
	}
	return p;
}

static int name_of_rdf(const ldns_rdf *rdf, struct dns_name *ret)
{
	if (!rdf || ldns_rdf_get_type(rdf) != LDNS_RDF_TYPE_DNAME)
		return -EINVAL;
	return dns_name_of_wire(ldns_rdf_data(rdf), ldns_rdf_size(rdf), ret);
}

static bool owned_by(const ldns_rr *rr, const struct dns_name *name)
{
	struct dns_name owner;

	return name_of_rdf(ldns_rr_owner(rr), &owner) == 0 && dns_name_equal(&owner, name);
}

static uint16_t get16(const uint8_t *data)
{
	return (uint16_t)(data[0] << 8 | data[1]);
}

/* The parts of a message that are read before ldns sees it. */
static int parse_header(const uint8_t *data, size_t len, struct dns_question *ret)
{
	if (len < HEADER_SIZE || data[2] & 0x80)
		return -EBADMSG;
	ret->id = get16(data);
	ret->recursion = data[2] & 0x01;
	ret->udp_max = DNS_UDP_PLAIN_MAX;
	if ((data[2] >> 3 & 0x0f) != 0)
		return DNS_NOTIMP;
	if (get16(data + 4) != 1 || get16(data + 6) != 0 || get16(data + 8) != 0 ||
	    get16(data + 10) > QUERY_ADDITIONAL_MAX)
		return DNS_FORMERR;
	return 0;
}

static void take_edns(const ldns_pkt *pkt, struct dns_question *question)
{
	size_t size = ldns_pkt_edns_udp_size(pkt);

	question->edns = ldns_pkt_edns(pkt);
	if (size > DNS_UDP_MAX)
		size = DNS_UDP_MAX;
	if (size > question->udp_max)
		question->udp_max = (uint16_t)size;
}

int dns_question_parse(const uint8_t *data, size_t len, struct dns_question *ret)
{
	_cleanup_(cleanup_pktp) ldns_pkt *pkt = NULL;
	struct dns_question question = { 0 };
	const ldns_rr *rr;
	int r = parse_header(data, len, &question);

	if (r < 0)
		return r;
	*ret = question;
	if (r > 0)
		return r;
	if (ldns_wire2pkt(&pkt, data, len) != LDNS_STATUS_OK || ldns_pkt_qdcount(pkt) != 1)
		return DNS_FORMERR;
	rr = ldns_rr_list_rr(ldns_pkt_question(pkt), 0);
	if (!rr || name_of_rdf(ldns_rr_owner(rr), &question.name) < 0)
		return DNS_FORMERR;
	question.has_name = true;
	question.type = (uint16_t)ldns_rr_get_type(rr);
	take_edns(pkt, &question);
	*ret = question;
	return ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN ? 0 : DNS_REFUSED;
}

static void put16(struct buf *out, unsigned value)
{
	buf_append_char(out, (char)(value >> 8));
	buf_append_char(out, (char)value);
}

void dns_query_write(uint16_t id, const struct dns_name *name, uint16_t type, struct buf *out)
{
	put16(out, id);
	put16(out, 0x0100); /* RD */
	put16(out, 1);
	put16(out, 0);
	put16(out, 0);
	put16(out, 1);
	buf_append(out, name->wire, name->len);
	put16(out, type);
	put16(out, LDNS_RR_CLASS_IN);
	buf_append_char(out, 0); /* OPT: the root */
	put16(out, LDNS_RR_TYPE_OPT);
	put16(out, DNS_UDP_MAX);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
}

/* Follows CNAMEs from the name asked for; records that are not on the way are none of ours. */
static void follow_chain(struct dns_answer *answer)
{
	const ldns_rr_list *list = ldns_pkt_answer(answer->pkt);
	bool found = answer->type != DNS_CNAME;

	while (found && answer->n_chain < DNS_CHAIN_MAX) {
		found = false;
		for (size_t i = 0; i < ldns_rr_list_rr_count(list) && !found; i++) {
			const ldns_rr *rr = ldns_rr_list_rr(list, i);
			struct dns_name target;

			if (ldns_rr_get_type(rr) != LDNS_RR_TYPE_CNAME ||
			    !owned_by(rr, &answer->name) ||
			    name_of_rdf(ldns_rr_rdf(rr, 0), &target) < 0)
				continue;
			answer->chain[answer->n_chain++] = rr;
			answer->name = target;
			found = true;
		}
	}
}

/* The next record from *at on that answers. */
static const ldns_rr *next_record(const struct dns_answer *answer, size_t *at)
{
	const ldns_rr_list *list = ldns_pkt_answer(answer->pkt);

	while (*at < ldns_rr_list_rr_count(list)) {
		const ldns_rr *rr = ldns_rr_list_rr(list, (*at)++);

		if ((uint16_t)ldns_rr_get_type(rr) == answer->type &&
		    ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN && owned_by(rr, &answer->name))
			return rr;
	}
	return NULL;
}

static bool answers_question(const ldns_pkt *pkt, const struct dns_name *name, uint16_t type)
{
	const ldns_rr *rr;

	if (ldns_pkt_qdcount(pkt) != 1)
		return false;
	rr = ldns_rr_list_rr(ldns_pkt_question(pkt), 0);
	return rr && (uint16_t)ldns_rr_get_type(rr) == type &&
	       ldns_rr_get_class(rr) == LDNS_RR_CLASS_IN && owned_by(rr, name);
}

/* Whoever could not guess the id has no word in whether the rest makes sense. */
static bool is_response_to(const uint8_t *data, size_t len, uint16_t id)
{
	return len >= HEADER_SIZE && get16(data) == id && (data[2] & 0xf8) == 0x80;
}

int dns_answer_parse(const uint8_t *data, size_t len, uint16_t id, const struct dns_name *name,
		     uint16_t type, struct dns_answer **ret)
{
	_cleanup_(cleanup_pktp) ldns_pkt *pkt = NULL;
	struct dns_answer *answer;

	if (!is_response_to(data, len, id))
		return -EBADMSG;
	if (ldns_wire2pkt(&pkt, data, len) != LDNS_STATUS_OK)
		return data[2] & 0x02 ? -EMSGSIZE : -EPROTO;
	if (!answers_question(pkt, name, type))
		return -EBADMSG;
	if (ldns_pkt_tc(pkt))
		return -EMSGSIZE;
	answer = xcalloc(1, sizeof(*answer));
	answer->refs = 1;
	answer->pkt = STEAL(pkt);
	answer->type = type;
	answer->name = *name;
	follow_chain(answer);
	*ret = answer;
	return 0;
}

struct dns_answer *dns_answer_ref(struct dns_answer *answer)
{
	answer->refs++;
	return answer;
}

void dns_answer_unref(struct dns_answer *answer)
{
	if (!answer || --answer->refs > 0)
		return;
	ldns_pkt_free(answer->pkt);
	free(answer);
}

int dns_answer_rcode(const struct dns_answer *answer)
{
	return (int)ldns_pkt_get_rcode(answer->pkt);
}

bool dns_answer_positive(const struct dns_answer *answer)
{
	size_t at = 0;

	return dns_answer_rcode(answer) == DNS_NOERROR && next_record(answer, &at);
}

uint32_t dns_answer_ttl_s(const struct dns_answer *answer)
{
	uint32_t ttl_s = UINT32_MAX;
	const ldns_rr *rr;
	size_t at = 0;

	if (!dns_answer_positive(answer))
		return 0;
	for (size_t i = 0; i < answer->n_chain; i++) {
		if (ldns_rr_ttl(answer->chain[i]) < ttl_s)
			ttl_s = ldns_rr_ttl(answer->chain[i]);
	}
	while ((rr = next_record(answer, &at))) {
		if (ldns_rr_ttl(rr) < ttl_s)
			ttl_s = ldns_rr_ttl(rr);
	}
	return ttl_s > INT32_MAX ? 0 : ttl_s; /* RFC 2181, section 8 */
}

size_t dns_answer_addresses(const struct dns_answer *answer, uint32_t *out, size_t max)
{
	size_t n = 0, at = 0;
	const ldns_rr *rr;

	if (answer->type != DNS_A || dns_answer_rcode(answer) != DNS_NOERROR)
		return 0;
	while (n < max && (rr = next_record(answer, &at))) {
		const ldns_rdf *rdf = ldns_rr_rdf(rr, 0);
		uint32_t address;

		if (!rdf || ldns_rdf_size(rdf) != sizeof(address))
			continue;
		memcpy(&address, ldns_rdf_data(rdf), sizeof(address));
		out[n++] = ntohl(address);
	}
	return n;
}

static void push_copy(ldns_pkt *pkt, const ldns_rr *rr, uint32_t ttl_s)
{
	ldns_rr *copy = must(ldns_rr_clone(rr));

	ldns_rr_set_ttl(copy, ttl_s);
	if (!ldns_pkt_push_rr(pkt, LDNS_SECTION_ANSWER, copy))
		ldns_rr_free(copy);
}

static ldns_rdf *rdf_of_name(const struct dns_name *name)
{
	return must(ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, name->len, name->wire));
}

static void push_address(ldns_pkt *pkt, const struct dns_name *owner, uint32_t address,
			 uint32_t ttl_s)
{
	ldns_rr *rr = must(ldns_rr_new());
	uint32_t address_be = htonl(address);

	ldns_rr_set_type(rr, LDNS_RR_TYPE_A);
	ldns_rr_set_owner(rr, rdf_of_name(owner));
	ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
	ldns_rr_set_ttl(rr, ttl_s);
	ldns_rr_push_rdf(
		rr, must(ldns_rdf_new_frm_data(LDNS_RDF_TYPE_A, sizeof(address_be), &address_be)));
	if (!ldns_pkt_push_rr(pkt, LDNS_SECTION_ANSWER, rr))
		ldns_rr_free(rr);
}

static void push_question(ldns_pkt *pkt, const struct dns_question *question)
{
	ldns_rr *rr = must(ldns_rr_new());

	ldns_rr_set_question(rr, true);
	ldns_rr_set_owner(rr, rdf_of_name(&question->name));
	ldns_rr_set_type(rr, (ldns_rr_type)question->type);
	ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
	if (!ldns_pkt_push_rr(pkt, LDNS_SECTION_QUESTION, rr))
		ldns_rr_free(rr);
}

static void push_records(ldns_pkt *pkt, const struct dns_question *question,
			 const struct dns_reply *reply)
{
	const struct dns_answer *answer = reply->answer;
	const ldns_rr *rr;
	size_t at = 0;

	for (size_t i = 0; answer && i < answer->n_chain; i++)
		push_copy(pkt, answer->chain[i], reply->ttl_s);
	if (question->type == DNS_A) {
		for (size_t i = 0; i < reply->n_addresses; i++)
			push_address(pkt, answer ? &answer->name : &question->name,
				     reply->addresses[i], reply->ttl_s);
		return;
	}
	while (answer && (rr = next_record(answer, &at)))
		push_copy(pkt, rr, reply->ttl_s);
}

static void push_explanation(ldns_pkt *pkt, const char *explanation)
{
	uint8_t option[6 + EXPLANATION_MAX] = { 0, EDE_OPTION, 0, 0, 0, EDE_BLOCKED };
	size_t len = strnlen(explanation, EXPLANATION_MAX);

	option[3] = (uint8_t)(2 + len);
	memcpy(option + 6, explanation, len);
	ldns_pkt_set_edns_data(pkt,
			       must(ldns_rdf_new_frm_data(LDNS_RDF_TYPE_UNKNOWN, 6 + len, option)));
}

static ldns_pkt *make_reply(const struct dns_question *question, const struct dns_reply *reply)
{
	ldns_pkt *pkt = must(ldns_pkt_new());

	ldns_pkt_set_id(pkt, question->id);
	ldns_pkt_set_qr(pkt, true);
	ldns_pkt_set_rd(pkt, question->recursion);
	ldns_pkt_set_ra(pkt, true);
	ldns_pkt_set_rcode(pkt, (uint8_t)reply->rcode);
	if (question->has_name)
		push_question(pkt, question);
	if (question->edns) {
		ldns_pkt_set_edns_udp_size(pkt, DNS_UDP_MAX);
		if (reply->explanation)
			push_explanation(pkt, reply->explanation);
	}
	return pkt;
}

static size_t write_packet(const ldns_pkt *pkt, size_t max, struct buf *out)
{
	uint8_t *wire = NULL;
	size_t len = 0;

	if (ldns_pkt2wire(&wire, pkt, &len) != LDNS_STATUS_OK)
		len = max + 1;
	if (len <= max)
		buf_append(out, wire, len);
	free(wire);
	return len;
}

void dns_reply_write(const struct dns_question *question, const struct dns_reply *reply, size_t max,
		     struct buf *out)
{
	_cleanup_(cleanup_pktp) ldns_pkt *whole = make_reply(question, reply);
	_cleanup_(cleanup_pktp) ldns_pkt *cut = NULL;

	push_records(whole, question, reply);
	if (write_packet(whole, max, out) <= max)
		return;
	cut = make_reply(question, reply);
	ldns_pkt_set_tc(cut, true);
	write_packet(cut, max, out);
}
