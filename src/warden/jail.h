/*
 * The jail of one VMM.
 *
 * Stages, named after what does them:
 *   jail_start  a child in new mount, pid, net, ipc and uts namespaces waits; nothing has run yet
 *   jail_go     the child builds its root (an empty tmpfs into which only what the VMM needs to
 * start is bind-mounted, read-only), gives up every privilege and executes the VMM jail_seal   once
 * the VMM has loaded its program and opened its files, and before a guest runs: everything is taken
 * out of the root again, which stays empty and read-only. What is mapped or open stays valid.
 *
 * What the VMM then has: its own uid, no capabilities and no way to gain any, an empty file system,
 * no network, no view of other processes, and the descriptors that were passed to it.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "warden/options.h"

struct jail {
	pid_t pid; /* of the VMM, in the warden's pid namespace */
	int pidfd;
	int go_fd;     /* write end: the child waits for a byte */
	int report_fd; /* read end: why the child failed; closed by its execve */
};
#define JAIL_INIT ((struct jail){ .pidfd = -1, .go_fd = -1, .report_fd = -1 })

int jail_start(const struct options *options, struct jail *ret, struct err *err);
/* Returns when the VMM was executed, or with what stopped it. */
int jail_go(struct jail *jail, struct err *err);
int jail_seal(const struct jail *jail, const struct options *options, struct err *err);
void jail_kill(const struct jail *jail);
/* Stops the VMM, or lets it go on: it has no say in either (SIGSTOP, SIGCONT). */
void jail_freeze(const struct jail *jail);
void jail_thaw(const struct jail *jail);
void jail_clear(struct jail *jail); /* closes descriptors; kills nothing */
