/* A token bucket: so many a second, and as many at once after a quiet second. The zero value is
 * full. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rate {
	int64_t window_start_ms;
	uint32_t used;
};

static inline bool rate_take(struct rate *rate, uint32_t per_s, int64_t now_ms)
{
	if (now_ms - rate->window_start_ms >= 1000) {
		rate->window_start_ms = now_ms;
		rate->used = 0;
	}
	if (rate->used >= per_s)
		return false;
	rate->used++;
	return true;
}
