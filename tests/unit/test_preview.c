/*
 * The pure parts of previews: addresses, heads and bodies of a guest's answers, cookies and
 * redirections at the border.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/preview_body.h"
#include "api/preview_cookie.h"
#include "api/preview_head.h"
#include "api/preview_target.h"
#include "base/str.h"

/* ---- addresses ---- */

static const struct preview_domain example = { .name = "previews.example.com" };

static void check_target(const char *host, const char *path, const char *id, uint16_t port,
			 const char *prefix, const char *rest)
{
	struct preview_target target;

	assert_int_equal(preview_target_find(host, path, &example, false, &target), 0);
	assert_string_equal(target.id, id);
	assert_int_equal(target.port, port);
	assert_string_equal(target.prefix, prefix);
	assert_string_equal(target.rest, rest);
	assert_int_equal(target.by_host, prefix[0] == '\0');
}

static void test_target(void **state)
{
	check_target("127.0.0.1:7171", "/preview/sbx_1f2e3d4c/8000/", "sbx_1f2e3d4c", 8000,
		     "/preview/sbx_1f2e3d4c/8000", "/");
	check_target(NULL, "/preview/sbx_1f2e3d4c/1/a%2fb/../c", "sbx_1f2e3d4c", 1,
		     "/preview/sbx_1f2e3d4c/1", "/a%2fb/../c");
	check_target("x", "/preview/sbx_0/65535", "sbx_0", 65535, "/preview/sbx_0/65535", "");
	check_target("8000-sbx_1f2e3d4c.previews.example.com", "/", "sbx_1f2e3d4c", 8000, "", "/");
	check_target("8000-SBX-1F2E3D4C.Previews.Example.Com:444", "/preview/x", "sbx_1f2e3d4c",
		     8000, "", "/preview/x");
}

static void test_no_target(void **state)
{
	static const struct {
		const char *host, *path;
		int result;
	} cases[] = {
		{ "localhost", "/", -ENOENT },
		{ "localhost", "/v1/sandboxes", -ENOENT },
		{ "localhost", "/preview", -ENOENT },
		{ "localhost", "/previews/sbx_1/80/", -ENOENT },
		{ "localhost", "http://x/preview/sbx_1/80/", -ENOENT },
		{ "previews.example.com", "/", -ENOENT },
		{ "evilpreviews.example.com", "/", -ENOENT },
		{ "80-sbx_1.previews.example.com.evil.example", "/", -ENOENT },
		{ "80-sbx_1.localhost", "/", -ENOENT }, /* not on a loopback address */
		{ "localhost", "/preview/", -EINVAL },
		{ "localhost", "/preview/sbx_1", -EINVAL },
		{ "localhost", "/preview/sbx_1/", -EINVAL },
		{ "localhost", "/preview/sbx_1/0/", -EINVAL },
		{ "localhost", "/preview/sbx_1/080/", -EINVAL },
		{ "localhost", "/preview/sbx_1/65536/", -EINVAL },
		{ "localhost", "/preview/sbx_1/99999999999/", -EINVAL },
		{ "localhost", "/preview/sbx_1/80x/", -EINVAL },
		{ "localhost", "/preview/sbx_1/-80/", -EINVAL },
		{ "localhost", "/preview/sbx_/80/", -EINVAL },
		{ "localhost", "/preview/sbx_G/80/", -EINVAL },
		{ "localhost", "/preview/sbx_11111111111111111/80/", -EINVAL },
		{ "localhost", "/preview//80/", -EINVAL },
		{ "localhost", "/preview/sbx_1;x/80/", -EINVAL },
		{ ".previews.example.com", "/", -ENOENT },
		{ "www.previews.example.com", "/", -EINVAL },
		{ "x.80-sbx_1.previews.example.com", "/", -EINVAL },
		{ "80-sbx_1.previews.example.com", "http://localhost/", -EINVAL },
		{ "80-sbx_1.previews.example.com", "*", -EINVAL },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
		  "previews.example.com",
		  "/", -EINVAL },
	};
	struct preview_target target;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int result =
			preview_target_find(cases[i].host, cases[i].path, &example, false, &target);

		if (result != cases[i].result)
			fail_msg("%s %s: %d", cases[i].host, cases[i].path, result);
	}
	/* On loopback, names below localhost are previews without a configuration. */
	assert_int_equal(preview_target_find("80-sbx_1.localhost:7171", "/a", NULL, true, &target),
			 0);
	assert_int_equal(target.port, 80);
	assert_int_equal(preview_target_find("localhost:7171", "/a", NULL, true, &target), -ENOENT);
}

