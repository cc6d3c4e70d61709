/* Routes, hosts, origins, query strings and the statuses of errors: the pure parts around REST. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/origin.h"
#include "api/problem.h"
#include "api/route.h"
#include "base/json.h"
#include "base/str.h"

static void test_routes(void **state)
{
	static const struct {
		const char *method, *path;
		int rc;
		const char *op, *id, *exec_id;
	} rows[] = {
		{ "GET", "/v1/sandboxes", 0, "list_sandboxes", NULL, NULL },
		{ "HEAD", "/v1/sandboxes", 0, "list_sandboxes", NULL, NULL },
		{ "POST", "/v1/sandboxes", 0, "create_sandbox", NULL, NULL },
		{ "PATCH", "/v1/sandboxes", -EOPNOTSUPP, NULL, NULL, NULL },
		{ "get", "/v1/sandboxes", -EOPNOTSUPP, NULL, NULL, NULL },
		{ "GET", "/v1/sandboxes/sbx_1", 0, "get_sandbox", "sbx_1", NULL },
		{ "DELETE", "/v1/sandboxes/sbx_1", 0, "destroy_sandbox", "sbx_1", NULL },
		{ "GET", "/v1/sandboxes/a%2Fb", 0, "get_sandbox", "a/b", NULL },
		{ "GET", "/v1/sandboxes/%C3%A9", 0, "get_sandbox", "é", NULL },
		{ "GET", "/v1/sandboxes/%ff", 0, "get_sandbox", "\xef\xbf\xbd", NULL },
		{ "GET", "/v1/sandboxes/a+b", 0, "get_sandbox", "a+b", NULL },
		{ "GET", "/v1/sandboxes/%", -ENOENT, NULL, NULL, NULL },
		{ "GET", "/v1/sandboxes/%4", -ENOENT, NULL, NULL, NULL },
		{ "GET", "/v1/sandboxes/%gg", -ENOENT, NULL, NULL, NULL },
		{ "POST", "/v1/sandboxes/sbx_1/exec", 0, "exec", "sbx_1", NULL },
		{ "GET", "/v1/sandboxes/sbx_1/exec/exe_2", 0, "exec_wait", "sbx_1", "exe_2" },
		{ "POST", "/v1/sandboxes/sbx_1/exec/exe_2/input", 0, "exec_input", "sbx_1",
		  "exe_2" },
		{ "POST", "/v1/sandboxes/sbx_1/exec/exe_2/signal", 0, "exec_signal", "sbx_1",
		  "exe_2" },
		{ "POST", "/v1/sandboxes/sbx_1/exec/exe_2/signal/", -ENOENT, NULL, NULL, NULL },
		{ "POST", "/v1/sandboxes/sbx_1/EXEC", -ENOENT, NULL, NULL, NULL },
		{ "GET", "/v1/sandboxes//exec/x", -ENOENT, NULL, NULL, NULL },
		{ "GET", "/v1", -ENOENT, NULL, NULL, NULL },
		{ "GET", "v1/sandboxes", -ENOENT, NULL, NULL, NULL },
		{ "GET", "", -ENOENT, NULL, NULL, NULL },
		{ "OPTIONS", "*", -ENOENT, NULL, NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct route route = { 0 };
		int rc = route_find(rows[i].method, rows[i].path, &route);

		if (rc != rows[i].rc)
			fail_msg("%s %s: %d", rows[i].method, rows[i].path, rc);
		if (rows[i].op)
			assert_string_equal(route.op->name, rows[i].op);
		if (rows[i].id)
			assert_string_equal(json_get_str(route.params, "id", "?"), rows[i].id);
		if (rows[i].exec_id)
			assert_string_equal(json_get_str(route.params, "exec_id", "?"),
					    rows[i].exec_id);
		route_clear(&route);
	}
}

static void test_allow(void **state)
{
	struct route route = { 0 };

	assert_int_equal(route_find("PUT", "/v1/sandboxes/x", &route), -EOPNOTSUPP);
	assert_non_null(strstr(route.allow, "GET, HEAD"));
	assert_non_null(strstr(route.allow, "DELETE"));
	assert_non_null(strstr(route.allow, "OPTIONS"));
}

/* In two steps, the first of which looks at the shape alone. */
static void test_two_steps(void **state)
{
	const struct op *op = route_op("HEAD", "/v1/sandboxes/sbx_1/egress");
	struct route route = { 0 };

	(void)state;
	assert_non_null(op);
	assert_string_equal(op->name, "get_egress");
	assert_int_equal(route_take(op, "/v1/sandboxes/sbx_1/egress", &route), 0);
	assert_string_equal(json_get_str(route.params, "id", "?"), "sbx_1");
	route_clear(&route);
	assert_null(route_op("GET", "/v1/nowhere"));
	assert_null(route_op("PATCH", "/v1/sandboxes/sbx_1"));
	/* The shape is right, the argument is not. */
	op = route_op("GET", "/v1/sandboxes/%zz");
	assert_non_null(op);
	assert_int_equal(route_take(op, "/v1/sandboxes/%zz", &route), -ENOENT);
	assert_int_equal(route_find("GET", "/v1/sandboxes/%zz", &route), -ENOENT);
}

