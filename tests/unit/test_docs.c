/*
 * The documentation: marks and their values, and that what each page shows in the repository is
 * what the defaults give. With SKERRY_DOCS=docs it writes the pages there anew.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/docs_fill.h"
#include "api/ops.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "docs/docs.h"

static struct core_limits limits;

static int set_up(void **state)
{
	core_limits_init(&limits);
	return 0;
}

static void assert_fills(const char *text, enum docs_form form, const char *wanted)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(docs_fill(text, strlen(text), &limits, form, &out, &err), 0);
	assert_string_equal(buf_str(&out), wanted);
}

static void assert_refuses(const char *text, const char *reason)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(docs_fill(text, strlen(text), &limits, DOCS_SERVED, &out, &err), -EINVAL);
	assert_non_null(strstr(err.message, reason));
}

static void limits_in_units(void **state)
{
	static const struct {
		const char *name, *value, *shown;
	} cases[] = {
		{ "timeout_minutes_default", "15", "15 min" },
		{ "timeout_minutes_max", "1440", "24 h" },
		{ "timeout_minutes_max", "90", "90 min" },
		{ "exec_timeout_ms_default", "120000", "2 min" },
		{ "exec_timeout_ms_default", "1500", "1500 ms" },
		{ "mcp_exec_wait_ms", "0", "0 ms" },
		{ "output_bytes_rest", "1048576", "1 MiB" },
		{ "output_bytes_rest", "1500", "1500 bytes" },
		{ "memory_mb_max", "16384", "16 GiB" },
		{ "vcpus_min_milli", "250", "0.25" },
		{ "tombstone_days", "1", "1 day" },
		{ "key_overlap_seconds_max", "604800", "7 days" },
		{ "idempotency_hours", "24", "24 h" },
		{ "requests_per_second", "50", "50" },
		{ "default_size", "tiny", "tiny" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf mark = BUF_INIT, wanted = BUF_INIT;

		assert_int_equal(core_limits_set(&limits, cases[i].name, cases[i].value, NULL), 0);
		buf_printf(&mark, "at <!-- limit:%s -->?<!-- / -->.", cases[i].name);
		buf_printf(&wanted, "at %s.", cases[i].shown);
		assert_fills(buf_str(&mark), DOCS_SERVED, buf_str(&wanted));
		buf_reset(&wanted);
		buf_printf(&wanted, "at <!-- limit:%s -->%s<!-- / -->.", cases[i].name,
			   cases[i].shown);
		assert_fills(buf_str(&mark), DOCS_SOURCE, buf_str(&wanted));
	}
}

static void comments_are_for_writers(void **state)
{
	const char *text =
		"a\n<!-- not run:\nsystemd -->\n```sh\n<!-- b -->\n```\nc <!-- d --> e\n";

	assert_fills(text, DOCS_SOURCE, text);
	assert_fills(text, DOCS_SERVED, "a\n```sh\n<!-- b -->\n```\nc  e\n");
}

static void tables_are_of_this_server(void **state)
{
	const char *text = "a\n\n<!-- table:sizes -->\nold\n<!-- / -->\n\nb\n";
	_cleanup_buf_ struct buf served = BUF_INIT, source = BUF_INIT, again = BUF_INIT;

	assert_int_equal(core_limits_set(&limits, "size.huge", "8 16384 60", NULL), 0);
	assert_int_equal(docs_fill(text, strlen(text), &limits, DOCS_SERVED, &served, NULL), 0);
	assert_non_null(strstr(buf_str(&served), "a\n\n| size |"));
	assert_non_null(strstr(buf_str(&served), "| `huge` | 8 | 16 GiB | 60 GiB |\n\nb\n"));
	assert_int_equal(docs_fill(text, strlen(text), &limits, DOCS_SOURCE, &source, NULL), 0);
	assert_int_equal(docs_fill(source.data, source.len, &limits, DOCS_SOURCE, &again, NULL), 0);
	assert_string_equal(buf_str(&source), buf_str(&again));
}

static void marks_that_are_none(void **state)
{
	assert_refuses("<!-- limit:no_such -->1<!-- / -->", "no limit 'no_such'");
	assert_refuses("<!-- table:no_such -->\n<!-- / -->", "no table 'no_such'");
	assert_refuses("<!-- limit:labels_max -->1", "not closed");
	assert_refuses("1<!-- / -->", "closes no mark");
	assert_refuses("<!-- never closed", "not closed");
}

/* A page is what it would be if it were filled in now; or it is made so, see above. */
static void pages_show_the_defaults(void **state)
{
	const char *folder = getenv("SKERRY_DOCS");

	for (size_t i = 0; i < n_docs_pages; i++) {
		const struct docs_page *page = &docs_pages[i];
		_cleanup_buf_ struct buf out = BUF_INIT, path = BUF_INIT;
		_cleanup_close_ int fd = -1;
		struct err err = ERR_INIT;

		if (docs_fill(page->text, page->len, &limits, DOCS_SOURCE, &out, &err) < 0)
			fail_msg("%s: %s", page->name, err.message);
		if (folder) {
			buf_printf(&path, "%s/%s", folder, page->name);
			fd = open(buf_str(&path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
			assert_true(fd >= 0);
			assert_int_equal(write(fd, out.data, out.len), out.len);
		} else if (out.len != page->len || memcmp(out.data, page->text, out.len) != 0) {
			fail_msg("docs/%s shows other than the defaults: SKERRY_DOCS=docs %s",
				 page->name, "BUILD/tests/unit/test_docs writes it anew");
		}
	}
}

static const struct docs_page *page_of(const char *name)
{
	for (size_t i = 0; i < n_docs_pages; i++) {
		if (str_eq(docs_pages[i].name, name))
			return &docs_pages[i];
	}
	fail_msg("there is no page %s", name);
	return NULL;
}

static bool says(const struct docs_page *page, const char *text)
{
	return memmem(page->text, page->len, text, strlen(text)) != NULL;
}

static void every_limit_is_on_its_page(void **state)
{
	const struct docs_page *page = page_of("limits.md");
	_cleanup_json_ json_t *values = core_limits_json(&limits);
	const char *name;
	json_t *value;

	json_object_foreach(values, name, value) {
		_cleanup_buf_ struct buf mark = BUF_INIT;

		if (json_is_array(value)) /* the sizes, which are a table */
			continue;
		buf_printf(&mark, "| `%s` | <!-- limit:%s -->", name, name);
		if (!says(page, buf_str(&mark)))
			fail_msg("docs/limits.md has no line '%s'", buf_str(&mark));
	}
}

static void every_operation_is_in_the_reference(void **state)
{
	_cleanup_buf_ struct buf reference = BUF_INIT;
	size_t n;
	const struct op *ops = ops_all(&n);

	docs_reference(&limits, &reference);
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf heading = BUF_INIT;

		if (!ops[i].rest_method)
			continue;
		buf_printf(&heading, "\n### `%s %s`\n", ops[i].rest_method, ops[i].rest_path);
		assert_non_null(strstr(buf_str(&reference), buf_str(&heading)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(limits_in_units, set_up),
		cmocka_unit_test_setup(comments_are_for_writers, set_up),
		cmocka_unit_test_setup(tables_are_of_this_server, set_up),
		cmocka_unit_test_setup(marks_that_are_none, set_up),
		cmocka_unit_test_setup(pages_show_the_defaults, set_up),
		cmocka_unit_test_setup(every_limit_is_on_its_page, set_up),
		cmocka_unit_test_setup(every_operation_is_in_the_reference, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
