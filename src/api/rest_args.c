/* From path, query and body to one object of arguments. */
#include "api/rest_internal.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/str.h"

static const struct op_arg *find_rest_arg(const struct op *op, const char *name)
{
	for (size_t i = 0; i < op->n_args; i++) {
		if (!(op->args[i].flags & ARG_MCP_ONLY) && str_eq(op->args[i].name, name))
			return &op->args[i];
	}
	return NULL;
}

/* ---- query ---- */

struct query_reader {
	const struct op *op;
	json_t *args;
	struct err *err;
	int result;
};

/* Text as what the argument wants; text that is no such thing stays text, for the check to refuse.
 */
static json_t *typed_value(const struct op_arg *arg, const char *value, size_t len)
{
	int64_t number;

	if (arg && arg->type == ARG_INTEGER && strlen(value) == len &&
	    str_to_i64(value, &number) == 0)
		return json_integer(number);
	if (arg && arg->type == ARG_BOOLEAN && (str_eq(value, "true") || str_eq(value, "false")))
		return json_boolean(str_eq(value, "true"));
	return json_from_bytes(value, len);
}

static void take_parameter(void *arg, const char *key, const char *value, size_t len)
{
	struct query_reader *reader = arg;
	const struct op_arg *known = find_rest_arg(reader->op, key);
	_cleanup_json_ json_t *name = json_from_bytes(key, strlen(key));

	if (reader->result < 0)
		return;
	if (known && (known->flags & ARG_IN_PATH))
		reader->result =
			err_code(reader->err, -EINVAL, "invalid_argument",
				 "argument \"%s\" belongs in the path, not in the query", key);
	else if (!utf8_valid(value, len))
		reader->result = err_code(reader->err, -EINVAL, "invalid_argument",
					  "argument \"%.64s\" in the query is not UTF-8", key);
	else if (json_object_get(reader->args, json_string_value(name)))
		reader->result = err_code(reader->err, -EINVAL, "invalid_argument",
					  "argument \"%.64s\" was given twice in the query", key);
	else
		json_put(reader->args, json_string_value(name), typed_value(known, value, len));
}

static void refuse_parameter(void *arg, const char *key, const char *value, size_t len)
{
	struct query_reader *reader = arg;

	reader->result =
		err_code(reader->err, -EINVAL, "invalid_argument",
			 "query parameter \"%.64s\": %s takes its arguments in a JSON body", key,
			 reader->op->name);
}

/* ---- body ---- */

static bool is_json_type(const char *content_type)
{
	static const char json[] = "application/json";
	const size_t len = sizeof(json) - 1;

	return content_type && strncasecmp(content_type, json, len) == 0 &&
	       (content_type[len] == '\0' || content_type[len] == ';' || content_type[len] == ' ');
}

static int read_body(const struct op *op, const struct http_request *req, json_t *args,
		     struct err *err)
{
	const struct buf *body = http_body(req);
	_cleanup_json_ json_t *parsed = NULL;
	const char *key;
	json_t *value;
	int rc;

	if (body->len == 0)
		return 0;
	if (!is_json_type(http_header(req, "Content-Type"))) {
		err_code(err, -EINVAL, "unsupported_media_type",
			 "the body's Content-Type is not application/json");
		err_hint(err, "send JSON with the header Content-Type: application/json");
		return -EINVAL;
	}
	rc = ops_parse_json(body->data, body->len, &parsed, err);
	if (rc < 0)
		return rc;
	if (!json_is_object(parsed))
		return err_code(err, -EINVAL, "invalid_argument", "the body must be a JSON object");
	json_object_foreach(parsed, key, value) {
		const struct op_arg *known = find_rest_arg(op, key);

		if (known && (known->flags & ARG_IN_PATH))
			return err_code(err, -EINVAL, "invalid_argument",
					"argument \"%s\" belongs in the path, not in the body",
					key);
		json_put(args, key, json_incref(value));
	}
	return 0;
}

static bool takes_body(const struct op *op)
{
	return !op->bytes && !str_eq(op->rest_method, "GET") && !str_eq(op->rest_method, "DELETE");
}

int rest_read_args(const struct op *op, const struct http_request *req, const json_t *params,
		   json_t **ret, struct err *err)
{
	_cleanup_json_ json_t *args = json_object();
	struct query_reader query = { .op = op, .args = args, .err = err };
	const char *key;
	json_t *value;
	int rc;

	if (takes_body(op)) {
		rc = read_body(op, req, args, err);
		if (rc < 0)
			return rc;
		http_query_each(req, refuse_parameter, &query);
	} else {
		if (http_body(req)->len > 0)
			return err_code(err, -EINVAL, "invalid_argument", "%s takes no body",
					op->name);
		http_query_each(req, take_parameter, &query);
	}
	if (query.result < 0)
		return query.result;
	json_object_foreach((json_t *)(uintptr_t)params, key, value)
		json_put(args, key, json_incref(value));
	*ret = STEAL(args);
	return 0;
}

bool rest_accepts_stream(const char *accept)
{
	static const char type[] = "text/event-stream";

	for (const char *at = accept; at && *at; at++) {
		if (strncasecmp(at, type, sizeof(type) - 1) == 0)
			return true;
	}
	return false;
}
