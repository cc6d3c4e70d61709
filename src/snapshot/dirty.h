/*
 * The pages that a process has written in its private mapping of a file: those that are its own
 * (anonymous) copies, in memory or in swap, and no longer the file's. They, and nothing else,
 * differ from the file, so that file + dirty pages is the whole memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "snapshot/mapping.h"

struct dirty_extent {
	uint64_t address; /* in the process */
	uint64_t offset;  /* in the file */
	uint64_t bytes;
};

struct dirty_set {
	struct dirty_extent *items; /* sorted by offset; within one mapping each */
	size_t n;
	size_t capacity;
	uint64_t bytes; /* of all */
};
#define DIRTY_SET_INIT ((struct dirty_set){ 0 })

void dirty_set_clear(struct dirty_set *set);

enum dirty_method {
	DIRTY_AUTO, /* the ioctl where the kernel has it */
	DIRTY_SCAN, /* the PAGEMAP_SCAN ioctl, Linux 6.7 and later: a call per thousand extents */
	DIRTY_PAGEMAP, /* /proc/PID/pagemap, any Linux: eight bytes read a page */
};

/* The process must not write meanwhile (a stopped guest). DIRTY_SCAN on an older kernel: -ENOTTY.
 */
int dirty_find(const struct process *process, const struct mapping_set *mappings,
	       enum dirty_method method, struct dirty_set *ret, struct err *err);

/* Pure: appends the dirty ones of n pages, whose pagemap entries these are and the first of which
 * lies at address and offset. */
void dirty_from_pagemap(const uint64_t *entries, size_t n, uint64_t page_bytes, uint64_t address,
			uint64_t offset, struct dirty_set *set);
