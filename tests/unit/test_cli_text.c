/* What the command line reads and shows: durations, times, sizes, shell words, tables. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "cli/quote.h"
#include "cli/table.h"
#include "cli/units.h"

static void durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
		int error;
	} cases[] = {
		{ "90s", 90000, 0 },
		{ "15m", 900000, 0 },
		{ "2h", 7200000, 0 },
		{ "1d", 86400000, 0 },
		{ "500ms", 500, 0 },
		{ "1h30m", 5400000, 0 },
		{ "1m1ms", 60001, 0 },
		{ "0s", 0, 0 },
		{ "366d", INT64_C(366) * 86400000, 0 },
		{ "", 0, -EINVAL },
		{ "15", 0, -EINVAL },
		{ "m", 0, -EINVAL },
		{ "-5m", 0, -EINVAL },
		{ "+5m", 0, -EINVAL },
		{ " 5m", 0, -EINVAL },
		{ "5m ", 0, -EINVAL },
		{ "1.5h", 0, -EINVAL },
		{ "5min", 0, -EINVAL },
		{ "30m1h", 0, -EINVAL },
		{ "1h1h", 0, -EINVAL },
		{ "367d", 0, -ERANGE },
		{ "366d1s", 0, -ERANGE },
		{ "99999999999999999999s", 0, -ERANGE },
		{ "999999999999999d", 0, -ERANGE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t ms = -7;

		if (duration_parse(cases[i].text, &ms) != cases[i].error ||
		    ms != (cases[i].error ? -7 : cases[i].ms))
			fail_msg("'%s' gave %lld", cases[i].text, (long long)ms);
	}
}

static void durations_as_text(void **state)
{
	char text[UNITS_TEXT_SIZE];

	(void)state;
	assert_string_equal(duration_text(-5, text), "0.0 s");
	assert_string_equal(duration_text(1234, text), "1.2 s");
	assert_string_equal(duration_text(45000, text), "45 s");
	assert_string_equal(duration_text(899000, text), "14m 59s");
	assert_string_equal(duration_text(7500000, text), "2h 5m");
	assert_string_equal(duration_text(900000, text), "15m");
	assert_string_equal(duration_text(90000000, text), "1d 1h");
	assert_string_equal(duration_short(-1, text), "0s");
	assert_string_equal(duration_short(999, text), "0s");
	assert_string_equal(duration_short(59999, text), "59s");
	assert_string_equal(duration_short(3600000, text), "1h");
	assert_string_equal(duration_short(INT64_C(30) * 86400000, text), "30d");
}

static void times(void **state)
{
	int64_t ms = -7;

	(void)state;
	assert_int_equal(time_parse("1970-01-01T00:00:00Z", &ms), 0);
	assert_int_equal(ms, 0);
	assert_int_equal(time_parse("2026-11-30T04:01:00.123Z", &ms), 0);
	assert_true(ms == INT64_C(1796011260123));
	assert_int_equal(time_parse("2026-11-30T04:01:00.1234567Z", &ms), 0);
	assert_true(ms == INT64_C(1796011260123));
	ms = -7;
	assert_int_equal(time_parse("2026-11-30T04:01:00", &ms), -EINVAL);
	assert_int_equal(time_parse("2026-11-30T04:01:00+02:00", &ms), -EINVAL);
	assert_int_equal(time_parse("yesterday", &ms), -EINVAL);
	assert_int_equal(time_parse("", &ms), -EINVAL);
	assert_int_equal(ms, -7);
}

static void sizes(void **state)
{
	char text[UNITS_TEXT_SIZE];

	(void)state;
	assert_string_equal(bytes_text(0, text), "0 B");
	assert_string_equal(bytes_text(1023, text), "1023 B");
	assert_string_equal(bytes_text(4 << 20, text), "4.0 MiB");
	assert_string_equal(bytes_text(INT64_C(1288490189), text), "1.2 GiB");
}

static void credits(void **state)
{
	char text[UNITS_TEXT_SIZE];

	(void)state;
	assert_string_equal(credits_text(0, text), "0.000000");
	assert_string_equal(credits_text(280, text), "0.000280");
	assert_string_equal(credits_text(-280, text), "-0.000280");
	assert_string_equal(credits_text(INT64_C(1234500000), text), "1234.50");
}

/* ---- shell words ---- */

static void assert_command(const char *const *words, size_t n, const char *expected)
{
	struct buf out = BUF_INIT;

	shell_command(words, n, &out);
	assert_string_equal(buf_str(&out), expected);
	buf_clear(&out);
}

