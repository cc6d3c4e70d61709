/* Trees into archives and back: the same tree again; and archives that want to write elsewhere, or
 * to make what nobody asked for, do not. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/str.h"
#include "tar/tar_format.h"
#include "tar/tar_tree.h"

static char dir[SCRATCH_SIZE];
static int from_fd, to_fd; /* "from" and "to" in it */

static int set_up(void **state)
{
	int fd;

	scratch_make(dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(fd, "from", 0755), 0);
	assert_int_equal(mkdirat(fd, "to", 0755), 0);
	from_fd = openat(fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to_fd = openat(fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(fd);
	return 0;
}

static int tear_down(void **state)
{
	close(from_fd);
	close(to_fd);
	scratch_remove(dir);
	return 0;
}

static void make_file(int fd, const char *path, const char *content, mode_t mode)
{
	int file = openat(fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	assert_true(file >= 0);
	assert_int_equal(fd_write_all(file, content, strlen(content)), 0);
	assert_int_equal(fchmod(file, mode), 0);
	close(file);
}

static void assert_file(int fd, const char *path, const char *content)
{
	char got[256] = "";
	int file = openat(fd, path, O_RDONLY | O_CLOEXEC);

	assert_true(file >= 0);
	assert_true(read(file, got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, content);
	close(file);
}

static mode_t mode_of(int fd, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static int collect(void *arg, const void *data, size_t len)
{
	buf_append(arg, data, len);
	return 0;
}

static int unpack_as(const struct tar_unpack_options *options, const struct buf *archive,
		     struct tar_unpacked *ret, struct err *err)
{
	struct tar_unpack *u = tar_unpack_new(to_fd, options);
	int r = 0;

	for (size_t at = 0; at < archive->len && r == 0; at += 1000)
		r = tar_unpack_feed(u, archive->data + at,
				    archive->len - at < 1000 ? archive->len - at : 1000, err);
	if (r == 0)
		r = tar_unpack_finish(u, ret, err);
	tar_unpack_free(u);
	return r;
}

static int unpack(const struct buf *archive, struct tar_unpacked *ret, struct err *err)
{
	const struct tar_unpack_options options = { .durable = false };

	return unpack_as(&options, archive, ret, err);
}

static void a_tree_there_and_back(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct timespec times[2] = { { .tv_sec = 5 }, { .tv_sec = 1234567890, .tv_nsec = 42 } };
	struct tar_unpacked done = { 0 };
	struct err err = ERR_INIT;
	char target[64] = "", name[256];
	struct stat st;

	memset(name, 'n', 255);
	name[255] = '\0';
	assert_int_equal(mkdirat(from_fd, "d", 0755), 0);
	assert_int_equal(mkdirat(from_fd, "d/empty", 0700), 0);
	make_file(from_fd, "d/run", "#!/bin/sh\n", 0755);
	make_file(from_fd, "ü \n", "odd", 0600);
	make_file(from_fd, name, "long", 0644);
	make_file(from_fd, "nothing", "", 0444);
	assert_int_equal(symlinkat("../elsewhere/not/there", from_fd, "d/link"), 0);
	assert_int_equal(mkfifoat(from_fd, "fifo", 0600), 0);
	assert_int_equal(utimensat(from_fd, "d/run", times, 0), 0);
	assert_int_equal(utimensat(from_fd, "d/empty", times, 0), 0);
	assert_int_equal(fchmodat(from_fd, "d", 0555, 0), 0);
	assert_int_equal(tar_pack(from_fd, collect, &archive, &err), 0);
	if (unpack(&archive, &done, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(done.entries, 7);
	assert_int_equal(done.bytes, 10 + 3 + 4);
	assert_file(to_fd, "d/run", "#!/bin/sh\n");
	assert_file(to_fd, "ü \n", "odd");
	assert_file(to_fd, name, "long");
	assert_file(to_fd, "nothing", "");
	assert_int_equal(mode_of(to_fd, "d/run"), 0755);
	assert_int_equal(mode_of(to_fd, "d/empty"), 0700);
	assert_int_equal(mode_of(to_fd, "d"), 0555); /* although files were put into it */
	assert_int_equal(mode_of(to_fd, "nothing"), 0444);
	assert_true(readlinkat(to_fd, "d/link", target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "../elsewhere/not/there");
	assert_int_equal(fstatat(to_fd, "d/run", &st, 0), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1234567890);
	assert_int_equal(st.st_mtim.tv_nsec, 42);
	assert_int_equal(fstatat(to_fd, "d/empty", &st, 0), 0);
	assert_int_equal(st.st_mtim.tv_sec, 1234567890);
	assert_int_equal(faccessat(to_fd, "fifo", F_OK, 0), -1);
	/* Over itself: everything is replaced, nothing is in the way. */
	assert_int_equal(fchmodat(to_fd, "d", 0755, 0), 0);
	assert_int_equal(unpack(&archive, &done, &err), 0);
	assert_int_equal(fchmodat(from_fd, "d", 0755, 0), 0);
	assert_int_equal(fchmodat(to_fd, "d", 0755, 0), 0);
}

static void put(struct buf *archive, enum tar_type type, const char *path, const char *link,
		const char *content)
{
	struct tar_entry e = { .type = type, .mode = type == TAR_DIRECTORY ? 0755 : 04755 };

	buf_append_str(&e.path, path);
	buf_append_str(&e.link, link);
	e.size = strlen(content);
	tar_put_header(archive, &e);
	buf_append_str(archive, content);
	tar_put_padding(archive, e.size);
	buf_clear(&e.path);
	buf_clear(&e.link);
}

/* Nothing of it may be found outside of "to". */
static void archives_that_lead_out(void **state)
{
	static const struct {
		struct {
			enum tar_type type;
			const char *path, *link;
		} entries[3];
		const char *reason;
	} rows[] = {
		{ { { TAR_FILE, "/tmp/evil", "" } }, "leads out" },
		{ { { TAR_FILE, "../evil", "" } }, "leads out" },
		{ { { TAR_FILE, "a/../../evil", "" } }, "leads out" },
		{ { { TAR_SYMLINK, "up", ".." }, { TAR_FILE, "up/evil", "" } }, "leads out" },
		{ { { TAR_SYMLINK, "abs", "/tmp" }, { TAR_FILE, "abs/evil", "" } }, "leads out" },
		{ { { TAR_SYMLINK, "a", "b" },
		    { TAR_SYMLINK, "b", "../from" },
		    { TAR_FILE, "a/evil", "" } },
		  "leads out" },
		{ { { TAR_SYMLINK, "me", "me" }, { TAR_FILE, "me/evil", "" } }, "leads out" },
		{ { { TAR_SYMLINK, "proc", "/proc/self/cwd" }, { TAR_FILE, "proc/evil", "" } },
		  "leads out" },
		{ { { TAR_HARD_LINK, "evil", "../from/secret" } }, "leads out" },
		{ { { TAR_HARD_LINK, "evil", "/etc/passwd" } }, "leads out" },
		{ { { TAR_SYMLINK, "up", "../from" }, { TAR_HARD_LINK, "evil", "up/secret" } },
		  "leads out" },
		{ { { TAR_SYMLINK, "up", "../from" }, { TAR_DIRECTORY, "up/evil/", "" } },
		  "leads out" },
		{ { { TAR_FILE, ".", "" } }, "without a name" },
		{ { { TAR_SYMLINK, "empty", "" } }, "nowhere" },
	};

	make_file(from_fd, "secret", "secret", 0600);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf archive = BUF_INIT;
		struct tar_unpacked done;
		struct err err = ERR_INIT;

		for (size_t j = 0; j < 3 && rows[i].entries[j].path; j++)
			put(&archive, rows[i].entries[j].type, rows[i].entries[j].path,
			    rows[i].entries[j].link, "");
		tar_put_end(&archive);
		if (unpack(&archive, &done, &err) != -EBADMSG ||
		    !strstr(err.message, rows[i].reason))
			fail_msg("row %zu: %d %s", i, err.num, err.message);
		assert_int_equal(faccessat(from_fd, "evil", F_OK, AT_SYMLINK_NOFOLLOW), -1);
		assert_int_equal(faccessat(from_fd, "../evil", F_OK, AT_SYMLINK_NOFOLLOW), -1);
		assert_int_equal(access("/tmp/evil", F_OK), -1);
	}
}

/* A link is replaced, never written through. */
static void links_are_not_written_through(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct tar_unpacked done;
	struct err err = ERR_INIT;

	make_file(from_fd, "target", "as it was", 0644);
	put(&archive, TAR_SYMLINK, "f", "../from/target", "");
	put(&archive, TAR_FILE, "f", "", "new");
	put(&archive, TAR_FILE, "g", "", "linked");
	put(&archive, TAR_HARD_LINK, "h", "g", "");
	put(&archive, TAR_HARD_LINK, "h", "g", ""); /* the same once more */
	tar_put_end(&archive);
	if (unpack(&archive, &done, &err) < 0)
		fail_msg("%s", err.message);
	assert_file(from_fd, "target", "as it was");
	assert_file(to_fd, "f", "new");
	assert_file(to_fd, "h", "linked");
	assert_int_equal(mode_of(to_fd, "f"), 0755); /* set-uid bits are not taken over */
}

/* Links that stay below are followed, as those that were there already. */
static void links_within(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct tar_unpacked done;
	struct err err = ERR_INIT;

	put(&archive, TAR_DIRECTORY, "real/", "", "");
	put(&archive, TAR_SYMLINK, "alias", "real", "");
	put(&archive, TAR_FILE, "alias/f", "", "x");
	put(&archive, TAR_DIRECTORY, "alias/", "", "");
	put(&archive, TAR_FILE, "without/directory/entries/f", "", "y");
	tar_put_end(&archive);
	if (unpack(&archive, &done, &err) < 0)
		fail_msg("%s", err.message);
	assert_file(to_fd, "real/f", "x");
	assert_file(to_fd, "without/directory/entries/f", "y");
}

/* An entry of a kind that is not written here. */
static void put_kind(struct buf *archive, char flag, const char *path)
{
	size_t at = archive->len;
	unsigned int sum = 0;
	char *block;

	put(archive, TAR_FILE, path, "", "");
	block = archive->data + at;
	block[156] = flag;
	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 8, "%06o", sum);
}

static void what_is_no_file(void **state)
{
	static const char flags[] = "346SVZ";

	for (const char *flag = flags; *flag; flag++) {
		_cleanup_buf_ struct buf archive = BUF_INIT;
		struct tar_unpacked done;
		struct err err = ERR_INIT;

		put_kind(&archive, *flag, "node");
		tar_put_end(&archive);
		assert_int_equal(unpack(&archive, &done, &err), -EBADMSG);
		assert_int_equal(faccessat(to_fd, "node", F_OK, 0), -1);
	}
}

static void archives_that_are_cut(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct tar_unpacked done;
	struct err err = ERR_INIT;

	make_file(to_fd, "second", "as it was", 0644);
	put(&archive, TAR_FILE, "first", "", "whole");
	put(&archive, TAR_FILE, "second", "", "cut within these words");
	archive.len = 3 * TAR_BLOCK + 10;
	assert_int_equal(unpack(&archive, &done, &err), -EBADMSG);
	assert_file(to_fd, "first", "whole");
	assert_file(to_fd, "second", "as it was");
}

static void an_archive_that_says_why_it_ends(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct tar_unpacked done;
	struct err err = ERR_INIT;

	put(&archive, TAR_FILE, "first", "", "whole");
	tar_put_error(&archive, "cannot read 'second': Permission denied");
	assert_int_equal(unpack(&archive, &done, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "cannot read 'second'"));
}

/* ---- layers of images ---- */

static int unpack_layer(const struct buf *archive, enum tar_layer what, struct err *err)
{
	const struct tar_unpack_options options = { .layer = what };
	struct tar_unpacked done;

	return unpack_as(&options, archive, &done, err);
}

/* Both passes, as a layer that lies over others has them. */
static void lay_over(struct buf *archive)
{
	struct err err = ERR_INIT;

	tar_put_end(archive);
	if (unpack_layer(archive, TAR_LAYER_REMOVALS, &err) < 0 ||
	    unpack_layer(archive, TAR_LAYER_CONTENT, &err) < 0)
		fail_msg("%s", err.message);
}

static bool is_there(const char *path)
{
	struct stat st;

	return fstatat(to_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void lower_layer(void)
{
	assert_int_equal(mkdirat(to_fd, "d", 0755), 0);
	assert_int_equal(mkdirat(to_fd, "d/sub", 0755), 0);
	make_file(to_fd, "d/a", "lower", 0644);
	make_file(to_fd, "d/b", "lower", 0644);
	make_file(to_fd, "d/sub/c", "lower", 0644);
	make_file(to_fd, "file", "lower", 0644);
}

static void layers_take_away_what_is_below(void **state)
{
	_cleanup_buf_ struct buf one = BUF_INIT, all = BUF_INIT;

	lower_layer();
	put(&one, TAR_FILE, "d/.wh.a", "", "");
	put(&one, TAR_FILE, "d/.wh.not-there", "", "");
	put(&one, TAR_FILE, "not/there/.wh.x", "", "");
	put(&one, TAR_FILE, "file/.wh.x", "", "");
	put(&one, TAR_FILE, ".wh..wh.plnk", "", "");
	lay_over(&one);
	assert_false(is_there("d/a"));
	assert_false(is_there("not"));
	assert_false(is_there("d/.wh.a"));
	assert_file(to_fd, "d/b", "lower");
	/* What the layer itself puts there stays, before and after the mark. */
	put(&all, TAR_FILE, "d/before", "", "upper");
	put(&all, TAR_FILE, "d/.wh..wh..opq", "", "");
	put(&all, TAR_FILE, "d/.wh.before", "", "");
	put(&all, TAR_FILE, "d/sub/after", "", "upper");
	lay_over(&all);
	assert_file(to_fd, "d/before", "upper");
	assert_file(to_fd, "d/sub/after", "upper");
	assert_false(is_there("d/b"));
	assert_false(is_there("d/sub/c"));
}

static void layers_change_what_a_name_is(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;

	lower_layer();
	assert_int_equal(symlinkat("d", to_fd, "link"), 0);
	put(&archive, TAR_FILE, "d", "", "a file now");
	put(&archive, TAR_DIRECTORY, "file/", "", "");
	put(&archive, TAR_FILE, "file/in", "", "in it");
	put(&archive, TAR_DIRECTORY, "link/", "", "");
	lay_over(&archive);
	assert_file(to_fd, "d", "a file now");
	assert_file(to_fd, "file/in", "in it");
	assert_int_equal(mode_of(to_fd, "link"), 0755);
}

/* The image's root is where its links begin. */
static void links_of_layers_stay_in_the_image(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct err err = ERR_INIT;

	put(&archive, TAR_DIRECTORY, "etc/", "", "");
	put(&archive, TAR_SYMLINK, "abs", "/etc", "");
	put(&archive, TAR_SYMLINK, "up", "../../../../etc", "");
	put(&archive, TAR_FILE, "abs/skerry-test-one", "", "1");
	put(&archive, TAR_FILE, "up/skerry-test-two", "", "2");
	put(&archive, TAR_FILE, "/etc/skerry-test-three", "", "3");
	put(&archive, TAR_HARD_LINK, "hard", "/abs/skerry-test-one", "");
	tar_put_end(&archive);
	if (unpack_layer(&archive, TAR_LAYER_CONTENT, &err) < 0)
		fail_msg("%s", err.message);
	assert_file(to_fd, "etc/skerry-test-one", "1");
	assert_file(to_fd, "etc/skerry-test-two", "2");
	assert_file(to_fd, "etc/skerry-test-three", "3");
	assert_file(to_fd, "hard", "1");
	assert_int_equal(access("/etc/skerry-test-one", F_OK), -1);
	assert_int_equal(access("/etc/skerry-test-two", F_OK), -1);
	assert_int_equal(access("/etc/skerry-test-three", F_OK), -1);
}

static void layers_that_are_refused(void **state)
{
	const struct {
		enum tar_type type;
		const char *path, *link;
	} bad[] = {
		{ TAR_FILE, ".wh.", "" },	   { TAR_FILE, ".wh..", "" },
		{ TAR_FILE, "d/.wh...", "" },	   { TAR_FILE, "a/../../b", "" },
		{ TAR_HARD_LINK, "x", "../file" }, { TAR_HARD_LINK, "x", "/etc/passwd" },
		{ TAR_OTHER, "etc/disk", "" },	   { TAR_OTHER, "devil", "" },
	};

	lower_layer();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf archive = BUF_INIT;

		if (bad[i].type == TAR_OTHER)
			put_kind(&archive, '4', bad[i].path);
		else
			put(&archive, bad[i].type, bad[i].path, bad[i].link, "");
		tar_put_end(&archive);
		assert_true(unpack_layer(&archive, TAR_LAYER_CONTENT, NULL) < 0);
	}
	assert_true(is_there("d/sub/c"));
	assert_true(is_there("file"));
}

static void what_a_sandbox_mounts_over_is_left_out(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;

	put_kind(&archive, '3', "dev/console");
	put_kind(&archive, '6', "run/initctl");
	tar_put_end(&archive);
	assert_int_equal(unpack_layer(&archive, TAR_LAYER_CONTENT, NULL), 0);
	assert_false(is_there("dev/console"));
}

static void limits_hold_before_anything_is_written(void **state)
{
	const struct tar_unpack_options few = { .entries_max = 2 }, small = { .bytes_max = 10 };
	_cleanup_buf_ struct buf three = BUF_INIT, large = BUF_INIT;
	struct tar_unpacked done;
	struct err err = ERR_INIT;

	put(&three, TAR_FILE, "one", "", "1");
	put(&three, TAR_FILE, "two", "", "2");
	put(&three, TAR_FILE, "three", "", "3");
	assert_int_equal(unpack_as(&few, &three, &done, &err), -EFBIG);
	assert_non_null(strstr(err.message, "more than 2 entries"));
	assert_false(is_there("three"));
	put(&large, TAR_FILE, "six", "", "123456");
	put(&large, TAR_FILE, "five", "", "12345");
	assert_int_equal(unpack_as(&small, &large, &done, &err), -EFBIG);
	assert_non_null(strstr(err.message, "more than 10 bytes"));
	assert_false(is_there("five"));
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE_TEST(a_tree_there_and_back),
		TREE_TEST(archives_that_lead_out),
		TREE_TEST(links_are_not_written_through),
		TREE_TEST(links_within),
		TREE_TEST(what_is_no_file),
		TREE_TEST(archives_that_are_cut),
		TREE_TEST(an_archive_that_says_why_it_ends),
		TREE_TEST(layers_take_away_what_is_below),
		TREE_TEST(layers_change_what_a_name_is),
		TREE_TEST(links_of_layers_stay_in_the_image),
		TREE_TEST(layers_that_are_refused),
		TREE_TEST(what_a_sandbox_mounts_over_is_left_out),
		TREE_TEST(limits_hold_before_anything_is_written),
	};

	umask(022);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
