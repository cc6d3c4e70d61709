/* Capped log files. See capture.h. */
#include "guest/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define BLOCK	   4096ull
#define CAP_MIN	   (256ull * 1024)
#define CAP_MAX	   (4ull * 1024 * 1024 * 1024)
#define SLACK(cap) ((cap) / 8) /* dropped at once, so that not every append punches a hole */

int capture_open(struct capture *c, int dir_fd, const char *name, uint64_t cap)
{
	int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0644) < 0) {
		close(fd);
		return -errno;
	}
	if (cap < CAP_MIN)
		cap = CAP_MIN;
	if (cap > CAP_MAX)
		cap = CAP_MAX;
	*c = (struct capture){ .fd = fd, .cap = cap / (16 * BLOCK) * (16 * BLOCK) };
	return 0;
}

void capture_close(struct capture *c)
{
	if (c->fd >= 0)
		close(STEAL_FD(c->fd));
}

uint64_t capture_kept(const struct capture *c)
{
	return c->total - (c->gap_to - c->gap_from);
}

/* Everything from the head's end up to `to` is gone from now on. */
static void drop_up_to(struct capture *c, uint64_t to)
{
	uint64_t begin;

	if (c->gap_from == c->gap_to) {
		uint64_t head = c->cap / 2;

		c->gap_from = c->gap_to = c->total < head ? c->total : head;
	}
	/* The block in which the last hole ended is punched whole with this one. */
	begin = c->gap_to / BLOCK * BLOCK;
	if (begin < c->gap_from)
		begin = c->gap_from;
	c->gap_to = to;
	/* A failure leaves the bytes on the disk; the gap is reported all the same. */
	if (to > begin)
		(void)fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)begin,
				(off_t)(to - begin));
}

static int write_at(struct capture *c, const char *data, size_t len)
{
	uint64_t offset = c->total;

	while (len > 0) {
		ssize_t n = pwrite(c->fd, data, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

void capture_append(struct capture *c, const void *data, size_t len)
{
	int r = write_at(c, data, len);
	uint64_t kept;

	if (r < 0) {
		drop_up_to(c, c->total);
		c->total += len;
		c->gap_to = c->total;
		return;
	}
	c->total += len;
	kept = capture_kept(c);
	if (kept > c->cap) {
		uint64_t tail = c->cap - c->cap / 2 - SLACK(c->cap);

		drop_up_to(c, (c->total - tail) / BLOCK * BLOCK);
	}
}

uint64_t capture_room(const struct capture *c, uint64_t offset)
{
	uint64_t head = c->cap / 2;
	/* What an append leaves of the newest bytes, at the least. */
	uint64_t tail = c->cap - head - SLACK(c->cap);
	uint64_t keep_from;

	if (offset > c->total)
		offset = c->total;
	keep_from = offset > head ? offset : head;
	return c->total < keep_from + tail ? keep_from + tail - c->total : 0;
}

ssize_t capture_read(const struct capture *c, uint64_t offset, void *out, size_t len)
{
	uint64_t end = c->total;
	ssize_t n;

	if (c->gap_from < c->gap_to && offset < c->gap_from)
		end = c->gap_from;
	else if (offset < c->gap_to)
		return 0;
	if (offset >= end)
		return 0;
	if (len > end - offset)
		len = (size_t)(end - offset);
	do {
		n = pread(c->fd, out, len, (off_t)offset);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}
