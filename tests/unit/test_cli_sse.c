/* The parser of server-sent events: the same events however the bytes are cut, and its bounds. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "cli/sse.h"

struct seen {
	struct buf log; /* "name|data\n" an event */
	int answer;
};

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct seen *seen = arg;

	assert_int_equal(data[len], '\0');
	buf_printf(&seen->log, "%s|", name);
	buf_append(&seen->log, data, len);
	buf_append_char(&seen->log, '\n');
	return seen->answer;
}

static const char stream[] = "\xef\xbb\xbf"
			     ": comment\n"
			     "event: stdout\r\n"
			     "data: {\"a\":1}\r\n"
			     "\r\n"
			     "data:no space\r\r"
			     "event: two\n"
			     "id: 7\n"
			     "data: first\n"
			     "data\n"
			     "data:  third\n"
			     "\n"
			     "event: without data\n"
			     "\n"
			     "retry: 5\n"
			     "data: last\n"
			     "\n"
			     "data: never dispatched\n";

static const char expected[] = "stdout|{\"a\":1}\n"
			       "message|no space\n"
			       "two|first\n\n third\n"
			       "message|last\n";

static void cut_anywhere(void **state)
{
	(void)state;
	for (size_t a = 0; a < sizeof(stream); a++) {
		for (size_t b = a; b < sizeof(stream); b++) {
			struct seen seen = { 0 };
			struct sse sse;

			sse_init(&sse, on_event, &seen);
			assert_int_equal(sse_feed(&sse, stream, a), 0);
			assert_int_equal(sse_feed(&sse, stream + a, b - a), 0);
			assert_int_equal(sse_feed(&sse, stream + b, sizeof(stream) - 1 - b), 0);
			assert_string_equal(buf_str(&seen.log), expected);
			sse_clear(&sse);
			buf_clear(&seen.log);
		}
		if (a == sizeof(stream) - 1)
			break;
	}
}

static void nul_and_high_bytes_are_data(void **state)
{
	static const char bytes[] = "data: a\0b\xff\n\n";
	struct seen seen = { 0 };
	struct sse sse;

	(void)state;
	sse_init(&sse, on_event, &seen);
	assert_int_equal(sse_feed(&sse, bytes, sizeof(bytes) - 1), 0);
	assert_int_equal(seen.log.len, strlen("message|") + 4 + 1);
	assert_memory_equal(seen.log.data, "message|a\0b\xff\n", seen.log.len);
	sse_clear(&sse);
	buf_clear(&seen.log);
}

static void a_callback_can_stop(void **state)
{
	struct seen seen = { .answer = -ECANCELED };
	struct sse sse;

	(void)state;
	sse_init(&sse, on_event, &seen);
	assert_int_equal(sse_feed(&sse, "data: a\n\ndata: b\n\n", 18), -ECANCELED);
	assert_string_equal(buf_str(&seen.log), "message|a\n");
	sse_clear(&sse);
	buf_clear(&seen.log);
}

static void reset_forgets_half_an_event(void **state)
{
	struct seen seen = { 0 };
	struct sse sse;

	(void)state;
	sse_init(&sse, on_event, &seen);
	assert_int_equal(sse_feed(&sse, "event: old\ndata: ol", 19), 0);
	sse_reset(&sse);
	assert_int_equal(sse_feed(&sse, "data: new\n\n", 11), 0);
	assert_string_equal(buf_str(&seen.log), "message|new\n");
	sse_clear(&sse);
	buf_clear(&seen.log);
}

/* A line without an end, and an event of lines without an end. */
static void memory_is_bounded(void **state)
{
	static char filler[1 << 20];
	struct seen seen = { 0 };
	struct sse sse;
	int r = 0;

	(void)state;
	memset(filler, 'x', sizeof(filler));
	sse_init(&sse, on_event, &seen);
	for (int i = 0; i < 64 && r == 0; i++)
		r = sse_feed(&sse, filler, sizeof(filler));
	assert_int_equal(r, -EMSGSIZE);
	assert_true(sse.line.len <= SSE_EVENT_MAX);

	sse_reset(&sse);
	r = 0;
	for (int i = 0; i < 64 && r == 0; i++) {
		r = sse_feed(&sse, "data: ", 6);
		if (r == 0)
			r = sse_feed(&sse, filler, sizeof(filler));
		if (r == 0)
			r = sse_feed(&sse, "\n", 1);
	}
	assert_int_equal(r, -EMSGSIZE);
	assert_true(sse.data.len <= SSE_EVENT_MAX);
	sse_clear(&sse);
	buf_clear(&seen.log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(nul_and_high_bytes_are_data),
		cmocka_unit_test(a_callback_can_stop),
		cmocka_unit_test(reset_forgets_half_an_event),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
