/* Encoding and decoding of the delta file's header and table. */
#include "snapshot/delta_format.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int damaged(struct err *err, const char *what)
{
	return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED, "the delta file is damaged: %s",
			what);
}

/* ---- header ---- */

/* Its own inverse: host order to file order and back. */
static void header_swap(struct delta_header *header)
{
	header->version = htole32(header->version);
	header->page_bytes = htole32(header->page_bytes);
	header->memory_bytes = htole64(header->memory_bytes);
	header->data_pages = htole64(header->data_pages);
	header->zero_pages = htole64(header->zero_pages);
	header->n_segments = htole32(header->n_segments);
	header->n_extents = htole32(header->n_extents);
	header->table_offset = htole64(header->table_offset);
}

void delta_header_encode(const struct delta_header *header, void *page)
{
	struct delta_header on_disk = *header;
	size_t page_bytes = header->page_bytes;

	header_swap(&on_disk);
	memset(page, 0, page_bytes);
	memcpy(page, &on_disk, sizeof(on_disk));
	hash_bytes(page, page_bytes - HASH_SIZE, (uint8_t *)page + page_bytes - HASH_SIZE);
}

void delta_root(const void *page, size_t page_bytes, char out[HASH_TEXT_SIZE])
{
	hash_text("delta-xxh3", (const uint8_t *)page + page_bytes - HASH_SIZE, out);
}

/* The counts against each other and the file's size. Every product fits: pages are bounded by
 * DELTA_MEMORY_MAX, the others by pages. */
static int header_check(const struct delta_header *header, uint64_t file_bytes, struct err *err)
{
	uint64_t pages = header->memory_bytes / header->page_bytes;

	if (header->memory_bytes == 0 || header->memory_bytes > DELTA_MEMORY_MAX ||
	    header->memory_bytes % header->page_bytes != 0)
		return damaged(err, "the memory's size is impossible");
	if (header->data_pages > pages || header->zero_pages > pages - header->data_pages)
		return damaged(err, "it has more pages than the memory");
	if (header->n_extents > header->data_pages + header->zero_pages ||
	    header->n_segments > header->n_extents)
		return damaged(err, "it has more extents than pages");
	if (header->table_offset != (1 + header->data_pages) * header->page_bytes)
		return damaged(err, "its table does not follow its data");
	if (file_bytes != header->table_offset + delta_table_bytes(header))
		return damaged(err, "it is cut short or too long");
	return 0;
}

int delta_header_decode(const void *page, size_t page_len, uint64_t file_bytes,
			struct delta_header *ret, struct err *err)
{
	struct delta_header header;
	uint8_t hash[HASH_SIZE];
	int r;

	if (page_len < DELTA_PAGE_BYTES_MIN)
		return damaged(err, "it is too short for a header");
	memcpy(&header, page, sizeof(header));
	header_swap(&header);
	if (memcmp(header.magic, DELTA_MAGIC, sizeof(header.magic)) != 0)
		return damaged(err, "it does not begin as one");
	if (header.version != DELTA_VERSION)
		return err_code(err, -EPROTONOSUPPORT, CODE_SNAPSHOT_VERSION,
				"the delta file has format %" PRIu32 ", this version reads %d",
				header.version, DELTA_VERSION);
	if (header.page_bytes < DELTA_PAGE_BYTES_MIN || header.page_bytes > DELTA_PAGE_BYTES_MAX ||
	    (header.page_bytes & (header.page_bytes - 1)) != 0)
		return damaged(err, "its page size is impossible");
	if (page_len < header.page_bytes)
		return damaged(err, "it is too short for a header");
	hash_bytes(page, header.page_bytes - HASH_SIZE, hash);
	if (memcmp(hash, (const uint8_t *)page + header.page_bytes - HASH_SIZE, HASH_SIZE) != 0)
		return damaged(err, "its header's checksum is wrong");
	r = header_check(&header, file_bytes, err);
	if (r < 0)
		return r;
	*ret = header;
	return 0;
}

/* ---- table ---- */

