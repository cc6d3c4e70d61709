/*
 * How often a key may ask: a bucket for each key that fills evenly with requests_per_second tokens
 * and holds those of ten seconds, so that bursts pass. Keys that have not asked for long have a
 * full bucket and need none: the number of buckets is bounded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>

#define RATE_BUCKETS	   256
#define RATE_BURST_SECONDS 10

struct rate {
	int64_t per_second; /* 0: no limit */
	pthread_mutex_t lock;
	struct rate_bucket {
		char key_id[24];
		int64_t level; /* thousandths of a token */
		int64_t at_ms; /* of level */
	} buckets[RATE_BUCKETS];
};

void rate_init(struct rate *rate, int64_t per_second);
void rate_clear(struct rate *rate);
/* Takes a token of the key's, or returns false: within a second there is one again. */
bool rate_take(struct rate *rate, const char *key_id, int64_t now_ms);
