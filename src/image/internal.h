/* Between image.c (the directory), make.c (how it is filled) and build.c and import.c (with what).
 */
#pragma once

#include "base/buf.h"
#include "image/image.h"

#define IMAGE_REMOVE_WAIT_MS 10000

struct image_store {
	char *dir;
	char *recipe_dir;
	char *importer, *auth_file; /* or NULL */
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

/* ---- make.c ---- */

/* What a maker writes to, under the lock. Cleared, it is gone; what became a blob stays. */
struct image_making {
	struct image_store *store;
	const char *name;
	char *temporary; /* the file, in DIR/blobs; ends in .erofs */
	char *record;	 /* ….json: what the maker says of it */
	char *work;	 /* ….work: a directory of the maker, if it wants one */
};

/* Chooses the names, and removes what makers that died have left. */
void image_making_begin(struct image_making *m, struct image_store *store, const char *name);
void image_making_clear(struct image_making *m); /* a zeroed one is fine */
/* Runs the program to its end; last_line is that of its standard output. */
int image_run(const char *const *argv, int64_t deadline_boottime_ms, image_progress_fn progress,
	      void *arg, struct buf *last_line, struct err *err);
int image_making_record(const struct image_making *m, json_t **ret, struct err *err);
/* Puts the file in place and the manifest, which gets what it lacks. last_line names the digest. */
int image_making_install(const struct image_making *m, const struct buf *last_line,
			 json_t *manifest, struct err *err);
