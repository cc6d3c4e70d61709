/*
 * What a snapshot is made of and what it depends on, as manifest.json in its directory. Pure: text
 * to struct and back; seal.h has the directory.
 *
 * The text carries a checksum of itself: a flipped bit in a number is found as one in a file is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "snapshot/hash.h"

#define MANIFEST_NAME	   "manifest.json"
#define MANIFEST_FORMAT	   1
#define MANIFEST_BYTES_MAX 65536
#define MANIFEST_FILES_MAX 16
#define MANIFEST_WORD_MAX  64

struct manifest_file {
	char name[MANIFEST_WORD_MAX + 1];
	uint64_t bytes;
	/* "xxh3-128:…" over the content; "delta-xxh3:…", the root of a delta file, which stands for
	 * its content; "": only the size is known (a disk whose copy was O(1)). */
	char hash[HASH_TEXT_SIZE];
	/* Of a file kept compressed (name ends in ".zst"): what it was. 0 and "" otherwise. */
	uint64_t plain_bytes;
	char plain_hash[HASH_TEXT_SIZE];
};

/* A file elsewhere that the snapshot is a difference to. */
struct manifest_base {
	char key[2 * MANIFEST_WORD_MAX + 1]; /* names the template; "" where there is none */
	uint64_t bytes;
	char hash[HASH_TEXT_SIZE];
};

struct manifest {
	char id[MANIFEST_WORD_MAX + 1];
	char kind[MANIFEST_WORD_MAX + 1]; /* "pause", "snapshot", "fork", …: the caller's word */
	int64_t created_unix_ms;
	char vmm_fingerprint[257]; /* what its device state can be loaded under */
	char image_digest[129];
	uint32_t vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
	struct manifest_base base;
	char parent[MANIFEST_WORD_MAX + 1]; /* the snapshot that it came from; "" none */
	bool needs_parent;		    /* it cannot be restored without its parent's files */
	struct manifest_file files[MANIFEST_FILES_MAX];
	size_t n_files;
};

/* Letters, digits and ._- , no dot first, not empty: safe as a file's name. */
bool manifest_word_valid(const char *word);

void manifest_encode(const struct manifest *manifest, struct buf *out);

/* Codes: "snapshot_damaged" (no JSON, checksum, a field missing, too long or impossible),
 * "snapshot_version_mismatch" (format). */
int manifest_decode(const char *text, size_t len, struct manifest *ret, struct err *err);

/* NULL when there is no such file. */
const struct manifest_file *manifest_file(const struct manifest *manifest, const char *name);
