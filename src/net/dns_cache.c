/* A client's answers. So few that they are looked through. */
#include "net/dns_cache.h"

#include <stdlib.h>

#include "base/alloc.h"

static void entry_clear(struct dns_cache_entry *entry)
{
	dns_answer_unref(entry->answer);
	*entry = (struct dns_cache_entry){ 0 };
}

void dns_cache_clear(struct dns_cache *cache)
{
	for (size_t i = 0; cache->entries && i < DNS_CACHE_ENTRIES; i++)
		entry_clear(&cache->entries[i]);
	free(cache->entries);
	*cache = (struct dns_cache){ 0 };
}

static struct dns_cache_entry *find(struct dns_cache *cache, const struct dns_name *name,
				    uint16_t type)
{
	for (size_t i = 0; cache->entries && i < DNS_CACHE_ENTRIES; i++) {
		struct dns_cache_entry *entry = &cache->entries[i];

		if (entry->answer && entry->type == type && dns_name_equal(&entry->name, name))
			return entry;
	}
	return NULL;
}

struct dns_answer *dns_cache_get(struct dns_cache *cache, const struct dns_name *name,
				 uint16_t type, int64_t now_ms, uint32_t *ret_left_s)
{
	struct dns_cache_entry *entry = find(cache, name, type);

	if (!entry)
		return NULL;
	if (entry->expires_ms <= now_ms) {
		entry_clear(entry);
		return NULL;
	}
	entry->used = ++cache->uses;
	*ret_left_s = (uint32_t)((entry->expires_ms - now_ms) / 1000);
	return dns_answer_ref(entry->answer);
}

/* A free entry, or the one that was not used for longest, emptied. */
static struct dns_cache_entry *make_room(struct dns_cache *cache)
{
	struct dns_cache_entry *oldest;

	if (!cache->entries)
		cache->entries = xcalloc(DNS_CACHE_ENTRIES, sizeof(*cache->entries));
	oldest = &cache->entries[0];
	for (size_t i = 0; i < DNS_CACHE_ENTRIES && oldest->answer; i++) {
		if (!cache->entries[i].answer || cache->entries[i].used < oldest->used)
			oldest = &cache->entries[i];
	}
	entry_clear(oldest);
	return oldest;
}

static uint32_t lifetime_s(const struct dns_answer *answer)
{
	uint32_t ttl_s = dns_answer_ttl_s(answer);
	int rcode = dns_answer_rcode(answer);

	if (dns_answer_positive(answer))
		return ttl_s < DNS_CACHE_TTL_MAX_S ? ttl_s : DNS_CACHE_TTL_MAX_S;
	return rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN ? DNS_CACHE_NEGATIVE_S : 0;
}

uint32_t dns_cache_put(struct dns_cache *cache, const struct dns_name *name, uint16_t type,
		       struct dns_answer *answer, int64_t now_ms)
{
	struct dns_cache_entry *entry = find(cache, name, type);
	uint32_t life_s = lifetime_s(answer);

	if (entry)
		entry_clear(entry);
	if (life_s == 0)
		return 0;
	if (!entry)
		entry = make_room(cache);
	*entry = (struct dns_cache_entry){
		.name = *name,
		.type = type,
		.answer = dns_answer_ref(answer),
		.expires_ms = now_ms + (int64_t)life_s * 1000,
		.used = ++cache->uses,
	};
	return life_s;
}
