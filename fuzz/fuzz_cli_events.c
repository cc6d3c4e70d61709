/*
 * What a server can send to the command line: a stream of events, cut where the first byte says.
 * However it is cut the bytes that come out are the same, in order, and each once.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "cli/exec_output.h"
#include "cli/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
	struct sse sse;
	struct exec_output output;
	struct buf written[2];
	uint64_t missing;
};

static int on_write(void *arg, enum exec_stream stream, const void *data, size_t len)
{
	struct reader *reader = arg;

	buf_append(&reader->written[stream], data, len);
	return 0;
}

static void on_gap(void *arg, enum exec_stream stream, uint64_t missing)
{
	struct reader *reader = arg;

	(void)stream;
	assert(missing > 0);
	reader->missing += missing;
}

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct reader *reader = arg;

	(void)exec_output_event(&reader->output, name, data, len); /* a bad one is skipped here */
	return 0;
}

static void read_all(struct reader *reader, const uint8_t *data, size_t size, size_t step)
{
	int r = 0;

	*reader = (struct reader){ 0 };
	sse_init(&reader->sse, on_event, reader);
	reader->output.write = on_write;
	reader->output.gap = on_gap;
	reader->output.arg = reader;
	for (size_t at = 0; at < size && r == 0; at += step)
		r = sse_feed(&reader->sse, data + at, size - at < step ? size - at : step);
	assert(r == 0); /* nothing here is near the bounds */
	assert(reader->output.next[0] + reader->output.next[1] >=
	       reader->written[0].len + reader->written[1].len);
}

static void clear(struct reader *reader)
{
	exec_output_clear(&reader->output);
	sse_clear(&reader->sse);
	buf_clear(&reader->written[0]);
	buf_clear(&reader->written[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader whole, cut;

	if (size == 0)
		return 0;
	read_all(&whole, data + 1, size - 1, size);
	read_all(&cut, data + 1, size - 1, (size_t)data[0] + 1);
	for (int i = 0; i < 2; i++) {
		assert(whole.written[i].len == cut.written[i].len);
		assert(whole.written[i].len == 0 ||
		       memcmp(whole.written[i].data, cut.written[i].data, cut.written[i].len) == 0);
	}
	assert(whole.missing == cut.missing);
	clear(&whole);
	clear(&cut);
	return 0;
}
