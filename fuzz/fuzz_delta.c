/*
 * The delta file's header and table, and a snapshot's manifest. Input: a byte of choices, then the
 * file. Checksums are put right first (unless the choice says not to), as otherwise nothing would
 * get past them: what is looked for is a field that the checks believe.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "snapshot/delta_format.h"
#include "snapshot/manifest.h"
#include "snapshot/mapping.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE 4096

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

enum { KEEP_SUMS = 1, MANIFEST = 2, MAPS = 4 };

/* What the loader takes for granted of a table that was accepted. */
static void check_table(const struct delta_header *header, const struct delta_table *table)
{
	uint64_t next = 0, pages = header->memory_bytes / header->page_bytes;
	uint64_t data = 0, zero = 0;
	size_t at = 0;

	for (size_t i = 0; i < table->n_segments; i++) {
		uint64_t here = 0;

		REQUIRE(table->segments[i].data_pages <= DELTA_SEGMENT_PAGES);
		for (uint32_t k = 0; k < table->segments[i].n_extents; k++, at++) {
			const struct delta_extent *extent = &table->extents[at];

			REQUIRE(at < table->n_extents);
			REQUIRE(extent->pages > 0 && extent->pages <= DELTA_SEGMENT_PAGES);
			REQUIRE(extent->page >= next && extent->page + extent->pages <= pages);
			next = extent->page + extent->pages;
			if (extent->kind == DELTA_DATA)
				here += extent->pages;
			else
				zero += extent->pages;
		}
		REQUIRE(here == table->segments[i].data_pages);
		data += here;
	}
	REQUIRE(at == table->n_extents);
	REQUIRE(data == header->data_pages && zero == header->zero_pages);
	REQUIRE(header->table_offset == (1 + data) * header->page_bytes);
}

/* The input is the header, and the table where the file's own says it is not: data pages are left
 * out, so that the fuzzer need not invent them. */
static void fuzz_delta(const uint8_t *data, size_t size, bool keep_sums)
{
	_cleanup_free_ uint8_t *page = xcalloc(1, PAGE);
	struct delta_header header, *raw = (struct delta_header *)(void *)page;
	size_t head = size < sizeof(header) ? size : sizeof(header), table_bytes = size - head;
	_cleanup_free_ void *table = xmalloc(table_bytes + 1);
	struct delta_table decoded;

	memcpy(page, data, head);
	memcpy(table, data + head, table_bytes);
	if (!keep_sums) {
		memcpy(raw->magic, DELTA_MAGIC, sizeof(raw->magic));
		hash_bytes(table, table_bytes, raw->table_hash);
		hash_bytes(page, PAGE - HASH_SIZE, page + PAGE - HASH_SIZE);
	}
	if (delta_header_decode(page, PAGE, raw->table_offset + table_bytes, &header, NULL) < 0)
		return;
	REQUIRE(delta_table_bytes(&header) == table_bytes);
	if (delta_table_decode(&header, table, &decoded, NULL) == 0)
		check_table(&header, &decoded);
}

/* What is accepted is written the same again. */
static void fuzz_manifest(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_buf_ struct buf again = BUF_INIT;
	struct manifest one, two;

	if (manifest_decode((const char *)data, size, &one, NULL) < 0)
		return;
	manifest_encode(&one, &text);
	REQUIRE(manifest_decode(text.data, text.len, &two, NULL) == 0);
	manifest_encode(&two, &again);
	REQUIRE(str_eq(buf_str(&text), buf_str(&again)));
}

static void fuzz_maps(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = xstrndup((const char *)data, size);
	struct maps_line line;

	if (maps_parse_line(text, &line) == 0)
		REQUIRE(line.mapping.bytes > 0 &&
			line.mapping.offset <= UINT64_MAX - line.mapping.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & MANIFEST)
		fuzz_manifest(data + 1, size - 1);
	else if (data[0] & MAPS)
		fuzz_maps(data + 1, size - 1);
	else
		fuzz_delta(data + 1, size - 1, data[0] & KEEP_SUMS);
	return 0;
}
