/*
 * How fast a memory's written pages are saved and restored (src/snapshot/delta.h), against memcpy
 * of the same size and against what the kernel takes to give a process that many pages of its own,
 * in the same run. Prints a table, or one JSON object a line with --json.
 *
 *   delta_bench [--json] [directory [max-mb]]     files are made in the directory (default: the
 *                                                 current one); larger sizes are left out
 *
 * Each figure is the best of a few rounds: what the machine can do, not what its other work leaves.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "../tests/unit/snapshot_child.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "snapshot/delta.h"

#define MB     ((size_t)1 << 20)
#define PAGE   4096
#define MEMORY (512 * MB)
#define ROUNDS 5

struct pattern {
	size_t bytes;
	size_t stride; /* every how many-th page is written; 1: one run */
};

struct result {
	int64_t memcpy_us;
	int64_t touch_us; /* a local process writing a word of each of so many pages of the same
			     file */
	int64_t save_us;
	int64_t save_one_us;
	int64_t durable_us; /* save with an fsync */
	int64_t load_us;
	int64_t load_one_us;
	int64_t find_us;
	uint64_t extents;
};

static char base_path[512], delta_path[512];

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "delta_bench: %s: %s\n", what, err ? err->message : "failed");
	exit(1);
}

static void keep_best(int64_t *best, int64_t us)
{
	if (*best == 0 || us < *best)
		*best = us;
}

/* ---- memory ---- */

/* Content that no page shares, so that nothing is taken for zero. */
static void fill(uint8_t *page, uint64_t seed)
{
	uint64_t *words = (uint64_t *)(void *)page;

	for (size_t i = 0; i < PAGE / sizeof(*words); i++)
		words[i] = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
}

static void make_base(void)
{
	_cleanup_free_ uint8_t *chunk = xmalloc(MB);
	FILE *file = fopen(base_path, "we");

	for (size_t i = 0; file && i < MEMORY / MB; i++) {
		for (size_t at = 0; at < MB; at += PAGE)
			fill(chunk + at, i * MB + at);
		if (fwrite(chunk, MB, 1, file) != 1)
			die("cannot write the base file", NULL);
	}
	if (!file || fclose(file) != 0)
		die("cannot make the base file", NULL);
}

static void write_pattern(uint8_t *memory, void *arg)
{
	const struct pattern *pattern = arg;

	for (size_t i = 0; i < pattern->bytes / PAGE; i++)
		fill(memory + i * pattern->stride * PAGE, ~i);
}

/* ---- measures ---- */

static void measure_memcpy(size_t bytes, struct result *result)
{
	_cleanup_free_ uint8_t *from = xmalloc(bytes);
	_cleanup_free_ uint8_t *to = xmalloc(bytes);

	memset(from, 1, bytes);
	memset(to, 2, bytes);
	for (int i = 0; i < ROUNDS; i++) {
		int64_t start = clock_boottime_us();

		memcpy(to, from, bytes);
		__asm__ volatile("" : : "r"(to) : "memory");
		keep_best(&result->memcpy_us, clock_boottime_us() - start);
	}
}

static void measure_touch(const struct pattern *pattern, struct result *result)
{
	_cleanup_close_ int fd = open(base_path, O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < ROUNDS; i++) {
		uint8_t *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		int64_t start = clock_boottime_us();

		if (memory == MAP_FAILED)
			die("mmap", NULL);
		for (size_t page = 0; page < pattern->bytes / PAGE; page++)
			*(volatile uint8_t *)(memory + page * pattern->stride * PAGE) = 1;
		keep_best(&result->touch_us, clock_boottime_us() - start);
		munmap(memory, MEMORY);
	}
}

static void save(const struct child *child, const struct delta_options *options, int64_t *best,
		 struct delta_stats *stats)
{
	struct err err = ERR_INIT;
	int64_t start;

	unlink(delta_path);
	start = clock_boottime_us();
	if (delta_save(child->pid, base_path, delta_path, options, stats, &err) < 0)
		die("save", &err);
	if (options->durable_soon) {
		_cleanup_close_ int fd = open(delta_path, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || fsync(fd) < 0)
			die("fsync", NULL);
	}
	keep_best(best, clock_boottime_us() - start);
}

