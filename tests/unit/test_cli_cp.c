/* The ends of `skerry cp` as people write them. */
#include "unit.h"

#include <string.h>

#include "base/str.h"
#include "cli/cp_names.h"

static void ends(void **state)
{
	static const struct {
		const char *text, *sandbox, *path;
	} rows[] = {
		{ "build:a", "build", "a" }, { "sbx_00:/etc/passwd", "sbx_00", "/etc/passwd" },
		{ "build:", "build", "" },   { "build:a:b", "build", "a:b" },
		{ "./a:b", NULL, "./a:b" },  { "/a:b", NULL, "/a:b" },
		{ ":a", NULL, ":a" },	     { "a", NULL, "a" },
		{ "-", NULL, "-" },	     { "", NULL, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cp_end end;

		cp_end_parse(rows[i].text, &end);
		if (!str_eq(end.sandbox, rows[i].sandbox) || !str_eq(end.path, rows[i].path))
			fail_msg("%s: %s %s", rows[i].text, end.sandbox, end.path);
		cp_end_clear(&end);
	}
}

static int check(const char *from, const char *to, struct err *err)
{
	struct cp_end a, b;
	int r;

	cp_end_parse(from, &a);
	cp_end_parse(to, &b);
	*err = ERR_INIT;
	r = cp_ends_check(&a, &b, err);
	cp_end_clear(&a);
	cp_end_clear(&b);
	return r;
}

static void one_end_is_a_sandbox(void **state)
{
	struct err err;

	assert_int_equal(check("a", "s:b", &err), 0);
	assert_int_equal(check("s:b", "a", &err), 0);
	assert_int_equal(check("s:", "a", &err), 0);
	assert_true(check("a", "b", &err) < 0);
	assert_string_equal(err.code, "usage");
	assert_non_null(strstr(err.hint, "SANDBOX:PATH"));
	assert_true(check("s:a", "s:b", &err) < 0);
	assert_non_null(strstr(err.hint, "pipe"));
}

static void base_names(void **state)
{
	static const struct {
		const char *path, *name;
	} rows[] = {
		{ "a", "a" },  { "a/b", "b" },	 { "/a/b//", "b" }, { "/", "" },
		{ "", "" },    { ".", "" },	 { "..", "" },	    { "a/..", "" },
		{ "a/.", "" }, { "...", "..." }, { "a/.b", ".b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf name = BUF_INIT;

		cp_base_name(rows[i].path, &name);
		assert_string_equal(buf_str(&name), rows[i].name);
	}
}

static void joins(void **state)
{
	_cleanup_buf_ struct buf a = BUF_INIT, b = BUF_INIT, c = BUF_INIT;

	cp_join("d", "f", &a);
	cp_join("d/", "f", &b);
	cp_join("", "f", &c);
	assert_string_equal(buf_str(&a), "d/f");
	assert_string_equal(buf_str(&b), "d/f");
	assert_string_equal(buf_str(&c), "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends),
		cmocka_unit_test(one_end_is_a_sandbox),
		cmocka_unit_test(base_names),
		cmocka_unit_test(joins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
