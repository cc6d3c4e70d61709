/*
 * JSON bodies through the check of every operation on every surface, and paths through the router.
 * The first byte chooses: 'R' (REST) or 'M' (MCP), the name of an operation and a line break before
 * the body; anything else makes the rest a path. A name that is none chooses an operation too, so
 * that mutations reach all. What passes the check must be within it: known names, and a second
 * check of the result changes nothing.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api/http.h"
#include "api/ops.h"
#include "api/origin.h"
#include "api/route.h"
#include "base/alloc.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_again(const struct op *op, const struct core_limits *limits,
			const json_t *checked)
{
	json_t *again = NULL;
	struct err err = ERR_INIT;

	if (ops_validate(op, OP_SURFACE_REST, limits, checked, &again, &err) < 0 ||
	    !json_equal(checked, again))
		abort();
	json_decref(again);
}

static const struct op *choose_op(const char *name)
{
	size_t n, sum = 0;
	const struct op *ops = ops_all(&n), *named = ops_find(name);

	while (*name)
		sum += (unsigned char)*name++;
	return named ? named : &ops[sum % n];
}

static void fuzz_body(enum op_surface surface, const char *text, size_t len)
{
	const char *line_end = memchr(text, '\n', len);
	_cleanup_free_ char *name = NULL;
	_cleanup_json_ json_t *raw = NULL, *checked = NULL;
	const struct op *op;
	struct core_limits limits;
	struct err err = ERR_INIT;

	if (!line_end)
		return;
	name = xstrndup(text, (size_t)(line_end - text));
	op = choose_op(name);
	len -= (size_t)(line_end + 1 - text);
	core_limits_init(&limits);
	if (ops_parse_json(line_end + 1, len, &raw, &err) < 0)
		return;
	if (ops_validate(op, surface, &limits, raw, &checked, &err) < 0) {
		if (!err.message[0] || err.num >= 0)
			abort();
		return;
	}
	if (surface == OP_SURFACE_REST)
		check_again(op, &limits, checked);
}

static void fuzz_path(const char *text, size_t len)
{
	static const char *const methods[] = { "GET", "POST", "DELETE", "OPTIONS" };
	_cleanup_free_ char *path = xstrndup(text, len);
	_cleanup_buf_ struct buf decoded = BUF_INIT;
	struct route route;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		route = (struct route){ 0 };
		if (route_find(methods[i], path, &route) == 0 && !route.op)
			abort();
		route_clear(&route);
	}
	if (origin_host_is_loopback(path) && !origin_host_valid(path))
		abort();
	origin_is_same(path, path, false);
	http_unescape(text, len, true, &decoded);
	if (decoded.len > len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len == 0)
		return 0;
	if (data[0] == 'R')
		fuzz_body(OP_SURFACE_REST, (const char *)data + 1, len - 1);
	else if (data[0] == 'M')
		fuzz_body(OP_SURFACE_MCP, (const char *)data + 1, len - 1);
	else
		fuzz_path((const char *)data + 1, len - 1);
	return 0;
}
