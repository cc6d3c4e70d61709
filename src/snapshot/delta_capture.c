/*
 * Taking a memory's written pages into a buffer, to write them down later, or straight into other
 * processes.
 *
 * Copying is fast where the buffer's pages are there: 100 MB in 23 ms, of which the rest of a save
 * is many times (most of all new pages of the page cache, 2 to 6 us each on a virtual host, as for
 * any fresh page). So the buffer is made ahead, while the guest still runs, for the pages that it
 * has written by then and some more; huge pages make that a matter of few faults. What the guest
 * writes between is few pages, or finds its room at the price of faults.
 */
#include "snapshot/delta.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "snapshot/delta_source.h"
#include "snapshot/delta_target.h"

#define HUGE_BYTES  ((uint64_t)2 << 20)
#define SLACK_BYTES ((uint64_t)8 << 20) /* and an eighth */

#define LOAD_BYTES ((size_t)1 << 20) /* in one call */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

struct delta_capture {
	pid_t pid;
	char *memory_path;
	uint64_t bytes_max;
	uint64_t expected_bytes;
	uint8_t *buffer;
	uint64_t buffer_bytes; /* reserved; of them … */
	uint64_t ready_bytes;  /* … so many are there */
	struct delta_source source;
	int64_t find_us, take_us;
};

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