static void load(const struct delta_options *options, int64_t *best)
{
	struct child child = child_start(base_path, MEMORY, NULL, NULL);
	struct err err = ERR_INIT;
	struct delta_stats stats;
	int64_t start = clock_boottime_us();

	if (delta_load(child.pid, base_path, delta_path, options, &stats, &err) < 0)
		die("load", &err);
	keep_best(best, clock_boottime_us() - start);
	child_end(&child);
}

static struct result measure(struct pattern *pattern)
{
	const struct delta_options many = { .threads = 2 }, one = { .threads = 1 };
	const struct delta_options durable = { .durable_soon = true };
	struct child child = child_start(base_path, MEMORY, write_pattern, pattern);
	struct result result = { 0 };
	struct delta_stats stats;

	measure_memcpy(pattern->bytes, &result);
	measure_touch(pattern, &result);
	for (int i = 0; i < ROUNDS; i++) {
		save(&child, &one, &result.save_one_us, &stats);
		save(&child, &durable, &result.durable_us, &stats);
		save(&child, &many, &result.save_us, &stats);
		keep_best(&result.find_us, stats.find_us);
		load(&one, &result.load_one_us);
		load(&many, &result.load_us);
	}
	result.extents = stats.extents;
	child_end(&child);
	return result;
}

/* ---- output ---- */

static double gbps(size_t bytes, int64_t us)
{
	return (double)bytes / (double)us / 1e3;
}

static void print_row(const struct pattern *p, const struct result *r, bool json)
{
	if (json) {
		printf("{\"mb\": %zu, \"extents\": %" PRIu64 ", \"memcpy_us\": %" PRId64
		       ", \"touch_us\": %" PRId64 ", \"find_us\": %" PRId64
		       ", \"save_us\": %" PRId64 ", \"save_one_thread_us\": %" PRId64
		       ", \"save_durable_us\": %" PRId64 ", \"load_us\": %" PRId64
		       ", \"load_one_thread_us\": %" PRId64 "}\n",
		       p->bytes / MB, r->extents, r->memcpy_us, r->touch_us, r->find_us, r->save_us,
		       r->save_one_us, r->durable_us, r->load_us, r->load_one_us);
		return;
	}
	printf("%4zu MB %6" PRIu64 " |%8.1f |%8.1f |%6.1f |%8.1f %5.2f %5.2fx |%8.1f |%8.1f |%8.1f "
	       "%5.2f %5.2fx |%8.1f\n",
	       p->bytes / MB, r->extents, (double)r->memcpy_us / 1e3, (double)r->touch_us / 1e3,
	       (double)r->find_us / 1e3, (double)r->save_us / 1e3, gbps(p->bytes, r->save_us),
	       (double)r->save_us / (double)r->memcpy_us, (double)r->save_one_us / 1e3,
	       (double)r->durable_us / 1e3, (double)r->load_us / 1e3, gbps(p->bytes, r->load_us),
	       (double)r->load_us / (double)r->memcpy_us, (double)r->load_one_us / 1e3);
}

int main(int argc, char **argv)
{
	struct pattern patterns[] = {
		{ 8 * MB, 1 }, { 100 * MB, 1 }, { 400 * MB, 1 }, { 8 * MB, 16 }, { 100 * MB, 5 },
	};
	bool json = argc > 1 && str_eq(argv[1], "--json");
	const char *dir = argc > 1 + json ? argv[1 + json] : ".";
	int64_t max_mb = MEMORY / MB;

	if (argc > 2 + json && str_to_i64(argv[2 + json], &max_mb) < 0)
		die("max-mb is no number", NULL);
	snprintf(base_path, sizeof(base_path), "%s/delta-bench-memory", dir);
	snprintf(delta_path, sizeof(delta_path), "%s/delta-bench-delta", dir);
	make_base();
	if (!json)
		printf("written extents|  memcpy |page own |  find |   save  GB/s  /copy |1 thread "
		       "| durable "
		       "|   load  GB/s  /copy |1 thread   (ms; save and load by two threads)\n");
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		struct result result;

		if (patterns[i].bytes / MB > (size_t)max_mb)
			continue;
		result = measure(&patterns[i]);
		print_row(&patterns[i], &result, json);
		fflush(stdout);
	}
	unlink(base_path);
	unlink(delta_path);
	return 0;
}