/* Every operation on REST is reached by its own template, with its own method. */
static void test_every_op_has_its_route(void **state)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf path = BUF_INIT;
		struct route route = { 0 };

		for (const char *c = ops[i].rest_path; *c; c++) {
			buf_append_char(&path, *c == '{' ? 'x' : *c);
			if (*c == '{')
				c = strchr(c, '}');
		}
		assert_int_equal(route_find(ops[i].rest_method, buf_str(&path), &route), 0);
		assert_ptr_equal(route.op, &ops[i]);
		route_clear(&route);
	}
}

static void test_hosts(void **state)
{
	static const struct {
		const char *host;
		bool valid, loopback;
	} rows[] = {
		{ "localhost", true, true },
		{ "LocalHost:1", true, true },
		{ "127.0.0.1", true, true },
		{ "127.0.0.1:65535", true, true },
		{ "[::1]", true, true },
		{ "[::1]:80", true, true },
		{ "127.0.0.2", true, false },
		{ "example.com", true, false },
		{ "localhost.", true, false },
		{ "[::2]", true, false },
		{ "::1", false, false },
		{ "[::1", false, false },
		{ "[]", false, false },
		{ "[::1]x", false, false },
		{ "", false, false },
		{ NULL, false, false },
		{ "a b", false, false },
		{ "localhost:", false, false },
		{ "localhost:8x", false, false },
		{ "localhost:123456", false, false },
		{ "localhost/", false, false },
		{ "user@localhost", false, false },
		{ "localhost,evil", false, false },
	};
	char long_host[400];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (origin_host_valid(rows[i].host) != rows[i].valid ||
		    origin_host_is_loopback(rows[i].host) != rows[i].loopback)
			fail_msg("host %s", rows[i].host ? rows[i].host : "(none)");
	}
	memset(long_host, 'a', sizeof(long_host));
	long_host[sizeof(long_host) - 1] = '\0';
	assert_false(origin_host_valid(long_host));
}

static void test_origins(void **state)
{
	assert_true(origin_is_same("http://localhost:7171", "localhost:7171", false));
	assert_true(origin_is_same("HTTP://LOCALHOST:7171", "localhost:7171", false));
	assert_true(origin_is_same("https://a.example", "a.example", true));
	assert_false(origin_is_same("http://a.example", "a.example", true));
	assert_false(origin_is_same("https://a.example", "a.example", false));
	assert_false(origin_is_same("http://localhost", "localhost:7171", false));
	assert_false(origin_is_same("http://localhost:7171.evil", "localhost:7171", false));
	assert_false(origin_is_same("http://localhost:7171/", "localhost:7171", false));
	assert_false(origin_is_same("null", "null", false));
	assert_false(origin_is_same("http://", "", false));
	assert_false(origin_is_same("", "localhost", false));
}