static void words_for_the_shell(void **state)
{
	(void)state;
	assert_command((const char *[]){ "cd /tmp && ls | wc" }, 1, "cd /tmp && ls | wc");
	assert_command((const char *[]){ "ls", "-la", "/tmp/a_b.c" }, 3, "ls -la /tmp/a_b.c");
	assert_command((const char *[]){ "echo", "" }, 2, "echo ''");
	assert_command((const char *[]){ "echo", "a b", "$HOME", "`x`" }, 4,
		       "echo 'a b' '$HOME' '`x`'");
	assert_command((const char *[]){ "echo", "it's", "'" }, 3, "echo 'it'\\''s' ''\\'''");
	assert_command((const char *[]){ "echo", "*", "~", "#", "a=b" }, 5,
		       "echo '*' '~' '#' 'a=b'");
	assert_command((const char *[]){ "printf", "a\nb" }, 2, "printf 'a\nb'");
}

/* A real shell reads back exactly the words. */
static void a_shell_agrees(void **state)
{
	static const char *const words[] = {
		"printf", "%s\\n", "plain", "two words", "it's", "\"q\"",
		"$(x)",	  "*",	   "\\",    "!",	 "é",	 "a\tb",
	};
	_cleanup_buf_ struct buf command = BUF_INIT;
	char line[64];
	FILE *shell;

	(void)state;
	shell_command(words, sizeof(words) / sizeof(words[0]), &command);
	/* NOLINTNEXTLINE(cert-env33-c): a shell is what this is about */
	shell = popen(buf_str(&command), "r");
	assert_non_null(shell);
	for (size_t i = 2; i < sizeof(words) / sizeof(words[0]); i++) {
		assert_non_null(fgets(line, sizeof(line), shell));
		line[strcspn(line, "\n")] = '\0';
		assert_string_equal(line, words[i]);
	}
	assert_null(fgets(line, sizeof(line), shell));
	assert_int_equal(pclose(shell), 0);
}

/* ---- tables ---- */

static const struct table_column columns[] = { { "ID", 0 }, { "NAME", 4 }, { "AGE", 0 } };

static void assert_table(struct table *table, unsigned int width, const char *expected)
{
	struct buf out = BUF_INIT;

	table_write(table, width, &out);
	assert_string_equal(buf_str(&out), expected);
	buf_clear(&out);
}

static void tables(void **state)
{
	struct table table;

	(void)state;
	table_init(&table, columns, 3);
	assert_table(&table, 0, "ID  NAME  AGE\n");
	table_add(&table, "sbx_1");
	table_add(&table, "a-long-name");
	table_add(&table, "5m");
	table_add(&table, "sbx_22");
	table_add(&table, NULL);
	table_add(&table, "");
	assert_table(&table, 0,
		     "ID      NAME         AGE\n"
		     "sbx_1   a-long-name  5m\n"
		     "sbx_22  -            -\n");
	assert_table(&table, 24,
		     "ID      NAME         AGE\n"
		     "sbx_1   a-long-name  5m\n"
		     "sbx_22  -            -\n");
	assert_table(&table, 20,
		     "ID      NAME     AGE\n"
		     "sbx_1   a-long…  5m\n"
		     "sbx_22  -        -\n");
	/* Never below the least width: ids stay whole. */
	assert_table(&table, 5,
		     "ID      NAME  AGE\n"
		     "sbx_1   a-l…  5m\n"
		     "sbx_22  -     -\n");
	table_clear(&table);
}

static void cells_are_harmless(void **state)
{
	struct table table;

	(void)state;
	table_init(&table, columns, 3);
	table_add(&table, "\033[2J\r\n\x7f");
	table_add(&table, "gr\xc3\xbc\xc3\x9f\x65\xff");
	table_add(&table, "\xc2\x9b\x31m");
	assert_table(&table, 0,
		     "ID       NAME    AGE\n"
		     "?[2J???  gr\xc3\xbc\xc3\x9f\x65?  ?1m\n");
	table_clear(&table);
}

static void text_is_cut_between_characters(void **state)
{
	static const struct {
		const char *text;
		unsigned int width;
		const char *expected;
	} cases[] = {
		{ "plain", 5, "plain" },
		{ "plain", 4, "pla…" },
		{ "plain", 1, "…" },
		{ "", 1, "" },
		{ "gr\xc3\xbc\xc3\x9f\x65", 5, "gr\xc3\xbc\xc3\x9f\x65" },
		{ "gr\xc3\xbc\xc3\x9f\x65", 4, "gr\xc3\xbc…" },
		{ "a\xffzzz", 3, "a\xff…" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = BUF_INIT;

		text_append_cut(&out, cases[i].text, cases[i].width);
		assert_string_equal(buf_str(&out), cases[i].expected);
		buf_clear(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),
		cmocka_unit_test(durations_as_text),
		cmocka_unit_test(times),
		cmocka_unit_test(sizes),
		cmocka_unit_test(credits),
		cmocka_unit_test(words_for_the_shell),
		cmocka_unit_test(a_shell_agrees),
		cmocka_unit_test(tables),
		cmocka_unit_test(cells_are_harmless),
		cmocka_unit_test(text_is_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
