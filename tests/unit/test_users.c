/* passwd and group as the guest's agent reads them, written by whoever is root there. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "guest/users.h"

static int find(const char *passwd, const char *name, struct user *u)
{
	return user_find(passwd, strlen(passwd), name, u);
}

static void test_find(void **state)
{
	const char *passwd = "root:x:0:0:root:/root:/bin/bash\n"
			     "sandbox:x:1000:1001:,,,:/home/sandbox:/bin/zsh";
	struct user u;

	assert_int_equal(find(passwd, "sandbox", &u), 0);
	assert_string_equal(u.name, "sandbox");
	assert_int_equal(u.uid, 1000);
	assert_int_equal(u.gid, 1001);
	assert_string_equal(u.home, "/home/sandbox");
	assert_string_equal(u.shell, "/bin/zsh");
	assert_int_equal(find(passwd, "sand", &u), -ENOENT);
	assert_int_equal(find(passwd, "", &u), -ENOENT);
	assert_int_equal(find("", "root", &u), -ENOENT);
}

static void test_lines_that_make_no_sense_are_skipped(void **state)
{
	const char *passwd = "\n:\n::::::\nme\nme:x:1\nme:x:-1:1::/:/b\nme:x:4294967295:1::/:/b\n"
			     "me:x:99999999999999:1::/:/b\nme:x: 1:1::/:/b\nme:x:1:0x1::/:/b\n"
			     "me:x:7:8::relative:\n";
	struct user u;

	assert_int_equal(find(passwd, "me", &u), 0);
	assert_int_equal(u.uid, 7);
	assert_string_equal(u.home, "/");
	assert_string_equal(u.shell, "/bin/sh");
}

static void test_long_and_binary_fields(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct user u;

	buf_append_str(&b, "me:x:1:1::/");
	for (int i = 0; i < USER_PATH_MAX; i++)
		buf_append_char(&b, 'h');
	buf_append_str(&b, ":/bin/sh\n");
	assert_int_equal(user_find(b.data, b.len, "me", &u), -ENOENT);
	buf_reset(&b);
	buf_append(&b, "me:x:1:1::/ho\0me:/bin/sh\n", 25);
	assert_int_equal(user_find(b.data, b.len, "me", &u), -ENOENT);
}

static void test_groups(void **state)
{
	const char *group = "root:x:0:\nsudo:x:27:alice,me,bob\naudio:x:29:me\nme:x:1000:\n"
			    "again:x:27:me\nother:x:50:melon,ame\nbad:x:abc:me\nshort:x\n";
	struct user u = { .name = "me", .gid = 1000 };
	gid_t out[8];

	assert_int_equal(user_groups(group, strlen(group), &u, out, 8), 3);
	assert_int_equal(out[0], 1000);
	assert_int_equal(out[1], 27);
	assert_int_equal(out[2], 29);
	assert_int_equal(user_groups(group, strlen(group), &u, out, 2), 2);
	assert_int_equal(user_groups("", 0, &u, out, 8), 1);
}

static int resolve(const char *spec, struct user *u)
{
	const char *passwd = "app:x:1234:1235::/srv:/bin/ash\n77:x:5:6::/odd:\n";
	const char *group = "staff:x:50:\n7:x:70:\n";

	return user_resolve(passwd, strlen(passwd), group, strlen(group), spec, u);
}

/* As container images name users. */
static void test_resolve(void **state)
{
	const char *const nobody[] = { "", ":", ":50", "nobody", "-1", "1.5", "4294967295", " 1" };
	const struct {
		const char *spec;
		uid_t uid;
		gid_t gid;
		const char *home;
	} good[] = {
		{ "app", 1234, 1235, "/srv" },
		{ "1234", 1234, 1235, "/srv" },
		{ "app:staff", 1234, 50, "/srv" },
		{ "app:7", 1234, 70, "/srv" },
		{ "app:8", 1234, 8, "/srv" },
		{ "42", 42, 0, "/" },
		{ "42:43", 42, 43, "/" },
		{ "root", 0, 0, "/root" },
		{ "0", 0, 0, "/" },
		{ "77", 5, 6, "/odd" },
	};
	struct user u;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(resolve(good[i].spec, &u), 0);
		assert_int_equal(u.uid, good[i].uid);
		assert_int_equal(u.gid, good[i].gid);
		assert_string_equal(u.home, good[i].home);
	}
	for (size_t i = 0; i < sizeof(nobody) / sizeof(*nobody); i++)
		assert_int_equal(resolve(nobody[i], &u), -ENOENT);
	assert_int_equal(resolve("app:nowhere", &u), -ESRCH);
	assert_int_equal(resolve("app:", &u), -ESRCH);
	assert_int_equal(user_resolve(NULL, 0, NULL, 0, "root", &u), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_lines_that_make_no_sense_are_skipped),
		cmocka_unit_test(test_long_and_binary_fields),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_resolve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
