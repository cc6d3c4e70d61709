/*
 * The image directory.
 *
 * Several daemons may share it (a development daemon beside the system's), so that every change
 * happens under flock on DIR/lock, and reading needs no lock: manifests are replaced by rename, and
 * a blob is put in place before the manifest that names it. A blob is named by its content;
 * whatever is in DIR/blobs under a temporary name belongs to a build that died and is removed by
 * the next one.
 */
#include "image/image.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "image/internal.h"

#define MANIFEST_MAX (256 * 1024)

DEFINE_CLEANUP(DIR *, closedirp, closedir);

int image_store_new(const char *dir, const char *recipe_dir, struct image_store **ret,
		    struct err *err)
{
	struct image_store *store;
	_cleanup_free_ char *blobs = xasprintf("%s/blobs", dir);
	int r = dir_make(blobs, 0755);

	if (r < 0)
		return err_set(err, r, "make the image directory '%s': %s", blobs, strerror(-r));
	store = xcalloc(1, sizeof(*store));
	store->dir = xstrdup(dir);
	store->recipe_dir = xstrdup(recipe_dir);
	*ret = store;
	return 0;
}

void image_store_free(struct image_store *store)
{
	if (!store)
		return;
	free(store->dir);
	free(store->recipe_dir);
	free(store->importer);
	free(store->auth_file);
	free(store);
}

void image_store_use_importer(struct image_store *store, const char *program, const char *auth_file)
{
	free(store->importer);
	free(store->auth_file);
	store->importer = program ? xstrdup(program) : NULL;
	store->auth_file = auth_file ? xstrdup(auth_file) : NULL;
}

bool image_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > IMAGE_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool alnum =
			(name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9');

		if (!alnum && (i == 0 || !strchr("._-", name[i])))
			return false;
	}
	return true;
}

bool image_digest_valid(const char *digest)
{
	return strlen(digest) == 71 && str_starts(digest, "sha256:") &&
	       strspn(digest + 7, "0123456789abcdef") == 64;
}

char *image_manifest_path(const struct image_store *store, const char *name)
{
	return xasprintf("%s/%s.json", store->dir, name);
}

char *image_blob_path(const struct image_store *store, const char *digest)
{
	return xasprintf("%s/blobs/%s", store->dir, digest);
}

/* ---- reading ---- */

int image_read_manifest(const struct image_store *store, const char *name, json_t **ret,
			struct err *err)
{
	_cleanup_free_ char *path = image_manifest_path(store, name);
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read(path, MANIFEST_MAX, &text);

	if (r < 0)
		return err_set(err, r, "read the image manifest '%s': %s", path, strerror(-r));
	r = json_parse(text.data, text.len, ret, err);
	return r < 0 ? err_wrap(err, r, "image manifest '%s'", path) : 0;
}

/* Of an image that was imported. Warnings that do not fit are not worth more. */
static void take_origin(const json_t *manifest, struct image_info *info)
{
	const json_t *warnings = json_object_get(manifest, "warnings");
	_cleanup_buf_ struct buf text = BUF_INIT;

	str_copy(info->source, sizeof(info->source), json_get_str(manifest, "source", ""));
	str_copy(info->source_digest, sizeof(info->source_digest),
		 json_get_str(manifest, "source_digest", ""));
	if (json_array_size(warnings) == 0)
		return;
	json_write(warnings, &text);
	if (!str_copy(info->warnings, sizeof(info->warnings), buf_str(&text)))
		info->warnings[0] = '\0';
}

static int info_from_manifest(const struct image_store *store, const char *name,
			      const json_t *manifest, struct image_info *ret, struct err *err)
{
	struct image_info info = { 0 };
	_cleanup_buf_ struct buf text = BUF_INIT;
	const json_t *config = json_object_get(manifest, "config");
	const char *digest = json_get_str(manifest, "digest", "");
	_cleanup_free_ char *path = NULL;
	struct stat st;

	if (!image_digest_valid(digest))
		return err_code(err, -EBADMSG, "image_damaged",
				"the manifest of image '%s' has no valid digest", name);
	path = image_blob_path(store, digest);
	if (stat(path, &st) < 0)
		return err_code(err, -EBADMSG, "image_damaged",
				"the file of image '%s' is missing: %s", name, path);
	info.size_bytes = json_get_int(manifest, "size_bytes", -1);
	if (st.st_size != info.size_bytes)
		return err_code(err, -EBADMSG, "image_damaged",
				"the file of image '%s' has %lld bytes instead of %lld", name,
				(long long)st.st_size, (long long)info.size_bytes);
	info.allocated_bytes = (int64_t)st.st_blocks * 512;
	info.created_unix_ms = json_get_int(manifest, "created_unix_ms", 0);
	str_copy(info.name, sizeof(info.name), name);
	str_copy(info.digest, sizeof(info.digest), digest);
	str_copy(info.user, sizeof(info.user), json_get_str(config, "user", "root"));
	str_copy(info.workdir, sizeof(info.workdir), json_get_str(config, "workdir", "/"));
	if (config)
		json_write(config, &text);
	if (!str_copy(info.config, sizeof(info.config), config ? buf_str(&text) : "{}"))
		return err_code(err, -EBADMSG, "image_damaged",
				"the configuration of image '%s' has %zu bytes, the limit is %d",
				name, text.len, IMAGE_CONFIG_MAX);
	take_origin(manifest, &info);
	if (!str_copy(info.path, sizeof(info.path), path))
		return err_set(err, -ENAMETOOLONG, "the path of image '%s' is too long", name);
	*ret = info;
	return 0;
}

