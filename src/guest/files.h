/*
 * File operations, as they run in a child of the agent: already as the wanted user, in the home,
 * in a control group. What goes wrong is a typed error, and the process's end; nothing here is the
 * agent's own state. Plain Linux code: the unit tests run it on the host.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "proto/file.h"

struct files_io {
	int in, out, err;	    /* the operation's standard streams */
	const char *passwd, *group; /* /etc/passwd and /etc/group, for names */
	size_t passwd_len, group_len;
};

/* In a process of its own that does nothing else: a reader that is gone is an error and not the
 * end, and SIGTERM, which says that nobody waits for the outcome any more, is taken while input is
 * waited for, so that what was begun is put away. */
void files_prepare(void);
/* Does it and writes the answer; the exit code. */
int files_run(const struct file_request *request, const struct files_io *io);

/*
 * ---- between the files of this module ----
 *
 * The number of an err is what tells the host which error it is (files.c has the table). Most are
 * what the kernel says; what it has no number for is one of these.
 */
#define FILES_NOT_REGULAR (-ENXIO)
#define FILES_SHORT	  (-ENODATA)
#define FILES_CHANGED	  (-ESTALE)
#define FILES_BAD_ARCHIVE (-EBADMSG)

struct stat;

/* "cannot <what> '<path>': <why>"; num is a negative errno. Returns num. */
int files_fail(struct err *err, int num, const char *what, const char *path);
/* The next bytes of the input, 0 at its end; a negative errno (-ECANCELED: nobody waits any more).
 */
ssize_t files_receive(const struct files_io *io, char *out, size_t max);
int files_put_record(const struct files_io *io, const struct file_record *record, struct err *err);
/* name (may be NULL) is borrowed, target is kept in storage. */
int files_entry(const struct files_io *io, const struct stat *st, int dir_fd, const char *path,
		const char *name, struct buf *storage, struct file_entry *ret, struct err *err);
/* Writes the record of what the path itself is. */
int files_put_stat(const struct files_io *io, const char *path, struct err *err);

/* files_path.c */

/* The directory that a path's last part is in, opened, and that part. One that is a link is
 * followed where follow says so, also to where nothing is yet. parents: makes what is missing. */
struct files_place {
	int dir_fd;
	char name[FILE_NAME_MAX + 1];
};
#define FILES_PLACE_INIT ((struct files_place){ .dir_fd = -1 })
void files_place_clear(struct files_place *place);
#define _cleanup_place_ _cleanup_(files_place_clear)
int files_place_find(const char *path, bool follow, bool parents, struct files_place *ret,
		     struct err *err);
/* mkdir -p, durable. */
int files_make_parents(const char *path, struct err *err);

/* One operation each. */
int files_read(const struct file_request *r, const struct files_io *io, struct err *err);
int files_write(const struct file_request *r, const struct files_io *io, struct err *err);
int files_list(const struct file_request *r, const struct files_io *io, struct err *err);
int files_mkdir(const struct file_request *r, const struct files_io *io, struct err *err);
int files_move(const struct file_request *r, const struct files_io *io, struct err *err);
int files_remove(const struct file_request *r, const struct files_io *io, struct err *err);
int files_pack(const struct file_request *r, const struct files_io *io, struct err *err);
int files_unpack(const struct file_request *r, const struct files_io *io, struct err *err);
