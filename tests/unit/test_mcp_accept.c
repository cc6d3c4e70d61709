/* What an MCP client takes for an answer, read leniently from its Accept header. */
#include "unit.h"

#include <string.h>

#include "api/mcp_exchange.h"
#include "base/str.h"

static const struct row {
	const char *accept;
	bool json, stream, stream_by_name;
} rows[] = {
	{ NULL, true, true, false },
	{ "", false, false, false },
	{ "*/*", true, true, false },
	{ "application/json", true, false, false },
	{ "text/event-stream", false, true, true },
	{ "application/json, text/event-stream", true, true, true },
	{ "text/event-stream,application/json", true, true, true },
	{ "APPLICATION/JSON;charset=utf-8 ,\ttext/Event-Stream ; q=0.5", true, true, true },
	{ "application/*", true, false, false },
	{ "text/*", false, true, true },
	{ "text/html", false, false, false },
	{ "application/jsonx, application/jso", false, false, false },
	{ "application/json;q=0, text/event-stream", false, true, true },
	{ "application/json; q=0.0 , */*", true, true, false },
	{ "application/json;q=0.01", true, false, false },
	{ "application/json;v=1;q=0;x=2", false, false, false },
	{ "application/json;", true, false, false },
	{ ",,, ,application/json,", true, false, false },
	{ ";;;,=,q=0", false, false, false },
};

static void test_accept(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct mcp_accept accept = mcp_accept_read(row->accept);

		if (accept.json != row->json || accept.stream != row->stream ||
		    accept.stream_by_name != row->stream_by_name)
			fail_msg("\"%s\": %d %d %d", row->accept ? row->accept : "(none)",
				 accept.json, accept.stream, accept.stream_by_name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_accept) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
