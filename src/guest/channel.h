/*
 * The virtio-serial port: bytes in, frames out to session.c, a bounded queue back.
 *
 * The port is watched edge-triggered. virtio_console (Linux 6.1) reports EPOLLHUP for as long as
 * the host's side is closed, so that a level-triggered watch would spin; it wakes its waiters on
 * every change (data, space, connect, hang-up), so that an edge-triggered one misses nothing and an
 * idle guest sleeps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "guest/poller.h"
#include "proto/frame.h"

struct guest;

struct channel {
	struct guest *guest;
	struct watch port;
	struct frame_decoder in;
	struct buf out;
	size_t sent;	/* bytes of out that the port has taken */
	bool readable;	/* an edge came and not everything was read yet */
	bool host_seen; /* the kernel knows the host to be connected */
	bool early;	/* bytes have come, and it does not */
};

/* Opens the port called PROTO_PORT_NAME, waiting until deadline_boottime_ms for it to appear. */
int channel_open(struct channel *c, struct guest *guest, int64_t deadline_boottime_ms);
/* Reads and handles what there is, up to a bound, and as long as answers have room. */
void channel_read(struct channel *c);
/* Writes what is queued as far as the port takes it. */
void channel_flush(struct channel *c);
/* May output be queued? Answers may always be, because reading stops when there is no room. */
bool channel_has_room(const struct channel *c);
/* Forgets what is queued. */
void channel_drop_queue(struct channel *c);
