/*
 * The layers of an image, one over the other, into a directory. Runs where only that directory can
 * be reached: see jail.h. What it reads was copied by skopeo, who has compared the digests of what
 * it copied with the manifest; the digest of each archive is compared here with the configuration.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "import/oci.h"

struct layers_limits {
	uint64_t bytes_max;   /* of all files of all layers */
	uint64_t entries_max; /* of all layers */
};

/* layer 1 … n; percent of it. */
typedef void (*layers_progress_fn)(void *arg, size_t layer, int percent);

/* blobs_fd: a directory as skopeo's "dir:" writes it, a blob is a file named by its hex digits.
 * tree_fd: empty. Compressed by gzip, zstd, or not. -EBADMSG: a layer that is refused; -EFBIG. */
int layers_unpack(int blobs_fd, int tree_fd, const struct oci_image *image,
		  const struct layers_limits *limits, layers_progress_fn progress, void *arg,
		  struct err *err);
