/*
 * Trees of files into archives and out of them. Both work below one directory and never leave it:
 * packing follows no link, unpacking no link that leads out, whatever the archive says.
 *
 * A layer of a container image is an archive too, with rules of its own: what it replaces may be of
 * another kind, names may begin with a slash, links are followed as the image itself would (its
 * root is "/"), and names that begin with ".wh." remove what lower layers put there. These removals
 * are about lower layers alone, wherever in the archive they stand: a layer that is not the lowest
 * is fed twice, to take away first and to put there then.
 *
 * Errors are errnos of the file that failed, but for -EBADMSG (an archive that is malformed, or not
 * acceptable) and -ESTALE (a file that changed while it was packed).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Takes bytes of the archive; 0 or a negative errno, which ends the packing. */
typedef int (*tar_write_fn)(void *arg, const void *data, size_t len);

/* Everything below the directory: files, directories, symbolic links. Devices, pipes and sockets
 * are left out. After a failure with bytes written already, the reason is written as well where
 * the next file would stand. */
int tar_pack(int dir_fd, tar_write_fn write, void *arg, struct err *err);

struct tar_unpack;

enum tar_layer {
	TAR_NO_LAYER,
	TAR_LAYER_REMOVALS, /* only what takes away from lower layers */
	TAR_LAYER_CONTENT,  /* only the rest */
};

struct tar_unpack_options {
	bool owners;  /* as the archive has them, and with set-uid bits; else the process's own */
	bool durable; /* on the disk when it is finished */
	enum tar_layer layer;
	uint64_t entries_max, bytes_max; /* 0: none. More is -EFBIG, before it is written */
};

struct tar_unpacked {
	uint64_t entries, bytes;
};

/* dir_fd is borrowed. What exists is replaced, file by file, each whole; directories are merged. */
struct tar_unpack *tar_unpack_new(int dir_fd, const struct tar_unpack_options *options);
int tar_unpack_feed(struct tar_unpack *unpack, const void *data, size_t len, struct err *err);
/* The input has ended. */
int tar_unpack_finish(struct tar_unpack *unpack, struct tar_unpacked *ret, struct err *err);
void tar_unpack_free(struct tar_unpack *unpack); /* NULL is fine */