static void table_swap(struct delta_segment *segments, size_t n_segments,
		       struct delta_extent *extents, size_t n_extents)
{
	for (size_t i = 0; i < n_segments; i++) {
		segments[i].n_extents = htole32(segments[i].n_extents);
		segments[i].data_pages = htole32(segments[i].data_pages);
	}
	for (size_t i = 0; i < n_extents; i++) {
		extents[i].page = htole64(extents[i].page);
		extents[i].pages = htole32(extents[i].pages);
		extents[i].kind = htole32(extents[i].kind);
	}
}

static struct delta_extent *table_extents(const struct delta_header *header, void *table)
{
	static_assert(sizeof(struct delta_segment) % _Alignof(struct delta_extent) == 0,
		      "extents behind segments are aligned");
	return (struct delta_extent *)((char *)table +
				       (size_t)header->n_segments * sizeof(struct delta_segment));
}

void delta_table_encode(const struct delta_header *header, void *table, uint8_t ret_hash[HASH_SIZE])
{
	table_swap(table, header->n_segments, table_extents(header, table), header->n_extents);
	hash_bytes(table, delta_table_bytes(header), ret_hash);
}

/* One segment's extents: sorted behind *next_page, within the memory, their pages as announced. */
static int segment_check(const struct delta_segment *segment, const struct delta_extent *extents,
			 uint64_t memory_pages, uint64_t *next_page, uint64_t *zero_pages,
			 struct err *err)
{
	uint64_t data = 0, zero = 0;

	for (uint32_t i = 0; i < segment->n_extents; i++) {
		const struct delta_extent *extent = &extents[i];

		if (extent->kind != DELTA_DATA && extent->kind != DELTA_ZERO)
			return damaged(err, "an extent is of no known kind");
		if (extent->pages == 0 || extent->pages > DELTA_SEGMENT_PAGES)
			return damaged(err, "an extent has an impossible length");
		if (extent->page < *next_page)
			return damaged(err, "extents overlap or are not sorted");
		if (extent->page >= memory_pages || extent->pages > memory_pages - extent->page)
			return damaged(err, "an extent lies outside the memory");
		*next_page = extent->page + extent->pages;
		*(extent->kind == DELTA_DATA ? &data : &zero) += extent->pages;
	}
	if (data != segment->data_pages || data + zero > DELTA_SEGMENT_PAGES)
		return damaged(err, "a segment does not hold the pages of its extents");
	*zero_pages += zero;
	return 0;
}

static int table_check(const struct delta_header *header, const struct delta_table *table,
		       struct err *err)
{
	uint64_t memory_pages = header->memory_bytes / header->page_bytes;
	uint64_t next_page = 0, data_pages = 0, zero_pages = 0;
	size_t used = 0;

	for (size_t i = 0; i < table->n_segments; i++) {
		const struct delta_segment *segment = &table->segments[i];
		int r;

		if (segment->n_extents == 0 || segment->n_extents > table->n_extents - used)
			return damaged(err, "a segment has no extents or too many");
		r = segment_check(segment, table->extents + used, memory_pages, &next_page,
				  &zero_pages, err);
		if (r < 0)
			return r;
		used += segment->n_extents;
		data_pages += segment->data_pages;
	}
	if (used != table->n_extents || data_pages != header->data_pages ||
	    zero_pages != header->zero_pages)
		return damaged(err, "its table does not agree with its header");
	return 0;
}

int delta_table_decode(const struct delta_header *header, void *table, struct delta_table *ret,
		       struct err *err)
{
	struct delta_table decoded = {
		.segments = table,
		.n_segments = header->n_segments,
		.extents = table_extents(header, table),
		.n_extents = header->n_extents,
	};
	uint8_t hash[HASH_SIZE];
	int r;

	hash_bytes(table, delta_table_bytes(header), hash);
	if (memcmp(hash, header->table_hash, HASH_SIZE) != 0)
		return damaged(err, "its table's checksum is wrong");
	table_swap(table, header->n_segments, table_extents(header, table), header->n_extents);
	r = table_check(header, &decoded, err);
	if (r < 0)
		return r;
	*ret = decoded;
	return 0;
}
