/*
 * This machine's end of a copy: a file, a directory or a standard stream, read from or written to.
 * A file is written aside and takes its place when it is whole. What a sandbox sends is a
 * stranger's: an archive does not leave the directory that it is unpacked in (src/tar).
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/aside.h"
#include "base/err.h"
#include "tar/tar_tree.h"

/* ---- to be sent ---- */

struct cp_source {
	int fd;		/* to read from: the file, or the archive of the directory; -1 */
	int64_t length; /* -1: not known */
	int mode;	/* of the file; -1 */
	int dir_fd;	/* -1: not a directory */
	pthread_t packer;
	bool packing;
	int pack_fd; /* the packer's end */
	struct err pack_err;
};

/* "-": stdin. -EISDIR (code "usage") for a directory without recursive. */
int cp_source_open(const char *path, bool recursive, struct cp_source *ret, struct err *err);
/* 0 at the end, also of an archive that is whole; else why not, with err set. */
ssize_t cp_source_read(struct cp_source *source, void *out, size_t max, struct err *err);
void cp_source_close(struct cp_source *source);

/* ---- received ---- */

struct cp_sink {
	int fd; /* written to as it is: a stream, a device; -1 */
	int dir_fd;
	struct aside aside;
	char *name; /* in dir_fd */
	struct tar_unpack *unpack;
};

#define CP_SINK_INIT ((struct cp_sink){ .fd = -1, .dir_fd = -1, .aside = ASIDE_INIT })

/* "-": stdout; name is what a file is called where path is a directory. */
int cp_sink_file(const char *path, const char *name, struct cp_sink *ret, struct err *err);
/* A directory, made if it is missing; below it, name ("": itself) where path exists. */
int cp_sink_tree(const char *path, const char *name, struct cp_sink *ret, struct err *err);
int cp_sink_write(struct cp_sink *sink, const void *data, size_t len, struct err *err);
/* Everything has come. mode: of a file; -1: as new ones are. */
int cp_sink_finish(struct cp_sink *sink, int mode, struct err *err);
/* What was not finished is gone, but for files of a tree that were whole. */
void cp_sink_close(struct cp_sink *sink);