static void test_domain(void **state)
{
	static const char *const bad[] = { "",	  ".",		 "a..b",       "-a.example",
					   "a b", "a.example:0", "a.example:", "a.example:65536",
					   "*.a", "https://",	 "ftp://a.b",  "a.example/x",
					   "a_b", "a.example:x" };
	struct preview_domain domain;

	assert_int_equal(preview_domain_parse("HTTPS://Previews.Example.COM:8443", &domain, NULL),
			 0);
	assert_string_equal(domain.name, "previews.example.com");
	assert_string_equal(domain.scheme, "https");
	assert_string_equal(domain.port, "8443");
	assert_int_equal(preview_domain_parse("http://a", &domain, NULL), 0);
	assert_string_equal(domain.scheme, "http");
	assert_string_equal(domain.port, "");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (preview_domain_parse(bad[i], &domain, NULL) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
	}
}

static void check_url(const struct preview_domain *domain, const char *origin, const char *url)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	preview_url(domain, origin, "sbx_1", 80, "1.2.x", &out);
	assert_string_equal(buf_str(&out), url);
}

static void test_url(void **state)
{
	const struct preview_domain full = { "p.example", "https", "8443" };
	const struct preview_domain scheme = { "p.example", "https", "" };

	check_url(NULL, "http://127.0.0.1:7171",
		  "http://127.0.0.1:7171/preview/sbx_1/80/?skerry_preview=1.2.x");
	check_url(&full, "http://127.0.0.1:7171",
		  "https://80-sbx_1.p.example:8443/?skerry_preview=1.2.x");
	check_url(&scheme, "http://127.0.0.1:7171",
		  "https://80-sbx_1.p.example/?skerry_preview=1.2.x");
	check_url(&example, "https://api.example:444",
		  "https://80-sbx_1.previews.example.com:444/?skerry_preview=1.2.x");
	check_url(&example, "https://api.example",
		  "https://80-sbx_1.previews.example.com/?skerry_preview=1.2.x");
	check_url(&example, "http://[::1]",
		  "http://80-sbx_1.previews.example.com/?skerry_preview=1.2.x");
	check_url(&example, "http://[::1]:5",
		  "http://80-sbx_1.previews.example.com:5/?skerry_preview=1.2.x");
}

static void check_query(const char *query, const char *rest, const char *token)
{
	_cleanup_buf_ struct buf rest_out = BUF_INIT, token_out = BUF_INIT;

	assert_int_equal(preview_query_split(query, &rest_out, &token_out), token != NULL);
	assert_string_equal(buf_str(&rest_out), rest);
	assert_string_equal(buf_str(&token_out), token ? token : "");
}

static void test_query(void **state)
{
	check_query(NULL, "", NULL);
	check_query("a=1&&b", "a=1&&b", NULL);
	check_query("skerry_preview=t", "", "t");
	check_query("a=%20&skerry_preview=t&b", "a=%20&b", "t");
	check_query("skerry_preview=t&skerry_preview=u&b", "b", "t");
	check_query("xskerry_preview=t", "xskerry_preview=t", NULL);
}

/* ---- heads ---- */

static ssize_t parse(const char *text, bool head_request, struct preview_head *head)
{
	const char *reason = NULL;
	ssize_t n = preview_head_parse(text, strlen(text), head_request, head, &reason);

	assert_int_equal(reason != NULL, n < 0);
	return n;
}

