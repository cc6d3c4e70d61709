/*
 * The standard input of an exec: bytes from the host, buffered within the window and written to the
 * command's pipe as it reads. When the command has closed its end, input is taken and dropped, so
 * that a host that is still sending does not wait for ever.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "guest/poller.h"

struct input {
	struct poller *poller;
	struct watch pipe; /* fd -1: no stdin, or closed */
	struct buf pending;
	uint64_t received; /* absolute: bytes taken from the host */
	uint64_t consumed; /* absolute: bytes the command's pipe took, or that were dropped */
	bool close_asked;  /* close the pipe when nothing is pending */
};

/* pipe_fd: write end, non-blocking, handed over; -1: the exec has no stdin. */
void input_begin(struct input *in, struct poller *poller, int pipe_fd);
/* Absolute offset up to which the host may send. */
uint64_t input_window(const struct input *in);
/* False when the host does not keep to the offset or the window. */
bool input_take(struct input *in, uint64_t offset, const void *data, size_t len);
void input_close(struct input *in);
/* The command has ended. */
void input_end(struct input *in);
