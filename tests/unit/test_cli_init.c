/* What `skerry init` writes for the boot, and how it reads what is there. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/init_steps.h"

/* As `systemd-escape --path --suffix=mount` has them (systemd 252). */
static void unit_names(void **state)
{
	const struct {
		const char *dir, *name;
	} cases[] = {
		{ "/var/lib/skerry", "var-lib-skerry.mount" },
		{ "/var/lib/sk-erry", "var-lib-sk\\x2derry.mount" },
		{ "/srv/a b/c", "srv-a\\x20b-c.mount" },
		{ "/.x/.y", "\\x2ex-.y.mount" },
		{ "/a_b:c", "a_b:c.mount" },
		{ "/\xc3\xa4", "\\xc3\\xa4.mount" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf name = BUF_INIT;

		init_unit_name(cases[i].dir, &name);
		assert_string_equal(buf_str(&name), cases[i].name);
	}
}

static void unit_text(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	init_unit_text("/srv/100%.xfs", "/srv/100%", &text);
	assert_non_null(strstr(buf_str(&text), "\nWhat=/srv/100%%.xfs\nWhere=/srv/100%%\n"));
	assert_non_null(strstr(buf_str(&text), "\nType=xfs\nOptions=loop,"));
	assert_non_null(strstr(buf_str(&text), "\nRequiredBy=skerryd.service\n"));
}

static void fstab_lines(void **state)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	init_fstab_line("/srv/a b.xfs", "/srv/a b", &line);
	assert_string_equal(buf_str(&line), "/srv/a\\040b.xfs /srv/a\\040b xfs loop,noatime 0 0 "
					    "# skerry init\n");
	assert_true(init_fstab_has(buf_str(&line), "/srv/a b"));
	assert_false(init_fstab_has(buf_str(&line), "/srv/a"));
}

static void fstab_that_is_there(void **state)
{
	static const char table[] = "# /dev/x /var/lib/skerry xfs\n"
				    "\n"
				    "UUID=1 / ext4 defaults 0 1\n"
				    "  /dev/y\t/srv\txfs defaults\n"
				    "broken\n"
				    "/dev/z /end";

	assert_false(init_fstab_has(table, "/var/lib/skerry"));
	assert_true(init_fstab_has(table, "/"));
	assert_true(init_fstab_has(table, "/srv"));
	assert_true(init_fstab_has(table, "/end"));
	assert_false(init_fstab_has(table, ""));
	assert_false(init_fstab_has("", "/"));
}

static void programs(void **state)
{
	const char *const good[] = { "sh", "-c", "echo out; echo err >&2", NULL };
	const char *const bad[] = { "sh", "-c", "echo it is broken; exit 3", NULL };
	const char *const loud[] = { "head", "-c", "200000", "/dev/zero", NULL };
	const char *const none[] = { "skerry-no-such-program", NULL };
	_cleanup_buf_ struct buf output = BUF_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(init_run(good, &output, &err), 0);
	assert_string_equal(buf_str(&output), "out\nerr");
	assert_true(init_run(bad, NULL, &err) < 0);
	assert_non_null(strstr(err.message, "it is broken"));
	assert_int_equal(init_run(none, NULL, &err), -ENOENT);
	buf_reset(&output);
	assert_int_equal(init_run(loud, &output, &err), 0);
	assert_true(output.len > 0 && output.len <= 65536);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unit_names),  cmocka_unit_test(unit_text),
		cmocka_unit_test(fstab_lines), cmocka_unit_test(fstab_that_is_there),
		cmocka_unit_test(programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
