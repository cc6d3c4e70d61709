/* What `skerry shell` is made of and needs no server for: the escape, and answers to a handshake.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/escape.h"
#include "cli/shell.h"
#include "cli/ws_answer.h"

/* ---- the escape ---- */

/* Keys that come in pieces of step; what of them is for the terminal, and the actions by letter. */
static void type(const char *keys, size_t step, const char *expected)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct escape escape = { 0 };
	size_t len = strlen(keys);

	for (size_t at = 0; at < len;) {
		size_t used, n = len - at < step ? len - at : step;

		switch (escape_filter(&escape, keys + at, n, &used, &out)) {
		case ESCAPE_LEAVE:
			buf_append_str(&out, "<leave>");
			break;
		case ESCAPE_SUSPEND:
			buf_append_str(&out, "<suspend>");
			break;
		case ESCAPE_HELP:
			buf_append_str(&out, "<help>");
			break;
		case ESCAPE_NONE:
			assert_int_equal(used, n);
		}
		assert_true(used > 0 && used <= n);
		at += used;
	}
	assert_string_equal(buf_str(&out), expected);
}

static void test_escape(void **state)
{
	static const char *const cases[][2] = {
		{ "ls\r", "ls\r" },
		{ "~.", "<leave>" },
		{ "ls\r~.x", "ls\r<leave>x" },
		{ "a~.", "a~." },
		{ "cd ~\r~?", "cd ~\r<help>" },
		{ "~~.", "~." },
		{ "~~~.", "~~." },
		{ "~/bin\r", "~/bin\r" },
		{ "\r~\r~.", "\r~\r<leave>" },
		{ "~?~?", "<help><help>" },
		{ "~\x1a~.", "<suspend><leave>" },
		{ "\n~.", "\n<leave>" },
		{ "\x03~.", "\x03~." },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		for (size_t step = 1; step <= 4; step++)
			type(cases[i][0], step, cases[i][1]);
}

/* ---- answers ---- */

#define GOOD                                                                                       \
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, "       \
	"Upgrade\r\nSec-WebSocket-Accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n\r\n"

static void test_answer(void **state)
{
	struct ws_answer answer;

	assert_int_equal(ws_answer_parse(GOOD "\x81", strlen(GOOD) + 1, &answer), strlen(GOOD));
	assert_int_equal(answer.status, 101);
	assert_true(answer.upgrades);
	assert_string_equal(answer.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	for (size_t len = 0; len < strlen(GOOD); len++)
		assert_int_equal(ws_answer_parse(GOOD, len, &answer), 0);
}

static void expect_bad(const char *text)
{
	struct ws_answer answer;

	assert_int_equal(ws_answer_parse(text, strlen(text), &answer), -EBADMSG);
}

static void test_answer_refusals(void **state)
{
	static const char refusal[] = "HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n"
				      "Content-Type: application/problem+json\r\n\r\n";
	static const char half[] = "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n";
	struct ws_answer answer;

	assert_int_equal(ws_answer_parse(refusal, strlen(refusal), &answer), strlen(refusal));
	assert_int_equal(answer.status, 404);
	assert_int_equal(answer.content_length, 12);
	assert_string_equal(answer.content_type, "application/problem+json");
	assert_false(answer.upgrades);
	assert_true(ws_answer_parse(half, strlen(half), &answer) > 0);
	assert_false(answer.upgrades);
}

static void test_answer_nonsense(void **state)
{
	_cleanup_buf_ struct buf endless = BUF_INIT;
	struct ws_answer answer;

	expect_bad("SSH-2.0-OpenSSH\r\n\r\n");
	expect_bad("HTTP/1.0 101 x\r\n\r\n");
	expect_bad("HTTP/1.1 1 x\r\n\r\n");
	expect_bad("HTTP/1.1 10100\r\n\r\n");
	expect_bad("HTTP/1.1 200 OK\r\nno colon\r\n\r\n");
	expect_bad("HTTP/1.1 200 OK\r\n: x\r\n\r\n");
	expect_bad("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
	expect_bad("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n");
	expect_bad(
		"HTTP/1.1 101 x\r\nSec-WebSocket-Accept: "
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n");
	while (endless.len <= WS_ANSWER_HEAD_MAX)
		buf_append_str(&endless, "HTTP/1.1 200 OK\r\n");
	assert_int_equal(ws_answer_parse(endless.data, endless.len, &answer), -EBADMSG);
}

static void test_ids(void **state)
{
	assert_true(terminal_id_valid("term_5c1e90a4d2b7f386"));
	assert_false(terminal_id_valid("term_"));
	assert_false(terminal_id_valid("exec_5c1e90a4d2b7f386"));
	assert_false(terminal_id_valid("term_../x"));
	assert_false(terminal_id_valid("term_00000000000000000000000000000000"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_answer_refusals),
		cmocka_unit_test(test_answer_nonsense),
		cmocka_unit_test(test_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
