/*
 * The stream of a layer, plain, gzip or zstd: whatever it says, it ends, each piece fits, and the
 * same bytes come out whatever size they are asked for in. (Whether it is damaged may depend on
 * that: zstd 1.5.4 holds a frame to the size in its header only when it unpacks it in one go.)
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "import/inflate.h"

#define OUT_MAX (4u << 20) /* a bomb is as good as endless */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sum over what came out; false when it ended with an error. */
static bool digest(int fd, size_t piece, uint64_t *ret, size_t *ret_len)
{
	struct inflate *in = inflate_new(fd);
	char *out = malloc(piece);
	uint64_t h = 1469598103934665603u;
	size_t len = 0;
	ssize_t n = 0;

	assert(out && lseek(fd, 0, SEEK_SET) == 0);
	while (len < OUT_MAX && (n = inflate_read(in, out, piece, NULL)) > 0) {
		assert((size_t)n <= piece);
		for (ssize_t i = 0; i < n && len < OUT_MAX; i++, len++)
			h = (h ^ (unsigned char)out[i]) * 1099511628211u;
	}
	free(out);
	inflate_free(in);
	*ret = h;
	*ret_len = len;
	return n >= 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("layer", MFD_CLOEXEC);
	uint64_t a, b;
	size_t a_len, b_len;
	bool a_good, b_good;

	assert(fd >= 0 && fd_write_all(fd, data, size) == 0);
	a_good = digest(fd, 65536, &a, &a_len);
	b_good = digest(fd, 777, &b, &b_len);
	assert(!a_good || !b_good || (a == b && a_len == b_len));
	close(fd);
	return 0;
}
