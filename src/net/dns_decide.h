/* What becomes of a guest's question, before anyone is asked. Pure. */
#pragma once

#include "net/dns_message.h"
#include "net/rules.h"

enum dns_action {
	DNS_FORWARD,	  /* ask upstream */
	DNS_EMPTY,	  /* "no such data": of a kind that guests are better off without */
	DNS_NETWORK,	  /* a name of a private network */
	DNS_NOT_ALLOWED,  /* "no such name", and reported */
	DNS_NOT_THERE,	  /* "no such name", without further ado */
	DNS_REFUSED_TYPE, /* "refused" */
};

/* The top of the names of private networks. */
#define DNS_NETWORK_DOMAIN "internal"

/* host gets the canonical name, or is empty where the question's name is no host name. */
enum dns_action dns_decide(const struct dns_question *question, const struct ruleset *rules,
			   char host[HOSTNAME_MAX + 1]);
