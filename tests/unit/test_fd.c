/* Files, trees, sparse copies and unix sockets. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/alloc.h"

static char scratch[SCRATCH_SIZE];

static int make_scratch(void **state)
{
	scratch_make(scratch);
	return 0;
}

static int drop_scratch(void **state)
{
	scratch_remove(scratch);
	return 0;
}

static char *in_scratch(const char *name)
{
	return xasprintf("%s/%s", scratch, name);
}

static void write_file(const char *path, const void *data, size_t len)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, len), 0);
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2; /* "." and ".." */
}

static void test_read_full_and_write_all(void **state)
{
	int fds[2];
	char out[16];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fd_write_all(fds[1], "abc", 3), 0);
	assert_int_equal(fd_write_all(fds[1], "defg", 4), 0);
	close(fds[1]);
	assert_int_equal(fd_read_full(fds[0], out, 5), 5);
	assert_memory_equal(out, "abcde", 5);
	assert_int_equal(fd_read_full(fds[0], out, sizeof(out)), 2);
	assert_int_equal(fd_read_full(fds[0], out, sizeof(out)), 0);
	assert_int_equal(fd_write_all(fds[0], "x", 1), -EBADF);
	close(fds[0]);
	assert_int_equal(fd_read_full(fds[0], out, 1), -EBADF);
}

static void test_flags(void **state)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(fd_set_nonblock(fds[0], true), 0);
	assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_nonblock(fds[0], false), 0);
	assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(fd_set_cloexec(fds[0], true), 0);
	assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fd_set_cloexec(fds[0], false), 0);
	assert_false(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(fd_set_cloexec(fds[0], true), -EBADF);
	assert_int_equal(fd_set_nonblock(fds[0], true), -EBADF);
}

static void test_file_read_is_capped(void **state)
{
	_cleanup_free_ char *path = in_scratch("f");
	_cleanup_buf_ struct buf out = BUF_INIT;

	write_file(path, "12345", 5);
	buf_append_str(&out, "> ");
	assert_int_equal(file_read(path, 4, &out), -EFBIG);
	assert_string_equal(buf_str(&out), "> ");
	assert_int_equal(file_read(path, 5, &out), 0);
	assert_string_equal(buf_str(&out), "> 12345");
	assert_int_equal(file_read("/proc/self/stat", 4096, &out), 0);
	assert_true(out.len > 7);
	assert_int_equal(file_read("/nonexistent", 10, &out), -ENOENT);
}

static void test_file_read_large(void **state)
{
	_cleanup_free_ char *path = in_scratch("f");
	_cleanup_buf_ struct buf in = BUF_INIT, out = BUF_INIT;

	for (int i = 0; i < 50000; i++)
		buf_printf(&in, "%d\n", i);
	write_file(path, in.data, in.len);
	assert_int_equal(file_read(path, in.len - 1, &out), -EFBIG);
	assert_int_equal(file_read(path, in.len, &out), 0);
	assert_int_equal(out.len, in.len);
	assert_memory_equal(out.data, in.data, in.len);
}

static void test_durable_write_replaces(void **state)
{
	_cleanup_free_ char *path = in_scratch("f");
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct stat st;

	assert_int_equal(file_write_durable(path, "one", 3, 0644), 0);
	assert_int_equal(file_write_durable(path, "second", 6, 0640), 0);
	assert_int_equal(file_read(path, 100, &out), 0);
	assert_string_equal(buf_str(&out), "second");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(count_entries(scratch), 1);
	assert_int_equal(dir_fsync(scratch), 0);
	assert_int_equal(dir_fsync(path), -ENOTDIR);
}

static void test_durable_write_that_fails_leaves_nothing(void **state)
{
	_cleanup_free_ char *dir = in_scratch("d");
	_cleanup_free_ char *inner = in_scratch("d/x");

	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(file_write_durable(dir, "x", 1, 0600), -EISDIR);
	assert_int_equal(count_entries(scratch), 1);
	assert_int_equal(count_entries(dir), 0);
	assert_int_equal(tree_remove(dir), 0);
	assert_int_equal(file_write_durable(inner, "x", 1, 0600), -ENOENT);
}

