/* Templates like /v1/sandboxes/{id}/exec against paths, a segment at a time. */
#include "api/route.h"

#include <errno.h>
#include <string.h>

#include "api/http.h"
#include "base/json.h"
#include "base/str.h"

/* One segment: text up to the next slash. */
struct segment {
	const char *text;
	size_t len;
};

static bool next_segment(const char **at, struct segment *ret)
{
	if (**at != '/')
		return false;
	ret->text = *at + 1;
	ret->len = strcspn(ret->text, "/");
	*at = ret->text + ret->len;
	return true;
}

/* Puts the segment's decoded text under the name in {name}. */
static bool take_param(const struct segment *param, const struct segment *value, json_t *params)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char name[32];

	if (param->len - 2 >= sizeof(name) || value->len == 0)
		return false;
	memcpy(name, param->text + 1, param->len - 2);
	name[param->len - 2] = '\0';
	if (http_unescape(value->text, value->len, false, &text) < 0)
		return false;
	json_put(params, name, json_from_bytes(buf_str(&text), text.len));
	return true;
}

static bool is_param(const struct segment *segment)
{
	return segment->len > 2 && segment->text[0] == '{';
}

/* The shape alone: nothing is decoded for the many templates that are not meant. */
static bool match(const char *template, const char *path)
{
	struct segment want, have;

	while (next_segment(&template, &want)) {
		if (!next_segment(&path, &have))
			return false;
		if (!is_param(&want) &&
		    (want.len != have.len || memcmp(want.text, have.text, want.len) != 0))
			return false;
	}
	return *path == '\0';
}

/* Of a path that matches. NULL when one cannot be decoded: then it does not. */
static json_t *take_params(const char *template, const char *path)
{
	_cleanup_json_ json_t *params = json_object();
	struct segment want, have;

	while (next_segment(&template, &want) && next_segment(&path, &have)) {
		if (is_param(&want) && !take_param(&want, &have, params))
			return NULL;
	}
	return STEAL(params);
}

static void allow(struct route *route, const char *method)
{
	size_t len = strlen(route->allow);

	snprintf(route->allow + len, sizeof(route->allow) - len, "%s%s", len ? ", " : "", method);
	if (str_eq(method, "GET"))
		allow(route, "HEAD");
}

/* For a path that does not take the method. */
static int find_allowed(const char *path, struct route *ret)
{
	struct route route = { 0 };
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		_cleanup_json_ json_t *params = NULL;

		if (!ops[i].rest_method || !match(ops[i].rest_path, path))
			continue;
		params = take_params(ops[i].rest_path, path);
		if (params)
			allow(&route, ops[i].rest_method);
	}
	if (!route.allow[0])
		return -ENOENT;
	allow(&route, "OPTIONS");
	*ret = route;
	return -EOPNOTSUPP;
}

const struct op *route_op(const char *method, const char *path)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	if (str_eq(method, "HEAD"))
		method = "GET";
	for (size_t i = 0; i < n; i++) {
		if (ops[i].rest_method && str_eq(ops[i].rest_method, method) &&
		    match(ops[i].rest_path, path))
			return &ops[i];
	}
	return NULL;
}

int route_take(const struct op *op, const char *path, struct route *ret)
{
	json_t *params = take_params(op->rest_path, path);

	if (!params)
		return -ENOENT;
	*ret = (struct route){ .op = op, .params = params };
	return 0;
}

int route_find(const char *method, const char *path, struct route *ret)
{
	const struct op *op = route_op(method, path);

	return op ? route_take(op, path, ret) : find_allowed(path, ret);
}

void route_clear(struct route *route)
{
	json_decref(STEAL(route->params));
}
