/*
 * Asking the kernel which pages are a process's own.
 *
 * A page of a private file mapping is the file's (bit 61, "file or shared") until it is written;
 * then it is anonymous: present (63) or swapped (62) and not 61. A file page that is being migrated
 * shows as swapped with bit 61 set: it is clean. The ioctl asks for the same thing in its own
 * words.
 */
#include "snapshot/dirty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

#define PAGEMAP_FILE	((uint64_t)1 << 61)
#define PAGEMAP_SWAPPED ((uint64_t)1 << 62)
#define PAGEMAP_PRESENT ((uint64_t)1 << 63)
#define PAGEMAP_BATCH	32768 /* entries a read: 256 KiB, 128 MiB of memory */

/* From Linux 6.7's <linux/fs.h>, which Debian 12's headers (6.1) do not have yet. */
struct scan_region {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};
struct scan_arg {
	uint64_t size;
	uint64_t flags;
	uint64_t start;
	uint64_t end;
	uint64_t walk_end; /* out: how far it came */
	uint64_t regions;
	uint64_t regions_len;
	uint64_t max_pages;
	uint64_t category_inverted;
	uint64_t category_mask;
	uint64_t category_anyof_mask;
	uint64_t return_mask;
};
_Static_assert(sizeof(struct scan_arg) == 96, "the kernel's struct pm_scan_arg");
#define SCAN_IOCTL	_IOWR('f', 16, struct scan_arg)
#define SCAN_IS_FILE	(1U << 2)
#define SCAN_IS_PRESENT (1U << 3)
#define SCAN_IS_SWAPPED (1U << 4)
#define SCAN_BATCH	1024

void dirty_set_clear(struct dirty_set *set)
{
	free(set->items);
	*set = DIRTY_SET_INIT;
}

/* Appends or lengthens the last; never across mappings, whose addresses do not follow each other.
 */
static void add(struct dirty_set *set, uint64_t address, uint64_t offset, uint64_t bytes)
{
	struct dirty_extent *last = set->n ? &set->items[set->n - 1] : NULL;

	set->bytes += bytes;
	if (last && last->address + last->bytes == address &&
	    last->offset + last->bytes == offset) {
		last->bytes += bytes;
		return;
	}
	if (set->n == set->capacity) {
		set->capacity = set->capacity ? 2 * set->capacity : 256;
		set->items = xrealloc(set->items, set->capacity * sizeof(*set->items));
	}
	set->items[set->n++] = (struct dirty_extent){ address, offset, bytes };
}

void dirty_from_pagemap(const uint64_t *entries, size_t n, uint64_t page_bytes, uint64_t address,
			uint64_t offset, struct dirty_set *set)
{
	for (size_t i = 0; i < n; i++)
		if ((entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)) &&
		    !(entries[i] & PAGEMAP_FILE))
			add(set, address + i * page_bytes, offset + i * page_bytes, page_bytes);
}

static int read_pagemap(int fd, const struct mapping *mapping, struct dirty_set *set)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	_cleanup_free_ uint64_t *entries = xmalloc(PAGEMAP_BATCH * sizeof(*entries));
	uint64_t done = 0;

	while (done < mapping->bytes) {
		uint64_t left = (mapping->bytes - done) / page_bytes;
		size_t want =
			(left < PAGEMAP_BATCH ? (size_t)left : PAGEMAP_BATCH) * sizeof(*entries);
		off_t at = (off_t)((mapping->address + done) / page_bytes * sizeof(*entries));
		ssize_t n = pread(fd, entries, want, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0 || (size_t)n % sizeof(*entries) != 0) /* the process has ended */
			return -ESRCH;
		dirty_from_pagemap(entries, (size_t)n / sizeof(*entries), page_bytes,
				   mapping->address + done, mapping->offset + done, set);
		done += (uint64_t)n / sizeof(*entries) * page_bytes;
	}
	return 0;
}

static int scan(int fd, const struct mapping *mapping, struct dirty_set *set)
{
	_cleanup_free_ struct scan_region *regions = xmalloc(SCAN_BATCH * sizeof(*regions));
	struct scan_arg arg = {
		.size = sizeof(arg),
		.start = mapping->address,
		.end = mapping->address + mapping->bytes,
		.regions = (uint64_t)(uintptr_t)regions,
		.regions_len = SCAN_BATCH,
		.category_inverted = SCAN_IS_FILE,
		.category_mask = SCAN_IS_FILE,
		.category_anyof_mask = SCAN_IS_PRESENT | SCAN_IS_SWAPPED,
		/* the same answer for present and swapped, so that they become one region */
		.return_mask = SCAN_IS_FILE,
	};

	while (arg.start < arg.end) {
		int n = ioctl(fd, SCAN_IOCTL, &arg);
		uint64_t next;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++)
			add(set, regions[i].start,
			    mapping->offset + regions[i].start - mapping->address,
			    regions[i].end - regions[i].start);
		/* walk_end alone is not enough: when the walk comes to its end in the middle of the
		 * kernel's own buffer of 512 regions, it is left at an earlier stop (seen on 6.18),
		 * and pages would be found twice. */
		next = arg.walk_end;
		if (n > 0 && regions[n - 1].end > next)
			next = regions[n - 1].end;
		if (next <= arg.start) /* no mapping there any more */
			return -ESRCH;
		arg.start = next;
	}
	return 0;
}

static int find_by(int (*one)(int, const struct mapping *, struct dirty_set *), int fd,
		   const struct mapping_set *mappings, struct dirty_set *set)
{
	int r = 0;

	for (size_t i = 0; i < mappings->n && r == 0; i++)
		r = one(fd, &mappings->items[i], set);
	return r;
}

int dirty_find(const struct process *process, const struct mapping_set *mappings,
	       enum dirty_method method, struct dirty_set *ret, struct err *err)
{
	_cleanup_(dirty_set_clear) struct dirty_set set = DIRTY_SET_INIT;
	_cleanup_close_ int fd = process_file(process, "pagemap", O_RDONLY);
	int r = fd < 0 ? fd : 0;

	if (r == 0 && method != DIRTY_PAGEMAP) {
		r = find_by(scan, fd, mappings, &set);
		/* an older kernel says ENOTTY; one whose ioctl has another form says EINVAL */
		if (method == DIRTY_AUTO && (r == -ENOTTY || r == -EINVAL)) {
			dirty_set_clear(&set);
			method = DIRTY_PAGEMAP;
			r = 0;
		}
	}
	if (r == 0 && method == DIRTY_PAGEMAP)
		r = find_by(read_pagemap, fd, mappings, &set);
	if (r < 0)
		return err_set(err, r, "cannot find the written pages of process %d: %s",
			       process->pid, strerrordesc_np(-r) ?: "unknown error");
	*ret = set;
	set = DIRTY_SET_INIT;
	return 0;
}
