/*
 * The worker pool: a ring of queued jobs under one lock. Workers sleep on one condition; freeing
 * the pool closes the ring to new jobs, and workers leave when it is closed and empty.
 */
#include "loop/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "loop/thread.h"

struct job {
	pool_fn fn;
	void *arg;
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool closed;
	struct job *ring;
	size_t ring_size, first, n_queued;
	pthread_t *threads;
	size_t n_threads;
};

static bool take_job(struct pool *pool, struct job *ret)
{
	bool found;

	pthread_mutex_lock(&pool->lock);
	while (pool->n_queued == 0 && !pool->closed)
		pthread_cond_wait(&pool->changed, &pool->lock);
	found = pool->n_queued > 0;
	if (found) {
		*ret = pool->ring[pool->first];
		pool->first = (pool->first + 1) % pool->ring_size;
		pool->n_queued--;
	}
	pthread_mutex_unlock(&pool->lock);
	return found;
}

static void *worker(void *arg)
{
	struct pool *pool = arg;
	struct job job;

	while (take_job(pool, &job))
		job.fn(job.arg);
	return NULL;
}

int pool_new(size_t threads, size_t queue_max, struct pool **ret, struct err *err)
{
	struct pool *pool;

	if (threads == 0 || queue_max == 0)
		return err_set(err, -EINVAL, "worker pool needs at least one thread and one place");
	pool = xcalloc(1, sizeof(*pool));
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->changed, NULL);
	pool->ring = xcalloc(queue_max, sizeof(*pool->ring));
	pool->ring_size = queue_max;
	pool->threads = xcalloc(threads, sizeof(*pool->threads));
	while (pool->n_threads < threads) {
		char name[32];
		int r;

		snprintf(name, sizeof(name), "worker-%zu", pool->n_threads);
		r = thread_start(&pool->threads[pool->n_threads], name, worker, pool);
		if (r < 0) {
			err_set(err, r, "cannot start worker thread %zu of %zu: %s",
				pool->n_threads + 1, threads, strerrordesc_np(-r));
			pool_free(pool);
			return r;
		}
		pool->n_threads++;
	}
	*ret = pool;
	return 0;
}

int pool_submit(struct pool *pool, pool_fn fn, void *arg)
{
	int r = 0;

	pthread_mutex_lock(&pool->lock);
	if (pool->closed) {
		r = -ESHUTDOWN;
	} else if (pool->n_queued == pool->ring_size) {
		r = -EAGAIN;
	} else {
		pool->ring[(pool->first + pool->n_queued) % pool->ring_size] =
			(struct job){ .fn = fn, .arg = arg };
		pool->n_queued++;
		pthread_cond_signal(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	return r;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->closed = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	for (size_t i = 0; i < pool->n_threads; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
	free(pool->threads);
	free(pool->ring);
	free(pool);
}
