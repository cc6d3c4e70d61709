/*
 * Asks a QEMU over its control socket to stop its guest, or to let it go on, without ever waiting
 * for it.
 *
 * At a deadline that freezes, SIGSTOP alone would hold the process but not the guest's time: its
 * clocks are the host's, shifted, and would jump by the whole pause on SIGCONT, over the deadlines
 * of its own timers and commands. QEMU's `stop` holds them. So it is asked first, and stopped by
 * force when it has obeyed or its time is over. These two words are all that the warden knows of
 * its VMM.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pauser {
	int fd; /* -1: nothing is asked */
	bool stopping;
	size_t len;
	char text[4096]; /* what QEMU has said */
};

/* Connects and sends; an earlier question is dropped. QEMU serves one connection at a time, in
 * their order: behind one of the driver's this one waits. 0 or -errno. */
int pauser_ask_stop(struct pauser *pauser, const char *socket_path);
int pauser_ask_continue(struct pauser *pauser, const char *socket_path);
/* Reads what has come. True once there is nothing more to wait for: obeyed, refused, or gone. */
bool pauser_read(struct pauser *pauser);
void pauser_drop(struct pauser *pauser);
