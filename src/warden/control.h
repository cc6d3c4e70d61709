/*
 * The warden's control socket: one command a line, one answer a command.
 *
 *   seal                     empty the jail's root, apply the CPU quota
 *   extend <boottime_ms>     the new deadline is durable; a VM that was frozen or thawed goes on
 *   thaw                     of one that is frozen at its deadline: whoever asks has stopped the
 * guest (or does) and saves it; the VMM may run for a minute, whatever the deadline. Any other VM
 * is left alone end <word>               the VMM is being killed console                  answers
 * ok <n>, then n bytes: the console's last part
 *
 * The answer is "ok", or "error <errno name> <sentence>" of what is refused.
 *
 * The warden never waits for a peer: a peer that does not take its answer, or sends a line without
 * end, is cut off. This file knows sockets and lines; what the words do is the handler's.
 */
#pragma once

#include <poll.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define CONTROL_PEERS_MAX 8
#define CONTROL_LINE_MAX  256

struct control_peer {
	int fd;
	char line[CONTROL_LINE_MAX];
	size_t len;
};

struct control {
	int listen_fd;
	struct control_peer peers[CONTROL_PEERS_MAX];
};

/* Appends the answer to out, newline included. */
typedef void (*control_handler)(void *arg, const char *line, struct buf *out);

int control_open(struct control *control, const char *path, struct err *err);
void control_close(struct control *control);
/* Fills polls (CONTROL_PEERS_MAX + 1 of them; unused ones get -1). */
void control_poll(const struct control *control, struct pollfd *polls);
void control_dispatch(struct control *control, const struct pollfd *polls, control_handler handler,
		      void *arg);
