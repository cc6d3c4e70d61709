/*
 * Snapshots that lie idle for long, made small: one file of a sealed snapshot is kept as <name>.zst
 * (zstd) instead, or comes back. Whatever moment it is cut short at, the snapshot is complete, in
 * the one form or the other: the new file is written aside, fsynced and renamed, then the manifest
 * is replaced, then the old file goes. What may be left behind is unlisted and falls to
 * snapshot_sweep.
 *
 * Only one caller changes a snapshot at a time (a flock on its directory; others wait). Nobody may
 * be restoring from it while its form changes: the caller's lock on whatever the snapshot belongs
 * to sees to that. Making a file small takes seconds and changes nothing that is there; with hooks
 * that lock is needed for its last moment only.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "snapshot/manifest.h"

#define COMPRESS_SUFFIX	       ".zst"
#define COMPRESS_LEVEL_DEFAULT 3

/* For a compression in the background. Any may be NULL; all are called on the caller's thread. */
struct compress_hooks {
	void *arg;
	/* Asked every MiB; true ends it with -ECANCELED, and nothing has changed. */
	bool (*cancelled)(void *arg);
	/* The small file is whole, and the snapshot about to change its form: takes the caller's
	 * lock and checks that the snapshot is still what it was. < 0 (with err set): not any more,
	 * nothing has changed and unlock is not called. Where a holder of that lock may expand the
	 * same file, it finds it expanded until lock has returned, so that it does not wait for the
	 * flock that is held here. */
	int (*lock)(void *arg, struct err *err);
	void (*unlock)(void *arg);
};

/* The file is checked first: damage is not worth keeping. 0 also when it is compressed already.
 * What was read and written leaves the page cache. hooks may be NULL. *ret, which may be NULL, is
 * the manifest as it is then. */
int snapshot_compress(const char *dir, const char *name, int level,
		      const struct compress_hooks *hooks, struct manifest *ret, struct err *err);

/* The way back, in place; 0 also when it is there already. The content is checked before it counts.
 */
int snapshot_expand(const char *dir, const char *name, struct manifest *ret, struct err *err);

/* Writes what a compressed file of a snapshot was to out_path (must not exist; not fsynced) and
 * leaves the snapshot as it is. The compressed bytes are checked, and the length; a delta file's
 * own hashes are checked when it is loaded. On failure out_path is not there. */
int snapshot_expand_to(const char *dir, const struct manifest *manifest, const char *name,
		       const char *out_path, struct err *err);
