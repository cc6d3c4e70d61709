/*
 * What host and guest tell each other of files: requests as the guest reads them, records and
 * errors as the host does. What was understood is written again, and understood the same.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void request(const uint8_t *data, size_t size)
{
	struct buf storage = BUF_INIT, out = BUF_INIT, again = BUF_INIT;
	struct file_request r, s;
	uint64_t first, len;

	if (file_request_parse(data, size, &storage, &r) == 0) {
		assert(strlen(r.path) <= FILE_PATH_MAX && strlen(r.after) <= FILE_NAME_MAX);
		file_request_put(&out, &r);
		assert(out.len == size && memcmp(out.data, data, size) == 0);
		assert(file_request_parse(out.data, out.len, &again, &s) == 0);
		assert(strcmp(r.path, s.path) == 0 && strcmp(r.to, s.to) == 0);
		if (file_range_resolve(&r.range, r.length, &first, &len) && len > 0)
			assert(first < r.length && len <= r.length - first);
	}
	buf_clear(&storage);
	buf_clear(&again);
	buf_clear(&out);
}

static void records(const uint8_t *data, size_t size)
{
	while (size > 0) {
		struct buf out = BUF_INIT;
		struct file_record r;
		ssize_t n = file_record_parse(data, size, &r);

		if (n <= 0)
			return;
		assert((size_t)n <= size && (size_t)n <= FILE_RECORD_MAX);
		file_record_put(&out, &r);
		assert(out.len == (size_t)n && memcmp(out.data, data, out.len) == 0);
		buf_clear(&out);
		data += n;
		size -= (size_t)n;
	}
}

static void error(const uint8_t *data, size_t size)
{
	struct frame_slice message;
	enum file_error code;

	if (file_error_parse(data, size, &code, &message) == 0)
		assert(code >= FILE_E_NOT_FOUND && code <= FILE_ERROR_LAST &&
		       message.len <= FILE_MESSAGE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 3) {
	case 0:
		request(data + 1, size - 1);
		break;
	case 1:
		records(data + 1, size - 1);
		break;
	default:
		error(data + 1, size - 1);
	}
	return 0;
}
