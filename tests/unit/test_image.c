/* The image directory: names, builds by a stand-in for the recipe script, sharing, removal. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "image/image.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	char *images, *recipes;
	struct image_store *store;
};

/* Prints and writes what images/build-root does; what is built is the recipe itself. */
static const char script[] =
	"#!/bin/sh\n"
	"set -e\n"
	"if [ \"$1\" = --key ]; then sha256sum <\"$2\" | cut -d ' ' -f 1; exit; fi\n"
	"grep -q fail \"$1\" && { echo 'the mirror is gone' >&2; exit 3; }\n"
	"grep -q hang \"$1\" && { : >\"$2.build\"; exec sleep 100; }\n"
	"echo 'progress 40 installing packages'\n"
	"echo 'progress 999 nonsense'\n"
	"cat \"$1\" >\"$2\"\n"
	"echo '{\"user\": \"sandbox\", \"workdir\": \"/home/sandbox\"}' >\"$2.json\"\n"
	"echo 'progress 100 done'\n"
	"echo \"digest sha256:$(sha256sum <\"$2\" | cut -d ' ' -f 1)\"\n";

static void write_file(const char *dir, const char *name, const char *text, mode_t mode)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(file_write_durable(path, text, strlen(text), mode), 0);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	scratch_make(f->dir);
	f->images = xasprintf("%s/images", f->dir);
	f->recipes = xasprintf("%s/recipes", f->dir);
	assert_int_equal(dir_make(f->recipes, 0755), 0);
	write_file(f->recipes, "build-root", script, 0755);
	write_file(f->recipes, "base.recipe", "packages one\n", 0644);
	write_file(f->recipes, "dev.recipe", "packages two\n", 0644);
	write_file(f->recipes, "broken.recipe", "fail\n", 0644);
	write_file(f->recipes, "slow.recipe", "hang\n", 0644);
	assert_int_equal(image_store_new(f->images, f->recipes, &f->store, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	image_store_free(f->store);
	scratch_remove(f->dir);
	free(f->images);
	free(f->recipes);
	free(f);
	return 0;
}

static void note_progress(void *arg, int percent, const char *what)
{
	buf_printf(arg, "%d %s;", percent, what);
}

static int build(struct fixture *f, const char *name, bool rebuild, struct buf *progress,
		 struct image_info *ret, struct err *err)
{
	return image_build(f->store, name, rebuild, clock_boottime_ms() + 10000,
			   progress ? note_progress : NULL, progress, ret, err);
}

static void test_names(void **state)
{
	const char *const good[] = { "base", "a", "0", "my.image_1-x" };
	const char *const bad[] = { "", "Base", "-a", ".a", "a/b", "..", "a b", "\xc3\xa4" };
	char longest[IMAGE_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(image_name_valid(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(image_name_valid(bad[i]));
	memset(longest, 'a', sizeof(longest));
	longest[IMAGE_NAME_MAX] = '\0';
	assert_true(image_name_valid(longest));
	longest[IMAGE_NAME_MAX] = 'a';
	longest[IMAGE_NAME_MAX + 1] = '\0';
	assert_false(image_name_valid(longest));
}

static void test_build_get_list_remove(void **state)
{
	struct fixture *f = *state;
	_cleanup_buf_ struct buf progress = BUF_INIT;
	_cleanup_free_ struct image_info *items = NULL;
	struct image_info built, got;
	struct err err = ERR_INIT;
	struct stat st;
	size_t n;

	assert_int_equal(image_get(f->store, "base", &got, &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "image_not_found");
	assert_non_null(strstr(err.hint, "skerry image build base"));
	assert_int_equal(build(f, "base", false, &progress, &built, NULL), 0);
	assert_string_equal(buf_str(&progress), "40 installing packages;100 done;");
	assert_int_equal(image_get(f->store, "base", &got, NULL), 0);
	assert_string_equal(got.digest, built.digest);
	assert_string_equal(got.user, "sandbox");
	assert_string_equal(got.workdir, "/home/sandbox");
	assert_int_equal(got.size_bytes, strlen("packages one\n"));
	assert_int_equal(stat(got.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(build(f, "dev", false, NULL, &built, NULL), 0);
	assert_int_equal(image_list(f->store, &items, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(items[0].name, "base");
	assert_string_equal(items[1].name, "dev");
	assert_int_equal(image_remove(f->store, "base", NULL), 0);
	assert_int_equal(access(got.path, F_OK), -1);
	assert_int_equal(image_get(f->store, "base", &got, NULL), -ENOENT);
	assert_int_equal(image_remove(f->store, "base", NULL), -ENOENT);
	assert_int_equal(image_get(f->store, "dev", &got, NULL), 0);
}

static void test_same_recipe_is_built_once(void **state)
{
	struct fixture *f = *state;
	_cleanup_buf_ struct buf progress = BUF_INIT;
	struct image_info a, b;

	assert_int_equal(build(f, "base", false, NULL, &a, NULL), 0);
	assert_int_equal(build(f, "base", false, &progress, &b, NULL), 0);
	assert_string_equal(buf_str(&progress), "");
	assert_int_equal(build(f, "base", true, &progress, &b, NULL), 0);
	assert_string_not_equal(buf_str(&progress), "");
	assert_string_equal(a.digest, b.digest);
}

static void test_changed_recipe_replaces_the_old_blob(void **state)
{
	struct fixture *f = *state;
	struct image_info before, after;

	assert_int_equal(build(f, "base", false, NULL, &before, NULL), 0);
	write_file(f->recipes, "base.recipe", "packages one more\n", 0644);
	assert_int_equal(build(f, "base", false, NULL, &after, NULL), 0);
	assert_string_not_equal(before.digest, after.digest);
	assert_int_equal(access(before.path, F_OK), -1);
	assert_int_equal(access(after.path, F_OK), 0);
}

static void test_shared_blob_stays_while_it_has_a_name(void **state)
{
	struct fixture *f = *state;
	struct image_info a, b;

	write_file(f->recipes, "twin.recipe", "packages one\n", 0644);
	assert_int_equal(build(f, "base", false, NULL, &a, NULL), 0);
	assert_int_equal(build(f, "twin", false, NULL, &b, NULL), 0);
	assert_string_equal(a.path, b.path);
	assert_int_equal(image_remove(f->store, "base", NULL), 0);
	assert_int_equal(access(b.path, F_OK), 0);
	assert_int_equal(image_remove(f->store, "twin", NULL), 0);
	assert_int_equal(access(b.path, F_OK), -1);
}

static void test_failures_say_why_and_leave_nothing(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ struct image_info *items = NULL;
	_cleanup_free_ char *leftover = xasprintf("%s/blobs/.tmp-dead.erofs", f->images);
	struct image_info info;
	struct err err = ERR_INIT;
	size_t n;

	assert_int_equal(build(f, "broken", false, NULL, &info, &err), -EIO);
	assert_non_null(strstr(err.message, "the mirror is gone"));
	assert_string_equal(err_code_of(&err), "image_build_failed");
	assert_int_equal(build(f, "nosuch", false, NULL, &info, &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "recipe_not_found");
	assert_non_null(strstr(err.hint, "base"));
	assert_int_equal(build(f, "../base", false, NULL, &info, &err), -ENOENT);
	assert_int_equal(image_list(f->store, &items, &n, NULL), 0);
	assert_int_equal(n, 0);
	/* What a killed build has left goes with the next one. */
	assert_int_equal(file_write_durable(leftover, "x", 1, 0600), 0);
	assert_int_equal(build(f, "base", false, NULL, &info, NULL), 0);
	assert_int_equal(access(leftover, F_OK), -1);
}

static void test_deadline_ends_the_script(void **state)
{
	struct fixture *f = *state;
	struct image_info info;
	struct err err = ERR_INIT;
	int64_t began = clock_boottime_ms();

	assert_int_equal(image_build(f->store, "slow", false, began + 700, NULL, NULL, &info, &err),
			 -ETIMEDOUT);
	assert_in_range(clock_boottime_ms() - began, 700, 4000);
	/* The lock is free again. */
	assert_int_equal(build(f, "base", false, NULL, &info, NULL), 0);
}

static void test_damaged_image_is_named(void **state)
{
	struct fixture *f = *state;
	struct image_info info, got;
	struct err err = ERR_INIT;

	assert_int_equal(build(f, "base", false, NULL, &info, NULL), 0);
	assert_int_equal(truncate(info.path, 3), 0);
	assert_int_equal(image_get(f->store, "base", &got, &err), -EBADMSG);
	assert_string_equal(err_code_of(&err), "image_damaged");
	assert_non_null(strstr(err.hint, "--rebuild"));
	assert_int_equal(build(f, "base", false, NULL, &info, NULL), 0);
	assert_int_equal(image_get(f->store, "base", &got, NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		TEST(test_build_get_list_remove),
		TEST(test_same_recipe_is_built_once),
		TEST(test_changed_recipe_replaces_the_old_blob),
		TEST(test_shared_blob_stays_while_it_has_a_name),
		TEST(test_failures_say_why_and_leave_nothing),
		TEST(test_deadline_ends_the_script),
		TEST(test_damaged_image_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
