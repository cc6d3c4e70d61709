#include "vmm/qemu/tsc.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

#define CACHE_FILE "tsc-khz"
#define MEASURE_NS 50000000
#define READINGS   32

struct reading {
	uint64_t tsc;
	int64_t ns;
};

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Both clocks at one moment: of several tries the one with the least time between two looks. */
static struct reading read_both(void)
{
	struct reading best = { 0 };
	uint64_t best_gap = UINT64_MAX;

	for (int i = 0; i < READINGS; i++) {
		uint64_t before = __rdtsc();
		int64_t ns = now_ns();
		uint64_t gap = __rdtsc() - before;

		if (gap < best_gap) {
			best_gap = gap;
			best = (struct reading){ .tsc = before + gap / 2, .ns = ns };
		}
	}
	return best;
}

static unsigned int measure_khz(void)
{
	const struct timespec pause = { .tv_nsec = MEASURE_NS };
	struct reading from = read_both(), to;

	nanosleep(&pause, NULL);
	to = read_both();
	return (unsigned int)((double)(to.tsc - from.tsc) * 1e6 / (double)(to.ns - from.ns) + 0.5);
}

static bool read_kept(const char *path, unsigned int *ret_khz)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int64_t khz;

	if (file_read(path, 64, &text) < 0 || text.len == 0)
		return false;
	*strchrnul(text.data, '\n') = '\0';
	if (str_to_i64(text.data, &khz) < 0 || khz < 1 || khz > UINT32_MAX)
		return false;
	*ret_khz = (unsigned int)khz;
	return true;
}

int tsc_frequency_khz(const char *cache_dir, unsigned int *ret_khz, struct err *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	unsigned int khz = measure_khz(), kept;
	char text[32];
	int r;

	/* Below 100 MHz or above 20 GHz it is no clock to give to a guest. */
	if (khz < 100000 || khz > 20000000)
		return err_set(err, -ENOTSUP, "the host's time stamp counter runs at %u kHz", khz);
	buf_printf(&path, "%s/" CACHE_FILE, cache_dir);
	if (read_kept(path.data, &kept) && labs((long)kept - (long)khz) < (long)khz / 1000) {
		*ret_khz = kept;
		return 0;
	}
	snprintf(text, sizeof(text), "%u\n", khz);
	r = file_write_durable(path.data, text, strlen(text), 0644);
	if (r < 0)
		return err_set(err, r, "cannot keep the clock's frequency in '%s': %s", path.data,
			       strerrordesc_np(-r));
	*ret_khz = khz;
	return 0;
}
