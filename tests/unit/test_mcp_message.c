/*
 * What the MCP endpoint decides about a body and its headers, era by era. Most of this file is a
 * table: a request as it comes from the wire, and what becomes of it.
 */
#include "unit.h"

#include <string.h>

#include "api/mcp_message.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"

#define META(version)                                                                              \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version "\","                  \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN META(MCP_MODERN_VERSION)
#define REQUEST(method, params)                                                                    \
	"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":{" params "}}"
#define NOTIFICATION(method, params)                                                               \
	"{\"jsonrpc\":\"2.0\",\"method\":\"" method "\",\"params\":{" params "}}"
#define V MCP_MODERN_VERSION

struct row {
	const char *what;
	struct mcp_headers headers; /* version, method, name, repeated */
	const char *body;
	enum mcp_action action;
	enum mcp_era era;
	unsigned int status; /* of a fault, as is code */
	int code;
};

#define FAULT(era, status, code) MCP_ACT_FAULT, era, status, code

/* clang-format off */
static const struct row rows[] = {
	/* modern */
	{"discover", {V, "server/discover"}, REQUEST("server/discover", MODERN),
	 MCP_ACT_DISCOVER, MCP_MODERN},
	{"list", {V, "tools/list"}, REQUEST("tools/list", MODERN), MCP_ACT_TOOLS_LIST, MCP_MODERN},
	{"null cursor", {V, "tools/list"}, REQUEST("tools/list", MODERN ",\"cursor\":null"),
	 MCP_ACT_TOOLS_LIST, MCP_MODERN},
	{"invalid cursor", {V, "tools/list"}, REQUEST("tools/list", MODERN ",\"cursor\":\"\""),
	 FAULT(MCP_MODERN, 200, MCP_INVALID_PARAMS)},
	{"call", {V, "tools/call", "exec"}, REQUEST("tools/call", MODERN ",\"name\":\"exec\""),
	 MCP_ACT_TOOLS_CALL, MCP_MODERN},
	{"blanks around values", {" " V " ", "\ttools/call", "  exec  "},
	 REQUEST("tools/call", MODERN ",\"name\":\"exec\""), MCP_ACT_TOOLS_CALL, MCP_MODERN},
	{"name in base64", {V, "tools/call", "=?base64?ZXhlYw==?="},
	 REQUEST("tools/call", MODERN ",\"name\":\"exec\""), MCP_ACT_TOOLS_CALL, MCP_MODERN},
	{"base64 without padding", {V, "tools/call", "=?base64?ZXhlYw?="},
	 REQUEST("tools/call", MODERN ",\"name\":\"exec\""), FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"base64 of no UTF-8", {V, "tools/call", "=?base64?/w==?="},
	 REQUEST("tools/call", MODERN ",\"name\":\"exec\""), FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"base64 markers overlap", {V, "tools/call", "=?base64?="},
	 REQUEST("tools/call", MODERN ",\"name\":\"=?base64?=\""), MCP_ACT_TOOLS_CALL, MCP_MODERN},
	{"no meta", {V, "server/discover"}, REQUEST("server/discover", ""),
	 FAULT(MCP_MODERN, 400, MCP_INVALID_PARAMS)},
	{"no params", {V, "tools/list"}, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}",
	 FAULT(MCP_MODERN, 400, MCP_INVALID_PARAMS)},
	{"discover without anything", {0}, REQUEST("server/discover", ""),
	 FAULT(MCP_MODERN, 400, MCP_INVALID_PARAMS)},
	{"meta without version", {V, "tools/list"},
	 REQUEST("tools/list", "\"_meta\":{\"io.modelcontextprotocol/clientCapabilities\":{}}"),
	 FAULT(MCP_MODERN, 400, MCP_INVALID_PARAMS)},
	{"version is a number", {V, "tools/list"},
	 REQUEST("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":3,"
			       "\"io.modelcontextprotocol/clientCapabilities\":{}}"),
	 FAULT(MCP_MODERN, 400, MCP_INVALID_PARAMS)},
	{"meta without capabilities", {V, "tools/list"},
	 REQUEST("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" V "\"}"),
	 FAULT(MCP_MODERN, 400, MCP_INVALID_PARAMS)},
	{"no version header", {NULL, "tools/list"}, REQUEST("tools/list", MODERN),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"other version header", {"2025-11-25", "tools/list"}, REQUEST("tools/list", MODERN),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"unknown version", {"v999", "tools/list"}, REQUEST("tools/list", META("v999")),
	 FAULT(MCP_MODERN, 400, MCP_UNSUPPORTED_VERSION)},
	{"legacy version in meta", {"2025-11-25", "tools/list"}, REQUEST("tools/list", META("2025-11-25")),
	 FAULT(MCP_MODERN, 400, MCP_UNSUPPORTED_VERSION)},
	{"later version without its headers", {"2031-01-01"}, REQUEST("tools/list", META("2031-01-01")),
	 FAULT(MCP_MODERN, 400, MCP_UNSUPPORTED_VERSION)},
	{"no method header", {V}, REQUEST("tools/list", MODERN),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"method header in other case", {V, "TOOLS/LIST"}, REQUEST("tools/list", MODERN),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"no name header", {V, "tools/call"}, REQUEST("tools/call", MODERN ",\"name\":\"exec\""),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"other name header", {V, "tools/call", "exec_wait"},
	 REQUEST("tools/call", MODERN ",\"name\":\"exec\""), FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"header twice", {V, "tools/list", NULL, true}, REQUEST("tools/list", MODERN),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"uri is mirrored too", {V, "resources/read", "file:///a"},
	 REQUEST("resources/read", MODERN ",\"uri\":\"file:///b\""),
	 FAULT(MCP_MODERN, 400, MCP_HEADER_MISMATCH)},
	{"no such method", {V, "resources/read", "file:///a"},
	 REQUEST("resources/read", MODERN ",\"uri\":\"file:///a\""),
	 FAULT(MCP_MODERN, 404, MCP_METHOD_NOT_FOUND)},
	{"initialize is no more", {V, "initialize"}, REQUEST("initialize", MODERN),
	 FAULT(MCP_MODERN, 404, MCP_METHOD_NOT_FOUND)},
	{"ping is no more", {V, "ping"}, REQUEST("ping", MODERN),
	 FAULT(MCP_MODERN, 404, MCP_METHOD_NOT_FOUND)},
	{"subscriptions/listen", {V, "subscriptions/listen"}, REQUEST("subscriptions/listen", MODERN),
	 FAULT(MCP_MODERN, 404, MCP_METHOD_NOT_FOUND)},
	{"call without name", {V, "tools/call"}, REQUEST("tools/call", MODERN),
	 FAULT(MCP_MODERN, 200, MCP_INVALID_PARAMS)},
	{"name is a list", {V, "tools/call"}, REQUEST("tools/call", MODERN ",\"name\":[]"),
	 FAULT(MCP_MODERN, 200, MCP_INVALID_PARAMS)},
	{"arguments are a list", {V, "tools/call", "exec"},
	 REQUEST("tools/call", MODERN ",\"name\":\"exec\",\"arguments\":[]"),
	 FAULT(MCP_MODERN, 200, MCP_INVALID_PARAMS)},
	{"notification", {V}, NOTIFICATION("notifications/whatever", MODERN), MCP_ACT_ACCEPT, MCP_MODERN},
	{"cancel is by closing", {V}, NOTIFICATION("notifications/cancelled", MODERN ",\"requestId\":1"),
	 MCP_ACT_ACCEPT, MCP_MODERN},
	{"response", {V}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
	 FAULT(MCP_MODERN, 400, MCP_INVALID_REQUEST)},
	{"array in this version", {V, "tools/list"}, "[" REQUEST("tools/list", MODERN) "]",
	 FAULT(MCP_MODERN, 400, MCP_INVALID_REQUEST)},

	/* legacy */
	{"initialize", {0}, REQUEST("initialize", "\"protocolVersion\":\"2025-11-25\""),
	 MCP_ACT_INITIALIZE, MCP_LEGACY},
	{"initialize after a discover", {V}, REQUEST("initialize", "\"protocolVersion\":\"" V "\""),
	 MCP_ACT_INITIALIZE, MCP_LEGACY},
	{"initialize with a strange header", {"banana"}, REQUEST("initialize", ""),
	 MCP_ACT_INITIALIZE, MCP_LEGACY},
	{"initialized", {"2025-11-25"}, NOTIFICATION("notifications/initialized", ""),
	 MCP_ACT_ACCEPT, MCP_LEGACY},
	{"ping", {"2025-06-18"}, REQUEST("ping", ""), MCP_ACT_PING, MCP_LEGACY},
	{"ping without params", {0}, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}",
	 MCP_ACT_PING, MCP_LEGACY},
	{"list", {"2025-11-25"}, REQUEST("tools/list", ""), MCP_ACT_TOOLS_LIST, MCP_LEGACY},
	{"no header means 2025-03-26", {0}, REQUEST("tools/list", ""), MCP_ACT_TOOLS_LIST, MCP_LEGACY},
	{"call", {"2025-11-25"}, REQUEST("tools/call", "\"name\":\"exec\",\"arguments\":{}"),
	 MCP_ACT_TOOLS_CALL, MCP_LEGACY},
	{"no mirrored header is asked for", {"2025-11-25", "nonsense", "nonsense"},
	 REQUEST("tools/list", ""), MCP_ACT_TOOLS_LIST, MCP_LEGACY},
	{"unsupported version header", {"2024-11-05"}, REQUEST("tools/list", ""),
	 FAULT(MCP_LEGACY, 400, MCP_UNSUPPORTED_VERSION)},
	{"version header is no version", {"banana"}, REQUEST("tools/list", ""),
	 FAULT(MCP_LEGACY, 400, MCP_UNSUPPORTED_VERSION)},
	{"unknown method", {"2025-11-25"}, REQUEST("resources/list", ""),
	 FAULT(MCP_LEGACY, 200, MCP_METHOD_NOT_FOUND)},
	{"cursor", {"2025-11-25"}, REQUEST("tools/list", "\"cursor\":\"x\""),
	 FAULT(MCP_LEGACY, 200, MCP_INVALID_PARAMS)},
	{"NUL in the tool's name", {"2025-11-25"}, REQUEST("tools/call", "\"name\":\"exec\\u0000x\""),
	 FAULT(MCP_LEGACY, 200, MCP_INVALID_PARAMS)},
	{"NUL in the method", {"2025-11-25"}, REQUEST("tools/list\\u0000", ""),
	 FAULT(MCP_LEGACY, 200, MCP_METHOD_NOT_FOUND)},
	{"cancelled", {"2025-11-25"}, NOTIFICATION("notifications/cancelled", "\"requestId\":\"a\""),
	 MCP_ACT_CANCEL, MCP_LEGACY},
	{"cancelled without id", {"2025-11-25"}, NOTIFICATION("notifications/cancelled", ""),
	 MCP_ACT_ACCEPT, MCP_LEGACY},
	{"response", {"2025-11-25"}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
	 MCP_ACT_ACCEPT, MCP_LEGACY},
	{"error response", {"2025-11-25"}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{}}",
	 MCP_ACT_ACCEPT, MCP_LEGACY},
	{"batch of 2025-11-25", {"2025-11-25"}, "[" REQUEST("ping", "") "]",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"empty batch", {"2025-03-26"}, "[]", FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"modern in a batch", {0}, "[" REQUEST("tools/list", MODERN) "]",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"initialize in a batch", {0}, "[" REQUEST("initialize", "") "]",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},

	/* neither */
	{"nothing", {0}, "", FAULT(MCP_LEGACY, 400, MCP_PARSE_ERROR)},
	{"half a message", {0}, "{\"jsonrpc\":", FAULT(MCP_LEGACY, 400, MCP_PARSE_ERROR)},
	{"two messages", {0}, REQUEST("ping", "") REQUEST("ping", ""),
	 FAULT(MCP_LEGACY, 400, MCP_PARSE_ERROR)},
	{"key twice", {0}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_PARSE_ERROR)},
	{"bad UTF-8", {0}, "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_PARSE_ERROR)},
	{"a number", {0}, "5", FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"null", {V}, "null", FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"no jsonrpc", {0}, "{\"id\":1,\"method\":\"ping\"}", FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"jsonrpc 1.0", {0}, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"id null", {0}, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"id with a fraction", {0}, "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"id beyond 64 bits", {0},
	 "{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"id is a list", {0}, "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"ping\"}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"no method", {0}, "{\"jsonrpc\":\"2.0\",\"id\":1}", FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"method is a number", {0}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
	{"params are a list", {0}, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_PARAMS)},
	{"header twice", {"2025-11-25", NULL, NULL, true}, REQUEST("ping", ""),
	 FAULT(MCP_LEGACY, 400, MCP_INVALID_REQUEST)},
};
/* clang-format on */

static void check_row(const struct row *row)
{
	struct mcp_fault whole = { 0 };
	const struct mcp_fault *fault = &whole;
	struct mcp_body body;
	bool ok = mcp_body_read(row->body, strlen(row->body), &row->headers, &body, &whole);
	const struct mcp_message *m = &body.messages[0];

	if (ok) {
		fault = &m->fault;
		if (body.n_messages != 1 || m->action != row->action || m->era != row->era)
			fail_msg("%s: action %d, era %d, %s", row->what, m->action, m->era,
				 m->fault.message);
	} else if (row->action != MCP_ACT_FAULT) {
		fail_msg("%s: %s", row->what, whole.message);
	}
	if (row->action == MCP_ACT_FAULT) {
		if (fault->status != row->status || (int)fault->code != row->code)
			fail_msg("%s: %u %d %s", row->what, fault->status, fault->code,
				 fault->message);
		assert_true(strlen(fault->message) > 8);
	}
	mcp_body_clear(&body);
	mcp_fault_clear(&whole);
}

static void test_decisions(void **state)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

static json_t *answer_of(const char *text, const struct mcp_headers *headers)
{
	struct mcp_fault whole = { 0 };
	struct mcp_body body;
	json_t *answer;

	if (mcp_body_read(text, strlen(text), headers, &body, &whole))
		answer = mcp_error_response(body.messages[0].id, &body.messages[0].fault);
	else
		answer = mcp_error_response(NULL, &whole);
	mcp_body_clear(&body);
	mcp_fault_clear(&whole);
	return answer;
}

static void expect_answer(const char *text, const struct mcp_headers *headers, const char *expected)
{
	_cleanup_json_ json_t *answer = answer_of(text, headers);
	_cleanup_buf_ struct buf out = BUF_INIT;

	json_write(answer, &out);
	assert_string_equal(buf_str(&out), expected);
}

static void test_errors_echo_the_id_and_carry_data(void **state)
{
	expect_answer(REQUEST("tools/list", META("v999")),
		      &(struct mcp_headers){ "v999", "tools/list" },
		      "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32022,\"message\":"
		      "\"unsupported protocol version \\\"v999\\\"\",\"data\":{\"supported\":"
		      "[\"2026-07-28\"],\"requested\":\"v999\"}}}");
	expect_answer(REQUEST("tools/list", ""), &(struct mcp_headers){ "2024-11-05" },
		      "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32022,\"message\":"
		      "\"unsupported protocol version \\\"2024-11-05\\\"\",\"data\":{\"supported\":"
		      "[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\",\"2025-03-26\"],"
		      "\"requested\":\"2024-11-05\"}}}");
	expect_answer("{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":4}", &(struct mcp_headers){ 0 },
		      "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32600,\"message\":"
		      "\"invalid request: \\\"method\\\" must be a string\"}}");
	expect_answer(
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", &(struct mcp_headers){ 0 },
		"{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"invalid request: "
		"\\\"id\\\" must be an integer or a string of at most 512 bytes\"}}");
}

