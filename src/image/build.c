/*
 * Building an image: the recipe script (images/build-root) runs in a child process under the
 * directory's lock. See make.c.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "image/internal.h"

#define KEY_DEADLINE_MS 30000

DEFINE_CLEANUP(DIR *, closedirp, closedir);

struct build {
	struct image_store *store;
	const char *name;
	char *script;
	char *recipe;
	char recipe_key[129];
	struct image_making making;
	int64_t deadline_boottime_ms;
	image_progress_fn progress;
	void *arg;
};

static void build_clear(struct build *build)
{
	image_making_clear(&build->making);
	free(build->script);
	free(build->recipe);
}

static int recipe_not_found(struct image_store *store, const char *name, struct err *err)
{
	_cleanup_(closedirp) DIR *dir = opendir(store->recipe_dir);
	_cleanup_buf_ struct buf names = BUF_INIT;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);

		if (len > 7 && str_eq(entry->d_name + len - 7, ".recipe"))
			buf_printf(&names, "%s%.*s", names.len ? ", " : "", (int)(len - 7),
				   entry->d_name);
	}
	err_code(err, -ENOENT, "recipe_not_found", "no recipe for an image '%.*s'", IMAGE_NAME_MAX,
		 name);
	err_hint(err, "there are recipes in '%s' for: %s", store->recipe_dir,
		 names.len ? buf_str(&names) : "none");
	return -ENOENT;
}

static int find_recipe(struct build *build, struct err *err)
{
	const char *argv[] = { NULL, "--key", NULL, NULL };
	_cleanup_buf_ struct buf key = BUF_INIT;
	int r;

	if (!image_name_valid(build->name))
		return recipe_not_found(build->store, build->name, err);
	build->script = xasprintf("%s/build-root", build->store->recipe_dir);
	build->recipe = xasprintf("%s/%s.recipe", build->store->recipe_dir, build->name);
	if (access(build->recipe, R_OK) < 0)
		return recipe_not_found(build->store, build->name, err);
	argv[0] = build->script;
	argv[2] = build->recipe;
	r = image_run(argv, clock_boottime_ms() + KEY_DEADLINE_MS, NULL, NULL, &key, err);
	if (r < 0)
		return r;
	if (key.len == 0 || !str_copy(build->recipe_key, sizeof(build->recipe_key), key.data))
		return err_set(err, -EPROTO, "'%s --key' printed no key", build->script);
	return 0;
}

static bool already_built(const struct build *build, struct image_info *ret)
{
	_cleanup_json_ json_t *manifest = NULL;

	if (image_read_manifest(build->store, build->name, &manifest, NULL) < 0)
		return false;
	if (!str_eq(json_get_str(manifest, "recipe_key", ""), build->recipe_key))
		return false;
	return image_get(build->store, build->name, ret, NULL) == 0;
}

static int build_locked(struct build *build, struct err *err)
{
	const char *argv[] = { build->script, build->recipe, NULL, NULL };
	_cleanup_buf_ struct buf last_line = BUF_INIT;
	_cleanup_json_ json_t *manifest = json_object();
	json_t *config = NULL;
	int r;

	image_making_begin(&build->making, build->store, build->name);
	argv[2] = build->making.temporary;
	r = image_run(argv, build->deadline_boottime_ms, build->progress, build->arg, &last_line,
		      err);
	if (r == 0)
		r = image_making_record(&build->making, &config, err);
	if (r < 0)
		return r;
	json_put_str(manifest, "recipe_key", build->recipe_key);
	json_put(manifest, "config", config);
	return image_making_install(&build->making, &last_line, manifest, err);
}

int image_build(struct image_store *store, const char *name, bool rebuild,
		int64_t deadline_boottime_ms, image_progress_fn progress, void *arg,
		struct image_info *ret, struct err *err)
{
	_cleanup_(build_clear) struct build build = {
		.store = store,
		.name = name,
		.deadline_boottime_ms = deadline_boottime_ms,
		.progress = progress,
		.arg = arg,
	};
	_cleanup_close_ int lock = -1;
	int r = find_recipe(&build, err);

	if (r < 0)
		return r;
	lock = image_lock(store, deadline_boottime_ms, progress, arg, err);
	if (lock < 0)
		return lock;
	if (!rebuild && already_built(&build, ret))
		return 0;
	r = build_locked(&build, err);
	if (r < 0)
		return err_wrap(err, r, "build image '%s'", name);
	return image_get(store, name, ret, err);
}
