/*
 * The warden's record of one VM: an append-only file of lines `event key=value …`, each fsynced
 * before the world can see what it says. It is what bills and reasons are made from when the daemon
 * was down.
 *
 *   start    boot_id, boottime_ms, unix_ms, warden_pid, warden_start, vmm_pid, vmm_start,
 *            expires_boottime_ms       (pid plus start time in clock ticks identify a process)
 *   deadline boottime_ms, expires_boottime_ms
 *                                      (moved; the last one counts. After `frozen`: it goes on)
 *   frozen   boottime_ms, unix_ms      (the deadline came, and the VMM stands still since; no exit
 *                                      follows until somebody extends, saves or ends it)
 *   exit     boottime_ms, unix_ms, cause, status, detail
 *
 * A torn last line (host crash while writing) is ignored. The reader treats the file as untrusted
 * in form, though only root can write it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum record_cause {
	RECORD_RUNNING = 0,  /* no exit line yet */
	RECORD_EXPIRED,	     /* the deadline came */
	RECORD_ENDED,	     /* somebody asked (reason in `reason`) */
	RECORD_GUEST_OFF,    /* the guest powered off or rebooted */
	RECORD_GUEST_PANIC,  /* the guest's kernel panicked */
	RECORD_GUEST_OOM,    /* … because it had no memory and nothing to kill */
	RECORD_VMM_CRASHED,  /* the VMM ended by itself with an error or a signal */
	RECORD_START_FAILED, /* the VMM never came up */
};

struct record {
	bool started;
	char boot_id[37];
	int64_t start_boottime_ms;
	int64_t start_unix_ms;
	pid_t warden_pid;
	uint64_t warden_start_ticks;
	pid_t vmm_pid;
	uint64_t vmm_start_ticks;
	int64_t expires_boottime_ms;

	bool frozen; /* it stands still since: */
	int64_t frozen_boottime_ms;
	int64_t frozen_unix_ms;
	int64_t frozen_total_ms; /* how long it stood still before it was extended, all times
				    together */

	enum record_cause cause;
	char reason[64]; /* RECORD_ENDED: the word given */
	int64_t exit_boottime_ms;
	int64_t exit_unix_ms;
	int vmm_status;	  /* as of waitpid(2) */
	char detail[256]; /* one sentence: last words of the console or the VMM */
};

/* -ENOENT when there is none, -EBADMSG when it is not a record. */
int record_read(const char *path, struct record *ret, struct err *err);
/* Appends one event and fsyncs; used by the warden. The first append makes file and directory
 * durable. */
int record_append_start(const char *path, const struct record *r);
int record_append_deadline(const char *path, int64_t expires_boottime_ms);
int record_append_frozen(const char *path, int64_t boottime_ms, int64_t unix_ms);
int record_append_exit(const char *path, const struct record *r);
const char *record_cause_name(enum record_cause cause);
/* Start time of a process in clock ticks since boot (field 22 of /proc/PID/stat), 0 or -ESRCH. */
int record_process_start(pid_t pid, uint64_t *ret_ticks);
