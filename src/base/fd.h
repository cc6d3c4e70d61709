/*
 * Descriptors and files: complete reads and writes, durable replacement, sparse copies, unix
 * sockets. Everything opens with O_CLOEXEC.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

int fd_write_all(int fd, const void *data, size_t len); /* blocking fd; 0 or -errno */
ssize_t fd_read_full(int fd, void *data, size_t len);	/* bytes read (short at EOF) or -errno */
int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);

/* Appends the whole file to out; -EFBIG when it is larger than max_bytes. */
int file_read(const char *path, size_t max_bytes, struct buf *out);
/* Replaces path durably: temporary sibling, fsync, rename, fsync of the directory. */
int file_write_durable(const char *path, const void *data, size_t len, mode_t mode);
int dir_fsync(const char *path);
int dir_make(const char *path, mode_t mode); /* mkdir -p; an existing one is fine */
/* Removes a tree without following links and without entering mount points (-EBUSY or -EXDEV, after
 * the rest is gone); a path that is not there is success. */
int tree_remove(const char *path);
int tree_remove_at(int dir_fd, const char *name); /* one name of a directory, not "." or ".." */
/* Removes what is in the directory, and keeps it. */
int tree_empty(int dir_fd);
/* Copies src to dst (created with mode, must not exist): FICLONE where the file system has it, else
 * the allocated extents (SEEK_DATA). The size is kept, holes stay holes. */
int file_copy_sparse(const char *src, const char *dst, mode_t mode);
/* Files of this directory can share blocks (FICLONE works there). */
bool dir_has_reflink(const char *dir);
/* Bytes allocated on disk (st_blocks * 512) or -errno. */
int64_t file_allocated_bytes(const char *path);

/* Unix stream sockets; long paths (> 107 bytes) work by going through /proc/self/fd of the parent
 * directory. Returns the descriptor or -errno. Listening sockets replace a stale socket file. */
int unix_listen(const char *path, mode_t mode);
int unix_connect(const char *path, bool nonblock);