/* What a client sent is quoted short, on one line and as valid UTF-8. */
static void test_hostile_text_in_messages(void **state)
{
	char text[4096], wide[2000];
	_cleanup_json_ json_t *answer = NULL;
	const char *message;

	memset(wide, 'a', sizeof(wide));
	wide[sizeof(wide) - 1] = '\0';
	snprintf(text, sizeof(text), REQUEST("%s", MODERN), wide);
	answer = answer_of(text, &(struct mcp_headers){ V, "x\xff\n\xe2\x82" });
	message = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
	assert_non_null(message);
	assert_true(strlen(message) < 300);
	assert_null(strchr(message, '\n'));
	assert_true(utf8_valid(message, strlen(message)));
}

static void test_ids(void **state)
{
	char text[2048], id[600];
	struct mcp_fault whole = { 0 };
	struct mcp_body body;
	size_t len;

	for (len = 512; len <= 513; len++) {
		memset(id, 'i', len);
		id[len] = '\0';
		snprintf(text, sizeof(text),
			 "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"ping\"}", id);
		assert_true(mcp_body_read(text, strlen(text), &(struct mcp_headers){ 0 }, &body,
					  &whole));
		assert_int_equal(body.messages[0].action,
				 len == 512 ? MCP_ACT_PING : MCP_ACT_FAULT);
		mcp_body_clear(&body);
	}
	snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"ping\"}");
	assert_true(mcp_body_read(text, strlen(text), &(struct mcp_headers){ 0 }, &body, &whole));
	assert_int_equal(json_integer_value(body.messages[0].id), 0);
	mcp_body_clear(&body);
}

