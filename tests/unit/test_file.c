/* Requests, records and errors of file operations: there and back, and what is refused. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "proto/file.h"

static const struct file_request full_request = {
	.op = FILE_MOVE,
	.flags = FILE_PARENTS | FILE_OVERWRITE,
	.mode = 0755,
	.limit = 7,
	.length = 1 << 20,
	.max = 1u << 30,
	.range = { FILE_RANGE_SPAN, 3, 9 },
	.path = "a b/\n",
	.to = "/tmp/ü",
	.after = "x",
	.if_range = "\"1-2-3\"",
};

static int reparse(const struct file_request *request, struct buf *storage,
		   struct file_request *ret)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	file_request_put(&out, request);
	return file_request_parse(out.data, out.len, storage, ret);
}

static void request_there_and_back(void **state)
{
	_cleanup_buf_ struct buf storage = BUF_INIT;
	struct file_request r;

	assert_int_equal(reparse(&full_request, &storage, &r), 0);
	assert_int_equal(r.op, FILE_MOVE);
	assert_int_equal(r.flags, full_request.flags);
	assert_int_equal(r.mode, 0755);
	assert_int_equal(r.length, 1 << 20);
	assert_int_equal(r.range.last, 9);
	assert_string_equal(r.path, "a b/\n");
	assert_string_equal(r.to, "/tmp/ü");
	assert_string_equal(r.after, "x");
	assert_string_equal(r.if_range, "\"1-2-3\"");
}

static void requests_without_sense(void **state)
{
	struct file_request rows[9];
	char long_path[FILE_PATH_MAX + 2];

	memset(long_path, 'a', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		rows[i] = full_request;
	rows[0].op = (enum file_op)0;
	rows[1].op = FILE_UNPACK + 1;
	rows[2].flags = FILE_FLAGS_ALL + 1;
	rows[3].mode = 010000;
	rows[4].limit = FILE_LIST_MAX + 1;
	rows[5].path = "";
	rows[6].to = "";
	rows[7].path = long_path;
	rows[8].range.first = 10;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf storage = BUF_INIT;
		struct file_request r;

		if (reparse(&rows[i], &storage, &r) != -EBADMSG)
			fail_msg("row %zu was accepted", i);
	}
}

/* Every prefix of what is right is wrong, and so is anything behind it. */
static void requests_that_are_cut(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct file_request r;

	file_request_put(&out, &full_request);
	for (size_t len = 0; len < out.len; len++) {
		_cleanup_buf_ struct buf storage = BUF_INIT;

		assert_int_equal(file_request_parse(out.data, len, &storage, &r), -EBADMSG);
	}
	buf_append_char(&out, 'x');
	{
		_cleanup_buf_ struct buf storage = BUF_INIT;

		assert_int_equal(file_request_parse(out.data, out.len, &storage, &r), -EBADMSG);
	}
}

static struct file_record entry_record(void)
{
	return (struct file_record){
		.kind = FILE_RECORD_ENTRY,
		.entry = { .type = FILE_SYMLINK,
			   .mode = 0777,
			   .uid = 1000,
			   .gid = 5,
			   .size = 12,
			   .inode = 99,
			   .mtime_ns = -5,
			   .user = { "sandbox", 7 },
			   .name = { "a\nb", 3 },
			   .target = { "../x", 4 } },
	};
}

static void records_there_and_back(void **state)
{
	const struct file_record unpacked = { .kind = FILE_RECORD_UNPACKED,
					      .unpacked = { 3, 4000 } };
	const struct file_record ready = { .kind = FILE_RECORD_READY, .replaces = true };
	const struct file_record entry = entry_record();
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct file_record r;
	ssize_t n;

	file_record_put(&out, &entry);
	file_record_put(&out, &unpacked);
	file_record_put(&out, &ready);
	n = file_record_parse(out.data, out.len, &r);
	assert_true(n > 0);
	assert_int_equal(r.entry.type, FILE_SYMLINK);
	assert_int_equal(r.entry.mtime_ns, -5);
	assert_memory_equal(r.entry.name.data, "a\nb", 3);
	assert_memory_equal(r.entry.target.data, "../x", 4);
	for (size_t len = 0; len < (size_t)n; len++)
		assert_int_equal(file_record_parse(out.data, len, &r), 0);
	buf_drop_front(&out, (size_t)n);
	n = file_record_parse(out.data, out.len, &r);
	assert_int_equal(r.kind, FILE_RECORD_UNPACKED);
	assert_int_equal(r.unpacked.bytes, 4000);
	buf_drop_front(&out, (size_t)n);
	n = file_record_parse(out.data, out.len, &r);
	assert_int_equal(n, out.len);
	assert_true(r.replaces);
}

