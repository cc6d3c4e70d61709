/* The hash chain of the audit: what was changed, moved, taken out or put in is found. */
#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/chain.h"
#include "base/str.h"

#define LINES 6

static void make_line(int64_t seq, const char *prev, const char *rest, struct buf *out,
		      char hash[CHAIN_HASH_SIZE])
{
	_cleanup_buf_ struct buf body = BUF_INIT;

	buf_printf(&body, "{\"seq\":%" PRId64 ",\"prev\":\"%s\",%s}", seq, prev, rest);
	chain_hash(body.data, body.len, hash);
	chain_line(out, body.data, body.len, hash);
}

static void make_chain(struct buf lines[LINES])
{
	char hash[CHAIN_HASH_SIZE];

	str_copy(hash, sizeof(hash), chain_no_hash);
	for (int i = 0; i < LINES; i++) {
		char prev[CHAIN_HASH_SIZE], rest[64];

		str_copy(prev, sizeof(prev), hash);
		snprintf(rest, sizeof(rest), "\"operation\":\"exec\",\"n\":%d", i);
		lines[i] = BUF_INIT;
		make_line(i + 1, prev, rest, &lines[i], hash);
	}
}

static void clear(struct buf lines[LINES])
{
	for (int i = 0; i < LINES; i++)
		buf_clear(&lines[i]);
}

/* The first line that does not belong, in order of order; 0: all do. */
static size_t broken_at(const struct buf lines[LINES], const int *order, size_t n, struct err *err)
{
	struct chain chain = { 0 };

	for (size_t i = 0; i < n; i++) {
		const struct buf *line = &lines[order[i]];

		if (chain_take(&chain, line->data, line->len, err) < 0)
			return i + 1;
	}
	return 0;
}

static void test_whole(void **state)
{
	const int order[LINES] = { 0, 1, 2, 3, 4, 5 };
	struct buf lines[LINES];
	struct chain chain = { 0 };
	struct err err = ERR_INIT;

	make_chain(lines);
	assert_int_equal(broken_at(lines, order, LINES, &err), 0);
	for (int i = 2; i < LINES; i++)
		assert_int_equal(chain_take(&chain, lines[i].data, lines[i].len, &err), 0);
	assert_int_equal(chain.first, 3);
	assert_int_equal(chain.last, 6);
	assert_int_equal(chain.n, 4);
	assert_true(strstr(lines[2].data, chain.before)); /* what the third one names */
	assert_true(strstr(lines[5].data, chain.head));
	clear(lines);
}

/* Every byte of every line, each bit of it. */
static void test_every_byte(void **state)
{
	const int order[LINES] = { 0, 1, 2, 3, 4, 5 };
	struct buf lines[LINES];

	make_chain(lines);
	for (size_t i = 0; i < LINES; i++) {
		for (size_t at = 0; at < lines[i].len; at++) {
			for (int bit = 0; bit < 8; bit++) {
				struct err err = ERR_INIT;

				lines[i].data[at] = (char)(lines[i].data[at] ^ (1 << bit));
				assert_int_equal(broken_at(lines, order, LINES, &err), i + 1);
				assert_string_equal(err_code_of(&err), "audit_broken");
				lines[i].data[at] = (char)(lines[i].data[at] ^ (1 << bit));
			}
		}
	}
	assert_int_equal(broken_at(lines, order, LINES, NULL), 0);
	clear(lines);
}

static void test_order(void **state)
{
	static const struct {
		int order[LINES + 1];
		size_t n, broken;
		const char *says;
	} cases[] = {
		{ { 0, 1, 3, 4, 5 }, 5, 3, "record 3 is missing: record 2 is followed by 4" },
		{ { 0, 2, 1, 3, 4, 5 }, 6, 2, "record 2 is missing" },
		{ { 0, 1, 1, 2, 3, 4, 5 }, 7, 3, "record 3 is missing: record 2 is followed by 2" },
		{ { 5, 0 }, 2, 2, "record 7 is missing" },
	};
	struct buf lines[LINES];

	make_chain(lines);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;

		assert_int_equal(broken_at(lines, cases[i].order, cases[i].n, &err),
				 cases[i].broken);
		assert_true(str_starts(err.message, cases[i].says));
	}
	clear(lines);
}

/* Who can compute hashes too: the next one names another predecessor. */
static void test_rewritten(void **state)
{
	const int order[LINES] = { 0, 1, 2, 3, 4, 5 };
	char hash[CHAIN_HASH_SIZE], prev[CHAIN_HASH_SIZE];
	struct buf lines[LINES];
	struct chain chain = { 0 };
	struct err err = ERR_INIT;

	make_chain(lines);
	for (int i = 0; i < 2; i++)
		assert_int_equal(chain_take(&chain, lines[i].data, lines[i].len, &err), 0);
	str_copy(prev, sizeof(prev), chain.head);
	buf_clear(&lines[2]);
	make_line(3, prev, "\"operation\":\"other\"", &lines[2], hash);
	assert_int_equal(broken_at(lines, order, LINES, &err), 4);
	assert_string_equal(err.message,
			    "record 4 names another predecessor than the record before it");
	clear(lines);
}

static void test_no_lines(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"{}",
		"{\"seq\":",
		"{\"seq\":1",
		"{\"seq\":1,\"prev\":\"",
		"{\"seq\":99999999999999999999,\"prev\":\"0\",\"hash\":\"0\"}",
		"{\"seq\":0,\"prev\":\"\",\"hash\":\"\"}",
		"{\"seq\":-1,\"prev\":\"\",\"hash\":\"\"}",
		"[1,2,3]",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct chain chain = { 0 };
		struct err err = ERR_INIT;

		assert_int_equal(chain_take(&chain, texts[i], strlen(texts[i]), &err), -EBADMSG);
		assert_int_equal(chain.n, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	 cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_order),	 cmocka_unit_test(test_rewritten),
		cmocka_unit_test(test_no_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