static void test_call_fields(void **state)
{
	static const char text[] =
		REQUEST("tools/call", "\"name\":\"exec\",\"arguments\":{\"a\":1},"
				      "\"_meta\":{\"progressToken\":\"p\"}");
	struct mcp_fault whole = { 0 };
	struct mcp_body body;

	assert_true(mcp_body_read(text, strlen(text), &(struct mcp_headers){ "2025-06-18" }, &body,
				  &whole));
	assert_string_equal(body.messages[0].tool, "exec");
	assert_string_equal(body.messages[0].version, "2025-06-18");
	assert_string_equal(json_string_value(body.messages[0].progress_token), "p");
	assert_int_equal(json_get_int(body.messages[0].arguments, "a", 0), 1);
	assert_false(body.batch);
	mcp_body_clear(&body);
}

static void test_batch(void **state)
{
	static const char text[] = "[" REQUEST("ping", "") "," NOTIFICATION(
		"notifications/x", "") ",5," REQUEST("nope", "") "]";
	struct buf many = BUF_INIT;
	struct mcp_fault whole = { 0 };
	struct mcp_body body;
	int i;

	assert_true(mcp_body_read(text, strlen(text), &(struct mcp_headers){ 0 }, &body, &whole));
	assert_true(body.batch);
	assert_int_equal(body.n_messages, 4);
	assert_int_equal(body.messages[0].action, MCP_ACT_PING);
	assert_int_equal(body.messages[1].action, MCP_ACT_ACCEPT);
	assert_int_equal(body.messages[2].fault.code, MCP_INVALID_REQUEST);
	assert_int_equal(body.messages[3].fault.code, MCP_METHOD_NOT_FOUND);
	mcp_body_clear(&body);

	buf_append_char(&many, '[');
	for (i = 0; i < MCP_BATCH_MAX; i++)
		buf_append_str(&many, REQUEST("ping", "") ",");
	buf_append_str(&many, REQUEST("ping", "") "]");
	assert_false(mcp_body_read(many.data, many.len, &(struct mcp_headers){ 0 }, &body, &whole));
	assert_int_equal(whole.code, MCP_INVALID_REQUEST);
	mcp_body_clear(&body);
	buf_clear(&many);
}

