/*
 * What saving and capturing share, inside of this library: which pages of which process are to be
 * saved, and where they are read from.
 */
#pragma once

#include "snapshot/delta.h"
#include "snapshot/mapping.h"

struct delta_source {
	struct process process;
	uint64_t memory_bytes;
	struct dirty_set dirty;
	uint8_t *copy; /* the pages in their order, taken before; NULL: they are in the process.
			  Borrowed, and changed by delta_write. */
};
#define DELTA_SOURCE_INIT ((struct delta_source){ .process = PROCESS_INIT })

/* Opens the process and finds its written pages. */
int delta_source_find(pid_t pid, const char *memory_path, enum dirty_method method,
		      struct delta_source *ret, struct err *err);
void delta_source_clear(struct delta_source *source);

/* Copies so many bytes, at most a segment, from within that extent on. */
int delta_read_pages(const struct delta_source *source, size_t extent, uint64_t skip, size_t bytes,
		     void *buffer);

/* Makes the file. Fills all of stats but the times. On failure it is not there. */
int delta_write(const struct delta_source *source, const char *path,
		const struct delta_options *options, struct delta_stats *stats, struct err *err);
