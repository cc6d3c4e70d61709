/* What a message over stdio becomes over HTTP: its headers, and answers when it did not get there.
 */
#include "unit.h"

#include <string.h>

#include "base/json.h"
#include "cli/mcp_wire.h"

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"

static json_t *parse(const char *text)
{
	json_t *value;

	assert_int_equal(json_parse(text, strlen(text), &value, NULL), 0);
	return value;
}

static void assert_headers(const char *text, const char *agreed, const char *expected)
{
	_cleanup_json_ json_t *message = parse(text);
	_cleanup_buf_ struct buf lines = BUF_INIT;
	struct mcp_wire_headers headers;

	mcp_wire_headers(message, agreed, &headers);
	for (size_t i = 0; i < headers.n; i++)
		buf_printf(&lines, "%s\n", buf_str(&headers.lines[i]));
	assert_string_equal(buf_str(&lines), expected);
	mcp_wire_headers_clear(&headers);
}

static void modern_messages_are_mirrored(void **state)
{
	assert_headers("{\"method\":\"tools/list\",\"params\":{" META "}}", "2025-06-18",
		       "MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/list\n");
	assert_headers(
		"{\"method\":\"tools/call\",\"params\":{\"name\":\"exec\"," META "}}", NULL,
		"MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: exec\n");
	assert_headers("{\"method\":\"resources/read\",\"params\":{\"uri\":\"a:b\"," META "}}",
		       NULL,
		       "MCP-Protocol-Version: 2026-07-28\nMcp-Method: resources/read\n"
		       "Mcp-Name: a:b\n");
	assert_headers("{\"method\":\"prompts/get\",\"params\":{\"name\":7," META "}}", NULL,
		       "MCP-Protocol-Version: 2026-07-28\nMcp-Method: prompts/get\n");
}

static void what_is_not_plain_is_encoded(void **state)
{
	static const struct {
		const char *name, *header;
	} rows[] = {
		{ "a b", "a b" },
		{ "", "=?base64?"
		      "?=" },
		{ " a", "=?base64?IGE=?=" },
		{ "a ", "=?base64?YSA=?=" },
		{ "a\\nMcp-Method: x", "=?base64?YQpNY3AtTWV0aG9kOiB4?=" },
		{ "a\\u0000", "=?base64?YQA=?=" },
		{ "\\u00fc", "=?base64?w7w=?=" },
		{ "=?base64?x", "=?base64?PT9iYXNlNjQ/eA==?=" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_buf_ struct buf text = BUF_INIT, expected = BUF_INIT;

		buf_printf(&text,
			   "{\"method\":\"tools/call\",\"params\":{\"name\":\"%s\"," META "}}",
			   rows[i].name);
		buf_printf(&expected,
			   "MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\n"
			   "Mcp-Name: %s\n",
			   rows[i].header);
		assert_headers(buf_str(&text), NULL, buf_str(&expected));
	}
}

static void legacy_messages_carry_what_was_agreed(void **state)
{
	assert_headers("{\"method\":\"ping\"}", NULL, "");
	assert_headers("{\"method\":\"tools/call\",\"params\":{\"name\":\"exec\"}}", "2025-06-18",
		       "MCP-Protocol-Version: 2025-06-18\n");
	assert_headers("[{\"method\":\"ping\"}]", "2025-03-26",
		       "MCP-Protocol-Version: 2025-03-26\n");
	assert_headers("{\"method\":\"initialize\",\"params\":{}}", "2025-06-18", "");
	assert_headers("7", NULL, "");
}

static void assert_failure(const char *request, const char *expected)
{
	_cleanup_json_ json_t *message = parse(request), *wanted = parse(expected);
	_cleanup_json_ json_t *failure = mcp_wire_failure(message, "lost");

	assert_true(json_equal(failure, wanted));
}

static void failures_fit_their_requests(void **state)
{
	assert_failure("{\"id\":1.5,\"method\":\"ping\"}",
		       "{\"jsonrpc\":\"2.0\",\"id\":1.5,"
		       "\"error\":{\"code\":-32603,\"message\":\"lost\"}}");
	assert_failure("{\"id\":\"a\",\"method\":\"tools/call\",\"params\":{}}",
		       "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"isError\":true,"
		       "\"content\":[{\"type\":\"text\",\"text\":\"lost\"}]}}");
	assert_failure("{\"id\":2,\"method\":\"tools/call\",\"params\":{" META "}}",
		       "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"isError\":true,"
		       "\"content\":[{\"type\":\"text\",\"text\":\"lost\"}],"
		       "\"resultType\":\"complete\"}}");
	assert_failure("7", "{\"jsonrpc\":\"2.0\",\"id\":null,"
			    "\"error\":{\"code\":-32603,\"message\":\"lost\"}}");
}

static void who_waits_for_an_answer(void **state)
{
	static const struct {
		const char *message;
		bool silent;
	} rows[] = {
		{ "{\"id\":1,\"method\":\"ping\"}", false },
		{ "{\"id\":null,\"method\":\"ping\"}", false },
		{ "{\"method\":\"n\"}", true },
		{ "{\"id\":1,\"result\":{}}", true },
		{ "{\"id\":1,\"error\":{}}", true },
		{ "{}", false },
		{ "[]", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_json_ json_t *message = parse(rows[i].message);

		assert_int_equal(mcp_wire_is_silent(message), rows[i].silent);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modern_messages_are_mirrored),
		cmocka_unit_test(what_is_not_plain_is_encoded),
		cmocka_unit_test(legacy_messages_carry_what_was_agreed),
		cmocka_unit_test(failures_fit_their_requests),
		cmocka_unit_test(who_waits_for_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
