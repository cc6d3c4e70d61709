/*
 * Importing an image: skerry-import (src/import) runs under the directory's lock and makes the
 * file; see make.c for the rest. What the source was is kept in the manifest.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "image/internal.h"
#include "image/source.h"

#define ARGUMENTS_MAX 20

static int name_is_taken(const struct image_import *import, struct err *err)
{
	struct image_info there;

	if (import->replace || image_get(import->store, import->name, &there, NULL) == -ENOENT)
		return 0;
	err_code(err, -EEXIST, "image_exists", "there is an image '%s' already", import->name);
	err_hint(err, "give the import another name, or ask for the old one to be replaced");
	return -EEXIST;
}

static char *number(uint64_t n)
{
	return xasprintf("%" PRIu64, n);
}

static int run(const struct image_import *import, const struct image_making *making,
	       struct buf *last_line, struct err *err)
{
	_cleanup_free_ char *bytes = number(import->bytes_max);
	_cleanup_free_ char *entries = number(import->entries_max);
	_cleanup_free_ char *keep_free = number(import->keep_free_bytes);
	_cleanup_free_ char *uid_base = number(import->uid_base);
	const char *argv[ARGUMENTS_MAX] = {
		import->store->importer,
		"--source",
		import->source,
		"--out",
		making->temporary,
		"--bytes-max",
		bytes,
		"--entries-max",
		entries,
		"--keep-free-bytes",
		keep_free,
		"--uid-base",
		uid_base,
	};
	size_t n = 13;

	if (import->store->auth_file) {
		argv[n++] = "--auth";
		argv[n++] = import->store->auth_file;
	}
	if (import->any_certificate)
		argv[n++] = "--any-certificate";
	return image_run(argv, import->deadline_boottime_ms, import->progress, import->arg,
			 last_line, err);
}

static int import_locked(const struct image_import *import, struct image_making *making,
			 struct err *err)
{
	_cleanup_buf_ struct buf last_line = BUF_INIT;
	_cleanup_json_ json_t *manifest = NULL;
	int r;

	image_making_begin(making, import->store, import->name);
	r = run(import, making, &last_line, err);
	if (r == 0)
		r = image_making_record(making, &manifest, err);
	if (r < 0)
		return r;
	json_put_str(manifest, "source", import->source);
	return image_making_install(making, &last_line, manifest, err);
}

int image_import(const struct image_import *import, struct image_info *ret, struct err *err)
{
	_cleanup_(image_making_clear) struct image_making making = { 0 };
	_cleanup_close_ int lock = -1;
	int r;

	if (!image_name_valid(import->name))
		return err_set(err, -EINVAL, "'%.*s' is no name of an image", IMAGE_NAME_MAX,
			       import->name);
	if (!import->store->importer)
		return err_code(err, -ENOENT, "program_missing", "there is no importer of images");
	r = name_is_taken(import, err);
	if (r < 0)
		return r;
	lock = image_lock(import->store, import->deadline_boottime_ms, import->progress,
			  import->arg, err);
	if (lock < 0)
		return lock;
	r = name_is_taken(import, err);
	if (r == 0)
		r = import_locked(import, &making, err);
	if (r < 0)
		return err_wrap(err, r, "import image '%s'", import->name);
	return image_get(import->store, import->name, ret, err);
}