static void test_head(void **state)
{
	static const char text[] =
		"HTTP/1.1 200 OK\r\nA: 1\r\nB:\r\nContent-Length: \t12 \r\n\r\nxyz";
	struct preview_head head;
	ssize_t n = parse(text, false, &head);

	assert_int_equal(n, sizeof(text) - 1 - 3);
	assert_int_equal(head.status, 200);
	assert_int_equal(head.n_headers, 3);
	assert_true(preview_header_is(&head.headers[0], "a"));
	assert_int_equal(head.headers[1].value_len, 0);
	assert_int_equal(head.body, PREVIEW_BODY_LENGTH);
	assert_int_equal(head.length, 12);
	for (size_t cut = 0; cut < (size_t)n; cut++) {
		const char *reason;

		assert_int_equal(preview_head_parse(text, cut, false, &head, &reason), 0);
	}
}

static void check_kind(const char *text, bool head_request, enum preview_body_kind kind)
{
	struct preview_head head;

	if (parse(text, head_request, &head) <= 0)
		fail_msg("refused: %s", text);
	assert_int_equal(head.body, kind);
}

static void test_head_kinds(void **state)
{
	check_kind("HTTP/1.0 200\r\n\r\n", false, PREVIEW_BODY_UNTIL_CLOSE);
	check_kind("HTTP/1.1 200 OK\n\n", false, PREVIEW_BODY_UNTIL_CLOSE);
	check_kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", false,
		   PREVIEW_BODY_CHUNKED);
	check_kind("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, PREVIEW_BODY_LENGTH);
	check_kind("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, PREVIEW_BODY_NONE);
	check_kind("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true,
		   PREVIEW_BODY_NONE);
	check_kind("HTTP/1.1 204 \r\nContent-Length: 5\r\n\r\n", false, PREVIEW_BODY_NONE);
	check_kind("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false,
		   PREVIEW_BODY_NONE);
	check_kind("HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n", false, PREVIEW_BODY_NONE);
}

static void test_head_refused(void **state)
{
	static const char *const bad[] = {
		"\r\n\r\n",
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.2 200 OK\r\n\r\n",
		"http/1.1 200 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n",
		"HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA b: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: x\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: x\ry\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: x\x7f\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
		 "chunked\r\n\r\n"),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
		("HTTP/1.1 200 OK\r\nTransfer-Encoding: \x0b"
		 "chunked\r\n\r\n"),
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		/* also where there is no body, so that nobody after us takes it for one */
		"HTTP/1.1 304 x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	};
	struct preview_head head;
	const char *reason;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (parse(bad[i], false, &head) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
	}
	assert_int_equal(
		preview_head_parse("HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", 24, false, &head, &reason),
		-EBADMSG);
}

static void test_head_caps(void **state)
{
	_cleanup_buf_ struct buf many = BUF_INIT, large = BUF_INIT;
	struct preview_head head;

	buf_append_str(&many, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < PREVIEW_HEADERS_MAX; i++)
		buf_append_str(&many, "A: b\r\n");
	buf_append_str(&many, "\r\n");
	assert_int_equal(parse(buf_str(&many), false, &head), many.len);
	many.len -= 2;
	buf_append_str(&many, "A: b\r\n\r\n");
	assert_int_equal(parse(buf_str(&many), false, &head), -EBADMSG);

	buf_append_str(&large, "HTTP/1.1 200 OK\r\nA: ");
	while (large.len < PREVIEW_HEAD_MAX_BYTES - 1)
		buf_append_char(&large, 'a');
	assert_int_equal(parse(buf_str(&large), false, &head), 0);
	buf_append_char(&large, 'a');
	assert_int_equal(parse(buf_str(&large), false, &head), -EBADMSG);
}

static void test_lists(void **state)
{
	static const char list[] = "keep-alive , Upgrade,,x";

	assert_true(preview_list_has(list, strlen(list), "upgrade", 7));
	assert_true(preview_list_has(list, strlen(list), "X", 1));
	assert_false(preview_list_has(list, strlen(list), "up", 2));
	assert_false(preview_list_has("", 0, "up", 2));
	assert_true(preview_is_hop_by_hop("TE", 2));
	assert_false(preview_is_hop_by_hop("Content-Length", 14));
}

/* ---- bodies ---- */

/* Decodes text in pieces of step bytes; -EBADMSG, or how much of text was used. */
static ssize_t decode(struct preview_body *body, const char *text, size_t step, struct buf *out)
{
	size_t at = 0, len = strlen(text);

	while (at < len && !preview_body_ended(body)) {
		const char *data;
		size_t data_len, piece = len - at < step ? len - at : step;
		ssize_t n = preview_body_next(body, text + at, piece, &data, &data_len);

		if (n < 0)
			return n;
		assert_true(n > 0);
		buf_append(out, data, data_len);
		at += (size_t)n;
	}
	return (ssize_t)at;
}

static void test_chunks(void **state)
{
	static const char text[] = "5\r\nhello\r\n0c;ext=\"1\"\r\n, wide world\r\n1\n!\n000\r\n"
				   "Trailer: x\r\n\r\nHTTP/1.1 200 the next one";
	const struct preview_head head = { .body = PREVIEW_BODY_CHUNKED };

	for (size_t step = 1; step < sizeof(text); step++) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		struct preview_body body;

		preview_body_init(&body, &head);
		assert_false(preview_body_may_close(&body));
		assert_int_equal(decode(&body, text, step, &out), strstr(text, "HTTP/1.1") - text);
		assert_true(preview_body_ended(&body));
		assert_true(preview_body_may_close(&body));
		assert_string_equal(buf_str(&out), "hello, wide world!");
	}
}

