/* The format of archives: what is written is read back, in pieces of any size; what is malformed is
 * refused with a reason; names that lead elsewhere do not pass. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "tar/tar_format.h"

static struct tar_entry entry_of(enum tar_type type, const char *path, const char *link)
{
	struct tar_entry e = { .type = type, .mode = 0644, .uid = 1000, .gid = 1000 };

	buf_append_str(&e.path, path);
	buf_append_str(&e.link, link);
	return e;
}

static void entry_clear(struct tar_entry *e)
{
	buf_clear(&e->path);
	buf_clear(&e->link);
}

/* Reads all of it in pieces and says what there was. Returns 0 or -EBADMSG. */
static int describe(const struct buf *archive, size_t piece, struct buf *out, struct tar_reader *r)
{
	static const char types[] = "fhld?";
	size_t at = 0;

	tar_reader_init(r);
	while (at < archive->len) {
		size_t len = archive->len - at < piece ? archive->len - at : piece, begin = at;
		enum tar_event event = TAR_ENTRY;

		while (event != TAR_NEED_MORE) {
			const char *data;
			size_t data_len;
			ssize_t n = tar_read(r, archive->data + at, begin + len - at, &event, &data,
					     &data_len);

			if (n < 0)
				return (int)n;
			at += (size_t)n;
			if (event == TAR_ENTRY)
				buf_printf(out, "%c %04o %u:%u %llu %lld.%u %s>%s [",
					   types[r->entry.type], r->entry.mode, r->entry.uid,
					   r->entry.gid, (unsigned long long)r->entry.size,
					   (long long)r->entry.mtime_s, r->entry.mtime_ns,
					   buf_str(&r->entry.path), buf_str(&r->entry.link));
			else if (event == TAR_DATA)
				buf_append(out, data, data_len);
			else if (event == TAR_ENTRY_END)
				buf_append_str(out, "]\n");
			else if (event == TAR_END)
				buf_append_str(out, "end\n");
		}
		assert_int_equal(at, begin + len);
	}
	return 0;
}

static void put_file(struct buf *out, struct tar_entry *e, const char *content)
{
	e->size = strlen(content);
	tar_put_header(out, e);
	buf_append_str(out, content);
	tar_put_padding(out, e->size);
	entry_clear(e);
}

static void assert_reads(const struct buf *archive, const char *wanted)
{
	static const size_t pieces[] = { 1, 7, 511, 512, 513, 10240, 1 << 20 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		_cleanup_buf_ struct buf got = BUF_INIT;
		struct tar_reader r;

		assert_int_equal(describe(archive, pieces[i], &got, &r), 0);
		assert_true(tar_may_end(&r));
		assert_string_equal(buf_str(&got), wanted);
		tar_reader_clear(&r);
	}
}

static void there_and_back(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct tar_entry e;

	e = entry_of(TAR_DIRECTORY, "dir/", "");
	e.mode = 01755;
	put_file(&archive, &e, "");
	e = entry_of(TAR_FILE, "dir/file", "");
	e.mtime_s = 1700000000;
	put_file(&archive, &e, "content");
	e = entry_of(TAR_SYMLINK, "link", "../x");
	put_file(&archive, &e, "");
	e = entry_of(TAR_HARD_LINK, "hard", "dir/file");
	put_file(&archive, &e, "");
	tar_put_end(&archive);
	assert_int_equal(archive.len % TAR_BLOCK, 0);
	assert_reads(&archive, "d 1755 1000:1000 0 0.0 dir/> []\n"
			       "f 0644 1000:1000 7 1700000000.0 dir/file> [content]\n"
			       "l 0644 1000:1000 0 0.0 link>../x []\n"
			       "h 0644 1000:1000 0 0.0 hard>dir/file []\n"
			       "end\n");
}

