/* The driver's own settings, and what its files share. Private to src/vmm/qemu. */
#pragma once

#include "vmm/qemu/args.h"
#include "vmm/qemu/machine.h"
#include "vmm/vmm.h"

struct vmm_driver {
	struct machine machine;
	char *warden_path;
	char *cgroup_name;
	char *preload_path;
	struct args binds; /* what QEMU needs to start, beside the kernel */
	char *isolation_reason;
	char *fingerprint, *state_fingerprint;
};

#define QMP_SOCKET_NAME	   "qmp.sock"
#define WARDEN_SOCKET_NAME "warden.sock"
/* In the run directory of a VM that writes its memory file: a link to it, for vmm_save. */
#define MEMORY_LINK_NAME "memory"
#define PRELOAD_NAME	 "libskerry-qemu.so"

/* The record of the VM in run_dir. -ESRCH when it is of an earlier boot of the host. */
int record_of_this_boot(const char *run_dir, struct record *ret, struct err *err);
/* Is the process of this pid still the one that started at start_ticks? Returns a pidfd, or -ESRCH.
 */
int process_pin(pid_t pid, uint64_t start_ticks);
/* SIGKILL, and wait for its end until the deadline. */
int process_kill(int pidfd, int64_t deadline_boottime_ms);
/* Waits for the end of the process. 0 or -ETIMEDOUT. */
int process_wait(int pidfd, int64_t deadline_boottime_ms);
