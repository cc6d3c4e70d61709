/* The log, seen through a pipe or file in the place of stderr. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/str.h"

/* Stands a file in for stderr while a test writes, and reads what was written. */
struct capture {
	int saved_fd, file_fd;
	char text[20000];
};

static void capture_begin(struct capture *c)
{
	c->file_fd = memfd_create("stderr", MFD_CLOEXEC);
	assert_true(c->file_fd >= 0);
	c->saved_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	assert_true(c->saved_fd >= 0);
	assert_true(dup2(c->file_fd, STDERR_FILENO) >= 0);
}

static const char *capture_end(struct capture *c)
{
	ssize_t n = pread(c->file_fd, c->text, sizeof(c->text) - 1, 0);

	dup2(c->saved_fd, STDERR_FILENO);
	close(c->saved_fd);
	close(c->file_fd);
	assert_true(n >= 0);
	c->text[n] = '\0';
	return c->text;
}

static void test_line_has_time_level_message_fields(void **state)
{
	struct capture c;
	const char *text;

	unsetenv("JOURNAL_STREAM");
	capture_begin(&c);
	log_init(LOG_LVL_INFO);
	errno = EXDEV;
	log_debug("not shown", "%s", "");
	log_warn("disk slow", "sandbox=%s ms=%d", "s1", 12);
	assert_int_equal(errno, EXDEV);
	text = capture_end(&c);
	/* 2026-11-30T04:01:00.123Z is 24 characters */
	assert_string_equal(text + 24, " warn disk slow sandbox=s1 ms=12\n");
	assert_int_equal(text[23], 'Z');
}

static void test_empty_fields_leave_no_blank(void **state)
{
	struct capture c;

	capture_begin(&c);
	log_init(LOG_LVL_INFO);
	log_info("ready", "%s", "");
	assert_string_equal(capture_end(&c) + 24, " info ready\n");
}

static void test_controls_cannot_forge_a_line(void **state)
{
	struct capture c;

	capture_begin(&c);
	log_init(LOG_LVL_INFO);
	log_error("bad", "name=%s", "a\nb\x1b[2J\x7f\xc2\x9b\xc3\xa9");
	assert_string_equal(capture_end(&c) + 24, " error bad name=a?b?[2J???\xc3\xa9\n");
}

static void test_long_lines_are_cut_and_marked(void **state)
{
	static char value[20000];
	struct capture c;
	const char *text;
	size_t len;

	memset(value, 'x', sizeof(value) - 1);
	capture_begin(&c);
	log_init(LOG_LVL_INFO);
	log_info("long", "v=%s", value);
	text = capture_end(&c);
	len = strlen(text);
	assert_in_range(len, 8000, 8300);
	assert_string_equal(text + len - 5, "x...\n");
	assert_ptr_equal(strchr(text, '\n'), text + len - 1);
}

static void test_journal_prefix(void **state)
{
	char stream[64];
	struct capture c;
	struct stat st;

	capture_begin(&c);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init(LOG_LVL_DEBUG);
	log_debug("a", "k=%d", 1);
	log_info("b", "k=%d", 2);
	log_error("c", "k=%d", 3);
	assert_string_equal(capture_end(&c), "<7>a k=1\n<6>b k=2\n<3>c k=3\n");
}

static void test_foreign_journal_stream_is_not_ours(void **state)
{
	struct capture c;

	capture_begin(&c);
	setenv("JOURNAL_STREAM", "1:2", 1);
	log_init(LOG_LVL_INFO);
	log_info("m", "k=%d", 1);
	assert_string_equal(capture_end(&c) + 24, " info m k=1\n");
	unsetenv("JOURNAL_STREAM");
}

static void test_level_names(void **state)
{
	enum log_level level = LOG_LVL_INFO;

	assert_int_equal(log_level_parse("error", &level), 0);
	assert_int_equal(level, LOG_LVL_ERROR);
	assert_int_equal(log_level_parse("loud", &level), -EINVAL);
	assert_int_equal(log_level_parse(NULL, &level), -EINVAL);
	assert_int_equal(level, LOG_LVL_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_has_time_level_message_fields),
		cmocka_unit_test(test_empty_fields_leave_no_blank),
		cmocka_unit_test(test_controls_cannot_forge_a_line),
		cmocka_unit_test(test_long_lines_are_cut_and_marked),
		cmocka_unit_test(test_journal_prefix),
		cmocka_unit_test(test_foreign_journal_stream_is_not_ours),
		cmocka_unit_test(test_level_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
