/* Operations on files that answer with JSON. Those that carry bytes are in files_http.c. */
#include "api/ops_internal.h"

#include <errno.h>
#include <string.h>

#include "api/files_http.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define RECORD_BYTES (128u * 1024) /* credit; given back as records are read */

/* Loop's thread, but for its making. */
struct file_call {
	struct op_call *call;
	struct core_transfer *transfer;
	json_t *items; /* of a list */
	json_t *entry;
	char last[FILE_NAME_MAX + 1];
	size_t last_len;
	bool more;
};

bool ops_is_file_mode(const char *value, size_t len)
{
	return (len == 3 || len == 4) && strspn(value, "01234567") == len;
}

/* ---- cursors: the last name, in base64 ---- */

static json_t *cursor_of(const struct file_call *fc)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (!fc->more)
		return json_null();
	base64_encode(fc->last, fc->last_len, &text);
	return json_string(buf_str(&text));
}

static int cursor_parse(const char *text, struct buf *ret, struct err *err)
{
	if (base64_decode(text, strlen(text), ret) == 0 && ret->len > 0 &&
	    ret->len <= FILE_NAME_MAX && !memchr(ret->data, '\0', ret->len) &&
	    !memchr(ret->data, '/', ret->len))
		return 0;
	err_code(err, -EINVAL, "invalid_cursor", "cursor is not one of ours");
	err_hint(err, "use next_cursor of the last answer, or leave it out to begin anew");
	return -EINVAL;
}

/* ---- one call ---- */

static void file_call_free(struct file_call *fc)
{
	core_transfer_close(fc->transfer);
	json_decref(fc->items);
	json_decref(fc->entry);
	free(fc);
}

static void on_started(void *arg, struct core_transfer *transfer)
{
	struct file_call *fc = arg;

	fc->transfer = transfer;
}

static void on_record(void *arg, const struct file_record *record)
{
	struct file_call *fc = arg;
	const char *path = json_get_str(fc->call->args, "path", NULL);

	if (record->kind == FILE_RECORD_MORE) {
		fc->more = true;
	} else if (fc->items) {
		json_array_append_new(fc->items, files_entry_json(&record->entry, NULL));
		fc->last_len = record->entry.name.len;
		memcpy(fc->last, record->entry.name.data, fc->last_len);
	} else {
		fc->entry = files_entry_json(&record->entry,
					     path ? path : json_get_str(fc->call->args, "to", ""));
	}
}

static json_t *result_of(struct file_call *fc)
{
	json_t *json;

	if (fc->entry)
		return STEAL(fc->entry);
	json = json_object();
	if (fc->items) {
		json_put(json, "items", STEAL(fc->items));
		json_put(json, "next_cursor", cursor_of(fc));
	} else {
		json_put_str(json, "path", json_get_str(fc->call->args, "path", ""));
	}
	return json;
}

static void on_ended(void *arg, const struct err *err)
{
	struct file_call *fc = arg;
	struct op_call *call = fc->call;
	json_t *result = err ? NULL : result_of(fc);

	call->handler_state = NULL; /* cancelling comes too late from here on */
	file_call_free(fc);
	op_call_finish(call, result, err);
}

static const struct core_transfer_events events = {
	.started = on_started,
	.record = on_record,
	.ended = on_ended,
};

struct cancel {
	struct op_call *call;
	bool stopped;
};

static void cancel_on_loop(void *arg)
{
	struct cancel *cancel = arg;
	struct file_call *fc = cancel->call->handler_state;

	if (!fc)
		return;
	cancel->call->handler_state = NULL;
	cancel->stopped = true;
	file_call_free(fc);
}

static bool file_cancel(struct op_call *call)
{
	struct cancel cancel = { .call = call };

	core_on_loop(call->core, cancel_on_loop, &cancel);
	return cancel.stopped;
}

static int file_call_run(struct op_call *call, const struct file_request *request, json_t *items,
			 struct err *err)
{
	struct file_call *fc = xcalloc(1, sizeof(*fc));
	int rc;

	fc->call = call;
	fc->items = items;
	call->handler_state = fc;
	call->cancel = file_cancel;
	rc = core_transfer_open(call->core, &call->who, json_get_str(call->args, "id", ""),
				files_user(call), request, RECORD_BYTES, &events, fc, err);
	if (rc < 0) {
		call->handler_state = NULL;
		file_call_free(fc);
		return rc;
	}
	return OP_PENDING;
}

static int plain_call(struct op_call *call, enum file_op op, struct err *err)
{
	struct file_request request;

	files_request(call, op, &request);
	return file_call_run(call, &request, NULL, err);
}

/* ---- the operations ---- */

int op_stat_file(struct op_call *call, struct err *err)
{
	return plain_call(call, FILE_STAT, err);
}

int op_remove_file(struct op_call *call, struct err *err)
{
	return plain_call(call, FILE_REMOVE, err);
}

int op_make_directory(struct op_call *call, struct err *err)
{
	return plain_call(call, FILE_MKDIR, err);
}

int op_move_file(struct op_call *call, struct err *err)
{
	return plain_call(call, FILE_MOVE, err);
}

int op_list_files(struct op_call *call, struct err *err)
{
	const char *cursor = json_get_str(call->args, "cursor", NULL);
	_cleanup_buf_ struct buf after = BUF_INIT;
	struct file_request request;
	int rc = cursor ? cursor_parse(cursor, &after, err) : 0;

	if (rc < 0)
		return rc;
	files_request(call, FILE_LIST, &request);
	request.after = buf_str(&after);
	return file_call_run(call, &request, json_array(), err);
}