static void test_deep_nesting_is_refused(void **state)
{
	struct buf deep = BUF_INIT;
	struct mcp_fault whole = { 0 };
	struct mcp_body body;
	int i;

	for (i = 0; i < 200000; i++)
		buf_append_str(&deep, "{\"a\":");
	assert_false(mcp_body_read(deep.data, deep.len, &(struct mcp_headers){ 0 }, &body, &whole));
	assert_int_equal(whole.code, MCP_PARSE_ERROR);
	mcp_body_clear(&body);
	buf_clear(&deep);
}

static void test_initialize_version(void **state)
{
	static const char *const asked[] = {
		"2025-03-26", "2025-06-18", "2025-11-25", "2024-11-05", V, ""
	};
	static const char *const given[] = {
		"2025-03-26",	   "2025-06-18",      "2025-11-25",
		MCP_LEGACY_NEWEST, MCP_LEGACY_NEWEST, MCP_LEGACY_NEWEST
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(asked); i++) {
		_cleanup_json_ json_t *params = json_pack("{s:s}", "protocolVersion", asked[i]);

		assert_string_equal(mcp_initialize_version(params), given[i]);
	}
	assert_string_equal(mcp_initialize_version(NULL), MCP_LEGACY_NEWEST);
}

static void test_results_are_sealed(void **state)
{
	_cleanup_json_ json_t *legacy = json_object(), *modern = json_object();
	const json_t *server;

	mcp_result_seal(MCP_LEGACY, legacy);
	assert_int_equal(json_object_size(legacy), 0);
	mcp_result_seal(MCP_MODERN, modern);
	assert_string_equal(json_get_str(modern, "resultType", ""), "complete");
	server = json_object_get(json_object_get(modern, "_meta"),
				 "io.modelcontextprotocol/serverInfo");
	assert_string_equal(json_get_str(server, "name", ""), "skerry");
	assert_string_equal(json_get_str(server, "version", ""), SKERRY_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decisions),
		cmocka_unit_test(test_errors_echo_the_id_and_carry_data),
		cmocka_unit_test(test_hostile_text_in_messages),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_call_fields),
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_deep_nesting_is_refused),
		cmocka_unit_test(test_initialize_version),
		cmocka_unit_test(test_results_are_sealed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
