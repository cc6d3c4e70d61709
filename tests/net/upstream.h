/*
 * A DNS server for the tests that answers from a table, and misbehaves as the table says. It stands
 * in for the host's resolvers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum upstream_conduct {
	UPSTREAM_ANSWERS,
	UPSTREAM_IS_SILENT,
	UPSTREAM_FAILS,	    /* SERVFAIL */
	UPSTREAM_TRUNCATES, /* by UDP; answers by TCP */
	UPSTREAM_IS_FORGED, /* first come answers with a wrong id and to another question */
	UPSTREAM_IS_SLOW,   /* by 300 ms */
};

struct upstream_name {
	const char *name;
	const char *alias; /* CNAME: the addresses are its */
	uint32_t ttl_s;
	uint32_t first; /* address */
	size_t n;	/* that many from there on; 0: no such name */
	enum upstream_conduct conduct;
};

struct upstream;

/* On this address, port 53, by UDP and TCP. The table ends with a NULL name; what is not in it does
 * not exist. Names are compared in lower case. */
struct upstream *upstream_new(uint32_t address, const struct upstream_name *table);
void upstream_free(struct upstream *upstream);
size_t upstream_questions(struct upstream *upstream); /* so far, by UDP and TCP */
