/*
 * Terminals: the PTY of an exec that runs in one. The master is the agent's: what the exec's output
 * is read from and its input is written to; the slave is the command's. What is kept of its output,
 * who looks at it and how it ends is any exec's (exec.h).
 *
 * The agent touches no path that the guest could have changed: PTYs are made below a descriptor of
 * devpts from the boot, and a slave is opened through its master.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct exec;
struct guest;

struct terminal_size {
	uint16_t cols, rows;
};

/* At boot, before anything else runs: devpts. A descriptor, or -errno. */
int terminal_open_devpts(void);
/* Both ends; the master does not block. 0 or -errno. */
int terminal_make(int devpts_fd, struct terminal_size size, int *ret_master, int *ret_slave);
/* The foreground job is told (SIGWINCH). */
void terminal_resize(struct exec *exec, struct terminal_size size);
/* It runs something else than a shell that waits at its prompt. Jobs in a shell's background do not
 * count, as what other commands leave behind does not either. */
bool terminal_is_busy(const struct exec *exec);
/* Those that have not ended. */
uint32_t terminals_open(const struct guest *guest);
/* Writes the payload of TERMINALS behind its token. */
void terminals_put(const struct guest *guest, struct buf *out);