static void test_unescape(void **state)
{
	static const struct {
		const char *text;
		bool plus;
		const char *want;
	} rows[] = {
		{ "", false, "" },	   { "abc", false, "abc" }, { "a%20b", false, "a b" },
		{ "a+b", true, "a b" },	   { "a+b", false, "a+b" }, { "%41%61", false, "Aa" },
		{ "%", false, NULL },	   { "%4", false, NULL },   { "a%", false, NULL },
		{ "a%4", false, NULL },	   { "%4g", false, NULL },  { "%g4", false, NULL },
		{ "%2525", false, "%25" }, { "x%2f", false, "x/" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		int rc;

		buf_append_str(&out, "-");
		rc = http_unescape(rows[i].text, strlen(rows[i].text), rows[i].plus, &out);
		if ((rc == 0) != (rows[i].want != NULL))
			fail_msg("%s: %d", rows[i].text, rc);
		assert_string_equal(buf_str(&out) + 1, rows[i].want ? rows[i].want : "");
	}
}

static void test_statuses(void **state)
{
	static const struct {
		int num;
		const char *code;
		unsigned int status;
	} rows[] = {
		{ -EINVAL, NULL, 400 },
		{ -EINVAL, "invalid_argument", 400 },
		{ -EACCES, "invalid_key", 401 },
		{ -EPERM, NULL, 403 },
		{ -ENOENT, NULL, 404 },
		{ -ENOENT, "not_found", 404 },
		{ -EEXIST, NULL, 409 },
		{ -EBUSY, "idempotency_in_progress", 409 },
		{ -EBUSY, NULL, 503 },
		{ -ESHUTDOWN, "sandbox_ended", 410 },
		{ -ENOENT, "cwd_not_found", 422 },
		{ -EDQUOT, "quota_reached", 429 },
		{ -ENOSPC, NULL, 507 },
		{ -ENOSPC, "disk_full", 507 },
		{ -EIO, NULL, 500 },
		{ -EIO, "start_failed", 500 },
		{ -ETIMEDOUT, NULL, 504 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { .num = rows[i].num, .code = rows[i].code };

		if (problem_status(&err) != rows[i].status)
			fail_msg("%d %s: %u", rows[i].num, rows[i].code ? rows[i].code : "-",
				 problem_status(&err));
		assert_string_not_equal(problem_title(rows[i].status), "Error");
	}
}

static void test_problem(void **state)
{
	struct err err = ERR_INIT;
	_cleanup_json_ json_t *json = NULL, *hidden = NULL;

	err_code(&err, -ENOENT, "not_found", "sandbox \"%s\" was not found", "sbx_1");
	err_hint(&err, "list them");
	json = problem_json(404, &err, "req_1");
	assert_string_equal(json_get_str(json, "type", "?"), "about:blank");
	assert_string_equal(json_get_str(json, "title", "?"), "Not Found");
	assert_int_equal(json_get_int(json, "status", 0), 404);
	assert_string_equal(json_get_str(json, "code", "?"), "not_found");
	assert_string_equal(json_get_str(json, "detail", "?"), "sandbox \"sbx_1\" was not found");
	assert_string_equal(json_get_str(json, "hint", "?"), "list them");
	assert_string_equal(json_get_str(json, "request_id", "?"), "req_1");

	err = ERR_INIT;
	err_set(&err, -EIO, "open '/secret/path': I/O error");
	hidden = problem_json(500, &err, "req_2");
	assert_null(strstr(json_get_str(hidden, "detail", "?"), "secret"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_routes),	  cmocka_unit_test(test_allow),
		cmocka_unit_test(test_two_steps), cmocka_unit_test(test_every_op_has_its_route),
		cmocka_unit_test(test_hosts),	  cmocka_unit_test(test_origins),
		cmocka_unit_test(test_unescape),  cmocka_unit_test(test_statuses),
		cmocka_unit_test(test_problem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