static void test_dir_make(void **state)
{
	_cleanup_free_ char *deep = in_scratch("a//b/c/");
	_cleanup_free_ char *file = in_scratch("a/f");
	_cleanup_free_ char *under_file = in_scratch("a/f/x");

	assert_int_equal(dir_make(deep, 0700), 0);
	assert_int_equal(dir_make(deep, 0700), 0);
	assert_int_equal(access(deep, X_OK), 0);
	write_file(file, "", 0);
	assert_int_equal(dir_make(file, 0700), -ENOTDIR);
	assert_int_equal(dir_make(under_file, 0700), -ENOTDIR);
	assert_int_equal(dir_make("/", 0700), 0);
	assert_int_equal(dir_make("", 0700), -ENOENT);
}

static void test_tree_remove_does_not_follow_links(void **state)
{
	_cleanup_free_ char *outside = in_scratch("outside");
	_cleanup_free_ char *precious = in_scratch("outside/precious");
	_cleanup_free_ char *tree = in_scratch("tree");
	_cleanup_free_ char *sub = in_scratch("tree/sub/sub");
	_cleanup_free_ char *link_to_dir = in_scratch("tree/sub/link");
	_cleanup_free_ char *link_to_file = in_scratch("tree/file");
	_cleanup_free_ char *top_link = in_scratch("toplink");

	assert_int_equal(dir_make(outside, 0700), 0);
	write_file(precious, "x", 1);
	assert_int_equal(dir_make(sub, 0700), 0);
	assert_int_equal(symlink(outside, link_to_dir), 0);
	assert_int_equal(symlink(precious, link_to_file), 0);
	assert_int_equal(symlink(outside, top_link), 0);

	assert_int_equal(tree_remove(tree), 0);
	assert_int_equal(access(tree, F_OK), -1);
	assert_int_equal(access(precious, F_OK), 0);
	/* A link given as the tree itself: the link goes, its target stays. */
	assert_int_equal(tree_remove(top_link), 0);
	assert_int_equal(access(precious, F_OK), 0);
	assert_int_equal(count_entries(scratch), 1);
}

static void test_tree_remove_edges(void **state)
{
	_cleanup_free_ char *file = in_scratch("file");
	_cleanup_free_ char *none = in_scratch("none/at/all");
	_cleanup_free_ char *dots = in_scratch("..");

	write_file(file, "x", 1);
	assert_int_equal(tree_remove(file), 0);
	assert_int_equal(access(file, F_OK), -1);
	assert_int_equal(tree_remove(file), 0);
	assert_int_equal(tree_remove(none), 0);
	assert_int_equal(tree_remove("/"), -EINVAL);
	assert_int_equal(tree_remove("//"), -EINVAL);
	assert_int_equal(tree_remove(""), -EINVAL);
	assert_int_equal(tree_remove(dots), -EINVAL);
}

/* Deeper than a path may be long (4096), and than what is removed without moving directories up. */
static void test_tree_remove_deep(void **state)
{
	_cleanup_free_ char *tree = in_scratch("deep");
	int fd, next;

	assert_int_equal(mkdir(tree, 0700), 0);
	fd = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 500; i++) {
		assert_int_equal(mkdirat(fd, "directory", 0700), 0);
		assert_int_equal(mkdirat(fd, "sibling", 0700), 0);
		next = openat(fd, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	close(fd);
	assert_int_equal(tree_remove(tree), 0);
	assert_int_equal(access(tree, F_OK), -1);
}

static void test_copy_keeps_holes(void **state)
{
	_cleanup_free_ char *src = in_scratch("src");
	_cleanup_free_ char *dst = in_scratch("dst");
	const off_t size = 64 << 20;
	_cleanup_close_ int fd = -1;
	struct stat st;
	char word[8];

	fd = open(src, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "begin", 5, 0), 5);
	assert_int_equal(pwrite(fd, "middle", 6, 20 << 20), 6);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(fsync(fd), 0);
	assert_int_equal(file_copy_sparse(src, dst, 0640), 0);

	assert_int_equal(stat(dst, &st), 0);
	assert_int_equal(st.st_size, size);
	assert_int_equal(st.st_mode & 07777, 0640);
	close(fd);
	fd = open(dst, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fsync(fd), 0);
	assert_in_range(file_allocated_bytes(dst), 1, 1 << 20);
	assert_int_equal(pread(fd, word, 5, 0), 5);
	assert_memory_equal(word, "begin", 5);
	assert_int_equal(pread(fd, word, 8, 20 << 20), 8);
	assert_memory_equal(word, "middle\0\0", 8);
	assert_int_equal(file_copy_sparse(src, dst, 0600), -EEXIST);
}