/* What a plain header has no room for. */
static void what_takes_a_pax_header(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT, wanted = BUF_INIT;
	char deep[600] = "", name[256];
	struct tar_entry e;

	for (int i = 0; i < 50; i++)
		str_copy(deep + strlen(deep), sizeof(deep) - strlen(deep), "directory/");
	memset(name, 'n', 255);
	name[255] = '\0';
	e = entry_of(TAR_FILE, deep, "");
	put_file(&archive, &e, "");
	buf_printf(&wanted, "f 0644 1000:1000 0 0.0 %s> []\n", deep);
	e = entry_of(TAR_FILE, name, "");
	put_file(&archive, &e, "x");
	buf_printf(&wanted, "f 0644 1000:1000 1 0.0 %s> [x]\n", name);
	e = entry_of(TAR_SYMLINK, "ü", deep);
	e.uid = 4000000000;
	e.gid = 3000000;
	e.mtime_s = -2;
	e.mtime_ns = 500000000;
	put_file(&archive, &e, "");
	buf_printf(&wanted, "l 0644 4000000000:3000000 0 -2.500000000 ü>%s []\n", deep);
	e = entry_of(TAR_FILE, "new\nline", "");
	e.mtime_s = 99999999999;
	put_file(&archive, &e, "");
	buf_printf(&wanted, "f 0644 1000:1000 0 99999999999.0 new\nline> []\nend\n");
	tar_put_end(&archive);
	assert_reads(&archive, buf_str(&wanted));
}

/* Every length at which a path goes from the name to the prefix, and on into a pax header. */
static void paths_of_every_length(void **state)
{
	for (size_t len = 90; len < 280; len++) {
		_cleanup_buf_ struct buf archive = BUF_INIT, wanted = BUF_INIT;
		char path[300];
		struct tar_entry e;

		for (size_t i = 0; i < len; i++)
			path[i] = i % 40 == 39 ? '/' : 'p';
		path[len] = '\0';
		e = entry_of(TAR_FILE, path, "");
		put_file(&archive, &e, "");
		tar_put_end(&archive);
		buf_printf(&wanted, "f 0644 1000:1000 0 0.0 %s> []\nend\n", path);
		assert_reads(&archive, buf_str(&wanted));
	}
}

static void put_raw(struct buf *archive, const char *name, char type, const char *size,
		    const char *body, size_t body_len)
{
	char block[TAR_BLOCK] = { 0 };
	unsigned int sum = 0;

	snprintf(block, 100, "%s", name);
	memcpy(block + 100, "0000644", 8);
	memcpy(block + 108, "0000000", 8);
	memcpy(block + 116, "0000000", 8);
	memcpy(block + 124, size, 12);
	memcpy(block + 136, "00000000000", 12);
	block[156] = type;
	memcpy(block + 257, "ustar  ", 8);
	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)block[i];
	snprintf(block + 148, 8, "%06o", sum);
	buf_append(archive, block, TAR_BLOCK);
	buf_append(archive, body, body_len);
	tar_put_padding(archive, body_len);
}

static void archives_of_gnu_tar(void **state)
{
	static const char long_name[] = "a/long/name/of/gnu/tar";
	_cleanup_buf_ struct buf archive = BUF_INIT;

	put_raw(&archive, "././@LongLink", 'L', "00000000027", long_name, sizeof(long_name));
	put_raw(&archive, "././@LongLink", 'K', "00000000003", "to", 3);
	put_raw(&archive, "cut", '2', "00000000000", "", 0);
	put_raw(&archive, "old/", '\0', "00000000000", "", 0);
	/* Base 256, as for what is larger than 8 GiB. */
	put_raw(&archive, "big", '0', "\x80\0\0\0\0\0\0\0\0\0\0\3", "abc", 3);
	put_raw(&archive, "device", '3', "00000000000", "", 0);
	tar_put_end(&archive);
	assert_reads(&archive, "l 0644 0:0 0 0.0 a/long/name/of/gnu/tar>to []\n"
			       "d 0644 0:0 0 0.0 old/> []\n"
			       "f 0644 0:0 3 0.0 big> [abc]\n"
			       "? 0644 0:0 0 0.0 device> []\n"
			       "end\n");
}

static void assert_bad(const struct buf *archive, const char *reason)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct tar_reader r;

	assert_int_equal(describe(archive, 100, &out, &r), -EBADMSG);
	if (!strstr(r.reason, reason))
		fail_msg("wanted %s, got %s", reason, r.reason);
	tar_reader_clear(&r);
}

static void pax_of(struct buf *archive, const char *records)
{
	char size[24];

	snprintf(size, sizeof(size), "%011zo", strlen(records));
	put_raw(archive, "pax", 'x', size, records, strlen(records));
}