static int load(const struct image_store *store, const char *name, struct image_info *ret,
		struct err *err)
{
	_cleanup_json_ json_t *manifest = NULL;
	int r = image_read_manifest(store, name, &manifest, err);

	if (r < 0)
		return r;
	r = info_from_manifest(store, name, manifest, ret, err);
	if (r == -EBADMSG)
		err_hint(err, "build it again: skerry image build %s --rebuild", name);
	return r;
}

static void join_names(const struct image_info *items, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n && i < 10; i++)
		buf_printf(out, "%s%s", i ? ", " : "", items[i].name);
}

static int not_found(struct image_store *store, const char *name, struct err *err)
{
	_cleanup_free_ struct image_info *items = NULL;
	_cleanup_buf_ struct buf names = BUF_INIT;
	size_t n = 0;

	if (image_list(store, &items, &n, NULL) == 0)
		join_names(items, n, &names);
	err_code(err, -ENOENT, "image_not_found", "no image '%.*s'", IMAGE_NAME_MAX, name);
	if (n > 0)
		err_hint(err, "use one of: %s; or build it: skerry image build NAME",
			 buf_str(&names));
	else
		err_hint(err, "build one first: skerry image build base");
	return -ENOENT;
}

int image_get(struct image_store *store, const char *name, struct image_info *ret, struct err *err)
{
	int r;

	if (!image_name_valid(name))
		return not_found(store, name, err);
	r = load(store, name, ret, err);
	return r == -ENOENT ? not_found(store, name, err) : r;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct image_info *)a)->name, ((const struct image_info *)b)->name);
}

int image_list(struct image_store *store, struct image_info **ret, size_t *ret_n, struct err *err)
{
	_cleanup_(closedirp) DIR *dir = opendir(store->dir);
	_cleanup_free_ struct image_info *items = NULL;
	const struct dirent *entry;
	size_t n = 0, cap = 0;

	if (!dir)
		return err_set(err, -errno, "read the image directory '%s': %s", store->dir,
			       strerror(errno));
	while ((entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);
		_cleanup_free_ char *name = NULL;

		if (len <= 5 || !str_eq(entry->d_name + len - 5, ".json"))
			continue;
		name = xstrndup(entry->d_name, len - 5);
		if (!image_name_valid(name))
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 8;
			items = xrealloc(items, cap * sizeof(*items));
		}
		/* A damaged one is not offered; image_get says what is wrong with it. */
		if (load(store, name, &items[n], NULL) == 0)
			n++;
	}
	if (n > 0)
		qsort(items, n, sizeof(*items), compare_names);
	*ret = STEAL(items);
	*ret_n = n;
	return 0;
}

/* ---- removing ---- */

/* The caller holds the lock. */
static int digest_used(struct image_store *store, const char *digest, bool *ret_used,
		       struct err *err)
{
	_cleanup_free_ struct image_info *items = NULL;
	size_t n = 0;
	int r = image_list(store, &items, &n, err);

	if (r < 0)
		return r;
	*ret_used = false;
	for (size_t i = 0; i < n; i++)
		*ret_used |= str_eq(items[i].digest, digest);
	return 0;
}

int image_drop_blob_if_unused(struct image_store *store, const char *digest, struct err *err)
{
	_cleanup_free_ char *path = image_blob_path(store, digest);
	bool used;
	int r = digest_used(store, digest, &used, err);

	if (r < 0 || used)
		return r;
	if (unlink(path) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove '%s': %s", path, strerror(errno));
	return 0;
}

int image_remove(struct image_store *store, const char *name, struct err *err)
{
	_cleanup_close_ int lock = -1;
	_cleanup_json_ json_t *manifest = NULL;
	_cleanup_free_ char *path = NULL;
	const char *digest;
	int r;

	if (!image_name_valid(name))
		return not_found(store, name, err);
	lock = image_lock(store, clock_boottime_ms() + IMAGE_REMOVE_WAIT_MS, NULL, NULL, err);
	if (lock < 0)
		return lock;
	path = image_manifest_path(store, name);
	r = image_read_manifest(store, name, &manifest, err);
	if (r == -ENOENT)
		return not_found(store, name, err);
	if (unlink(path) < 0)
		return err_set(err, -errno, "remove '%s': %s", path, strerror(errno));
	dir_fsync(store->dir);
	/* A manifest that cannot be read names no blob: removing the name is all there is to do. */
	digest = r == 0 ? json_get_str(manifest, "digest", "") : "";
	if (err)
		*err = ERR_INIT;
	return image_digest_valid(digest) ? image_drop_blob_if_unused(store, digest, err) : 0;
}
