/*
 * The other side of a channel, played by a thread with a script: it speaks the protocol in small
 * steps, so that a test can also do everything that a good guest would not.
 */
#pragma once

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "proto/frame.h"

struct peer {
	int listen_fd, fd;
	char path[SCRATCH_SIZE + 16];
	pthread_t thread;
	void (*script)(struct peer *);
	struct frame_decoder in;
	struct buf out;
	uint16_t hello_flags;
	char hostname[64];
	atomic_int freeze_timeout_ms, n_thaws; /* what the host asked of the freezer */
	atomic_bool stop;
};

/* Sends what is in p->out. */
void peer_flush(struct peer *p);
/* The next event that the host causes; FRAME_NEED_MORE: it hung up. */
enum frame_event peer_next(struct peer *p);
/* Waits for a frame of a type; false when the host hung up. */
bool peer_expect(struct peer *p, uint8_t type);
void peer_put_ack(struct peer *p, uint32_t applied);
void peer_accept(struct peer *p);
/* Accepts and greets like a good guest. */
void peer_greet(struct peer *p);
/* Runs p->script; for pthread_create. */
void *peer_thread(void *arg);

/* Appended to p->out. The stream is stdout. */
void peer_put_started(struct peer *p, uint32_t handle); /* as process 77 */
void peer_put_data(struct peer *p, uint32_t handle, uint64_t offset, size_t len);
void peer_put_position(struct peer *p, uint8_t type, uint32_t handle, uint64_t offset);
void peer_put_gap(struct peer *p, uint32_t handle, uint64_t from, uint64_t to);
void peer_put_exit(struct peer *p, uint32_t handle); /* killed at its deadline after 250 ms */
/* Answers pings and takes everything else until the host hangs up. */
void peer_be_quiet(struct peer *p);
