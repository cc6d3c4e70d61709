/*
 * File operations as the guest runs them, in a scratch directory of this machine: what they do,
 * what they answer with, and what they leave when they fail.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/str.h"
#include "guest/files.h"

#define ANSWER_MAX (4u << 20)
#define PATHS	   64

static char dir[SCRATCH_SIZE];

static int set_up(void **state)
{
	scratch_make(dir);
	return 0;
}

static int tear_down(void **state)
{
	scratch_remove(dir);
	return 0;
}

/* Below the scratch directory; valid for the next PATHS calls. */
static const char *at(const char *name)
{
	static char paths[PATHS][SCRATCH_SIZE + 300];
	static int turn;
	char *path = paths[turn++ % PATHS];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

struct outcome {
	int exit_code;
	struct buf out;
	enum file_error error; /* 0: none */
	char message[FILE_MESSAGE_MAX + 1];
};

static void outcome_clear(struct outcome *o)
{
	buf_clear(&o->out);
}

#define _cleanup_outcome_ _cleanup_(outcome_clear)

static void read_back(const char *path, struct buf *out)
{
	assert_int_equal(file_read(path, ANSWER_MAX, out), 0);
}

/* As the child of the agent does it; input and outputs are files, so that nothing waits. */
static void run_with(const struct file_request *request, const void *input, size_t len,
		     struct outcome *ret)
{
	static const char passwd[] = "root:x:0:0::/root:/bin/sh\nme:x:4242:1::/:/bin/sh\n";
	char in[SCRATCH_SIZE], out[SCRATCH_SIZE + 8], err[SCRATCH_SIZE + 8];
	_cleanup_buf_ struct buf encoded = BUF_INIT, storage = BUF_INIT, errors = BUF_INIT;
	struct file_request parsed;
	struct files_io io = { .passwd = passwd, .passwd_len = strlen(passwd), .group = "" };
	struct frame_slice message;

	scratch_make(in);
	snprintf(out, sizeof(out), "%s.out", in);
	snprintf(err, sizeof(err), "%s.err", in);
	assert_int_equal(rmdir(in), 0);
	assert_int_equal(file_write_durable(in, input, len, 0600), 0);
	io.in = open(in, O_RDONLY | O_CLOEXEC);
	io.out = open(out, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	io.err = open(err, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	*ret = (struct outcome){ 0 };
	file_request_put(&encoded, request);
	assert_int_equal(file_request_parse(encoded.data, encoded.len, &storage, &parsed), 0);
	ret->exit_code = files_run(&parsed, &io);
	close(io.in);
	close(io.out);
	close(io.err);
	read_back(out, &ret->out);
	read_back(err, &errors);
	if (errors.len > 0) {
		assert_int_equal(file_error_parse(errors.data, errors.len, &ret->error, &message),
				 0);
		snprintf(ret->message, sizeof(ret->message), "%.*s", (int)message.len,
			 message.data);
	}
	assert_int_equal(ret->exit_code != 0, errors.len > 0);
	unlink(in);
	unlink(out);
	unlink(err);
}

static struct file_request request_for(enum file_op op, const char *path)
{
	return (struct file_request){
		.op = op,
		.flags = op == FILE_WRITE ? FILE_OVERWRITE : 0,
		.mode = FILE_MODE_KEEP,
		.limit = 100,
		.length = FILE_LENGTH_UNKNOWN,
		.max = 1 << 20,
		.path = path,
		.to = "",
		.after = "",
		.if_range = "",
	};
}

static void must(const struct file_request *request, const char *input)
{
	_cleanup_outcome_ struct outcome o;

	run_with(request, input, strlen(input), &o);
	if (o.exit_code != 0)
		fail_msg("failed with %d: %s", o.error, o.message);
}

static void must_fail(const struct file_request *request, const char *input, enum file_error error)
{
	_cleanup_outcome_ struct outcome o;

	run_with(request, input, strlen(input), &o);
	if (o.error != error)
		fail_msg("wanted error %d, got %d: %s", error, o.error, o.message);
}

static void write_file(const char *path, const char *content)
{
	struct file_request r = request_for(FILE_WRITE, path);

	must(&r, content);
}

static void assert_content(const char *path, const char *content)
{
	_cleanup_buf_ struct buf got = BUF_INIT;

	read_back(path, &got);
	assert_string_equal(buf_str(&got), content);
}

/* The record at the start of the answer, which is dropped from it. */
static void take_record(struct outcome *o, struct file_record *ret)
{
	ssize_t n = file_record_parse(o->out.data, o->out.len, ret);

	assert_true(n > 0);
}

static size_t count_entries(const char *path)
{
	_cleanup_outcome_ struct outcome o;
	struct file_request r = request_for(FILE_LIST, path);
	size_t n = 0, used = 0;

	run_with(&r, "", 0, &o);
	while (used < o.out.len) {
		struct file_record record;
		ssize_t len = file_record_parse(o.out.data + used, o.out.len - used, &record);

		assert_true(len > 0);
		used += (size_t)len;
		n += record.kind == FILE_RECORD_ENTRY;
	}
	return n;
}

/* ---- writing ---- */

static void write_makes_and_replaces(void **state)
{
	struct file_request r = request_for(FILE_WRITE, at("new"));
	struct file_record record;
	struct stat st;

	{
		_cleanup_outcome_ struct outcome o;

		run_with(&r, "a\0b", 3, &o);
		take_record(&o, &record);
		assert_int_equal(record.kind, FILE_RECORD_READY);
		assert_false(record.replaces);
	}
	assert_int_equal(stat(at("new"), &st), 0);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(chmod(at("new"), 0751), 0);
	write_file(at("new"), "second");
	assert_content(at("new"), "second");
	assert_int_equal(stat(at("new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0751);
	r.mode = 0600;
	must(&r, "");
	assert_int_equal(stat(at("new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(count_entries(dir), 1); /* nothing is left aside */
}

static void write_that_fails_leaves_the_old_file(void **state)
{
	struct file_request r = request_for(FILE_WRITE, at("old"));

	write_file(at("old"), "as it was");
	r.length = 5;
	must_fail(&r, "four", FILE_E_SHORT);
	must_fail(&r, "sixsix", FILE_E_SHORT);
	r.length = FILE_LENGTH_UNKNOWN;
	r.max = 3;
	must_fail(&r, "four", FILE_E_TOO_LARGE);
	r.length = 4;
	must_fail(&r, "four", FILE_E_TOO_LARGE);
	r = request_for(FILE_WRITE, at("old"));
	r.flags = 0;
	must_fail(&r, "x", FILE_E_EXISTS);
	assert_content(at("old"), "as it was");
	assert_int_equal(count_entries(dir), 1);
}

/* Room is taken before a byte has come. */
static void write_to_a_full_disk(void **state)
{
	struct file_request r = request_for(FILE_WRITE, at("huge"));

	r.length = (uint64_t)1 << 60;
	r.max = (uint64_t)1 << 61;
	{
		_cleanup_outcome_ struct outcome o;

		run_with(&r, "x", 1, &o);
		/* A file system has a largest size too. */
		assert_true(o.error == FILE_E_DISK_FULL || o.error == FILE_E_TOO_LARGE);
		assert_int_equal(o.out.len, 0);
	}
	assert_int_equal(count_entries(dir), 0);
}

static void write_where_it_cannot_be(void **state)
{
	struct file_request r = request_for(FILE_WRITE, at("no/such/file"));

	must_fail(&r, "x", FILE_E_NOT_FOUND);
	r.flags |= FILE_PARENTS;
	must(&r, "x");
	assert_content(at("no/such/file"), "x");
	r = request_for(FILE_WRITE, at("no"));
	must_fail(&r, "x", FILE_E_IS_DIRECTORY);
	r = request_for(FILE_WRITE, at("no/such/"));
	must_fail(&r, "x", FILE_E_IS_DIRECTORY);
	r = request_for(FILE_WRITE, at("no/such/file/below"));
	must_fail(&r, "x", FILE_E_NOT_DIRECTORY);
	assert_int_equal(mkfifo(at("fifo"), 0600), 0);
	r = request_for(FILE_WRITE, at("fifo"));
	must_fail(&r, "x", FILE_E_NOT_REGULAR);
}

static void write_goes_through_links(void **state)
{
	struct file_request r = request_for(FILE_WRITE, at("loop"));
	struct stat st;

	write_file(at("target"), "old");
	assert_int_equal(symlink("target", at("link")), 0);
	write_file(at("link"), "new");
	assert_content(at("target"), "new");
	assert_int_equal(lstat(at("link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(symlink("later", at("dangling")), 0);
	write_file(at("dangling"), "made");
	assert_content(at("later"), "made");
	assert_int_equal(symlink("loop", at("loop")), 0);
	must_fail(&r, "x", FILE_E_INVALID_PATH);
}

static void odd_names(void **state)
{
	static const char *const names[] = { "a b", "ü\n\"", "\xff\xfe", "-rf", ".hidden", "%41" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		write_file(at(names[i]), names[i]);
		assert_content(at(names[i]), names[i]);
	}
	assert_int_equal(count_entries(dir), ARRAY_SIZE(names));
}

/* ---- reading ---- */

static void assert_reads(const struct file_request *r, const char *content)
{
	_cleanup_outcome_ struct outcome o;
	struct file_record record;
	ssize_t n;

	run_with(r, "", 0, &o);
	n = file_record_parse(o.out.data, o.out.len, &record);
	assert_true(n > 0);
	assert_int_equal(record.kind, FILE_RECORD_ENTRY);
	buf_drop_front(&o.out, (size_t)n);
	assert_string_equal(buf_str(&o.out), content);
}

static void read_whole_and_in_part(void **state)
{
	struct file_request r;

	write_file(at("f"), "0123456789");
	r = request_for(FILE_READ, at("f"));
	assert_reads(&r, "0123456789");
	r.range = (struct file_range){ FILE_RANGE_SPAN, 2, 4 };
	assert_reads(&r, "234");
	r.if_range = "\"another\"";
	assert_reads(&r, "0123456789");
	r.if_range = "";
	r.range = (struct file_range){ FILE_RANGE_SUFFIX, 2, 0 };
	assert_reads(&r, "89");
	r.range = (struct file_range){ FILE_RANGE_FROM, 10, 0 };
	assert_reads(&r, "");
	r = request_for(FILE_READ, at("f"));
	r.flags = FILE_HEAD_ONLY;
	assert_reads(&r, "");
}

static void read_of_the_kernel(void **state)
{
	struct file_request r = request_for(FILE_READ, "/proc/self/limits");
	_cleanup_outcome_ struct outcome o;
	struct file_record record;

	run_with(&r, "", 0, &o);
	take_record(&o, &record);
	assert_true(record.entry.size == FILE_LENGTH_UNKNOWN);
	assert_non_null(memmem(o.out.data, o.out.len, "Max open files", 14));
}

static void read_what_is_no_file(void **state)
{
	struct file_request r = request_for(FILE_READ, dir);

	must_fail(&r, "", FILE_E_IS_DIRECTORY);
	r.path = at("absent");
	must_fail(&r, "", FILE_E_NOT_FOUND);
	r.path = "/dev/null";
	must_fail(&r, "", FILE_E_NOT_REGULAR);
	assert_int_equal(mkfifo(at("fifo"), 0600), 0);
	r.path = at("fifo");
	must_fail(&r, "", FILE_E_NOT_REGULAR); /* and does not wait for a writer */
}

/* ---- directories ---- */

static void list_in_pages(void **state)
{
	struct file_request r = request_for(FILE_LIST, dir);
	char name[16], last[16] = "";
	size_t seen = 0;
	bool more = true;

	for (int i = 0; i < 25; i++) {
		snprintf(name, sizeof(name), "n%02d", (i * 7) % 25);
		write_file(at(name), "");
	}
	r.limit = 10;
	for (int page = 0; more && page < 4; page++) {
		_cleanup_outcome_ struct outcome o;

		r.after = last;
		run_with(&r, "", 0, &o);
		more = false;
		while (o.out.len > 0) {
			struct file_record record;
			ssize_t n = file_record_parse(o.out.data, o.out.len, &record);

			assert_true(n > 0);
			more |= record.kind == FILE_RECORD_MORE;
			if (record.kind == FILE_RECORD_ENTRY) {
				snprintf(name, sizeof(name), "n%02zu", seen++);
				assert_memory_equal(record.entry.name.data, name, 3);
				str_copy(last, sizeof(last), name);
			}
			buf_drop_front(&o.out, (size_t)n);
		}
	}
	assert_int_equal(seen, 25);
	r = request_for(FILE_LIST, at("n00"));
	must_fail(&r, "", FILE_E_NOT_DIRECTORY);
}

static void directories(void **state)
{
	struct file_request r = request_for(FILE_MKDIR, at("a/b/"));
	struct stat st;

	must_fail(&r, "", FILE_E_NOT_FOUND);
	r.flags = FILE_PARENTS;
	r.mode = 0700;
	must(&r, "");
	must(&r, ""); /* fine when it is there */
	assert_int_equal(stat(at("a/b"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	r.flags = 0;
	must_fail(&r, "", FILE_E_EXISTS);
	write_file(at("a/b/f"), "x");
	r = request_for(FILE_REMOVE, at("a"));
	must_fail(&r, "", FILE_E_NOT_EMPTY);
	r.flags = FILE_RECURSIVE;
	must(&r, "");
	assert_int_equal(count_entries(dir), 0);
	must_fail(&r, "", FILE_E_NOT_FOUND);
	r.path = "/";
	must_fail(&r, "", FILE_E_INVALID_PATH);
	r.path = "..";
	must_fail(&r, "", FILE_E_INVALID_PATH);
}

static void remove_takes_the_link(void **state)
{
	struct file_request r = request_for(FILE_REMOVE, at("link"));

	r.flags = FILE_RECURSIVE;
	write_file(at("kept"), "x");
	assert_int_equal(symlink(dir, at("link")), 0);
	must(&r, "");
	assert_content(at("kept"), "x");
}

static void moves(void **state)
{
	struct file_request r = request_for(FILE_MOVE, at("a"));

	write_file(at("a"), "a");
	write_file(at("b"), "b");
	r.to = at("b");
	must_fail(&r, "", FILE_E_EXISTS);
	assert_content(at("b"), "b");
	r.flags = FILE_OVERWRITE;
	must(&r, "");
	assert_content(at("b"), "a");
	must_fail(&r, "", FILE_E_NOT_FOUND);
	r = request_for(FILE_MOVE, at("b"));
	r.to = at("deep/er/c");
	must_fail(&r, "", FILE_E_NOT_FOUND);
	r.flags = FILE_PARENTS;
	must(&r, "");
	assert_content(at("deep/er/c"), "a");
	r = request_for(FILE_MOVE, at("deep"));
	r.to = at("deep/er/x");
	must_fail(&r, "", FILE_E_INVALID_PATH);
}

static void stat_tells(void **state)
{
	struct file_request r = request_for(FILE_STAT, at("link"));
	_cleanup_outcome_ struct outcome o;
	struct file_record record;

	assert_int_equal(symlink("nowhere", at("link")), 0);
	run_with(&r, "", 0, &o);
	take_record(&o, &record);
	assert_int_equal(record.entry.type, FILE_SYMLINK);
	assert_memory_equal(record.entry.target.data, "nowhere", 7);
	assert_int_equal(record.entry.uid, geteuid());
}

/* Who may not write to a file may not replace it either. */
static void others_files(void **state)
{
	struct file_request r = request_for(FILE_WRITE, at("readonly"));
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	write_file(at("readonly"), "root's");
	assert_int_equal(chmod(dir, 0777), 0);
	pid = fork();
	if (pid == 0) {
		if (setresgid(4242, 4242, 4242) < 0 || setresuid(4242, 4242, 4242) < 0)
			_exit(9);
		must_fail(&r, "x", FILE_E_DENIED);
		r.path = at("own");
		must(&r, "mine");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_content(at("readonly"), "root's");
	/* root keeps whose a file is. */
	write_file(at("own"), "still theirs");
	{
		struct stat st;

		assert_int_equal(stat(at("own"), &st), 0);
		assert_int_equal(st.st_uid, 4242);
	}
}

#define FILES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILES_TEST(write_makes_and_replaces),
		FILES_TEST(write_that_fails_leaves_the_old_file),
		FILES_TEST(write_to_a_full_disk),
		FILES_TEST(write_where_it_cannot_be),
		FILES_TEST(write_goes_through_links),
		FILES_TEST(odd_names),
		FILES_TEST(read_whole_and_in_part),
		FILES_TEST(read_of_the_kernel),
		FILES_TEST(read_what_is_no_file),
		FILES_TEST(list_in_pages),
		FILES_TEST(directories),
		FILES_TEST(remove_takes_the_link),
		FILES_TEST(moves),
		FILES_TEST(stat_tells),
		FILES_TEST(others_files),
	};

	umask(022);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
