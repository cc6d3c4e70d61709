/*
 * File operations in the guest: what the host asks for, and what comes back. Pure functions over
 * memory, used by both sides and fuzzed; each side takes the other's bytes as hostile.
 *
 * A request is the payload of PROTO_FILE. The answer is the output of the operation:
 *
 *	stdout   records (READ: one, and behind it the bytes of the file; PACK: an archive, no
 *		 record; WRITE and UNPACK: READY first, once input is wanted)
 *	stderr   nothing, or one error, which is then the outcome whatever the exit code
 *
 * Integers are little-endian, a string is a u32 length and its bytes, without NUL.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame.h"

#define FILE_PATH_MAX	    4095u
#define FILE_NAME_MAX	    255u
#define FILE_OWNER_MAX	    64u	  /* of a user's or group's name */
#define FILE_MESSAGE_MAX    511u  /* of an error */
#define FILE_LIST_MAX	    1000u /* entries in one answer */
#define FILE_RECORD_MAX	    8192u /* bytes of a record, its length included */
#define FILE_ERROR_MAX	    1024u /* bytes of an encoded error */
#define FILE_ETAG_SIZE	    64
#define FILE_MODE_KEEP	    UINT32_MAX /* as the file has it, or by default */
#define FILE_LENGTH_UNKNOWN UINT64_MAX

enum file_op {
	FILE_READ = 1,
	FILE_WRITE, /* stdin: the new content */
	FILE_STAT,  /* of the path itself, be it a link */
	FILE_LIST,
	FILE_MKDIR,
	FILE_MOVE,
	FILE_REMOVE,
	FILE_PACK,   /* stdout: a tree as an archive */
	FILE_UNPACK, /* stdin: an archive that is unpacked below the path */
};

enum file_flags {
	FILE_RECURSIVE = 1 << 0, /* REMOVE */
	FILE_PARENTS = 1 << 1,	 /* WRITE, MKDIR, MOVE, UNPACK: make directories that are missing */
	FILE_OVERWRITE = 1 << 2, /* WRITE, MOVE: what is there is replaced */
	FILE_HEAD_ONLY = 1 << 3, /* READ: the record alone */
	FILE_OWNERS = 1 << 4,	 /* UNPACK: owners as the archive has them, which only root can */
};
#define FILE_FLAGS_ALL 0x1fu

/* Which part of a file: none, from first to last, from first on, or the last `first` bytes. */
enum file_range_kind { FILE_RANGE_NONE, FILE_RANGE_SPAN, FILE_RANGE_FROM, FILE_RANGE_SUFFIX };

struct file_range {
	enum file_range_kind kind;
	uint64_t first, last;
};

struct file_request {
	enum file_op op;
	uint32_t flags;
	uint32_t mode;	 /* WRITE, MKDIR; FILE_MODE_KEEP */
	uint32_t limit;	 /* LIST: entries, 1 … FILE_LIST_MAX */
	uint64_t length; /* WRITE: bytes that will come; FILE_LENGTH_UNKNOWN */
	uint64_t max;	 /* WRITE: bytes that may come */
	struct file_range range;
	/* Borrowed; never NULL once decoded. Relative ones begin in the user's home. */
	const char *path;
	const char *to;	      /* MOVE */
	const char *after;    /* LIST: only names behind this one */
	const char *if_range; /* READ: the range counts only for this ETag; "": always */
};

enum file_type { /* values are those of struct dirent's d_type */
		 FILE_FIFO = 1,
		 FILE_CHAR = 2,
		 FILE_DIRECTORY = 4,
		 FILE_BLOCK = 6,
		 FILE_REGULAR = 8,
		 FILE_SYMLINK = 10,
		 FILE_SOCKET = 12,
};

struct file_entry {
	enum file_type type;
	uint32_t mode; /* permissions alone, 0 … 07777 */
	uint32_t uid, gid;
	uint64_t size; /* READ: FILE_LENGTH_UNKNOWN of files that do not know it (/proc) */
	uint64_t inode;
	int64_t mtime_ns;
	struct frame_slice user, group; /* names; empty when there are none */
	struct frame_slice name;	/* LIST: within the directory; else empty */
	struct frame_slice target;	/* of a symbolic link */
};

enum file_record_kind {
	FILE_RECORD_ENTRY = 1,
	FILE_RECORD_MORE = 2,	  /* LIST: there are names behind the last one */
	FILE_RECORD_UNPACKED = 3, /* UNPACK: what it made */
	FILE_RECORD_READY = 4,	  /* WRITE, UNPACK: nothing stands against it so far */
};

struct file_record {
	enum file_record_kind kind;
	struct file_entry entry;
	struct {
		uint64_t entries, bytes;
	} unpacked;
	bool replaces; /* READY: there is something at the path */
};

enum file_error {
	FILE_E_NOT_FOUND = 1,
	FILE_E_IS_DIRECTORY,
	FILE_E_NOT_DIRECTORY,
	FILE_E_NOT_REGULAR,
	FILE_E_DENIED,
	FILE_E_DISK_FULL,
	FILE_E_TOO_LARGE,
	FILE_E_INVALID_PATH,
	FILE_E_EXISTS,
	FILE_E_NOT_EMPTY,
	FILE_E_CROSS_DEVICE,
	FILE_E_INVALID_ARCHIVE,
	FILE_E_CHANGED, /* while it was read */
	FILE_E_SHORT,	/* fewer or more bytes came than were promised */
	FILE_E_IO,
};
#define FILE_ERROR_LAST FILE_E_IO

/* ---- the host writes, the guest reads ---- */

void file_request_put(struct buf *out, const struct file_request *request);
/* Strings are copied into storage, one behind the other, and stay valid as long as it does. */
int file_request_parse(const void *data, size_t len, struct buf *storage, struct file_request *ret);

/* ---- the guest writes, the host reads ---- */

void file_record_put(struct buf *out, const struct file_record *record);
/* The record at the start of data: how many bytes it is, 0 when it is not complete yet, -EBADMSG.
 * Slices are borrowed from data. */
ssize_t file_record_parse(const void *data, size_t len, struct file_record *ret);

void file_error_put(struct buf *out, enum file_error code, const char *message);
/* -EBADMSG unless data is one error and nothing else. The message is borrowed. */
int file_error_parse(const void *data, size_t len, enum file_error *ret,
		     struct frame_slice *ret_message);

/* ---- what both must see alike ---- */

/* What of size bytes a range is: false when it cannot be satisfied. NONE is all. */
bool file_range_resolve(const struct file_range *range, uint64_t size, uint64_t *ret_first,
			uint64_t *ret_len);
/* With its quotes. Two contents of a file have different ones. */
void file_etag(uint64_t inode, uint64_t size, int64_t mtime_ns, char out[FILE_ETAG_SIZE]);
