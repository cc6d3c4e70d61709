/*
 * Where a process has mapped a file: the private (copy-on-write) mappings of a guest's memory file
 * in a VMM, found from outside. The process may live in another mount namespace, so that the path
 * in its maps means nothing here: the file is known by device and inode.
 *
 * The process is named by a pid that the caller keeps from being reused (a pidfd, or an unreaped
 * child); struct process pins it further: every file of /proc is opened through one directory
 * handle.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"

struct process {
	pid_t pid;
	int proc_fd; /* /proc/PID */
};
#define PROCESS_INIT ((struct process){ .proc_fd = -1 })

/* -ESRCH ("not_found") when there is no such process. */
int process_open(pid_t pid, struct process *ret, struct err *err);
void process_close(struct process *process);
/* Opens a file of /proc/PID: the descriptor or -errno (-ESRCH when the process has ended). */
int process_file(const struct process *process, const char *name, int flags);
/* 0 while the process that was opened still exists, else -ESRCH. After a row of calls that took the
 * pid it tells that all of them met the same process. */
int process_check(const struct process *process);

struct mapping {
	uint64_t address;
	uint64_t bytes;
	uint64_t offset; /* in the file */
};

struct mapping_set {
	struct mapping
		*items; /* sorted by offset, without gaps or overlaps, from 0 to memory_bytes */
	size_t n;
	uint64_t memory_bytes; /* the file's size */
};
#define MAPPING_SET_INIT ((struct mapping_set){ 0 })

/* Finds the mappings of the file of memory_stat. They must be private and writable, and cover the
 * file from its start to its end exactly once: anything else is -EBADMSG, as part of a memory would
 * be no answer. */
int mapping_find(const struct process *process, const struct stat *memory_stat,
		 struct mapping_set *ret, struct err *err);
void mapping_set_clear(struct mapping_set *set);

/* The mapping that holds the offset; NULL when it is past the end. */
const struct mapping *mapping_at(const struct mapping_set *set, uint64_t offset);

/* One line of /proc/PID/maps. */
struct maps_line {
	struct mapping mapping;
	bool writable;
	bool is_private;
	dev_t device;
	ino_t inode;
};
/* Pure. -EBADMSG when it is no such line. */
int maps_parse_line(const char *line, struct maps_line *ret);
