/*
 * Followers: each reads a table of numbered rows from a place of its own, as rows come. The table
 * is the queue, so that one that waits costs an object, and one that reads slowly no more than
 * that. What is the same for events and for the audit is here: who there is, where each stands,
 * whether it takes more, and how it ends. Which rows are for whom is theirs.
 *
 * Threads: one thread serves all followers of a table and alone moves their places; owners add,
 * resume and close them from any thread, but not from within a sink.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct followers;

/* The first member of what follows. */
struct follower {
	TAILQ_ENTRY(follower) link;
	atomic_uint refs; /* one of the owner, one of the thread while it looks */
	struct followers *all;
	void (*free)(struct follower *follower); /* what it is the first member of */

	pthread_mutex_t lock; /* held while a sink is called */
	bool closed;
	bool full;	/* it takes no more, until it is resumed; at first too */
	int64_t cursor; /* of the last row that it has had, or that is not for it */
};

struct followers {
	pthread_mutex_t lock;
	TAILQ_HEAD(, follower) list;
	void (*wake)(void *arg); /* the thread is to look */
	void *arg;
};

void followers_init(struct followers *all, void (*wake)(void *arg), void *arg);
void followers_clear(struct followers *all);

void follower_init(struct follower *follower, struct followers *all, int64_t cursor,
		   void (*free_fn)(struct follower *follower));
/* Adds it, unless there are max already that count with it (like NULL: all do). */
bool followers_add(struct follower *follower, int64_t max,
		   bool (*like)(const struct follower *a, const struct follower *b));
void follower_unref(struct follower *follower);
/* It takes rows again. */
void follower_resume(struct follower *follower);
/* The owner's last word: its sink is not called again. */
void follower_close(struct follower *follower);

/* All there are, each with a reference; the array is the caller's. */
struct follower **followers_all(struct followers *all, size_t *ret_n);
/* Whether it is to be called with rows: the plain form with its lock held. */
bool follower_takes(const struct follower *follower);
bool follower_takes_now(struct follower *follower);
