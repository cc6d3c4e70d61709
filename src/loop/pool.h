/*
 * A bounded pool of worker threads for straight-line code that may block. The queue is bounded too:
 * a full queue is an answer ("busy"), never an endless line.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct pool;
typedef void (*pool_fn)(void *arg);

int pool_new(size_t threads, size_t queue_max, struct pool **ret, struct err *err);
/* 0, -EAGAIN when the queue is full, -ESHUTDOWN when the pool is being freed. Any thread. */
int pool_submit(struct pool *pool, pool_fn fn, void *arg);
/* Refuses new work, runs what is queued, joins the threads. NULL is fine. */
void pool_free(struct pool *pool);