static void malformed_archives(void **state)
{
	static const char *const pax[] = { "5 a=b\n", "7 a=b\n", "6 a=b ",
					   "6 abc\n", "0 a=b\n", "99999999 a=b\n",
					   "x a=b\n", "6",	 "-6 a=b\n" };
	_cleanup_buf_ struct buf noise = BUF_INIT, huge = BUF_INIT, link = BUF_INIT,
				 size = BUF_INIT, sparse = BUF_INIT, negative = BUF_INIT;

	for (int i = 0; i < 100; i++)
		buf_append_str(&noise, "this is no archive ");
	assert_bad(&noise, "not a tar archive");
	put_raw(&huge, "pax", 'x', "00000200001", "", 0);
	assert_bad(&huge, "larger than 64 KiB");
	put_raw(&link, "link", '1', "00000000001", "x", 1);
	assert_bad(&link, "hard link has data");
	put_raw(&size, "f", '0', "0000000000x", "", 0);
	assert_bad(&size, "no number");
	put_raw(&negative, "f", '0', "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "", 0);
	assert_bad(&negative, "no number");
	pax_of(&sparse, "22 GNU.sparse.major=1\n");
	assert_bad(&sparse, "sparse");
	for (size_t i = 0; i < ARRAY_SIZE(pax); i++) {
		_cleanup_buf_ struct buf archive = BUF_INIT;

		pax_of(&archive, pax[i]);
		assert_bad(&archive, "pax");
	}
}

static void ends(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT;
	struct tar_entry e = entry_of(TAR_FILE, "f", "");

	put_file(&archive, &e, "content");
	tar_put_end(&archive);
	for (size_t len = 0; len <= archive.len; len += 64) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		const struct buf cut = { .data = archive.data, .len = len };
		struct tar_reader r;

		assert_int_equal(describe(&cut, 1000, &out, &r), 0);
		/* One block of zeros is enough, and the least. */
		assert_int_equal(tar_may_end(&r), len == 3 * TAR_BLOCK || len == 4 * TAR_BLOCK);
		tar_reader_clear(&r);
	}
	buf_append_str(&archive, "whatever stands behind the end");
	assert_reads(&archive, "f 0644 1000:1000 7 0.0 f> [content]\nend\n");
}

static void an_error_in_its_place(void **state)
{
	_cleanup_buf_ struct buf archive = BUF_INIT, out = BUF_INIT;
	struct tar_reader r;

	tar_put_error(&archive, "cannot read 'x': why not");
	assert_int_equal(describe(&archive, 300, &out, &r), 0);
	assert_string_equal(buf_str(&r.error), "cannot read 'x': why not");
	assert_false(tar_may_end(&r));
	tar_reader_clear(&r);
}

static void names(void **state)
{
	static const struct {
		const char *path, *clean; /* NULL: refused */
	} rows[] = {
		{ "a", "a" },	{ "./a/./b//c/", "a/b/c" }, { "", "" },	      { ".", "" },
		{ "./", "" },	{ "..a/b..", "..a/b.." },   { "...", "..." }, { "/a", NULL },
		{ "..", NULL }, { "a/../b", NULL },	    { "a/..", NULL }, { "./../a", NULL },
	};
	_cleanup_buf_ struct buf long_part = BUF_INIT, long_path = BUF_INIT, out = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf clean = BUF_INIT;
		int r = tar_path_clean(rows[i].path, strlen(rows[i].path), &clean);

		if (rows[i].clean)
			assert_string_equal(buf_str(&clean), rows[i].clean);
		assert_int_equal(r, rows[i].clean ? 0 : -EBADMSG);
	}
	assert_int_equal(tar_path_clean("a\0b", 3, &out), -EBADMSG);
	for (int i = 0; i < 256; i++)
		buf_append_char(&long_part, 'a');
	assert_int_equal(tar_path_clean(long_part.data, 256, &out), -EBADMSG);
	for (int i = 0; i < 2049; i++)
		buf_append_str(&long_path, "a/");
	assert_int_equal(tar_path_clean(long_path.data, long_path.len, &out), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back),	 cmocka_unit_test(what_takes_a_pax_header),
		cmocka_unit_test(paths_of_every_length), cmocka_unit_test(archives_of_gnu_tar),
		cmocka_unit_test(malformed_archives),	 cmocka_unit_test(ends),
		cmocka_unit_test(an_error_in_its_place), cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
