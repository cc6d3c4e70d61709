/*
 * Archives of trees as tar: headers out, a stream of bytes in. Pure: no file is touched here.
 *
 * Written is ustar with pax headers where it does not suffice (POSIX.1-2001); read are these, the
 * long names of GNU tar and numbers in base 256. What comes in is hostile: headers are bounded,
 * checksums checked, names checked by tar_path_clean before anybody uses them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define TAR_BLOCK	512u
#define TAR_META_MAX	(64u * 1024) /* bytes of a pax header or a long name */
#define TAR_PATH_MAX	4095u
#define TAR_REASON_SIZE 160
/* In a global pax header: why the archive ends before its end. Ours. */
#define TAR_ERROR_KEY "SKERRY.error"

enum tar_type {
	TAR_FILE,
	TAR_HARD_LINK,
	TAR_SYMLINK,
	TAR_DIRECTORY,
	TAR_OTHER, /* a device, a pipe, or nothing that is known */
};

struct tar_entry {
	enum tar_type type;
	uint32_t mode; /* 0 … 07777 */
	uint32_t uid, gid;
	uint64_t size; /* of the data that follows; 0 unless a file */
	int64_t mtime_s;
	uint32_t mtime_ns;
	struct buf path, link; /* as in the archive; link: what a link points to */
};

/* ---- writing ---- */

/* The headers of an entry; its data follows, then tar_put_padding. path and link have no NUL; a
 * directory's path ends with '/'. */
void tar_put_header(struct buf *out, const struct tar_entry *entry);
void tar_put_padding(struct buf *out, uint64_t size);
void tar_put_end(struct buf *out);
/* Instead of the end. */
void tar_put_error(struct buf *out, const char *message);

/* ---- reading ---- */

enum tar_event {
	TAR_NEED_MORE,
	TAR_ENTRY, /* reader->entry is set, and stays until the next one */
	TAR_DATA,  /* bytes of it */
	TAR_ENTRY_END,
	TAR_END, /* the archive's end; what follows is ignored */
};

struct tar_reader {
	enum { TAR_IN_HEADER, TAR_IN_META, TAR_IN_DATA, TAR_IN_PADDING, TAR_IN_END } state;
	struct tar_entry entry;
	uint64_t left; /* of data or meta */
	uint32_t padding;
	bool entry_open; /* TAR_ENTRY was given, TAR_ENTRY_END was not */
	bool zero_block; /* the last header was all zeros */
	char meta_type;
	struct buf held; /* a part of a header, or a meta entry */
	/* What a meta entry says of the next one. */
	struct {
		struct buf path, link;
		bool has_path, has_link, has_size, has_uid, has_gid, has_mtime;
		uint64_t size;
		uint32_t uid, gid;
		int64_t mtime_s;
		uint32_t mtime_ns;
	} next;
	struct buf error;	      /* of TAR_ERROR_KEY */
	char reason[TAR_REASON_SIZE]; /* after -EBADMSG */
};

void tar_reader_init(struct tar_reader *r);
void tar_reader_clear(struct tar_reader *r);
/* Looks at data; returns how much of it was used with what it found, or -EBADMSG. To be called
 * again with the rest until TAR_NEED_MORE, which uses all of it. */
ssize_t tar_read(struct tar_reader *r, const void *data, size_t len, enum tar_event *ret_event,
		 const char **ret_data, size_t *ret_len);
/* The input has ended: was the archive whole? */
bool tar_may_end(const struct tar_reader *r);

/* ---- names ---- */

/* What a path in an archive is below where it is unpacked: without "./", doubled and trailing
 * slashes; "" is the top itself. -EBADMSG for one that is absolute, has "..", or a part or a whole
 * that is too long, or has a NUL. */
int tar_path_clean(const char *path, size_t len, struct buf *out);
