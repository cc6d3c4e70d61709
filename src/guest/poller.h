/*
 * The guest agent's epoll set. A watch is embedded in the object that owns the descriptor; the
 * descriptor stays that object's. A watch may be removed, and its memory freed, inside any
 * callback.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct watch;
typedef void (*watch_fn)(struct watch *watch, uint32_t events);

struct watch {
	int fd; /* -1: not in use */
	bool in_set;
	watch_fn fn;
	void *owner; /* for fn */
};

#define POLLER_BATCH 64

struct poller {
	int epoll_fd;
	int n_batch;
	struct epoll_event batch[POLLER_BATCH]; /* data.ptr is the watch, NULL once removed */
};

int poller_init(struct poller *p); /* 0 or -errno */
/* Watches fd; aborts when the kernel has no memory for it, as there is nothing sensible to do then.
 */
void poller_add(struct poller *p, struct watch *w, int fd, uint32_t events, watch_fn fn,
		void *owner);
/* Takes the watch out of the set or puts it back. Out of the set not even a hang-up is reported. */
void poller_pause(struct poller *p, struct watch *w);
void poller_resume(struct poller *p, struct watch *w, uint32_t events);
/* Takes the watch out and closes its descriptor; fine for one that is not in use. */
void poller_close(struct poller *p, struct watch *w);
/* Waits (-1: without limit) and runs what is ready. */
void poller_round(struct poller *p, int timeout_ms);
