/*
 * Images: root filesystems that sandboxes start from. An image is an erofs file with a manifest in
 * the image directory; it is named by people and identified by the digest of its content. Building
 * runs the recipe scripts (images/) in a child process and relays their progress; importing does
 * the same with skerry-import. It knows no sandboxes and no VMs: whether an image is in use is
 * asked of the caller.
 *
 *   DIR/<name>.json      {"name", "digest", "size_bytes", "created_unix_ms", "config"}, and
 *                        "recipe_key" of one that was built, "source", "source_digest" and
 *                        "warnings" of one that was imported
 *   DIR/blobs/<digest>   the erofs file, 0444; shared by images of the same content
 *   DIR/lock             held while making or removing
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/err.h"

#define IMAGE_NAME_MAX	   64
#define IMAGE_CONFIG_MAX   8191
#define IMAGE_WARNINGS_MAX 4095

struct image_store;

struct image_info {
	char name[IMAGE_NAME_MAX + 1];
	char digest[72];	 /* "sha256:<64 hex>" */
	int64_t size_bytes;	 /* of the erofs file */
	int64_t allocated_bytes; /* on disk */
	int64_t created_unix_ms;
	char user[33]; /* from the image's configuration */
	char workdir[256];
	char config[IMAGE_CONFIG_MAX + 1]; /* all of it, as JSON */
	char path[512];			   /* the erofs file */
	char source[4097];	/* of an import, as it was asked for; "": it was built here */
	char source_digest[72]; /* of the manifest that the source had */
	char warnings[IMAGE_WARNINGS_MAX + 1]; /* a JSON list of lines; "": none */
};

/* dir is created; recipe_dir holds build-root and *.recipe. */
int image_store_new(const char *dir, const char *recipe_dir, struct image_store **ret,
		    struct err *err);
void image_store_free(struct image_store *store);
/* The program (skerry-import), and credentials for registries as skopeo has them; either may be
 * NULL. */
void image_store_use_importer(struct image_store *store, const char *program,
			      const char *auth_file);
/* Removes what makers of images that died have left, unless one is at work. For a daemon's start.
 */
void image_clean(struct image_store *store);

/* [a-z0-9][a-z0-9._-]*, at most IMAGE_NAME_MAX. */
bool image_name_valid(const char *name);

/* -ENOENT (code "image_not_found", hint names the build command and the images there are). */
int image_get(struct image_store *store, const char *name, struct image_info *ret, struct err *err);
/* Sorted by name; the caller frees *ret with free(). */
int image_list(struct image_store *store, struct image_info **ret, size_t *ret_n, struct err *err);

/* percent 0 … 100; what is one short line. Called on the building thread. */
typedef void (*image_progress_fn)(void *arg, int percent, const char *what);

/* [worker] Builds the recipe of this name, or finds it already built from the same recipe (unless
 * rebuild). Only one build at a time runs on a host; others wait with progress "waiting …". A build
 * that is killed leaves nothing that is used. -ENOENT ("recipe_not_found") names the recipes there
 * are. */
int image_build(struct image_store *store, const char *name, bool rebuild,
		int64_t deadline_boottime_ms, image_progress_fn progress, void *arg,
		struct image_info *ret, struct err *err);

struct image_import {
	struct image_store *store;
	const char *source; /* as source.h has it */
	const char *name;
	bool replace; /* an image of that name */
	bool any_certificate;
	uint64_t bytes_max, entries_max, keep_free_bytes;
	uint64_t uid_base; /* of 65536 users that nobody else has */
	int64_t deadline_boottime_ms;
	image_progress_fn progress;
	void *arg;
};

/* [worker] Makes an image of what was built elsewhere. Nothing is there until all of it is.
 * "image_exists", "image_refused", "image_too_large", "image_source_failed", "program_missing". */
int image_import(const struct image_import *import, struct image_info *ret, struct err *err);

/* Removes the name, and the blob when no other name has it. Existing sandboxes of the image keep
 * running: the blob's inode lives as long as they map it, so in_use images are refused by the
 * caller (core) before. */
int image_remove(struct image_store *store, const char *name, struct err *err);
