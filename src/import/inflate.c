/* See inflate.h. */
#include "import/inflate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/fd.h"

#define INPUT_SIZE  (128u * 1024u)
#define ZSTD_WINDOW 27 /* log2; what zstd itself takes without being asked for more */
#define GZIP_WINDOW (16 + MAX_WBITS)
#define MAGIC_SIZE  6u

enum kind { UNKNOWN, PLAIN, GZIP, ZSTD };

struct inflate {
	int fd;
	enum kind kind;
	bool ended,	 /* nothing more comes from fd */
		between; /* a member is over, another one may follow */
	size_t at, len;	 /* of input */
	z_stream gzip;
	ZSTD_DCtx *zstd;
	unsigned char input[INPUT_SIZE];
};

struct inflate *inflate_new(int fd)
{
	struct inflate *in = xcalloc(1, sizeof(*in));

	in->fd = fd;
	in->between = true;
	return in;
}

void inflate_free(struct inflate *in)
{
	if (!in)
		return;
	if (in->kind == GZIP)
		inflateEnd(&in->gzip);
	ZSTD_freeDCtx(in->zstd);
	free(in);
}

static int fill(struct inflate *in, struct err *err)
{
	ssize_t n;

	if (in->at < in->len || in->ended)
		return 0;
	n = fd_read_full(in->fd, in->input, sizeof(in->input));
	if (n < 0)
		return err_set(err, (int)n, "cannot read a layer: %s", strerrordesc_np((int)-n));
	in->at = 0;
	in->len = (size_t)n;
	in->ended = in->len < sizeof(in->input);
	return 0;
}

static int unknown(const char *what, struct err *err)
{
	err_set(err, -EBADMSG, "a layer is compressed with %s", what);
	err_hint(err, "gzip and zstd are understood; `skopeo copy --dest-compress-format gzip` "
		      "makes such an image of it");
	return -EBADMSG;
}

static int find_kind(struct inflate *in, struct err *err)
{
	const unsigned char *magic = in->input;
	bool has_magic = in->len >= MAGIC_SIZE;

	if (has_magic && memcmp(magic, "\x1f\x8b", 2) == 0) {
		if (inflateInit2(&in->gzip, GZIP_WINDOW) != Z_OK)
			return err_set(err, -ENOMEM, "no memory to unpack a layer");
		in->kind = GZIP;
	} else if (has_magic && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0) {
		in->zstd = ZSTD_createDCtx();
		if (!in->zstd)
			return err_set(err, -ENOMEM, "no memory to unpack a layer");
		ZSTD_DCtx_setParameter(in->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW);
		in->kind = ZSTD;
	} else if (has_magic && memcmp(magic,
				       "\xfd"
				       "7zXZ",
				       5) == 0) {
		return unknown("xz", err);
	} else if (has_magic && memcmp(magic, "BZh", 3) == 0) {
		return unknown("bzip2", err);
	} else {
		in->kind = PLAIN;
	}
	return 0;
}

static int damaged(struct err *err)
{
	return err_set(err, -EBADMSG, "a layer cannot be unpacked: it is damaged");
}

static ssize_t read_plain(struct inflate *in, void *out, size_t size)
{
	size_t n = in->len - in->at < size ? in->len - in->at : size;

	memcpy(out, in->input + in->at, n);
	in->at += n;
	return (ssize_t)n;
}

/* One call of zlib; how much came out. */
static ssize_t read_gzip(struct inflate *in, void *out, size_t size, struct err *err)
{
	int r;

	in->gzip.next_in = in->input + in->at;
	in->gzip.avail_in = (uInt)(in->len - in->at);
	in->gzip.next_out = out;
	in->gzip.avail_out = (uInt)size;
	in->between = false;
	r = inflate(&in->gzip, Z_NO_FLUSH);
	in->at = in->len - in->gzip.avail_in;
	if (r == Z_STREAM_END) {
		in->between = true;
		if (inflateReset(&in->gzip) != Z_OK)
			return damaged(err);
	} else if (r != Z_OK && r != Z_BUF_ERROR) {
		return damaged(err);
	}
	return (ssize_t)(size - in->gzip.avail_out);
}

static ssize_t read_zstd(struct inflate *in, void *out, size_t size, struct err *err)
{
	ZSTD_inBuffer from = { in->input + in->at, in->len - in->at, 0 };
	ZSTD_outBuffer to = { out, size, 0 };
	size_t r = ZSTD_decompressStream(in->zstd, &to, &from);

	if (ZSTD_isError(r))
		return damaged(err);
	in->at += from.pos;
	in->between = r == 0;
	return (ssize_t)to.pos;
}

ssize_t inflate_read(struct inflate *in, void *out, size_t size, struct err *err)
{
	for (;;) {
		bool had_all;
		ssize_t n;
		int r = fill(in, err);

		if (r == 0 && in->kind == UNKNOWN)
			r = find_kind(in, err);
		if (r < 0)
			return r;
		had_all = in->ended && in->at == in->len;
		if (had_all && in->between)
			return 0;
		if (in->kind == PLAIN)
			return read_plain(in, out, size);
		n = in->kind == GZIP ? read_gzip(in, out, size, err)
				     : read_zstd(in, out, size, err);
		if (n != 0)
			return n;
		/* It wants more, and there is none: it was cut off. */
		if (had_all && !in->between)
			return damaged(err);
	}
}
