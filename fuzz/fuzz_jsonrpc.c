/*
 * Everything between the bytes of a POST to /mcp and the decision about it. Input: three lines with
 * the headers MCP-Protocol-Version, Mcp-Method and Mcp-Name ("-": absent), then the body.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp_message.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* Takes a line off the input; a header cannot hold a NUL, so that the text ends there. */
static char *take_line(const uint8_t **data, size_t *size)
{
	const uint8_t *end = memchr(*data, '\n', *size);
	size_t len = end ? (size_t)(end - *data) : *size;
	char *line = xstrndup((const char *)*data, len);

	*data += end ? len + 1 : len;
	*size -= end ? len + 1 : len;
	if (str_eq(line, "-")) {
		free(line);
		return NULL;
	}
	return line;
}

static void check_fault(json_t *id, const struct mcp_fault *fault)
{
	_cleanup_json_ json_t *response = mcp_error_response(id, fault);
	_cleanup_json_ json_t *again = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;

	REQUIRE(fault->status == 200 || fault->status == 400 || fault->status == 404);
	REQUIRE(fault->code < 0 && fault->message[0]);
	json_write(response, &text);
	REQUIRE(utf8_valid(text.data, text.len));
	REQUIRE(json_parse(text.data, text.len, &again, NULL) == 0);
}

static void check_message(const struct mcp_message *m)
{
	bool modern = m->era == MCP_MODERN;

	REQUIRE(m->version);
	REQUIRE(m->action == MCP_ACT_FAULT || m->fault.code == 0 || !m->id);
	switch (m->action) {
	case MCP_ACT_FAULT:
		check_fault(m->id, &m->fault);
		break;
	case MCP_ACT_ACCEPT:
		REQUIRE(!m->id);
		break;
	case MCP_ACT_CANCEL:
		REQUIRE(!modern && !m->id && m->target_id);
		break;
	case MCP_ACT_INITIALIZE:
		REQUIRE(!modern && m->id && mcp_initialize_version(m->params));
		break;
	case MCP_ACT_PING:
		REQUIRE(!modern && m->id);
		break;
	case MCP_ACT_DISCOVER:
		REQUIRE(modern && m->id);
		break;
	case MCP_ACT_TOOLS_LIST:
		REQUIRE(m->id);
		break;
	case MCP_ACT_TOOLS_CALL:
		REQUIRE(m->id && m->tool && (!m->arguments || json_is_object(m->arguments)));
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *version = take_line(&data, &size);
	_cleanup_free_ char *method = take_line(&data, &size);
	_cleanup_free_ char *name = take_line(&data, &size);
	const struct mcp_headers headers = { version, method, name, size % 31 == 30 };
	static struct mcp_body body;
	struct mcp_fault fault = { 0 };
	size_t i;

	if (mcp_body_read(data, size, &headers, &body, &fault)) {
		REQUIRE(body.n_messages > 0 && (body.batch || body.n_messages == 1));
		for (i = 0; i < body.n_messages; i++)
			check_message(&body.messages[i]);
	} else {
		REQUIRE(fault.status == 400);
		check_fault(NULL, &fault);
	}
	mcp_body_clear(&body);
	mcp_fault_clear(&fault);
	return 0;
}
