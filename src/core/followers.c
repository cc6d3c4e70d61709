/* Followers of a table of numbered rows. See followers.h. */
#include "core/followers.h"

#include <stdlib.h>

#include "base/alloc.h"

void followers_init(struct followers *all, void (*wake)(void *arg), void *arg)
{
	TAILQ_INIT(&all->list);
	pthread_mutex_init(&all->lock, NULL);
	all->wake = wake;
	all->arg = arg;
}

void followers_clear(struct followers *all)
{
	pthread_mutex_destroy(&all->lock);
}

void follower_init(struct follower *follower, struct followers *all, int64_t cursor,
		   void (*free_fn)(struct follower *follower))
{
	atomic_init(&follower->refs, 1);
	pthread_mutex_init(&follower->lock, NULL);
	follower->all = all;
	follower->free = free_fn;
	follower->closed = false;
	follower->full = true;
	follower->cursor = cursor;
}

bool followers_add(struct follower *follower, int64_t max,
		   bool (*like)(const struct follower *a, const struct follower *b))
{
	struct followers *all = follower->all;
	const struct follower *one;
	int64_t n = 0;

	pthread_mutex_lock(&all->lock);
	TAILQ_FOREACH(one, &all->list, link)
		n += !like || like(one, follower);
	if (n < max)
		TAILQ_INSERT_TAIL(&all->list, follower, link);
	pthread_mutex_unlock(&all->lock);
	return n < max;
}

void follower_unref(struct follower *follower)
{
	if (atomic_fetch_sub(&follower->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&follower->lock);
	follower->free(follower);
}

void follower_resume(struct follower *follower)
{
	bool was_full;

	pthread_mutex_lock(&follower->lock);
	was_full = follower->full;
	follower->full = false;
	pthread_mutex_unlock(&follower->lock);
	if (was_full)
		follower->all->wake(follower->all->arg);
}

void follower_close(struct follower *follower)
{
	struct followers *all = follower->all;

	pthread_mutex_lock(&all->lock);
	TAILQ_REMOVE(&all->list, follower, link);
	pthread_mutex_unlock(&all->lock);
	pthread_mutex_lock(&follower->lock);
	follower->closed = true;
	pthread_mutex_unlock(&follower->lock);
	follower_unref(follower);
}

struct follower **followers_all(struct followers *all, size_t *ret_n)
{
	struct follower *follower, **array;
	size_t n = 0;

	pthread_mutex_lock(&all->lock);
	TAILQ_FOREACH(follower, &all->list, link)
		n++;
	array = xcalloc(n + 1, sizeof(struct follower *));
	n = 0;
	TAILQ_FOREACH(follower, &all->list, link) {
		atomic_fetch_add(&follower->refs, 1);
		array[n++] = follower;
	}
	pthread_mutex_unlock(&all->lock);
	*ret_n = n;
	return array;
}

bool follower_takes(const struct follower *follower)
{
	return !follower->closed && !follower->full;
}

bool follower_takes_now(struct follower *follower)
{
	bool takes;

	pthread_mutex_lock(&follower->lock);
	takes = follower_takes(follower);
	pthread_mutex_unlock(&follower->lock);
	return takes;
}
