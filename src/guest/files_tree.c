/* Trees as archives, out and in. See files.h, and src/tar for the work. */
#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "tar/tar_tree.h"

#define READ_BYTES (128u * 1024)

static int write_out(void *arg, const void *data, size_t len)
{
	const struct files_io *io = arg;

	return fd_write_all(io->out, data, len);
}

int files_pack(const struct file_request *r, const struct files_io *io, struct err *err)
{
	_cleanup_close_ int fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return files_fail(err, -errno, "pack", r->path);
	return tar_pack(fd, write_out, (void *)(uintptr_t)io, err);
}

/* What comes, to its end. */
static int receive(const struct file_request *r, const struct files_io *io, struct tar_unpack *u,
		   struct err *err)
{
	_cleanup_free_ char *chunk = xmalloc(READ_BYTES);
	uint64_t total = 0;

	for (;;) {
		ssize_t n = files_receive(io, chunk, READ_BYTES);
		int result;

		if (n < 0)
			return files_fail(err, (int)n, "receive", r->path);
		total += (uint64_t)n;
		if (total > r->max)
			return err_set(err, -EFBIG, "the archive has more than %llu bytes",
				       (unsigned long long)r->max);
		if (n == 0 && r->length != FILE_LENGTH_UNKNOWN && total != r->length)
			return err_set(err, FILES_SHORT, "%llu bytes were announced, %llu came",
				       (unsigned long long)r->length, (unsigned long long)total);
		if (n == 0)
			return 0;
		result = tar_unpack_feed(u, chunk, (size_t)n, err);
		if (result < 0)
			return result;
	}
}

int files_unpack(const struct file_request *r, const struct files_io *io, struct err *err)
{
	const struct tar_unpack_options options = { .owners = r->flags & FILE_OWNERS,
						    .durable = true };
	struct file_record ready = { .kind = FILE_RECORD_READY, .replaces = true };
	struct file_record record = { .kind = FILE_RECORD_UNPACKED };
	_cleanup_close_ int fd = -1;
	struct tar_unpacked unpacked = { 0 };
	struct tar_unpack *u;
	int result = r->flags & FILE_PARENTS ? files_make_parents(r->path, err) : 0;

	if (result < 0)
		return result;
	fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return files_fail(err, -errno, "unpack in", r->path);
	u = tar_unpack_new(fd, &options);
	result = files_put_record(io, &ready, err);
	if (result == 0)
		result = receive(r, io, u, err);
	if (result == 0)
		result = tar_unpack_finish(u, &unpacked, err);
	tar_unpack_free(u);
	if (result < 0)
		return result;
	record.unpacked.entries = unpacked.entries;
	record.unpacked.bytes = unpacked.bytes;
	return files_put_record(io, &record, err);
}
