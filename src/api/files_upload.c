/*
 * A file or an archive on its way into a sandbox.
 *
 * The body is let come once the guest has said that nothing stands against it (so a client that
 * waits for word before it sends has sent nothing in vain), and is taken as fast as the guest takes
 * it. The answer follows the guest's word that everything is on its disk. A client that goes away,
 * and everything else that goes wrong before, ends the guest's part, which leaves what was there.
 */
#include "api/files_http.h"

#include <errno.h>
#include <string.h>

#include "api/problem.h"
#include "api/rest_internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define BLOCK_BYTES  (64u * 1024)
#define RECORD_BYTES (64u * 1024) /* credit for what the guest says */

struct upload {
	struct rest_call *rc;
	struct core_transfer *transfer;
	enum file_op op;
	bool begun;    /* the body may come */
	bool replaces; /* a file that is there */
	json_t *result;
};

static void upload_free(struct upload *u)
{
	core_transfer_close(u->transfer);
	json_decref(u->result);
	rest_call_free(u->rc);
	free(u);
}

static void on_gone(void *arg)
{
	struct upload *u = arg;
	struct err err = ERR_INIT;

	err_code(&err, -ECANCELED, "cancelled", "the client went away");
	op_call_leave(&u->rc->call, &err, NULL, NULL);
	problem_respond(u->rc->req, &err);
	upload_free(u);
}

static void pump(struct upload *u)
{
	char block[BLOCK_BYTES];
	size_t room;

	while ((room = core_transfer_room(u->transfer)) > 0) {
		bool whole = true;
		size_t n = 0;

		if (http_has_body(u->rc->req))
			n = http_body_take(u->rc->req, block,
					   room < BLOCK_BYTES ? room : BLOCK_BYTES, &whole);
		core_transfer_write(u->transfer, block, n);
		if (whole)
			core_transfer_finish(u->transfer);
		if (n == 0 || whole)
			return;
	}
}

static void on_body(void *arg)
{
	pump(arg);
}

static void on_room(void *arg)
{
	struct upload *u = arg;

	if (u->begun)
		pump(u);
}

static void on_record(void *arg, const struct file_record *record)
{
	struct upload *u = arg;
	const char *path = json_get_str(u->rc->call.args, "path", "");

	if (record->kind == FILE_RECORD_READY) {
		if (u->begun)
			return;
		u->begun = true;
		u->replaces = record->replaces;
		if (http_has_body(u->rc->req))
			http_body_begin(u->rc->req, on_body, u);
		pump(u);
	} else if (record->kind == FILE_RECORD_UNPACKED) {
		u->result = json_object();
		json_put_str(u->result, "path", path);
		json_put_int(u->result, "entries", (json_int_t)record->unpacked.entries);
		json_put_int(u->result, "bytes", (json_int_t)record->unpacked.bytes);
	} else {
		u->result = files_entry_json(&record->entry, path);
	}
}

static void on_ended(void *arg, const struct err *err)
{
	struct upload *u = arg;
	struct buf body = BUF_INIT;

	op_call_leave(&u->rc->call, err, NULL, NULL);
	if (err) {
		files_refuse(u->rc->call.core, u->rc->req, err);
	} else {
		json_write(u->result, &body);
		http_respond(u->rc->req, u->op == FILE_WRITE && !u->replaces ? 201 : 200,
			     "application/json", &body, NULL, 0);
	}
	upload_free(u);
}

static void on_started(void *arg, struct core_transfer *transfer)
{
	struct upload *u = arg;

	u->transfer = transfer;
	http_on_disconnect(u->rc->req, on_gone, u);
}

static const struct core_transfer_events events = {
	.started = on_started,
	.record = on_record,
	.room = on_room,
	.ended = on_ended,
};

static int check_length(const struct upload *u, struct file_request *request, struct err *err)
{
	const char *text = http_header(u->rc->req, "Content-Length");
	int64_t length;

	if (http_has_body(u->rc->req) && !text)
		return 0; /* chunked: it shows */
	if (!text || str_to_i64(text, &length) < 0)
		length = 0;
	request->length = (uint64_t)length;
	if (request->length <= request->max)
		return 0;
	err_code(err, -EFBIG, "file_too_large", "the body has %lld bytes, the limit is %llu",
		 (long long)length, (unsigned long long)request->max);
	err_hint(err, "limit file_bytes_max in section [limits] of the configuration");
	return -EFBIG;
}

void files_upload(struct rest_call *rc, enum file_op op)
{
	struct upload *u = xcalloc(1, sizeof(*u));
	struct file_request request;
	struct err err = ERR_INIT;
	int r;

	u->rc = rc;
	u->op = op;
	files_request(&rc->call, op, &request);
	r = check_length(u, &request, &err);
	if (r == 0)
		r = core_transfer_open(rc->call.core, &rc->call.who,
				       json_get_str(rc->call.args, "id", ""), files_user(&rc->call),
				       &request, RECORD_BYTES, &events, u, &err);
	if (r < 0) {
		op_call_leave(&rc->call, &err, NULL, NULL);
		files_refuse(rc->call.core, rc->req, &err);
		upload_free(u);
	}
}
