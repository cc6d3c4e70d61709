/*
 * Saving and restoring a memory by its difference from a base file (delta_format.h has the file).
 *
 * A VMM has mapped its guest's memory file privately; the pages that the guest wrote are the
 * process's own. delta_save copies exactly those into a new file, delta_load writes them into the
 * mapping of another process that has just mapped the same base file. Cost: one look at the page
 * tables, and the written pages; the memory's size hardly matters.
 *
 * It knows processes and files, no VMs: the caller has stopped the guest, keeps the pid from being
 * reused (a pidfd, or an unreaped child) and holds the privilege of a debugger over the process.
 *
 * Integrity: header and table are checked before the process is touched; each segment of 256 KiB is
 * checked after it was read and before it is written, from the same buffer. So nothing unchecked
 * gets into the process and the file is read once. A damaged segment in the middle leaves earlier
 * ones written: after any error the process must be ended, never run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "snapshot/delta_format.h"
#include "snapshot/dirty.h"

struct delta_options {
	enum dirty_method method;
	/* 0: one. The file is the same for any number. More have not measured better on a busy host
	 * of two CPUs (bench/delta_bench). */
	unsigned int threads;
	bool durable_soon; /* save: start writing to disk at once, as an fsync will follow */
};

struct delta_stats {
	uint64_t memory_bytes;
	uint64_t data_pages;
	uint64_t zero_pages;   /* written in the process, all zero: no data */
	uint64_t undone_pages; /* load: pages the new process had written itself, set back to the
				  base */
	uint64_t extents;
	uint64_t file_bytes;
	int64_t find_us; /* looking for the written pages */
	int64_t total_us;
	char root[HASH_TEXT_SIZE]; /* stands for the whole file's content; see delta_root */
};

/* How many bytes the process has written so far: what a save will need, before anything is done. */
int delta_measure(pid_t pid, const char *memory_path, uint64_t *ret_bytes, struct err *err);
/* Upper bound of the file's size for that many written bytes. */
uint64_t delta_file_bytes_max(uint64_t written_bytes);

/* Writes path (must not exist; 0600), not yet fsynced. On failure it is not there. options may be
 * NULL. Errors: "disk_full", "not_found" (the process), -EBADMSG (it has not mapped the file
 * privately and whole). */
int delta_save(pid_t pid, const char *memory_path, const char *path,
	       const struct delta_options *options, struct delta_stats *ret, struct err *err);

/*
 * The same in three steps, so that the process stands still for the copying alone: a buffer made
 * while it runs, the written pages taken while it is stopped, the file written while it goes on.
 */
struct delta_capture;
/* bytes_max bounds what is taken, and the memory for it. -E2BIG when more is written already,
 * -ENOMEM; then delta_save does without. */
int delta_capture_new(pid_t pid, const char *memory_path, uint64_t bytes_max,
		      struct delta_capture **ret, struct err *err);
/* How many bytes were written when it was made. */
uint64_t delta_capture_expected(const struct delta_capture *capture);
/* The process is stopped. Errors as of delta_save, and -E2BIG. */
int delta_capture_take(struct delta_capture *capture, struct err *err);
/* Writes what was taken, once; the process may have ended. As delta_save otherwise. */
int delta_capture_write(struct delta_capture *capture, const char *path,
			const struct delta_options *options, struct delta_stats *ret,
			struct err *err);
/* Makes a process's memory equal to what was taken and not written yet, as delta_load does from a
 * file: any number of times, also at once. After any error the process must be ended. */
int delta_capture_load(const struct delta_capture *capture, pid_t pid, struct delta_stats *ret,
		       struct err *err);
void delta_capture_free(struct delta_capture *capture); /* NULL is fine */

/* Makes the process's memory equal to the saved one, also where it has written pages itself. Codes:
 * "snapshot_damaged", "snapshot_version_mismatch", "snapshot_incomplete" (no file), "not_found". */
int delta_load(pid_t pid, const char *memory_path, const char *path,
	       const struct delta_options *options, struct delta_stats *ret, struct err *err);

/* Checks all of the file, without a process. */
int delta_verify(const char *path, struct delta_stats *ret, struct err *err);

/* The header alone, checked: root and figures of a file. */
int delta_inspect(const char *path, struct delta_stats *ret, struct err *err);