/* Address space for all that may be taken, memory for what is expected. */
static int make_buffer(struct delta_capture *capture, struct err *err)
{
	void *at;

	capture->buffer_bytes = round_up(capture->bytes_max);
	at = mmap(NULL, capture->buffer_bytes, PROT_READ | PROT_WRITE,
		  /* cppcheck-suppress invalidFunctionArg ; memory of no file has no descriptor */
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return err_set(err, -errno, "cannot reserve %" PRIu64 " bytes for a copy: %s",
			       capture->buffer_bytes, strerrordesc_np(errno));
	capture->buffer = at;
	capture->ready_bytes =
		round_up(capture->expected_bytes + capture->expected_bytes / 8 + SLACK_BYTES);
	if (capture->ready_bytes > capture->buffer_bytes)
		capture->ready_bytes = capture->buffer_bytes;
	madvise(at, capture->buffer_bytes, MADV_HUGEPAGE);
	/* -EINVAL before Linux 5.14: the pages come as they are written to. A lack of memory is met
	 * here, where it costs nothing yet. */
	if (madvise(at, capture->ready_bytes, MADV_POPULATE_WRITE) < 0 && errno != EINVAL)
		return err_set(err, -ENOMEM, "there is no memory for a copy of %" PRIu64 " bytes",
			       capture->ready_bytes);
	return 0;
}

int delta_capture_new(pid_t pid, const char *memory_path, uint64_t bytes_max,
		      struct delta_capture **ret, struct err *err)
{
	struct delta_capture *capture = xcalloc(1, sizeof(*capture));
	int r;

	capture->pid = pid;
	capture->memory_path = xstrdup(memory_path);
	capture->bytes_max = bytes_max;
	capture->source = DELTA_SOURCE_INIT;
	r = delta_measure(pid, memory_path, &capture->expected_bytes, err);
	if (r == 0 && capture->expected_bytes > bytes_max)
		r = err_set(err, -E2BIG, "%" PRIu64 " bytes are written, %" PRIu64 " can be taken",
			    capture->expected_bytes, bytes_max);
	if (r == 0)
		r = make_buffer(capture, err);
	if (r < 0) {
		delta_capture_free(capture);
		return r;
	}
	*ret = capture;
	return 0;
}

uint64_t delta_capture_expected(const struct delta_capture *capture)
{
	return capture->expected_bytes;
}

static int copy_all(struct delta_capture *capture)
{
	const struct dirty_set *dirty = &capture->source.dirty;
	const uint64_t most = DELTA_SEGMENT_PAGES * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t done = 0, skip = 0;
	size_t extent = 0;

	while (done < dirty->bytes) {
		uint64_t len = dirty->bytes - done < most ? dirty->bytes - done : most;
		int r = delta_read_pages(&capture->source, extent, skip, (size_t)len,
					 capture->buffer + done);

		if (r < 0)
			return r;
		done += len;
		for (len += skip; extent < dirty->n && len >= dirty->items[extent].bytes; extent++)
			len -= dirty->items[extent].bytes;
		skip = len;
	}
	return 0;
}

int delta_capture_take(struct delta_capture *capture, struct err *err)
{
	struct delta_source *source = &capture->source;
	int64_t start_us = clock_boottime_us();
	int r = delta_source_find(capture->pid, capture->memory_path, DIRTY_AUTO, source, err);

	if (r < 0)
		return r;
	capture->find_us = clock_boottime_us() - start_us;
	if (source->dirty.bytes > capture->buffer_bytes)
		return err_set(err, -E2BIG,
			       "%" PRIu64 " bytes are written, %" PRIu64 " can be taken",
			       source->dirty.bytes, capture->buffer_bytes);
	r = copy_all(capture);
	/* the pages were read by number: they were this process's only if it was there all along */
	if (r < 0 || process_check(&source->process) < 0)
		return err_code(err, r < 0 ? r : -ESRCH, "not_found",
				"cannot read the memory of process %d: %s", capture->pid,
				strerrordesc_np(r < 0 ? -r : ESRCH));
	source->copy = capture->buffer;
	capture->take_us = clock_boottime_us() - start_us;
	return 0;
}

int delta_capture_write(struct delta_capture *capture, const char *path,
			const struct delta_options *options, struct delta_stats *ret,
			struct err *err)
{
	static const struct delta_options defaults = { 0 };
	int64_t start_us = clock_boottime_us();
	struct delta_stats stats = { .find_us = capture->find_us };
	int r;

	if (!capture->source.copy)
		return err_set(err, -EINVAL, "nothing has been taken");
	r = delta_write(&capture->source, path, options ? options : &defaults, &stats, err);
	capture->source.copy = NULL; /* writing has changed it */
	if (r < 0)
		return r;
	stats.total_us = clock_boottime_us() - start_us + capture->take_us;
	*ret = stats;
	return 0;
}

/* Pages of the copy from there on that are alike: all zero, or none. */
static size_t run_of(const uint8_t *copy, uint64_t bytes, size_t page_bytes, bool *ret_zero)
{
	size_t len = page_bytes;

	*ret_zero = delta_is_zero(copy, page_bytes);
	while (len < bytes && len < LOAD_BYTES &&
	       delta_is_zero(copy + len, page_bytes) == *ret_zero)
		len += page_bytes;
	return len;
}

static int load_extent(const struct delta_target *target, const struct dirty_extent *extent,
		       const uint8_t *copy, struct delta_stats *stats, struct err *err)
{
	uint64_t at = 0;
	int r = 0;

	while (at < extent->bytes && r == 0) {
		bool zero;
		size_t len = run_of(copy + at, extent->bytes - at, target->page_bytes, &zero);

		if (zero)
			r = delta_target_write_zeros(target, extent->offset + at, len, err);
		else
			r = delta_target_write(target, extent->offset + at, copy + at, len, err);
		*(zero ? &stats->zero_pages : &stats->data_pages) += len / target->page_bytes;
		at += len;
	}
	return r;
}

int delta_capture_load(const struct delta_capture *capture, pid_t pid, struct delta_stats *ret,
		       struct err *err)
{
	_cleanup_(delta_target_close) struct delta_target target = DELTA_TARGET_INIT;
	const struct delta_source *source = &capture->source;
	struct delta_stats stats = { .memory_bytes = source->memory_bytes };
	int64_t start_us = clock_boottime_us();
	uint64_t done = 0;
	int r;

	if (!source->copy)
		return err_set(err, -EINVAL, "nothing has been taken");
	r = delta_target_open(pid, capture->memory_path, &target, err);
	if (r == 0 && target.mappings.memory_bytes != source->memory_bytes)
		return err_set(err, -EBADMSG, "the memory file has changed its size");
	if (r == 0)
		r = delta_target_undo(&target, DIRTY_AUTO, &stats.undone_pages, err);
	stats.find_us = clock_boottime_us() - start_us;
	for (size_t i = 0; i < source->dirty.n && r == 0; i++) {
		r = load_extent(&target, &source->dirty.items[i], source->copy + done, &stats, err);
		done += source->dirty.items[i].bytes;
	}
	if (r < 0)
		return r;
	stats.total_us = clock_boottime_us() - start_us;
	*ret = stats;
	return 0;
}

void delta_capture_free(struct delta_capture *capture)
{
	if (!capture)
		return;
	if (capture->buffer)
		munmap(capture->buffer, capture->buffer_bytes);
	delta_source_clear(&capture->source);
	free(capture->memory_path);
	free(capture);
}
