/* Accepting connections on a listening socket, without spinning when descriptors have run out: then
 * it rests for LISTENER_PAUSE_MS, and connections wait in the kernel's queue. On the loop's thread.
 */
#pragma once

#include <netinet/in.h>

#include "loop/loop.h"

#define LISTENER_PAUSE_MS	   100
#define LISTENER_ACCEPTS_PER_ROUND 32

/* fd is the callee's, non-blocking. */
typedef void (*listener_fn)(void *arg, int fd, const struct sockaddr_in *from);

struct listener;

/* Takes over fd, also on failure: NULL with errno. */
struct listener *listener_new(struct loop *loop, int fd, listener_fn fn, void *arg);
void listener_free(struct listener *listener); /* NULL is fine */
