/*
 * A file or an archive on its way to a client.
 *
 * The answer begins with the guest's word on the file, or with the archive's first bytes; before
 * that an error is an answer of its own, after it the answer breaks off. What the client has taken
 * is granted to the guest again: WINDOW_BYTES are under way at most.
 */
#include "api/files_http.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/problem.h"
#include "api/rest_internal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define WINDOW_BYTES (256u * 1024)
#define HEADERS_MAX  12

struct download {
	struct rest_call *rc;
	struct core_transfer *transfer;
	struct http_stream *answer;
	bool is_head;
	struct file_range range;
	char if_range[FILE_ETAG_SIZE];
	bool has_length;
	uint64_t left; /* of what was announced */
};

/* ---- the end ---- */

static void download_free(struct download *d)
{
	core_transfer_close(d->transfer);
	op_call_leave(&d->rc->call, NULL, NULL, NULL); /* unless fail has said more */
	rest_call_free(d->rc);
	free(d);
}

static void fail(struct download *d, const struct err *err)
{
	op_call_leave(&d->rc->call, err, NULL, NULL);
	if (d->answer)
		http_stream_cut(d->answer);
	else
		problem_respond(d->rc->req, err);
	download_free(d);
}

static void on_gone(void *arg)
{
	struct err err = ERR_INIT;

	err_code(&err, -ECANCELED, "cancelled", "the client went away");
	fail(arg, &err);
}

/* ---- the head of the answer ---- */

struct head {
	struct http_extra_header list[HEADERS_MAX];
	size_t n;
	char etag[FILE_ETAG_SIZE], modified[HTTP_DATE_SIZE], mode[8], range[80];
	char user[FILE_OWNER_MAX + 1], group[FILE_OWNER_MAX + 1];
};

static void add(struct head *head, const char *name, const char *value)
{
	head->list[head->n++] = (struct http_extra_header){ name, value };
}

static void add_common(struct head *head, const struct download *d, const char *type)
{
	add(head, "Content-Type", type);
	add(head, "Cache-Control", "no-cache");
	add(head, "X-Content-Type-Options", "nosniff");
	add(head, "X-Request-Id", http_request_id(d->rc->req));
}

/* A name that the guest chose, if it is a plain one; else its number. */
static void owner_text(struct frame_slice name, uint32_t id, char out[FILE_OWNER_MAX + 1])
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-";
	bool fits = name.len > 0 && name.len <= FILE_OWNER_MAX;

	for (size_t i = 0; fits && i < name.len; i++)
		fits = strchr(plain, name.data[i]) && name.data[i];
	if (fits)
		snprintf(out, FILE_OWNER_MAX + 1, "%.*s", (int)name.len, name.data);
	else
		snprintf(out, FILE_OWNER_MAX + 1, "%u", id);
}

static void add_entry(struct head *head, const struct file_entry *e)
{
	if (e->size != FILE_LENGTH_UNKNOWN) {
		file_etag(e->inode, e->size, e->mtime_ns, head->etag);
		add(head, "ETag", head->etag);
		add(head, "Accept-Ranges", "bytes");
	}
	http_date(e->mtime_ns / 1000000000, head->modified);
	snprintf(head->mode, sizeof(head->mode), "%04o", e->mode);
	owner_text(e->user, e->uid, head->user);
	owner_text(e->group, e->gid, head->group);
	add(head, "Last-Modified", head->modified);
	add(head, "X-File-Mode", head->mode);
	add(head, "X-File-User", head->user);
	add(head, "X-File-Group", head->group);
}

/* 416; the size is in the header for it. */
static void refuse_range(struct download *d, const struct file_entry *e)
{
	char range[40];
	const struct http_extra_header header = { "Content-Range", range };
	struct err err = ERR_INIT;

	snprintf(range, sizeof(range), "bytes */%" PRIu64, e->size);
	err_code(&err, -ERANGE, "invalid_range", "the file has %" PRIu64 " bytes", e->size);
	problem_respond_with(d->rc->req, 416, &err, &header);
	download_free(d);
}

static void not_modified(struct download *d, const struct head *head)
{
	http_respond(d->rc->req, 304, NULL, NULL, head->list, head->n);
	download_free(d);
}

