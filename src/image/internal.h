/* Between image.c (the directory) and build.c (what fills it). */
#pragma once

#include "image/image.h"

#define IMAGE_REMOVE_WAIT_MS 10000

struct image_store {
	char *dir;
	char *recipe_dir;
};

bool image_digest_valid(const char *digest);
char *image_manifest_path(const struct image_store *store, const char *name); /* malloc'ed */
char *image_blob_path(const struct image_store *store, const char *digest);   /* malloc'ed */
int image_read_manifest(const struct image_store *store, const char *name, json_t **ret,
			struct err *err);
/* The caller holds the lock. */
int image_drop_blob_if_unused(struct image_store *store, const char *digest, struct err *err);

/* Takes DIR/lock, which closing the descriptor gives back. progress (may be NULL) hears that it
 * waits. The descriptor, -ETIMEDOUT ("image_busy") or another error. */
int image_lock(struct image_store *store, int64_t deadline_boottime_ms, image_progress_fn progress,
	       void *arg, struct err *err);
