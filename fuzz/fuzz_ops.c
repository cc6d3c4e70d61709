/*
 * JSON bodies through the check of every operation on every surface, and paths through the router.
 * The first byte chooses: an operation and a surface, or a method for the rest as a path. What
 * passes the check must be within it: known names, and a second check of the result changes
 * nothing.
 */
#include <stddef.h>
#include <stdint.h>

#include "api/auth.h"
#include "api/http.h"
#include "api/ops.h"
#include "api/route.h"
#include "base/alloc.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define CHOOSE_PATH 0xff

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

static void fuzz_body(uint8_t choice, const char *text, size_t len)
{
	size_t n;
	const struct op *op = ops_all(&n);
	const enum op_surface surface = choice & 1 ? OP_SURFACE_MCP : OP_SURFACE_REST;
	_cleanup_json_ json_t *raw = NULL, *checked = NULL;
	struct core_limits limits;
	struct err err = ERR_INIT;

	core_limits_init(&limits);
	op += (choice >> 1) % n;
	if (ops_parse_json(text, len, &raw, &err) < 0)
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
	if (auth_host_is_loopback(path) && !auth_host_valid(path))
		abort();
	auth_origin_is_same(path, path, false);
	http_unescape(text, len, true, &decoded);
	if (decoded.len > len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len == 0)
		return 0;
	if (data[0] == CHOOSE_PATH)
		fuzz_path((const char *)data + 1, len - 1);
	else
		fuzz_body(data[0], (const char *)data + 1, len - 1);
	return 0;
}