static void assert_refused(const struct file_record *record)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct file_record r;

	file_record_put(&out, record);
	assert_int_equal(file_record_parse(out.data, out.len, &r), -EBADMSG);
}

static void records_of_a_hostile_guest(void **state)
{
	static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0x7f, 1 };
	struct file_record r = entry_record();

	r.entry.name = (struct frame_slice){ "a/b", 3 };
	assert_refused(&r);
	r = entry_record();
	r.entry.name = (struct frame_slice){ "a\0b", 3 };
	assert_refused(&r);
	r = entry_record();
	r.entry.type = (enum file_type)3;
	assert_refused(&r);
	r = entry_record();
	r.entry.mode = 0100644;
	assert_refused(&r);
	r = entry_record();
	r.entry.size = (uint64_t)INT64_MAX + 1;
	assert_refused(&r);
	r = (struct file_record){ .kind = (enum file_record_kind)9 };
	assert_refused(&r);
	assert_int_equal(file_record_parse(huge, sizeof(huge), &r), -EBADMSG);
}

static void errors(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT, unknown = BUF_INIT;
	struct frame_slice message;
	enum file_error code;

	file_error_put(&out, FILE_E_DISK_FULL, "no room");
	assert_int_equal(file_error_parse(out.data, out.len, &code, &message), 0);
	assert_int_equal(code, FILE_E_DISK_FULL);
	assert_memory_equal(message.data, "no room", 7);
	assert_true(out.len < FILE_ERROR_MAX);
	assert_int_equal(file_error_parse(out.data, out.len - 1, &code, &message), -EBADMSG);
	file_error_put(&unknown, (enum file_error)(FILE_ERROR_LAST + 1), "");
	assert_int_equal(file_error_parse(unknown.data, unknown.len, &code, &message), -EBADMSG);
}

static void ranges(void **state)
{
	static const struct {
		struct file_range range;
		uint64_t size, first, len; /* len 0: cannot be */
	} rows[] = {
		{ { FILE_RANGE_NONE, 0, 0 }, 10, 0, 10 },
		{ { FILE_RANGE_SPAN, 0, 0 }, 10, 0, 1 },
		{ { FILE_RANGE_SPAN, 3, 99 }, 10, 3, 7 },
		{ { FILE_RANGE_SPAN, 10, 12 }, 10, 0, 0 },
		{ { FILE_RANGE_FROM, 9, 0 }, 10, 9, 1 },
		{ { FILE_RANGE_FROM, 10, 0 }, 10, 0, 0 },
		{ { FILE_RANGE_FROM, 0, 0 }, 0, 0, 0 },
		{ { FILE_RANGE_SUFFIX, 4, 0 }, 10, 6, 4 },
		{ { FILE_RANGE_SUFFIX, 40, 0 }, 10, 0, 10 },
		{ { FILE_RANGE_SUFFIX, 0, 0 }, 10, 0, 0 },
		{ { FILE_RANGE_SUFFIX, 1, 0 }, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t first = 0, len = 0;
		bool can = file_range_resolve(&rows[i].range, rows[i].size, &first, &len);

		if (can != (rows[i].len > 0) ||
		    (can && (first != rows[i].first || len != rows[i].len)))
			fail_msg("row %zu: %d %llu+%llu", i, can, (unsigned long long)first,
				 (unsigned long long)len);
	}
}

static void etags_differ(void **state)
{
	char a[FILE_ETAG_SIZE], b[FILE_ETAG_SIZE];

	file_etag(1, 2, 3, a);
	file_etag(1, 2, 4, b);
	assert_string_not_equal(a, b);
	file_etag(UINT64_MAX, UINT64_MAX, INT64_MIN, a);
	assert_true(strlen(a) < FILE_ETAG_SIZE - 1 && a[0] == '"' && a[strlen(a) - 1] == '"');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_there_and_back),
		cmocka_unit_test(requests_without_sense),
		cmocka_unit_test(requests_that_are_cut),
		cmocka_unit_test(records_there_and_back),
		cmocka_unit_test(records_of_a_hostile_guest),
		cmocka_unit_test(errors),
		cmocka_unit_test(ranges),
		cmocka_unit_test(etags_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
