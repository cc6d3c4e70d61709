/* Which operation, and how one that cannot be is refused. See files_http.h. */
#include "api/files_http.h"

#include <string.h>

#include "api/problem.h"
#include "api/rest_internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define DROP_BLOCK (32u * 1024)
#define DROP_EXTRA (16u << 20) /* beyond what may be sent */

static const char prefix[] = "/v1/sandboxes/";

bool files_takes(const struct http_request *req)
{
	const char *path = http_path(req), *method = http_method(req), *rest;

	if (!str_starts(path, prefix))
		return false;
	rest = strchr(path + sizeof(prefix) - 1, '/');
	return rest && (str_eq(rest, "/files") || str_eq(rest, "/tree")) &&
	       (str_eq(method, "GET") || str_eq(method, "HEAD") || str_eq(method, "PUT"));
}

/* ---- refusing ---- */

struct refusal {
	struct http_request *req;
	struct err err;
	uint64_t dropped, max;
};

static void refuse_now(struct refusal *refusal)
{
	problem_respond(refusal->req, &refusal->err);
	free(refusal);
}

static void on_gone(void *arg)
{
	refuse_now(arg);
}

static void on_body(void *arg)
{
	struct refusal *refusal = arg;
	char block[DROP_BLOCK];
	bool whole = false;
	size_t n;

	do {
		n = http_body_take(refusal->req, block, sizeof(block), &whole);
		refusal->dropped += n;
	} while (n > 0 && !whole && refusal->dropped <= refusal->max);
	if (whole || refusal->dropped > refusal->max)
		refuse_now(refusal);
}

/* Loop's thread, where nothing of it runs at the same time. */
static void start_dropping(void *arg)
{
	struct refusal *refusal = arg;

	http_on_disconnect(refusal->req, on_gone, refusal);
	http_body_begin(refusal->req, on_body, refusal);
	on_body(refusal);
}

void files_refuse(struct core *core, struct http_request *req, const struct err *err)
{
	struct refusal *refusal;

	if (!http_is_passed(req) || !http_has_body(req) || http_header(req, "Expect")) {
		problem_respond(req, err);
		return;
	}
	refusal = xcalloc(1, sizeof(*refusal));
	refusal->req = req;
	refusal->err = *err;
	refusal->max = (uint64_t)core_limits(core)->file_bytes_max + DROP_EXTRA;
	http_on_loop(req, start_dropping, refusal);
}

/* ---- what is asked for ---- */

static uint32_t flag(const struct op_call *call, const char *name, uint32_t value)
{
	return json_get_bool(call->args, name, false) ? value : 0;
}

void files_request(const struct op_call *call, enum file_op op, struct file_request *ret)
{
	const char *mode = json_get_str(call->args, "mode", NULL);

	*ret = (struct file_request){
		.op = op,
		.flags = flag(call, "recursive", FILE_RECURSIVE) |
			 flag(call, "parents", FILE_PARENTS) |
			 flag(call, "overwrite", FILE_OVERWRITE) |
			 flag(call, "owners", FILE_OWNERS),
		.mode = mode ? (uint32_t)strtoul(mode, NULL, 8) : FILE_MODE_KEEP,
		.limit = (uint32_t)json_get_int(call->args, "limit", 1),
		.length = FILE_LENGTH_UNKNOWN,
		.max = (uint64_t)core_limits(call->core)->file_bytes_max,
		.path = json_get_str(call->args, op == FILE_MOVE ? "from" : "path", ""),
		.to = json_get_str(call->args, "to", ""),
		.after = "",
		.if_range = "",
	};
}

const char *files_user(const struct op_call *call)
{
	return json_get_str(call->args, "user", NULL);
}

void files_serve(struct rest_call *rc)
{
	const struct op *op = rc->call.op;
	bool is_tree = str_eq(op->name, "read_tree") || str_eq(op->name, "write_tree");

	if (op->bytes == OP_BYTES_OUT)
		files_download(rc, is_tree ? FILE_PACK : FILE_READ);
	else
		files_upload(rc, is_tree ? FILE_UNPACK : FILE_WRITE);
}

/* ---- entries ---- */

static const char *type_name(enum file_type type)
{
	switch (type) {
	case FILE_REGULAR:
		return "file";
	case FILE_DIRECTORY:
		return "directory";
	case FILE_SYMLINK:
		return "symlink";
	case FILE_FIFO:
		return "fifo";
	case FILE_SOCKET:
		return "socket";
	case FILE_CHAR:
		return "character_device";
	case FILE_BLOCK:
		return "block_device";
	}
	return "unknown";
}

static void put_owner(json_t *json, const char *key, struct frame_slice name, const char *id_key,
		      uint32_t id)
{
	json_put(json, key, name.len ? json_from_bytes(name.data, name.len) : json_null());
	json_put_int(json, id_key, id);
}

json_t *files_entry_json(const struct file_entry *e, const char *path)
{
	json_t *json = json_object();
	char mode[8];

	snprintf(mode, sizeof(mode), "%04o", e->mode);
	if (path) {
		json_put_str(json, "path", path);
	} else {
		json_put(json, "name", json_from_bytes(e->name.data, e->name.len));
		if (!utf8_valid(e->name.data, e->name.len)) {
			_cleanup_buf_ struct buf base64 = BUF_INIT;

			base64_encode(e->name.data, e->name.len, &base64);
			json_put_str(json, "name_base64", buf_str(&base64));
		}
	}
	json_put_str(json, "type", type_name(e->type));
	if (e->size <= INT64_MAX)
		json_put_int(json, "size", (json_int_t)e->size);
	else
		json_put(json, "size", json_null());
	json_put_str(json, "mode", mode);
	put_owner(json, "user", e->user, "uid", e->uid);
	put_owner(json, "group", e->group, "gid", e->gid);
	json_put_time(json, "modified_at", e->mtime_ns / 1000000);
	if (e->type == FILE_SYMLINK)
		json_put(json, "target", json_from_bytes(e->target.data, e->target.len));
	return json;
}
