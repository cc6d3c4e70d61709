/*
 * The loop's timers: a binary heap by due time (equal times in the order of arming). Internal to
 * the loop; knows no clock and no descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"

#define TIMER_NOT_ARMED SIZE_MAX

struct loop_timer {
	struct loop *loop;
	int64_t due_ms;
	uint64_t order; /* of arming; breaks ties and tells what was armed during this round */
	size_t index;	/* place in the heap or TIMER_NOT_ARMED */
	loop_fn fn;
	void *arg;
	struct loop_timer *prev, *next; /* all timers of the loop, armed or not */
};

struct timer_heap {
	struct loop_timer **items;
	size_t n, cap;
	uint64_t next_order;
};

void timer_heap_clear(struct timer_heap *heap); /* the timers are the caller's */
void timer_heap_arm(struct timer_heap *heap, struct loop_timer *timer, int64_t due_ms);
void timer_heap_disarm(struct timer_heap *heap, struct loop_timer *timer);
struct loop_timer *timer_heap_first(const struct timer_heap *heap); /* NULL when none is armed */