static void test_copy_edges(void **state)
{
	_cleanup_free_ char *src = in_scratch("src");
	_cleanup_free_ char *dst = in_scratch("dst");
	_cleanup_free_ char *shm = xasprintf("/dev/shm/skerry-unit-copy-%d", (int)getpid());
	_cleanup_buf_ struct buf in = BUF_INIT, out = BUF_INIT;

	assert_int_equal(file_copy_sparse(src, dst, 0600), -ENOENT);
	assert_int_equal(file_copy_sparse(scratch, dst, 0600), -EINVAL);
	assert_int_equal(access(dst, F_OK), -1);
	write_file(src, "", 0);
	assert_int_equal(file_copy_sparse(src, dst, 0600), 0);
	assert_int_equal(file_read(dst, 0, &out), 0);
	/* To another file system. */
	for (int i = 0; i < 500000; i++)
		buf_printf(&in, "%d,", i);
	write_file(src, in.data, in.len);
	assert_int_equal(file_copy_sparse(src, shm, 0600), 0);
	assert_int_equal(file_read(shm, in.len, &out), 0);
	unlink(shm);
	assert_int_equal(out.len, in.len);
	assert_memory_equal(out.data, in.data, in.len);
}

static void check_socket(const char *path)
{
	struct stat st;
	int server = unix_listen(path, 0600), client, peer;
	char c;

	assert_true(server >= 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	client = unix_connect(path, false);
	assert_true(client >= 0);
	peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer >= 0);
	assert_int_equal(fd_write_all(client, "x", 1), 0);
	assert_int_equal(fd_read_full(peer, &c, 1), 1);
	assert_int_equal(c, 'x');
	assert_true(fcntl(client, F_GETFD) & FD_CLOEXEC);
	/* Somebody listens: not stale. */
	assert_int_equal(unix_listen(path, 0600), -EADDRINUSE);
	close(client);
	close(peer);
	close(server);
	assert_int_equal(unix_connect(path, false), -ECONNREFUSED);
	/* Nobody listens: replaced. */
	server = unix_listen(path, 0666);
	assert_true(server >= 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	client = unix_connect(path, true);
	assert_true(client >= 0);
	assert_true(fcntl(client, F_GETFL) & O_NONBLOCK);
	close(client);
	close(server);
}

static void test_unix_socket(void **state)
{
	_cleanup_free_ char *path = in_scratch("s");

	check_socket(path);
}

static void test_unix_socket_with_a_long_path(void **state)
{
	char part[101];
	_cleanup_free_ char *dir = NULL;
	_cleanup_free_ char *path = NULL;

	memset(part, 'd', 100);
	part[100] = '\0';
	dir = xasprintf("%s/%s/%s", scratch, part, part);
	path = xasprintf("%s/agent.sock", dir);
	assert_true(strlen(path) > 107);
	assert_int_equal(dir_make(dir, 0700), 0);
	check_socket(path);
}

static void test_unix_socket_refusals(void **state)
{
	_cleanup_free_ char *file = in_scratch("file");
	_cleanup_free_ char *none = in_scratch("none");
	_cleanup_free_ char *long_name = NULL;
	char part[201];

	memset(part, 'n', 200);
	part[200] = '\0';
	long_name = in_scratch(part);
	write_file(file, "data", 4);
	assert_int_equal(unix_listen(file, 0600), -EADDRINUSE);
	assert_int_equal(access(file, F_OK), 0);
	assert_int_equal(unix_connect(none, false), -ENOENT);
	assert_int_equal(unix_connect("", false), -EINVAL);
	assert_int_equal(unix_listen(long_name, 0600), -ENAMETOOLONG);
}

#define scratch_test(fn) cmocka_unit_test_setup_teardown(fn, make_scratch, drop_scratch)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_full_and_write_all),
		cmocka_unit_test(test_flags),
		scratch_test(test_file_read_is_capped),
		scratch_test(test_file_read_large),
		scratch_test(test_durable_write_replaces),
		scratch_test(test_durable_write_that_fails_leaves_nothing),
		scratch_test(test_dir_make),
		scratch_test(test_tree_remove_does_not_follow_links),
		scratch_test(test_tree_remove_edges),
		scratch_test(test_tree_remove_deep),
		scratch_test(test_copy_keeps_holes),
		scratch_test(test_copy_edges),
		scratch_test(test_unix_socket),
		scratch_test(test_unix_socket_with_a_long_path),
		scratch_test(test_unix_socket_refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
