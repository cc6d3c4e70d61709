/* Between events.c (the thread, and what is posted) and events_follow.c (pages and followers). */
#pragma once

#include <pthread.h>
#include <sys/queue.h>

#include "core/followers.h"
#include "core/internal.h"

#define EVENTS_PAGE 256 /* rows read at once for followers */

struct event_post {
	STAILQ_ENTRY(event_post) link;
	char account_id[ACCOUNT_ID_SIZE];
	char sandbox_id[SANDBOX_ID_SIZE];
	enum event_type type;
	int64_t at_unix_ms;
	json_t *data;
};
STAILQ_HEAD(event_posts, event_post);

/* What could not be kept of an account. */
struct event_loss {
	char account_id[ACCOUNT_ID_SIZE];
	uint64_t n;
};

struct core_event_follower {
	struct follower base;
	struct core_events *events;
	char account_id[ACCOUNT_ID_SIZE];
	char sandbox_id[SANDBOX_ID_SIZE]; /* "": any */
	uint32_t types;			  /* bits of enum event_type */
	struct key_scope *scope;	  /* of who follows; a reference */
	struct core_event_sink sink;
	void *arg;
};

struct core_events {
	struct core *core;
	pthread_t thread;
	bool started;

	/* Leaf: taken for moments under other locks. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
	bool look; /* a commit, a new follower, or one that goes on */
	struct event_posts posts;
	size_t n_posts;
	int64_t due_boottime_ms; /* when posts are written */
	struct event_loss losses[16];
	size_t n_losses;

	struct followers followers;
};

/* Any thread. The events' thread looks at what is new for followers. */
void events_wake(struct core_events *events);
/* The events' thread. false: something is left that could not be read now. */
bool events_serve(struct core_events *events);
