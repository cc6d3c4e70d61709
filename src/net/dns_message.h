/*
 * DNS messages: a guest's question, an upstream server's answer, and what the guest is told. Pure;
 * ldns reads and writes the wire format. Nothing that came from upstream is passed on as it is: a
 * reply is made anew, from the records that answer the question.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/dns_name.h"

#define DNS_PORT	  53
#define DNS_MESSAGE_MAX	  65535
#define DNS_UDP_PLAIN_MAX 512  /* what a client without EDNS takes */
#define DNS_UDP_MAX	  1232 /* never more: fragments are dropped */
#define DNS_CHAIN_MAX	  16   /* CNAMEs of an answer that are followed */
#define DNS_ADDRESSES_MAX 64   /* addresses of an answer that are told and opened */

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_NAPTR = 35,
	DNS_SSHFP = 44,
	DNS_TLSA = 52,
	DNS_SVCB = 64,
	DNS_HTTPS = 65,
	DNS_CAA = 257,
};

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
};

struct dns_question {
	uint16_t id;
	uint16_t type;
	bool recursion; /* RD */
	bool edns;
	uint16_t udp_max;     /* bytes of a reply by UDP */
	struct dns_name name; /* as asked, its case kept */
	bool has_name;	      /* false: the message was refused before */
};

/* 0; a positive rcode with which to refuse the message; -EBADMSG: say nothing (too short, or no
 * question at all). */
int dns_question_parse(const uint8_t *data, size_t len, struct dns_question *ret);

/* A question for an upstream server. */
void dns_query_write(uint16_t id, const struct dns_name *name, uint16_t type, struct buf *out);

struct dns_answer; /* immutable, reference-counted, for one thread */

/* 0; -EBADMSG: not an answer to this question (keep waiting for it); -EMSGSIZE: truncated, to be
 * asked again by TCP; -EPROTO: an answer that cannot be read. */
int dns_answer_parse(const uint8_t *data, size_t len, uint16_t id, const struct dns_name *name,
		     uint16_t type, struct dns_answer **ret);
struct dns_answer *dns_answer_ref(struct dns_answer *answer);
void dns_answer_unref(struct dns_answer *answer); /* NULL is fine */
static inline void cleanup_dns_answerp(struct dns_answer **answer)
{
	dns_answer_unref(*answer);
}
#define _cleanup_dns_answer_ _cleanup_(cleanup_dns_answerp)

int dns_answer_rcode(const struct dns_answer *answer);
/* Whether it has records of the type asked for, at the end of its chain of CNAMEs. */
bool dns_answer_positive(const struct dns_answer *answer);
/* The least TTL of the records that answer; 0 when there are none. */
uint32_t dns_answer_ttl_s(const struct dns_answer *answer);
/* The addresses (host byte order) at the end of the chain; only for questions of type A. At most
 * max are written, their number is returned. */
size_t dns_answer_addresses(const struct dns_answer *answer, uint32_t *out, size_t max);

struct dns_reply {
	int rcode;
	const struct dns_answer *answer; /* NULL: no records from upstream */
	const uint32_t *addresses;	 /* A: those to be told, in place of the answer's own */
	size_t n_addresses;
	uint32_t ttl_s;		 /* of all records */
	const char *explanation; /* told to clients with EDNS (RFC 8914, "blocked"); NULL: none */
};

/* The message for the client. What does not fit into max bytes is left out and marked as truncated.
 */
void dns_reply_write(const struct dns_question *question, const struct dns_reply *reply, size_t max,
		     struct buf *out);
