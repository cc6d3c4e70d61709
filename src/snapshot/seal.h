/*
 * Snapshot directories: made aside and renamed, so that a directory that is there is complete.
 *
 *   <dir>.partial-<16 hex>   in the making; locked by its maker
 *   <dir>/manifest.json      manifest.h; written last
 *   <dir>/…                  the files it lists
 *
 * Making: snapshot_draft, write the files into draft.path, snapshot_draft_add each, snapshot_seal.
 * Until the rename in snapshot_seal there is no snapshot; after it all of it is on disk. It knows
 * files, no VMs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "snapshot/manifest.h"

struct snapshot_draft {
	char *dir;  /* what it will be */
	char *path; /* what it is now: files are made in there */
	int fd;	    /* of path; holds the lock that says that it is being made */
};
#define SNAPSHOT_DRAFT_INIT ((struct snapshot_draft){ .fd = -1 })

/* Makes the draft's directory. -EEXIST ("conflict") when dir is there. */
int snapshot_draft(const char *dir, struct snapshot_draft *ret, struct err *err);

enum snapshot_hash { SNAPSHOT_HASH_CONTENT, SNAPSHOT_HASH_DELTA, SNAPSHOT_HASH_NONE };
/* Fsyncs the file of this name in the draft and lists it in the manifest. */
int snapshot_draft_add(const struct snapshot_draft *draft, const char *name, enum snapshot_hash how,
		       struct manifest *manifest, struct err *err);

/* Writes the manifest and makes the snapshot be: what it lists must have been added. On failure the
 * draft remains, for snapshot_draft_clear. */
int snapshot_seal(struct snapshot_draft *draft, const struct manifest *manifest, struct err *err);

/* Removes the draft's directory unless it was sealed; frees. */
void snapshot_draft_clear(struct snapshot_draft *draft);

/* Reads the manifest and checks that every file is there with its size, and that the state was
 * saved under this VMM fingerprint (NULL: any). Codes: "snapshot_not_found", "snapshot_incomplete",
 * "snapshot_damaged", "snapshot_version_mismatch". */
int snapshot_open(const char *dir, const char *vmm_fingerprint, struct manifest *ret,
		  struct err *err);

/* Checks one file's content against the manifest. Where it has no hash: the size alone. */
int snapshot_verify_file(const char *dir, const struct manifest *manifest, const char *name,
			 struct err *err);
/* All of them. */
int snapshot_verify(const char *dir, const struct manifest *manifest, struct err *err);

/* Checks that the base file is the one that was meant, by size (its hash is the template's maker's
 * to check). "snapshot_incomplete" when it is missing, "snapshot_damaged" when it is another. */
int snapshot_check_base(const struct manifest *manifest, const char *base_path, struct err *err);

/* Replaces the manifest of a sealed snapshot, durably. */
int snapshot_rewrite_manifest(const char *dir, const struct manifest *manifest, struct err *err);

/* True for names that drafts have. */
bool snapshot_is_partial(const char *name);
/* Removes the drafts in parent that nobody is making any more (their lock is free), and in each
 * snapshot there the files that its manifest does not list (left by a compression that was cut
 * short). What cannot be read as a snapshot is left alone. *ret_removed may be NULL. */
int snapshot_sweep(const char *parent, unsigned int *ret_removed, struct err *err);

/* -ENOSPC ("disk_full") unless the file system of path has room for bytes and reserve_bytes more:
 * asked before anything is begun. */
int snapshot_space(const char *path, uint64_t bytes, uint64_t reserve_bytes, struct err *err);
