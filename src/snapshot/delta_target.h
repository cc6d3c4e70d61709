/*
 * The memory of a process that is being filled, inside of this library: written through
 * /proc/PID/mem, whose descriptor is bound to that memory, so that no reused pid can send the bytes
 * astray (it measured within a tenth of process_vm_writev in CPU time, as nearly all of it goes
 * into the copy-on-write faults). Its calls may run on several threads at once.
 */
#pragma once

#include "snapshot/dirty.h"
#include "snapshot/mapping.h"

struct delta_target {
	struct process process;
	struct mapping_set mappings;
	int mem_fd;    /* the process's memory */
	int memory_fd; /* the base file */
	size_t page_bytes;
};
#define DELTA_TARGET_INIT                                                                          \
	((struct delta_target){ .process = PROCESS_INIT, .mem_fd = -1, .memory_fd = -1 })

/* The process must have mapped the file privately and whole. */
int delta_target_open(pid_t pid, const char *memory_path, struct delta_target *ret,
		      struct err *err);
void delta_target_close(struct delta_target *target);

/* Sets the pages that the process has written itself (firmware, a kernel image) back to what the
 * base file has: without that they would differ from the saved memory. *ret_pages: how many. */
int delta_target_undo(const struct delta_target *target, enum dirty_method method,
		      uint64_t *ret_pages, struct err *err);
int delta_target_write(const struct delta_target *target, uint64_t offset, const uint8_t *data,
		       size_t len, struct err *err);
/* Zeros are only written where the base file has something else: elsewhere they would only cost the
 * process a page of its own. */
int delta_target_write_zeros(const struct delta_target *target, uint64_t offset, size_t len,
			     struct err *err);
