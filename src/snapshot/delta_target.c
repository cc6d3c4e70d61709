/* Writing into a process's memory. See delta_target.h. */
#include "snapshot/delta_target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "snapshot/delta_format.h"

void delta_target_close(struct delta_target *target)
{
	if (target->mem_fd >= 0)
		close(target->mem_fd);
	if (target->memory_fd >= 0)
		close(target->memory_fd);
	mapping_set_clear(&target->mappings);
	process_close(&target->process);
	*target = DELTA_TARGET_INIT;
}

int delta_target_open(pid_t pid, const char *memory_path, struct delta_target *ret, struct err *err)
{
	_cleanup_(delta_target_close) struct delta_target target = DELTA_TARGET_INIT;
	struct stat st;
	int r;

	target.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	target.memory_fd = open(memory_path, O_RDONLY | O_CLOEXEC);
	if (target.memory_fd < 0 || fstat(target.memory_fd, &st) < 0)
		return err_set(err, -errno, "cannot open the memory file '%s': %s", memory_path,
			       strerrordesc_np(errno));
	r = process_open(pid, &target.process, err);
	if (r == 0)
		r = mapping_find(&target.process, &st, &target.mappings, err);
	if (r < 0)
		return r;
	target.mem_fd = process_file(&target.process, "mem", O_RDWR);
	if (target.mem_fd < 0)
		return err_set(err, target.mem_fd, "cannot open the memory of process %d: %s", pid,
			       strerrordesc_np(-target.mem_fd));
	*ret = target;
	target = DELTA_TARGET_INIT; /* NOLINT(clang-analyzer-deadcode.DeadStores): its clean-up
				       reads */
	return 0;
}

int delta_target_write(const struct delta_target *target, uint64_t offset, const uint8_t *data,
		       size_t len, struct err *err)
{
	while (len > 0) {
		const struct mapping *mapping = mapping_at(&target->mappings, offset);
		uint64_t inside = offset - mapping->offset;
		size_t part =
			mapping->bytes - inside < len ? (size_t)(mapping->bytes - inside) : len;
		ssize_t n = pwrite(target->mem_fd, data, part, (off_t)(mapping->address + inside));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) /* 0: its memory is gone, as it has ended */
			return err_set(err, n < 0 ? -errno : -ESRCH,
				       "cannot write the process's memory at %" PRIu64 ": %s",
				       offset, strerrordesc_np(n < 0 ? errno : ESRCH));
		offset += (uint64_t)n;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_base(const struct delta_target *target, uint64_t offset, uint8_t *page,
		     struct err *err)
{
	ssize_t n = pread(target->memory_fd, page, target->page_bytes, (off_t)offset);

	return n == (ssize_t)target->page_bytes
		       ? 0
		       : err_set(err, -EIO, "cannot read the memory file at %" PRIu64, offset);
}

int delta_target_write_zeros(const struct delta_target *target, uint64_t offset, size_t len,
			     struct err *err)
{
	uint8_t page[DELTA_PAGE_BYTES_MAX];
	int r = 0;

	for (size_t at = 0; at < len && r == 0; at += target->page_bytes) {
		r = read_base(target, offset + at, page, err);
		if (r == 0 && !delta_is_zero(page, target->page_bytes)) {
			memset(page, 0, target->page_bytes);
			r = delta_target_write(target, offset + at, page, target->page_bytes, err);
		}
	}
	return r;
}

int delta_target_undo(const struct delta_target *target, enum dirty_method method,
		      uint64_t *ret_pages, struct err *err)
{
	_cleanup_(dirty_set_clear) struct dirty_set dirty = DIRTY_SET_INIT;
	uint8_t page[DELTA_PAGE_BYTES_MAX];
	int r = dirty_find(&target->process, &target->mappings, method, &dirty, err);

	for (size_t i = 0; i < dirty.n && r == 0; i++) {
		const struct dirty_extent *extent = &dirty.items[i];

		for (uint64_t at = 0; at < extent->bytes && r == 0; at += target->page_bytes) {
			r = read_base(target, extent->offset + at, page, err);
			if (r == 0)
				r = delta_target_write(target, extent->offset + at, page,
						       target->page_bytes, err);
		}
	}
	if (r == 0)
		*ret_pages = dirty.bytes / target->page_bytes;
	return r;
}
