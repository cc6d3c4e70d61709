/* The heap of timers. Each timer knows its place, so that moving and removing cost O(log n) too. */
#include "loop/timers.h"

#include <stdlib.h>

#include "base/alloc.h"

static bool before(const struct loop_timer *a, const struct loop_timer *b)
{
	if (a->due_ms != b->due_ms)
		return a->due_ms < b->due_ms;
	return a->order < b->order;
}

static void place(struct timer_heap *heap, size_t i, struct loop_timer *timer)
{
	heap->items[i] = timer;
	timer->index = i;
}

static void sift_up(struct timer_heap *heap, size_t i)
{
	struct loop_timer *timer = heap->items[i];

	while (i > 0 && before(timer, heap->items[(i - 1) / 2])) {
		place(heap, i, heap->items[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(heap, i, timer);
}

static void sift_down(struct timer_heap *heap, size_t i)
{
	struct loop_timer *timer = heap->items[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= heap->n)
			break;
		if (child + 1 < heap->n && before(heap->items[child + 1], heap->items[child]))
			child++;
		if (!before(heap->items[child], timer))
			break;
		place(heap, i, heap->items[child]);
		i = child;
	}
	place(heap, i, timer);
}

void timer_heap_clear(struct timer_heap *heap)
{
	free(heap->items);
	*heap = (struct timer_heap){ 0 };
}

void timer_heap_disarm(struct timer_heap *heap, struct loop_timer *timer)
{
	size_t i = timer->index;

	if (i == TIMER_NOT_ARMED)
		return;
	timer->index = TIMER_NOT_ARMED;
	heap->n--;
	if (i == heap->n)
		return;
	/* The last one fills the gap; it may belong above or below: one of these moves it. */
	place(heap, i, heap->items[heap->n]);
	sift_up(heap, i);
	sift_down(heap, i);
}

void timer_heap_arm(struct timer_heap *heap, struct loop_timer *timer, int64_t due_ms)
{
	timer_heap_disarm(heap, timer);
	if (heap->n == heap->cap) {
		heap->cap = heap->cap ? heap->cap * 2 : 16;
		heap->items = xrealloc(heap->items, heap->cap * sizeof(*heap->items));
	}
	timer->due_ms = due_ms;
	timer->order = heap->next_order++;
	place(heap, heap->n, timer);
	sift_up(heap, heap->n++);
}

struct loop_timer *timer_heap_first(const struct timer_heap *heap)
{
	return heap->n ? heap->items[0] : NULL;
}
