/*
 * Two connected sockets, joined: what one says the other hears, until both have ended. Each way
 * holds PREVIEW_TUNNEL_BYTES at most; a side that does not read stops the other. Loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "loop/loop.h"

#define PREVIEW_TUNNEL_BYTES (64u * 1024)

struct preview_tunnel;

/* The sockets do not block, are watched by nobody else, and stay the caller's. client_half_closes:
 * the client can be told that the guest has ended while it may go on itself. What was already
 * read from a side comes first. ended is called once, unless the tunnel is freed before; it may
 * free it. NULL with errno when they cannot be watched. */
struct preview_tunnel *preview_tunnel_new(struct loop *loop, int client_fd, bool client_half_closes,
					  int guest_fd, const void *from_client,
					  size_t from_client_len, const void *from_guest,
					  size_t from_guest_len, loop_fn ended, void *arg);
void preview_tunnel_free(struct preview_tunnel *tunnel); /* NULL is fine */
