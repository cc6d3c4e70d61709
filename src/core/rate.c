#include "core/rate.h"

#include "base/str.h"

#define TOKEN 1000

void rate_init(struct rate *rate, int64_t per_second)
{
	*rate = (struct rate){ .per_second = per_second };
	pthread_mutex_init(&rate->lock, NULL);
}

void rate_clear(struct rate *rate)
{
	pthread_mutex_destroy(&rate->lock);
}

/* The key's, or the one that was not asked for longest, made its own and full. */
static struct rate_bucket *bucket_of(struct rate *rate, const char *key_id, int64_t full)
{
	struct rate_bucket *oldest = &rate->buckets[0];

	for (size_t i = 0; i < RATE_BUCKETS; i++) {
		struct rate_bucket *bucket = &rate->buckets[i];

		if (str_eq(bucket->key_id, key_id))
			return bucket;
		if (bucket->at_ms < oldest->at_ms)
			oldest = bucket;
	}
	str_copy(oldest->key_id, sizeof(oldest->key_id), key_id);
	oldest->level = full;
	oldest->at_ms = INT64_MIN;
	return oldest;
}

bool rate_take(struct rate *rate, const char *key_id, int64_t now_ms)
{
	const int64_t full = rate->per_second * RATE_BURST_SECONDS * TOKEN;
	const int64_t longest_ms = RATE_BURST_SECONDS * 1000;
	struct rate_bucket *bucket;
	int64_t passed_ms;
	bool taken;

	if (rate->per_second == 0)
		return true;
	pthread_mutex_lock(&rate->lock);
	bucket = bucket_of(rate, key_id, full);
	passed_ms = bucket->at_ms < now_ms - longest_ms ? longest_ms : now_ms - bucket->at_ms;
	if (passed_ms > 0) {
		bucket->level += passed_ms * rate->per_second; /* a thousandth each millisecond */
		bucket->at_ms = now_ms;
	}
	if (bucket->level > full)
		bucket->level = full;
	taken = bucket->level >= TOKEN;
	if (taken)
		bucket->level -= TOKEN;
	pthread_mutex_unlock(&rate->lock);
	return taken;
}
