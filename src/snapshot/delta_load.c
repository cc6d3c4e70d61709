/*
 * Restoring written pages, and checking delta files.
 *
 * A worker takes the next segment, reads its data, checks its hash and writes each extent into the
 * process (delta_target.h), whose own pages were set back before.
 */
#include "snapshot/delta.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "snapshot/delta_target.h"
#include "snapshot/parallel.h"

/* Where a segment's extents and data begin. */
struct start {
	size_t extent;
	uint64_t data_page;
};

struct load {
	int fd;
	struct delta_header header;
	char root[HASH_TEXT_SIZE];
	uint64_t file_bytes;
	void *table_bytes;
	struct delta_table table;
	struct start *starts;
	const struct delta_target *target; /* NULL: only check */
	atomic_size_t next;
	pthread_mutex_t lock; /* for the rest */
	struct err err;
	atomic_int failed;
};

static int damaged(struct err *err, const char *what)
{
	return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED, "the delta file is damaged: %s",
			what);
}

/* ---- reading ---- */

static int read_at(int fd, void *data, size_t len, uint64_t offset, struct err *err)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = pread(fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_code(err, -errno, CODE_SNAPSHOT_DAMAGED,
					"the delta file cannot be read: %s",
					strerrordesc_np(errno));
		if (n == 0)
			return damaged(err, "it is cut short");
		p += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int load_open(struct load *load, const char *path, struct err *err)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	_cleanup_free_ uint8_t *page = xmalloc(page_bytes);
	struct stat st;
	int r;

	load->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (load->fd < 0)
		return errno == ENOENT ? err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE,
						  "the delta file is missing")
				       : err_set(err, -errno, "cannot open the delta file: %s",
						 strerrordesc_np(errno));
	if (fstat(load->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return damaged(err, "it is no regular file");
	load->file_bytes = (uint64_t)st.st_size;
	r = read_at(load->fd, page, page_bytes, 0, err);
	if (r < 0)
		return r;
	r = delta_header_decode(page, page_bytes, load->file_bytes, &load->header, err);
	if (r < 0)
		return r;
	if (load->header.page_bytes != page_bytes)
		return err_code(err, -EPROTONOSUPPORT, CODE_SNAPSHOT_VERSION,
				"the delta file has pages of %" PRIu32 " bytes, this host of %zu",
				load->header.page_bytes, page_bytes);
	delta_root(page, page_bytes, load->root);
	return 0;
}

static int load_table(struct load *load, struct err *err)
{
	size_t bytes = delta_table_bytes(&load->header); /* no more than the file has */
	struct start at = { 0 };
	int r;

	load->table_bytes = xmalloc(bytes + 1);
	r = read_at(load->fd, load->table_bytes, bytes, load->header.table_offset, err);
	if (r < 0)
		return r;
	r = delta_table_decode(&load->header, load->table_bytes, &load->table, err);
	if (r < 0)
		return r;
	load->starts = xcalloc(load->table.n_segments + 1, sizeof(*load->starts));
	at.data_page = 1;
	for (size_t i = 0; i < load->table.n_segments; i++) {
		load->starts[i] = at;
		at.extent += load->table.segments[i].n_extents;
		at.data_page += load->table.segments[i].data_pages;
	}
	return 0;
}

static void load_clear(struct load *load)
{
	if (load->fd >= 0)
		close(load->fd);
	free(load->table_bytes);
	free(load->starts);
}

/* ---- one segment ---- */

static int load_segment(struct load *load, size_t index, uint8_t *buffer, struct err *err)
{
	const struct delta_segment *segment = &load->table.segments[index];
	const size_t page_bytes = load->header.page_bytes;
	const uint8_t *data = buffer;
	uint8_t hash[HASH_SIZE];
	int r;

	r = read_at(load->fd, buffer, segment->data_pages * page_bytes,
		    load->starts[index].data_page * page_bytes, err);
	if (r < 0)
		return r;
	hash_bytes(buffer, segment->data_pages * page_bytes, hash);
	if (memcmp(hash, segment->hash, HASH_SIZE) != 0)
		return damaged(err, "the checksum of its pages is wrong");
	for (uint32_t i = 0; load->target && i < segment->n_extents && r == 0; i++) {
		const struct delta_extent *extent =
			&load->table.extents[load->starts[index].extent + i];
		size_t len = extent->pages * page_bytes;

		if (extent->kind == DELTA_ZERO) {
			r = delta_target_write_zeros(load->target, extent->page * page_bytes, len,
						     err);
			continue;
		}
		r = delta_target_write(load->target, extent->page * page_bytes, data, len, err);
		data += len;
	}
	return r;
}

static void load_fail(struct load *load, const struct err *err)
{
	pthread_mutex_lock(&load->lock);
	if (load->failed == 0) {
		load->err = *err;
		load->failed = err->num;
	}
	pthread_mutex_unlock(&load->lock);
}

static void load_worker(void *arg)
{
	struct load *load = arg;
	_cleanup_free_ uint8_t *buffer = aligned_alloc(
		load->header.page_bytes, DELTA_SEGMENT_PAGES * load->header.page_bytes);
	struct err err = ERR_INIT;

	if (!buffer) {
		err_set(&err, -ENOMEM, "no memory for a buffer");
		load_fail(load, &err);
		return;
	}
	while (load->failed == 0) {
		size_t index = atomic_fetch_add(&load->next, 1);

		if (index >= load->table.n_segments)
			return;
		if (load_segment(load, index, buffer, &err) < 0)
			load_fail(load, &err);
	}
}

static int load_segments(struct load *load, const struct delta_options *options, struct err *err)
{
	unsigned int threads = options && options->threads ? options->threads : 1;

	parallel_run(threads, load_worker, load);
	if (load->failed < 0 && err)
		*err = load->err;
	return load->failed;
}

/* ---- the calls ---- */

static void fill_stats(const struct load *load, int64_t start_us, struct delta_stats *stats)
{
	stats->memory_bytes = load->header.memory_bytes;
	stats->data_pages = load->header.data_pages;
	stats->zero_pages = load->header.zero_pages;
	stats->extents = load->header.n_extents;
	stats->file_bytes = load->file_bytes;
	stats->total_us = clock_boottime_us() - start_us;
	str_copy(stats->root, sizeof(stats->root), load->root);
}

static int load_into(struct load *load, pid_t pid, const char *memory_path,
		     const struct delta_options *options, struct delta_stats *stats,
		     struct err *err)
{
	_cleanup_(delta_target_close) struct delta_target target = DELTA_TARGET_INIT;
	int64_t start_us = clock_boottime_us();
	int r = delta_target_open(pid, memory_path, &target, err);

	if (r < 0)
		return r;
	if (target.mappings.memory_bytes != load->header.memory_bytes)
		return err_code(
			err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
			"the delta file is of a memory of %" PRIu64 " bytes, '%s' has %" PRIu64,
			load->header.memory_bytes, memory_path, target.mappings.memory_bytes);
	load->target = &target;
	r = delta_target_undo(&target, options ? options->method : DIRTY_AUTO, &stats->undone_pages,
			      err);
	stats->find_us = clock_boottime_us() - start_us;
	if (r == 0)
		r = load_segments(load, options, err);
	load->target = NULL;
	return r;
}

static int run(const char *path, struct err *err, struct delta_stats *ret,
	       int (*then)(struct load *load, void *arg, struct delta_stats *stats,
			   struct err *err),
	       void *arg)
{
	_cleanup_(load_clear) struct load load = {
		.fd = -1,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	int64_t start_us = clock_boottime_us();
	struct delta_stats stats = { 0 };
	int r;

	r = load_open(&load, path, err);
	if (r == 0 && then)
		r = load_table(&load, err);
	if (r == 0 && then)
		r = then(&load, arg, &stats, err);
	if (r < 0)
		return err_wrap(err, r, "'%s'", path);
	fill_stats(&load, start_us, &stats);
	*ret = stats;
	return 0;
}

struct load_arg {
	pid_t pid;
	const char *memory_path;
	const struct delta_options *options;
};

static int then_load(struct load *load, void *arg, struct delta_stats *stats, struct err *err)
{
	const struct load_arg *a = arg;

	return load_into(load, a->pid, a->memory_path, a->options, stats, err);
}

static int then_verify(struct load *load, void *arg, struct delta_stats *stats, struct err *err)
{
	return load_segments(load, NULL, err);
}

int delta_load(pid_t pid, const char *memory_path, const char *path,
	       const struct delta_options *options, struct delta_stats *ret, struct err *err)
{
	struct load_arg arg = { pid, memory_path, options };

	return run(path, err, ret, then_load, &arg);
}

int delta_verify(const char *path, struct delta_stats *ret, struct err *err)
{
	return run(path, err, ret, then_verify, NULL);
}

int delta_inspect(const char *path, struct delta_stats *ret, struct err *err)
{
	return run(path, err, ret, NULL, NULL);
}
