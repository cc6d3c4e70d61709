/* When a lost connection is tried again: after a pause that doubles with every failure. */
#pragma once

#include <stdint.h>

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 2000

struct backoff {
	int64_t next_ms; /* the pause that comes next; 0: the shortest */
};

/* There is a connection again. */
static inline void backoff_reset(struct backoff *backoff)
{
	backoff->next_ms = 0;
}

/* How long to wait now. */
static inline int64_t backoff_ms(struct backoff *backoff)
{
	int64_t pause_ms = backoff->next_ms ? backoff->next_ms : BACKOFF_MIN_MS;

	backoff->next_ms = pause_ms * 2 < BACKOFF_MAX_MS ? pause_ms * 2 : BACKOFF_MAX_MS;
	return pause_ms;
}