static void test_chunks_refused(void **state)
{
	static const char *const bad[] = {
		"\r\n",
		"g\r\n",
		"-1\r\n",
		"+1\r\n",
		" 1\r\n",
		"0x1\r\n",
		"1000000000000000\r\n",
		"1\rx",
		"1\r\nab",
		"1\r\na\rb",
		";x\r\n",
	};
	const struct preview_head head = { .body = PREVIEW_BODY_CHUNKED };
	_cleanup_buf_ struct buf endless = BUF_INIT;
	struct preview_body body;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;

		preview_body_init(&body, &head);
		if (decode(&body, bad[i], 64, &out) != -EBADMSG)
			fail_msg("taken: %s", bad[i]);
	}
	for (int i = 0; i < 2; i++) { /* extensions without an end, trailers without an end */
		_cleanup_buf_ struct buf out = BUF_INIT;

		buf_reset(&endless);
		buf_append_str(&endless, i ? "0\r\n" : "1;");
		for (int n = 0; n < 9000; n++)
			buf_append_str(&endless, i && n % 2 ? "\n" : "x");
		preview_body_init(&body, &head);
		assert_int_equal(decode(&body, buf_str(&endless), 4096, &out), -EBADMSG);
	}
}

static void test_lengths(void **state)
{
	const struct preview_head head = { .body = PREVIEW_BODY_LENGTH, .length = 5 };
	const struct preview_head empty = { .body = PREVIEW_BODY_LENGTH };
	const struct preview_head until = { .body = PREVIEW_BODY_UNTIL_CLOSE };
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct preview_body body;

	preview_body_init(&body, &head);
	assert_int_equal(decode(&body, "hel", 2, &out), 3);
	assert_false(preview_body_may_close(&body));
	assert_int_equal(decode(&body, "lo, more", 8, &out), 2);
	assert_true(preview_body_may_close(&body));
	assert_string_equal(buf_str(&out), "hello");
	preview_body_init(&body, &empty);
	assert_true(preview_body_ended(&body));
	preview_body_init(&body, &until);
	assert_int_equal(decode(&body, "xyz", 3, &out), 3);
	assert_false(preview_body_ended(&body));
	assert_true(preview_body_may_close(&body));
}

/* ---- cookies and redirections ---- */

static void check_strip(const char *header, const char *expected)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	preview_cookie_strip(header, strlen(header), &out);
	assert_string_equal(buf_str(&out), expected);
}

