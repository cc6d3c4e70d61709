/* Requests, records and errors of file operations. See file.h. */
#include "proto/file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ETAG_TEXT_MAX (FILE_ETAG_SIZE - 1)

static void put_text(struct buf *out, const char *text)
{
	frame_put_string(out, text ? text : "", text ? strlen(text) : 0);
}

static void put_slice(struct buf *out, struct frame_slice s)
{
	frame_put_string(out, s.data ? s.data : "", s.len);
}

/* ---- requests ---- */

void file_request_put(struct buf *out, const struct file_request *r)
{
	frame_put_u8(out, (uint8_t)r->op);
	frame_put_u32(out, r->flags);
	frame_put_u32(out, r->mode);
	frame_put_u32(out, r->limit);
	frame_put_u64(out, r->length);
	frame_put_u64(out, r->max);
	frame_put_u8(out, (uint8_t)r->range.kind);
	frame_put_u64(out, r->range.first);
	frame_put_u64(out, r->range.last);
	put_text(out, r->path);
	put_text(out, r->to);
	put_text(out, r->after);
	put_text(out, r->if_range);
}

/* Its place in storage, which must not move any more. */
static const char *keep_text(struct frame_reader *r, size_t max, struct buf *storage)
{
	struct frame_slice s = frame_get_string(r, max);
	size_t at = storage->len;

	if (memchr(s.data, '\0', s.len))
		r->bad = true;
	buf_append(storage, s.data, s.len);
	buf_append(storage, "", 1);
	return storage->data + at;
}

static bool request_makes_sense(const struct file_request *r)
{
	bool mode_fits = r->mode == FILE_MODE_KEEP || r->mode <= 07777;

	return r->op >= FILE_READ && r->op <= FILE_UNPACK && (r->flags & ~FILE_FLAGS_ALL) == 0 &&
	       mode_fits && r->limit <= FILE_LIST_MAX && r->range.kind <= FILE_RANGE_SUFFIX &&
	       r->path[0] && (r->op != FILE_MOVE || r->to[0]) &&
	       (r->op != FILE_LIST || r->limit > 0) &&
	       (r->range.kind != FILE_RANGE_SPAN || r->range.first <= r->range.last);
}

int file_request_parse(const void *data, size_t len, struct buf *storage, struct file_request *ret)
{
	struct frame_reader reader = { .data = data, .left = len };
	struct file_request r = { 0 };

	buf_reserve(storage, len + 8);
	r.op = (enum file_op)frame_get_u8(&reader);
	r.flags = frame_get_u32(&reader);
	r.mode = frame_get_u32(&reader);
	r.limit = frame_get_u32(&reader);
	r.length = frame_get_u64(&reader);
	r.max = frame_get_u64(&reader);
	r.range.kind = (enum file_range_kind)frame_get_u8(&reader);
	r.range.first = frame_get_u64(&reader);
	r.range.last = frame_get_u64(&reader);
	r.path = keep_text(&reader, FILE_PATH_MAX, storage);
	r.to = keep_text(&reader, FILE_PATH_MAX, storage);
	r.after = keep_text(&reader, FILE_NAME_MAX, storage);
	r.if_range = keep_text(&reader, ETAG_TEXT_MAX, storage);
	if (!frame_done(&reader) || !request_makes_sense(&r))
		return -EBADMSG;
	*ret = r;
	return 0;
}

/* ---- records ---- */

static void put_entry(struct buf *out, const struct file_entry *e)
{
	frame_put_u8(out, (uint8_t)e->type);
	frame_put_u32(out, e->mode);
	frame_put_u32(out, e->uid);
	frame_put_u32(out, e->gid);
	frame_put_u64(out, e->size);
	frame_put_u64(out, e->inode);
	frame_put_u64(out, (uint64_t)e->mtime_ns);
	put_slice(out, e->user);
	put_slice(out, e->group);
	put_slice(out, e->name);
	put_slice(out, e->target);
}

void file_record_put(struct buf *out, const struct file_record *record)
{
	_cleanup_buf_ struct buf body = BUF_INIT;

	frame_put_u8(&body, (uint8_t)record->kind);
	if (record->kind == FILE_RECORD_ENTRY) {
		put_entry(&body, &record->entry);
	} else if (record->kind == FILE_RECORD_UNPACKED) {
		frame_put_u64(&body, record->unpacked.entries);
		frame_put_u64(&body, record->unpacked.bytes);
	} else if (record->kind == FILE_RECORD_READY) {
		frame_put_u8(&body, record->replaces);
	}
	assert(body.len + 4 <= FILE_RECORD_MAX);
	frame_put_string(out, body.data, body.len);
}

