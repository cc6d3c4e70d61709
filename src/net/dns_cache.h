/*
 * Answers that one client was given, so that it is not asked upstream again while they live. Each
 * client has its own: what one asks tells others nothing, and cannot crowd out theirs. Bounded; the
 * one that was not used for longest makes room. Pure but for memory.
 */
#pragma once

#include "net/dns_message.h"

#define DNS_CACHE_ENTRIES    128
#define DNS_CACHE_TTL_MAX_S  3600 /* however long an answer says it lives */
#define DNS_CACHE_NEGATIVE_S 5	  /* "no such name", "no such data" */

struct dns_cache_entry {
	struct dns_name name;
	uint16_t type;
	struct dns_answer *answer; /* NULL: the entry is free */
	int64_t expires_ms;
	uint64_t used;
};

struct dns_cache {
	struct dns_cache_entry *entries; /* NULL until the first is put */
	uint64_t uses;
};

void dns_cache_clear(struct dns_cache *cache);

/* A reference, or NULL; ret_left_s is what is left of its time. Times are CLOCK_BOOTTIME's. */
struct dns_answer *dns_cache_get(struct dns_cache *cache, const struct dns_name *name,
				 uint16_t type, int64_t now_ms, uint32_t *ret_left_s);

/* Keeps an answer for as long as it lives within the bounds; answers that live 0 s and failures of
 * servers are not kept. Returns how long the answer lives, in seconds. */
uint32_t dns_cache_put(struct dns_cache *cache, const struct dns_name *name, uint16_t type,
		       struct dns_answer *answer, int64_t now_ms);
