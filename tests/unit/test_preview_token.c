/* Signed preview tokens: for one sandbox, one port, until a time, by one key. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "net/preview_token.h"

static const uint8_t key[PREVIEW_KEY_SIZE] = { 1, 2, 3 };
#define EXPIRES 1800000000

static int check(const char *token, const char *sandbox, uint16_t port, int64_t now)
{
	return preview_token_check(key, sandbox, port, now, token, strlen(token), NULL);
}

static void test_round_trip(void **state)
{
	static const int64_t times[] = { 0, 1, EXPIRES, INT64_MAX };
	char token[PREVIEW_TOKEN_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		int64_t expires = -1;

		preview_token_make(key, "sbx_0123456789abcdef", 65535, times[i], token);
		assert_int_equal(strspn(token, "0123456789abcdefghijklmnopqrstuvwxyz"
					       "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_."),
				 strlen(token));
		assert_int_equal(preview_token_check(key, "sbx_0123456789abcdef", 65535,
						     times[i] - 1, token, strlen(token), &expires),
				 0);
		assert_true(expires == times[i]);
		assert_int_equal(check(token, "sbx_0123456789abcdef", 65535, times[i]), -ETIME);
	}
}

/* A token once handed out must stay good: the format is a contract. */
static void test_known_value(void **state)
{
	char token[PREVIEW_TOKEN_SIZE];

	preview_token_make(key, "sbx_00000001", 8080, EXPIRES, token);
	assert_string_equal(token, "1.1800000000.6HQ4NmDWVJ4QJT9HILz70w0fN5H-TptieVR2yVFADWk");
}

static void test_bound_to_sandbox_port_and_key(void **state)
{
	const uint8_t other_key[PREVIEW_KEY_SIZE] = { 1, 2, 4 };
	char token[PREVIEW_TOKEN_SIZE];

	preview_token_make(key, "sbx_00000001", 8080, EXPIRES, token);
	assert_int_equal(check(token, "sbx_00000001", 8080, 0), 0);
	assert_int_equal(check(token, "sbx_00000002", 8080, 0), -EBADMSG);
	assert_int_equal(check(token, "sbx_0000000", 8080, 0), -EBADMSG);
	assert_int_equal(check(token, "", 8080, 0), -EBADMSG);
	assert_int_equal(check(token, "sbx_00000001", 8081, 0), -EBADMSG);
	assert_int_equal(
		preview_token_check(other_key, "sbx_00000001", 8080, 0, token, strlen(token), NULL),
		-EBADMSG);
}

static void test_every_changed_byte_is_refused(void **state)
{
	char token[PREVIEW_TOKEN_SIZE];
	size_t len;

	preview_token_make(key, "sbx_00000001", 8080, EXPIRES, token);
	len = strlen(token);
	for (size_t i = 0; i < len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			token[i] = (char)(token[i] ^ (1 << bit));
			assert_int_equal(
				preview_token_check(key, "sbx_00000001", 8080, 0, token, len, NULL),
				-EBADMSG);
			token[i] = (char)(token[i] ^ (1 << bit));
		}
	}
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(
			preview_token_check(key, "sbx_00000001", 8080, 0, token, cut, NULL),
			-EBADMSG);
}

static void test_what_is_no_token(void **state)
{
	static const char *const cases[] = {
		"",
		"1",
		"1.",
		"1..",
		"2.1800000000.x",
		"1.-1.x",
		"1.+1.x",
		"1. 1.x",
		"1.0x1.x",
		"1.99999999999999999999.x",
		"1.18000000000000000000000000000000.x",
		"1.1800000000.",
		".1800000000.x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(check(cases[i], "sbx_00000001", 8080, 0), -EBADMSG);
}

/* A longer life for the same signature. */
static void test_later_expiry_is_refused(void **state)
{
	char token[PREVIEW_TOKEN_SIZE], forged[2 * PREVIEW_TOKEN_SIZE];

	preview_token_make(key, "sbx_00000001", 8080, EXPIRES, token);
	snprintf(forged, sizeof(forged), "1.%d%s", EXPIRES + 1, strchr(token + 2, '.'));
	assert_int_equal(check(forged, "sbx_00000001", 8080, 0), -EBADMSG);
	snprintf(forged, sizeof(forged), "1.0%d%s", EXPIRES, strchr(token + 2, '.'));
	assert_int_equal(check(forged, "sbx_00000001", 8080, 0), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_known_value),
		cmocka_unit_test(test_bound_to_sandbox_port_and_key),
		cmocka_unit_test(test_every_changed_byte_is_refused),
		cmocka_unit_test(test_what_is_no_token),
		cmocka_unit_test(test_later_expiry_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