static struct frame_slice get_clean(struct frame_reader *r, size_t max)
{
	struct frame_slice s = frame_get_string(r, max);

	if (memchr(s.data, '\0', s.len))
		r->bad = true;
	return s;
}

static void get_entry(struct frame_reader *r, struct file_entry *e)
{
	uint8_t type = frame_get_u8(r);

	e->type = (enum file_type)type;
	e->mode = frame_get_u32(r);
	e->uid = frame_get_u32(r);
	e->gid = frame_get_u32(r);
	e->size = frame_get_u64(r);
	e->inode = frame_get_u64(r);
	e->mtime_ns = (int64_t)frame_get_u64(r);
	e->user = get_clean(r, FILE_OWNER_MAX);
	e->group = get_clean(r, FILE_OWNER_MAX);
	e->name = get_clean(r, FILE_NAME_MAX);
	e->target = get_clean(r, FILE_PATH_MAX);
	if (!(type == FILE_FIFO || type == FILE_CHAR || type == FILE_DIRECTORY ||
	      type == FILE_BLOCK || type == FILE_REGULAR || type == FILE_SYMLINK ||
	      type == FILE_SOCKET) ||
	    e->mode > 07777 || (e->size > INT64_MAX && e->size != FILE_LENGTH_UNKNOWN) ||
	    memchr(e->name.data, '/', e->name.len))
		r->bad = true;
}

ssize_t file_record_parse(const void *data, size_t len, struct file_record *ret)
{
	struct frame_reader head = { .data = data, .left = len }, r;
	struct file_record record = { 0 };
	uint32_t body;

	if (len < 4)
		return 0;
	body = frame_get_u32(&head);
	if (body > FILE_RECORD_MAX - 4)
		return -EBADMSG;
	if (head.left < body)
		return 0;
	r = (struct frame_reader){ .data = head.data, .left = body };
	record.kind = (enum file_record_kind)frame_get_u8(&r);
	if (record.kind == FILE_RECORD_ENTRY) {
		get_entry(&r, &record.entry);
	} else if (record.kind == FILE_RECORD_UNPACKED) {
		record.unpacked.entries = frame_get_u64(&r);
		record.unpacked.bytes = frame_get_u64(&r);
		if (record.unpacked.entries > INT64_MAX || record.unpacked.bytes > INT64_MAX)
			r.bad = true;
	} else if (record.kind == FILE_RECORD_READY) {
		uint8_t replaces = frame_get_u8(&r);

		record.replaces = replaces == 1;
		r.bad |= replaces > 1;
	} else if (record.kind != FILE_RECORD_MORE) {
		r.bad = true;
	}
	if (!frame_done(&r))
		return -EBADMSG;
	*ret = record;
	return (ssize_t)body + 4;
}

/* ---- errors ---- */

void file_error_put(struct buf *out, enum file_error code, const char *message)
{
	frame_put_u32(out, code);
	frame_put_string(out, message, strnlen(message, FILE_MESSAGE_MAX));
}

int file_error_parse(const void *data, size_t len, enum file_error *ret,
		     struct frame_slice *ret_message)
{
	struct frame_reader r = { .data = data, .left = len };
	uint32_t code = frame_get_u32(&r);
	struct frame_slice message = get_clean(&r, FILE_MESSAGE_MAX);

	if (!frame_done(&r) || code < FILE_E_NOT_FOUND || code > FILE_ERROR_LAST)
		return -EBADMSG;
	*ret = (enum file_error)code;
	*ret_message = message;
	return 0;
}

/* ---- what both must see alike ---- */

bool file_range_resolve(const struct file_range *range, uint64_t size, uint64_t *ret_first,
			uint64_t *ret_len)
{
	uint64_t first = range->first, last = size - 1;

	switch (range->kind) {
	case FILE_RANGE_NONE:
		*ret_first = 0;
		*ret_len = size;
		return true;
	case FILE_RANGE_SUFFIX:
		if (size == 0 || range->first == 0)
			return false;
		first = range->first < size ? size - range->first : 0;
		break;
	case FILE_RANGE_SPAN:
		if (range->last < last)
			last = range->last;
		break;
	case FILE_RANGE_FROM:
		break;
	}
	if (first >= size)
		return false;
	*ret_first = first;
	*ret_len = last - first + 1;
	return true;
}

void file_etag(uint64_t inode, uint64_t size, int64_t mtime_ns, char out[FILE_ETAG_SIZE])
{
	snprintf(out, FILE_ETAG_SIZE, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", inode, size,
		 (uint64_t)mtime_ns);
}
