/* One end of a proxied connection: a socket, and the bytes that wait to be sent on it. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "loop/loop.h"

struct pipe_end {
	int fd; /* -1: not there */
	struct loop_io *io;
	struct buf out;
	size_t out_at; /* of them, sent already */
	bool ended;    /* the peer sends no more (or is not listened to any more) */
	bool no_more;  /* nothing will be added to out: tell the peer when it has left */
	bool told;
};

#define PIPE_END_INIT ((struct pipe_end){ .fd = -1 })

void pipe_end_close(struct pipe_end *end);
size_t pipe_end_waiting(const struct pipe_end *end);
/* Sends what it can, and the end when all has left. 0 or -errno: the connection is broken. */
int pipe_end_flush(struct pipe_end *end);
/* Up to max bytes appended to in. 1: some; 0: none now, or ended; -errno: broken. */
int pipe_end_receive(struct pipe_end *end, size_t max, struct buf *in);
/* Watches for what the end can do: receive when `wants_more`, send when something waits. */
void pipe_end_watch(struct pipe_end *end, bool wants_more);