static void test_cookies_of_the_browser(void **state)
{
	static const char header[] = "a=1; skerry_preview=one;skerry_preview = two ; b";
	const char *value;
	size_t at = 0, len;

	assert_true(preview_cookie_next(header, strlen(header), &at, &value, &len));
	assert_memory_equal(value, "one", len);
	assert_true(preview_cookie_next(header, strlen(header), &at, &value, &len));
	assert_int_equal(len, 3);
	assert_memory_equal(value, "two", len);
	assert_false(preview_cookie_next(header, strlen(header), &at, &value, &len));

	check_strip(header, "a=1; b");
	check_strip("skerry_preview=x", "");
	check_strip("a=\"x y\"; SKERRY_session=1; __Host-skerry_x=2; __Secure-Skerry_y=3; c=4=5",
		    "a=\"x y\"; c=4=5");
	check_strip("", "");
	check_strip(";;a=1;", "a=1");
}

static void check_set(const char *value, const char *prefix, const char *expected)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	assert_int_equal(preview_set_cookie_confine(value, strlen(value), prefix, &out),
			 expected != NULL);
	assert_string_equal(buf_str(&out), expected ? expected : "");
}

static void test_cookies_of_the_guest(void **state)
{
	check_set("a=1", "", "a=1");
	check_set("a=1; Path=/x; Domain=.example.com; Secure", "", "a=1; Path=/x; Secure");
	check_set("a=1;domain = example.com ;HttpOnly", "", "a=1; HttpOnly");
	check_set("a=1; Path=/x", "/preview/s/1", "a=1; Path=/preview/s/1/x");
	check_set("a=1; path=/", "/preview/s/1", "a=1; Path=/preview/s/1/");
	check_set("a=1; path=/preview/s/1/y", "/preview/s/1", "a=1; Path=/preview/s/1/y");
	check_set("a=1; path=/preview/s/12", "/preview/s/1", "a=1; Path=/preview/s/1/preview/s/12");
	check_set("a=1; Path", "/preview/s/1", "a=1; Path=/preview/s/1/");
	check_set("a=1; Path=x; Path=/v1", "/preview/s/1",
		  "a=1; Path=/preview/s/1/; Path=/preview/s/1/v1");
	check_set("skerry_preview=x; Path=/", "", NULL);
	check_set("Skerry_other=x", "", NULL);
	check_set("__Host-skerry_preview=x; Path=/; Secure", "", NULL);
	check_set("=skerry_preview=x", "", NULL);
	check_set("nameless", "", NULL);
	check_set("", "", NULL);
}

static void check_location(const char *value, const char *expected)
{
	_cleanup_buf_ struct buf out = BUF_INIT, alone = BUF_INIT;

	preview_location_confine(value, strlen(value), "/preview/s/1", "h:1", &out);
	assert_string_equal(buf_str(&out), expected);
	preview_location_confine(value, strlen(value), "", "h:1", &alone);
	assert_string_equal(buf_str(&alone), value);
}

static void test_locations(void **state)
{
	check_location("/login", "/preview/s/1/login");
	check_location("/", "/preview/s/1/");
	check_location("/preview/s/1/x", "/preview/s/1/x");
	check_location("/preview/s/1?x", "/preview/s/1?x");
	check_location("/preview/s/12", "/preview/s/1/preview/s/12");
	check_location("login", "login");
	check_location("?x=1", "?x=1");
	check_location("//other.example/x", "//other.example/x");
	check_location("https://other.example/x", "https://other.example/x");
	check_location("http://h:1/x", "/preview/s/1/x");
	check_location("HTTP://H:1", "/preview/s/1/");
	check_location("http://h:1?x", "/preview/s/1/?x");
	check_location("http://h:12/x", "http://h:12/x");
	check_location("http://h:1.evil.example/", "http://h:1.evil.example/");
	check_location("", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_no_target),
		cmocka_unit_test(test_domain),
		cmocka_unit_test(test_url),
		cmocka_unit_test(test_query),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_head_kinds),
		cmocka_unit_test(test_head_refused),
		cmocka_unit_test(test_head_caps),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_chunks_refused),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_cookies_of_the_browser),
		cmocka_unit_test(test_cookies_of_the_guest),
		cmocka_unit_test(test_locations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
