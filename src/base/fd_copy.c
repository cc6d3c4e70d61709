/*
 * Sparse copies. A reflink (FICLONE) where the file system has one makes the copy O(1); elsewhere
 * only the extents that SEEK_DATA reports are copied, so that a 10 GiB disk with 4 MB in it costs
 * 4 MB of time and of space.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define COPY_CHUNK  ((size_t)1 << 20)
#define PROBE_BYTES 65536 /* no block is larger */

static int pwrite_all(int fd, const char *data, size_t len, off_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, offset);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		data += n;
		offset += n;
		len -= (size_t)n;
	}
	return 0;
}

static int copy_by_hand(int src, int dst, off_t offset, off_t end)
{
	_cleanup_free_ char *chunk = xmalloc(COPY_CHUNK);

	while (offset < end) {
		size_t want =
			end - offset < (off_t)COPY_CHUNK ? (size_t)(end - offset) : COPY_CHUNK;
		ssize_t n = pread(src, chunk, want, offset);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0) /* the source was cut short meanwhile; the rest reads as a hole */
			return 0;
		r = pwrite_all(dst, chunk, (size_t)n, offset);
		if (r < 0)
			return r;
		offset += n;
	}
	return 0;
}

static int copy_extent(int src, int dst, off_t offset, off_t end)
{
	off_t out = offset;

	while (offset < end) {
		ssize_t n = copy_file_range(src, &offset, dst, &out, (size_t)(end - offset), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
			return -errno;
		/* Anything else says that this pair of file systems cannot; 0 where the kernel has
		 * data that it does not count (files of /proc). */
		if (n <= 0)
			return copy_by_hand(src, dst, offset, end);
	}
	return 0;
}

static int copy_extents(int src, int dst, off_t size)
{
	off_t offset = 0;

	while (offset < size) {
		off_t data = lseek(src, offset, SEEK_DATA), hole;
		int r;

		if (data < 0 && errno == ENXIO) /* nothing but a hole up to the end */
			return 0;
		if (data < 0 && errno == EINVAL) /* no SEEK_DATA here: all of it is data */
			return copy_extent(src, dst, offset, size);
		if (data < 0)
			return -errno;
		hole = lseek(src, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if (hole > size)
			hole = size;
		r = copy_extent(src, dst, data, hole);
		if (r < 0)
			return r;
		offset = hole;
	}
	return 0;
}

int file_copy_sparse(const char *src, const char *dst, mode_t mode)
{
	_cleanup_close_ int in = open(src, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = -1;
	struct stat st;
	int r = 0;

	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	out = open(dst, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	if (ioctl(out, FICLONE, in) < 0) {
		if (ftruncate(out, st.st_size) < 0)
			r = -errno;
		else
			r = copy_extents(in, out, st.st_size);
	}
	if (r == 0 && fchmod(out, mode) < 0)
		r = -errno;
	if (r < 0)
		unlink(dst);
	return r;
}

bool dir_has_reflink(const char *dir)
{
	_cleanup_close_ int from = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	_cleanup_close_ int to = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	char block[PROBE_BYTES];

	memset(block, 1, sizeof(block));
	return from >= 0 && to >= 0 && fd_write_all(from, block, sizeof(block)) == 0 &&
	       ioctl(to, FICLONE, from) == 0;
}
