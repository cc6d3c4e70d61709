/*
 * The delta file: which pages of a memory differ from its base file, and what is in them. Pure
 * functions over bytes, no I/O. The reader treats every field as hostile.
 *
 *   page 0            struct delta_header, zeros, and at the end of the page its hash
 *   page 1 …          the data pages, in the order of their place in the memory
 *   table_offset      struct delta_segment [n_segments], then struct delta_extent [n_extents]
 *
 * A segment is up to DELTA_SEGMENT_PAGES pages of data and the extents that they belong to: the
 * unit of hashing and of work. Extents are sorted by their place and do not overlap; those of zeros
 * have no data. Data pages have no gaps, so that a segment's place in the file is the sum of the
 * ones before.
 *
 * The hashes form a tree: the header's covers the table's, the table's covers the segments'. So the
 * header's hash stands for the whole file (delta_root), and a segment can be checked on its own,
 * before any of it is used. Numbers are little-endian.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "snapshot/hash.h"

#define DELTA_MAGIC   "SKRYDLTA"
#define DELTA_VERSION 1
#define DELTA_SEGMENT_PAGES                                                                        \
	64 /* 256 KiB: a segment stays in the CPU's cache from read to write                       \
	    */
#define DELTA_MEMORY_MAX     ((uint64_t)64 << 30)
#define DELTA_PAGE_BYTES_MIN 4096U
#define DELTA_PAGE_BYTES_MAX 65536U

#define CODE_SNAPSHOT_DAMAGED	 "snapshot_damaged"
#define CODE_SNAPSHOT_VERSION	 "snapshot_version_mismatch"
#define CODE_SNAPSHOT_INCOMPLETE "snapshot_incomplete"
#define CODE_SNAPSHOT_NOT_FOUND	 "snapshot_not_found"

struct delta_header {
	char magic[8];
	uint32_t version;
	uint32_t page_bytes;
	uint64_t memory_bytes;
	uint64_t data_pages;
	uint64_t zero_pages;
	uint32_t n_segments;
	uint32_t n_extents;
	uint64_t table_offset;
	uint8_t table_hash[HASH_SIZE];
};
static_assert(sizeof(struct delta_header) == 72, "the header's layout is on disk");

struct delta_segment {
	uint32_t n_extents;
	uint32_t data_pages;
	uint8_t hash[HASH_SIZE]; /* of the data pages */
};
static_assert(sizeof(struct delta_segment) == 24, "the table's layout is on disk");

enum delta_kind { DELTA_DATA, DELTA_ZERO };

struct delta_extent {
	uint64_t page; /* in the memory */
	uint32_t pages;
	uint32_t kind; /* enum delta_kind */
};
static_assert(sizeof(struct delta_extent) == 16, "the table's layout is on disk");

static inline bool delta_is_zero(const uint8_t *page, size_t page_bytes)
{
	return page[0] == 0 && memcmp(page, page + 1, page_bytes - 1) == 0;
}

/* Encodes the header into a whole page of page_bytes, with its hash. Fields in host order. */
void delta_header_encode(const struct delta_header *header, void *page);

/* Decodes page 0 of a file of file_bytes. All counts are then bounded by the file's size and agree
 * with each other. Codes: "snapshot_damaged", "snapshot_version_mismatch". */
int delta_header_decode(const void *page, size_t page_len, uint64_t file_bytes,
			struct delta_header *ret, struct err *err);

static inline size_t delta_table_bytes(const struct delta_header *header)
{
	return (size_t)header->n_segments * sizeof(struct delta_segment) +
	       (size_t)header->n_extents * sizeof(struct delta_extent);
}

/* What stands for the whole file: the hash of its header, as text. The page is as encoded. */
void delta_root(const void *page, size_t page_bytes, char out[HASH_TEXT_SIZE]);

/* A table as read, checked: a view into the caller's bytes, in host order after delta_table_decode.
 */
struct delta_table {
	const struct delta_segment *segments;
	size_t n_segments;
	const struct delta_extent *extents;
	size_t n_extents;
};

/* Converts a table of delta_table_bytes(header) bytes (aligned for uint64_t) to host order in
 * place, and checks its hash and every rule above. */
int delta_table_decode(const struct delta_header *header, void *table, struct delta_table *ret,
		       struct err *err);
/* Converts to the file's order in place; returns the hash for the header. */
void delta_table_encode(const struct delta_header *header, void *table,
			uint8_t ret_hash[HASH_SIZE]);