static void on_drained(void *arg, size_t bytes)
{
	struct download *d = arg;

	core_transfer_credit(d->transfer, bytes);
}

static void begin(struct download *d, unsigned int status, const struct head *head)
{
	const struct http_answer answer = {
		.status = status,
		.headers = head->list,
		.n_headers = head->n,
		.has_length = d->has_length,
		.has_body = !d->is_head,
		.length = d->left,
	};

	d->answer = http_answer_begin(d->rc->req, &answer, on_drained, d);
}

/* ---- a file ---- */

static void on_record(void *arg, const struct file_record *record)
{
	struct download *d = arg;
	const struct file_entry *e = &record->entry;
	struct head head = { 0 };
	uint64_t first = 0;
	unsigned int status = 200;

	add_common(&head, d, "application/octet-stream");
	add_entry(&head, e);
	if (etag_matches(http_header(d->rc->req, "If-None-Match"), head.etag) && head.etag[0]) {
		not_modified(d, &head);
		return;
	}
	d->has_length = e->size != FILE_LENGTH_UNKNOWN;
	d->left = e->size;
	if (d->is_head || !d->has_length || (d->if_range[0] && !str_eq(d->if_range, head.etag)))
		d->range.kind = FILE_RANGE_NONE;
	if (d->range.kind != FILE_RANGE_NONE) {
		if (!file_range_resolve(&d->range, e->size, &first, &d->left)) {
			refuse_range(d, e);
			return;
		}
		snprintf(head.range, sizeof(head.range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
			 first, first + d->left - 1, e->size);
		add(&head, "Content-Range", head.range);
		status = 206;
	}
	begin(d, status, &head);
}

/* ---- an archive, and both ---- */

static void begin_archive(struct download *d)
{
	struct head head = { 0 };

	add_common(&head, d, "application/x-tar");
	begin(d, 200, &head);
}

static void on_data(void *arg, const void *data, size_t len)
{
	struct download *d = arg;
	struct err err = ERR_INIT;

	if (!d->answer)
		begin_archive(d);
	if (d->has_length && len > d->left) {
		err_code(&err, -EPROTO, "file_io_error", "more came than was announced");
		fail(d, &err);
		return;
	}
	if (d->has_length)
		d->left -= len;
	http_stream_write(d->answer, data, len);
}

static void on_ended(void *arg, const struct err *why)
{
	struct download *d = arg;
	struct err err = ERR_INIT;

	if (why) {
		fail(d, why);
	} else if (!d->answer || (!d->is_head && d->has_length && d->left > 0)) {
		err_code(&err, -EPROTO, "file_io_error", "less came than was announced");
		fail(d, &err);
	} else {
		http_stream_end(d->answer);
		download_free(d);
	}
}

static void on_started(void *arg, struct core_transfer *transfer)
{
	struct download *d = arg;

	d->transfer = transfer;
	http_on_disconnect(d->rc->req, on_gone, d);
}

static const struct core_transfer_events events = {
	.started = on_started,
	.record = on_record,
	.data = on_data,
	.ended = on_ended,
};

void files_download(struct rest_call *rc, enum file_op op)
{
	struct download *d = xcalloc(1, sizeof(*d));
	const char *if_range = http_header(rc->req, "If-Range");
	struct file_request request;
	struct err err = ERR_INIT;

	d->rc = rc;
	d->is_head = str_eq(http_method(rc->req), "HEAD");
	files_request(&rc->call, op, &request);
	if (op == FILE_READ) {
		d->range = range_parse(http_header(rc->req, "Range"));
		/* One that does not fit is none of ours, and so is a date: the whole file then. */
		if (if_range && !str_copy(d->if_range, sizeof(d->if_range), if_range))
			str_copy(d->if_range, sizeof(d->if_range), "-");
		request.range = d->range;
		request.if_range = d->if_range;
		request.flags |= d->is_head ? FILE_HEAD_ONLY : 0;
	}
	if (core_transfer_open(rc->call.core, &rc->call.who, json_get_str(rc->call.args, "id", ""),
			       files_user(&rc->call), &request, WINDOW_BYTES, &events, d,
			       &err) < 0) {
		op_call_leave(&rc->call, &err, NULL, NULL);
		problem_respond(rc->req, &err);
		download_free(d);
	}
}
