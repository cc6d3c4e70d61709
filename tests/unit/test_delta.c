/*
 * Saving and restoring a memory by its written pages: two processes that mapped the same base file
 * have equal memories afterwards, and a damaged file never gets that far.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "base/str.h"
#include "snapshot/delta.h"
#include "snapshot_child.h"

#define PAGE   4096
#define PAGES  512
#define MEMORY ((size_t)PAGES * PAGE)

static char scratch[SCRATCH_SIZE], base_path[SCRATCH_SIZE + 16], delta_path[SCRATCH_SIZE + 16];

static int set_up(void **state)
{
	uint8_t *content = xmalloc(MEMORY);

	scratch_make(scratch);
	snprintf(base_path, sizeof(base_path), "%s/memory", scratch);
	snprintf(delta_path, sizeof(delta_path), "%s/delta", scratch);
	rand_bytes(content, MEMORY);
	memset(content + 100 * PAGE, 0, 50 * PAGE); /* a base has empty pages too */
	assert_int_equal(file_write_durable(base_path, content, MEMORY, 0600), 0);
	free(content);
	return 0;
}

static int tear_down(void **state)
{
	scratch_remove(scratch);
	return 0;
}

static uint8_t *read_memory(const struct child *child)
{
	uint8_t *copy = xmalloc(child->bytes);
	struct iovec local = { copy, child->bytes }, remote = { child->memory, child->bytes };

	assert_int_equal(process_vm_readv(child->pid, &local, 1, &remote, 1, 0), child->bytes);
	return copy;
}

static void assert_same_memory(const struct child *a, const struct child *b)
{
	_cleanup_free_ uint8_t *x = read_memory(a);
	_cleanup_free_ uint8_t *y = read_memory(b);

	for (size_t page = 0; page < a->bytes / PAGE; page++)
		if (memcmp(x + page * PAGE, y + page * PAGE, PAGE) != 0)
			fail_msg("page %zu differs", page);
}

static void save(const struct child *child, const struct delta_options *options,
		 struct delta_stats *stats)
{
	struct err err = ERR_INIT;

	unlink(delta_path);
	if (delta_save(child->pid, base_path, delta_path, options, stats, &err) < 0)
		fail_msg("%s", err.message);
}

static void load(const struct child *child, const struct delta_options *options,
		 struct delta_stats *stats)
{
	struct err err = ERR_INIT;

	if (delta_load(child->pid, base_path, delta_path, options, stats, &err) < 0)
		fail_msg("%s", err.message);
}

/* Page 0, a run, a page that becomes zero, one that is written with what it had, one byte at the
 * end. */
static void write_known(uint8_t *memory, void *arg)
{
	memory[0] ^= 1;
	memset(memory + 10 * PAGE, 0xab, 20 * PAGE);
	memset(memory + 40 * PAGE, 0, PAGE);
	memset(memory + 42 * PAGE, 0, 3 * PAGE);
	*(volatile uint8_t *)(memory + 60 * PAGE) = memory[60 * PAGE];
	memset(memory + 120 * PAGE, 0, PAGE); /* zero over zero */
	memory[MEMORY - 1] ^= 0x80;
}

static void known_pages(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct child target = child_start(base_path, MEMORY, NULL, NULL);
	struct delta_stats saved, loaded, checked;
	uint64_t bytes;
	struct stat st;

	assert_int_equal(delta_measure(source.pid, base_path, &bytes, NULL), 0);
	save(&source, NULL, &saved);
	assert_int_equal(saved.memory_bytes, MEMORY);
	assert_int_equal(saved.zero_pages, 1 + 3 + 1);
	assert_int_equal(saved.data_pages, 1 + 20 + 1 + 1);
	assert_int_equal(bytes, (saved.data_pages + saved.zero_pages) * PAGE);
	assert_int_equal(stat(delta_path, &st), 0);
	assert_int_equal(st.st_size, saved.file_bytes);
	assert_true(saved.file_bytes <= delta_file_bytes_max(bytes));
	assert_int_equal(st.st_mode & 0777, 0600);

	assert_int_equal(delta_verify(delta_path, &checked, NULL), 0);
	assert_string_equal(checked.root, saved.root);
	load(&target, NULL, &loaded);
	assert_int_equal(loaded.undone_pages, 0);
	assert_string_equal(loaded.root, saved.root);
	assert_same_memory(&source, &target);
	/* zeros over zeros cost the target no page */
	save(&target, NULL, &saved);
	assert_int_equal(saved.data_pages, loaded.data_pages);
	assert_int_equal(saved.zero_pages, loaded.zero_pages - 1);
	child_end(&source);
	child_end(&target);
}

/* Nothing written: a file without data, and loading it changes nothing. */
static void nothing_written(void **state)
{
	struct child source = child_start(base_path, MEMORY, NULL, NULL);
	struct child target = child_start(base_path, MEMORY, NULL, NULL);
	struct delta_stats stats;

	save(&source, NULL, &stats);
	assert_int_equal(stats.data_pages + stats.zero_pages + stats.extents, 0);
	assert_int_equal(stats.file_bytes, PAGE);
	load(&target, NULL, &stats);
	assert_same_memory(&source, &target);
	child_end(&source);
	child_end(&target);
}

/* What the new process wrote before (QEMU's firmware) must not survive. */
static void write_elsewhere(uint8_t *memory, void *arg)
{
	memset(memory + 5 * PAGE, 0x11, 10 * PAGE);
	memset(memory + 300 * PAGE, 0x22, PAGE);
}

static void target_that_wrote(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct child target = child_start(base_path, MEMORY, write_elsewhere, NULL);
	struct delta_stats stats;

	save(&source, NULL, &stats);
	load(&target, NULL, &stats);
	assert_int_equal(stats.undone_pages, 11);
	assert_same_memory(&source, &target);
	child_end(&source);
	child_end(&target);
}

/* ---- ways to find written pages ---- */

static void from_pagemap_entries(void **state)
{
	const uint64_t present = 1ULL << 63, swapped = 1ULL << 62, file = 1ULL << 61;
	const uint64_t entries[] = {
		0,			/* never touched */
		present | file | 123,	/* the file's page */
		present | 77,		/* written */
		swapped | 5,		/* written, then swapped */
		swapped | file,		/* the file's page in migration */
		present | (1ULL << 55), /* written, soft-dirty */
		present | (1ULL << 56), /* written, exclusive */
		1ULL << 57,		/* write-protect marker alone */
		swapped,
	};
	struct dirty_set set = DIRTY_SET_INIT;

	dirty_from_pagemap(entries, ARRAY_SIZE(entries), PAGE, 0x10000, 0x3000, &set);
	assert_int_equal(set.n, 3);
	assert_int_equal(set.bytes, 5 * PAGE);
	assert_int_equal(set.items[0].address, 0x12000);
	assert_int_equal(set.items[0].offset, 0x5000);
	assert_int_equal(set.items[0].bytes, 2 * PAGE);
	assert_int_equal(set.items[1].offset, 0x3000 + 5 * PAGE);
	assert_int_equal(set.items[1].bytes, 2 * PAGE);
	assert_int_equal(set.items[2].offset, 0x3000 + 8 * PAGE);
	/* the next mapping's pages do not join, though their offsets do */
	dirty_from_pagemap(&entries[2], 1, PAGE, 0x900000, 0x3000 + 9 * PAGE, &set);
	assert_int_equal(set.n, 4);
	dirty_set_clear(&set);
}

static void write_scattered(uint8_t *memory, void *arg)
{
	unsigned int seed = *(unsigned int *)arg;

	for (size_t page = 0; page < PAGES; page++) {
		uint8_t *at = memory + page * PAGE;

		switch (rand_r(&seed) % 8) {
		case 0:
			memset(at, (int)page | 1, PAGE);
			break;
		case 1:
			at[rand_r(&seed) % PAGE] ^= 0x55;
			break;
		case 2:
			memset(at, 0, PAGE);
			break;
		case 3: /* reading makes no page one's own */
			seed += *(volatile uint8_t *)at;
			break;
		}
	}
}

static bool kernel_scans(void)
{
	struct child child = child_start(base_path, MEMORY, NULL, NULL);
	struct delta_options options = { .method = DIRTY_SCAN };
	struct delta_stats stats;
	int r;

	unlink(delta_path);
	r = delta_save(child.pid, base_path, delta_path, &options, &stats, NULL);
	child_end(&child);
	assert_true(r == 0 || r == -ENOTTY);
	return r == 0;
}

static void both_methods_agree(void **state)
{
	unsigned int seed = 7;
	struct child source;
	struct delta_options scan = { .method = DIRTY_SCAN }, pagemap = { .method = DIRTY_PAGEMAP };
	struct delta_stats a, b;

	if (!kernel_scans()) {
		print_message("SKIPPED: this kernel has no PAGEMAP_SCAN (6.7 and later)\n");
		skip();
	}
	source = child_start(base_path, MEMORY, write_scattered, &seed);
	save(&source, &scan, &a);
	save(&source, &pagemap, &b);
	assert_string_equal(a.root, b.root); /* the same files, bit for bit */
	assert_true(a.data_pages > 50 && a.zero_pages > 20);
	child_end(&source);
}

/* More extents than any one call of the kernel gives, and a number that is no multiple of its
 * batches: each page once, none left out. */
static void write_every_second(uint8_t *memory, void *arg)
{
	for (size_t page = 0; page < *(size_t *)arg; page += 2)
		memory[page * PAGE] = (uint8_t)(page / 2 | 1);
}

static void many_extents(void **state)
{
	const struct delta_options ways[] = { { .method = DIRTY_AUTO },
					      { .method = DIRTY_PAGEMAP } };
	size_t pages = 2 * 2976, bytes = 4 * pages * PAGE;
	struct child source, target;
	char path[SCRATCH_SIZE + 16];
	struct delta_stats stats;

	snprintf(path, sizeof(path), "%s/sparse", scratch);
	assert_int_equal(file_write_durable(path, "", 0, 0600), 0);
	assert_int_equal(truncate(path, (off_t)bytes), 0);
	source = child_start(path, bytes, write_every_second, &pages);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		unlink(delta_path);
		assert_int_equal(delta_save(source.pid, path, delta_path, &ways[i], &stats, NULL),
				 0);
		assert_int_equal(stats.data_pages, pages / 2);
		assert_int_equal(stats.extents, pages / 2);
		target = child_start(path, bytes, NULL, NULL);
		assert_int_equal(delta_load(target.pid, path, delta_path, NULL, &stats, NULL), 0);
		assert_same_memory(&source, &target);
		child_end(&target);
	}
	child_end(&source);
}

/* MADV_PAGEOUT swaps written pages out, where there is swap. */
static void write_and_swap(uint8_t *memory, void *arg)
{
	memset(memory + 8 * PAGE, 0x77, 64 * PAGE);
	madvise(memory + 8 * PAGE, 64 * PAGE, MADV_PAGEOUT);
}

static void swapped_pages(void **state)
{
	struct child source, target;
	struct delta_stats stats;
	struct sysinfo info;

	assert_int_equal(sysinfo(&info), 0);
	if (info.totalswap == 0) {
		print_message("SKIPPED: no swap here; bit 62 is tested in from_pagemap_entries\n");
		skip();
	}
	source = child_start(base_path, MEMORY, write_and_swap, NULL);
	target = child_start(base_path, MEMORY, NULL, NULL);
	save(&source, NULL, &stats);
	assert_int_equal(stats.data_pages, 64);
	load(&target, NULL, &stats);
	assert_same_memory(&source, &target);
	child_end(&source);
	child_end(&target);
}

/* ---- any memory, any number of threads ---- */

static void random_memories(void **state)
{
	for (unsigned int seed = 1; seed <= 25; seed++) {
		unsigned int arg = seed * 7919, other = seed * 104729;
		struct child source = child_start(base_path, MEMORY, write_scattered, &arg);
		struct child target =
			child_start(base_path, MEMORY, seed % 3 ? NULL : write_scattered, &other);
		struct delta_options one = { .threads = 1 }, many = { .threads = 2 + seed % 4 };
		struct delta_stats a, b;

		save(&source, &one, &a);
		save(&source, &many, &b);
		assert_string_equal(a.root, b.root);
		load(&target, seed % 2 ? &one : &many, &b);
		assert_same_memory(&source, &target);
		/* what was restored can be saved again */
		save(&target, NULL, &b);
		assert_int_equal(b.memory_bytes, MEMORY);
		assert_true(b.data_pages >= a.data_pages);
		child_end(&source);
		child_end(&target);
	}
}

/* ---- taken ahead, written later ---- */

static void write_into(const struct child *child, size_t page, uint8_t byte)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", child->pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)(uintptr_t)(child->memory + page * PAGE)), 1);
	close(fd);
}

/* Straight into other processes, also into one that has written itself; source is still
 * what was taken. */
static void load_capture(const struct delta_capture *capture, const struct child *source,
			 unsigned int seed)
{
	unsigned int other = seed * 104729;
	struct child one = child_start(base_path, MEMORY, NULL, NULL);
	struct child two = child_start(base_path, MEMORY, write_scattered, &other);
	struct delta_stats stats;
	struct err err = ERR_INIT;

	if (delta_capture_load(capture, one.pid, &stats, &err) < 0 ||
	    delta_capture_load(capture, two.pid, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(stats.undone_pages > 0);
	assert_same_memory(&one, &two);
	assert_same_memory(source, &one);
	child_end(&one);
	child_end(&two);
	assert_int_equal(delta_capture_load(capture, one.pid, &stats, NULL), -ESRCH);
}

/* The file is the one that a save makes: of the moment it was taken, whatever comes before and
 * after. */
static void captured_memories(void **state)
{
	for (unsigned int seed = 1; seed <= 25; seed++) {
		unsigned int arg = seed * 7919;
		struct child source = child_start(base_path, MEMORY, write_scattered, &arg);
		struct child target = child_start(base_path, MEMORY, NULL, NULL);
		struct delta_options options = { .threads = seed % 4 };
		struct delta_stats saved, captured, loaded;
		struct delta_capture *capture;
		struct err err = ERR_INIT;

		if (delta_capture_new(source.pid, base_path, MEMORY, &capture, &err) < 0)
			fail_msg("%s", err.message);
		write_into(&source, seed, 0x11);
		write_into(&source, MEMORY / PAGE - 1, 0x22);
		save(&source, NULL, &saved);
		assert_int_equal(delta_capture_take(capture, &err), 0);
		load_capture(capture, &source, seed);
		write_into(&source, seed, 0x33);
		unlink(delta_path);
		child_end(&source); /* it is not needed any more */
		if (delta_capture_write(capture, delta_path, &options, &captured, &err) < 0)
			fail_msg("%s", err.message);
		assert_string_equal(captured.root, saved.root);
		assert_int_equal(captured.file_bytes, saved.file_bytes);
		load(&target, NULL, &loaded);
		save(&target, NULL, &saved);
		assert_int_equal(saved.data_pages, captured.data_pages);
		unlink(delta_path);
		/* once only: writing has changed the copy */
		assert_true(delta_capture_write(capture, delta_path, NULL, &captured, &err) < 0);
		assert_int_equal(access(delta_path, F_OK), -1);
		delta_capture_free(capture);
		child_end(&target);
	}
}

static void captures_refused(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct delta_capture *capture;
	struct delta_stats stats;

	assert_int_equal(delta_capture_new(source.pid, base_path, PAGE, &capture, NULL), -E2BIG);
	assert_int_equal(delta_capture_new(source.pid, base_path, MEMORY, &capture, NULL), 0);
	assert_int_equal(delta_capture_expected(capture), (1 + 20 + 1 + 1 + 5) * PAGE);
	assert_true(delta_capture_write(capture, delta_path, NULL, &stats, NULL) < 0);
	assert_true(delta_capture_load(capture, source.pid, &stats, NULL) < 0);
	child_end(&source);
	assert_int_equal(delta_capture_take(capture, NULL), -ESRCH);
	assert_true(delta_capture_write(capture, delta_path, NULL, &stats, NULL) < 0);
	delta_capture_free(capture);
	delta_capture_free(NULL);
}

/* ---- refusals ---- */

static void assert_load_refused(struct child *target, const char *code)
{
	struct err err = ERR_INIT;
	struct delta_stats stats;

	assert_true(delta_load(target->pid, base_path, delta_path, NULL, &stats, &err) < 0);
	assert_string_equal(err_code_of(&err), code);
	assert_true(err.message[0]);
}

static void patch(off_t offset, uint8_t flip)
{
	int fd = open(delta_path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, offset), 1);
	byte ^= flip;
	assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

static void damaged_files(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct child target = child_start(base_path, MEMORY, NULL, NULL);
	struct delta_stats stats;
	off_t table, end;

	save(&source, NULL, &stats);
	end = (off_t)stats.file_bytes;
	table = (off_t)(1 + stats.data_pages) * PAGE;
	for (off_t at = 0; at < end; at += at < 80 || at >= table ? 1 : 509)
		for (int bit = 0; bit < 8; bit += 7) {
			bool version = at >= 8 && at < 12;

			patch(at, (uint8_t)(1 << bit));
			assert_load_refused(&target, version ? CODE_SNAPSHOT_VERSION
							     : CODE_SNAPSHOT_DAMAGED);
			patch(at, (uint8_t)(1 << bit));
		}
	/* the last byte of the header's page is its hash's */
	patch(PAGE - 1, 1);
	assert_load_refused(&target, CODE_SNAPSHOT_DAMAGED);
	patch(PAGE - 1, 1);
	load(&target, NULL, &stats); /* all of it was put back */
	child_end(&source);
	child_end(&target);
}

static void cut_files(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct child target = child_start(base_path, MEMORY, NULL, NULL);
	struct delta_stats stats;
	off_t lengths[8], table;

	save(&source, NULL, &stats);
	table = (off_t)(1 + stats.data_pages) * PAGE;
	lengths[0] = (off_t)stats.file_bytes + 1;
	lengths[1] = (off_t)stats.file_bytes - 1;
	lengths[2] = table + 1;
	lengths[3] = table;
	lengths[4] = PAGE + 1;
	lengths[5] = PAGE;
	lengths[6] = PAGE - 1;
	lengths[7] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		assert_int_equal(truncate(delta_path, lengths[i]), 0);
		assert_load_refused(&target, CODE_SNAPSHOT_DAMAGED);
	}
	unlink(delta_path);
	assert_load_refused(&target, CODE_SNAPSHOT_INCOMPLETE);
	assert_int_equal(symlink(base_path, delta_path), 0);
	assert_load_refused(&target, "internal");
	child_end(&source);
	child_end(&target);
}

/* A delta of one memory is not loaded over another. */
static void other_memory(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct err err = ERR_INIT;
	struct delta_stats stats;
	char other[SCRATCH_SIZE + 16];
	struct child target;

	snprintf(other, sizeof(other), "%s/other", scratch);
	assert_int_equal(file_write_durable(other, "", 0, 0600), 0);
	assert_int_equal(truncate(other, MEMORY / 2), 0);
	target = child_start(other, MEMORY / 2, NULL, NULL);
	save(&source, NULL, &stats);
	assert_int_equal(delta_load(target.pid, other, delta_path, NULL, &stats, &err), -EBADMSG);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
	/* nor into a process that has not mapped the file */
	assert_int_equal(delta_load(target.pid, base_path, delta_path, NULL, &stats, &err),
			 -EBADMSG);
	child_end(&target);
	assert_int_equal(delta_load(target.pid, base_path, delta_path, NULL, &stats, &err), -ESRCH);
	child_end(&source);
}

static void share_it(uint8_t *memory, void *arg)
{
	int fd = open(base_path, O_RDWR | O_CLOEXEC);

	if (mmap(memory, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != memory)
		_exit(1);
}

static void half_of_it(uint8_t *memory, void *arg)
{
	munmap(memory + MEMORY / 2, MEMORY / 2);
}

static void twice(uint8_t *memory, void *arg)
{
	int fd = open(base_path, O_RDWR | O_CLOEXEC);

	if (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 5 * PAGE) == MAP_FAILED)
		_exit(1);
}

static void mappings_that_are_no_memory(void **state)
{
	void (*const spoil[])(uint8_t *, void *) = { share_it, half_of_it, twice };
	struct delta_stats stats;

	for (size_t i = 0; i < ARRAY_SIZE(spoil); i++) {
		struct child child = child_start(base_path, MEMORY, spoil[i], NULL);
		struct err err = ERR_INIT;

		unlink(delta_path);
		assert_int_equal(delta_save(child.pid, base_path, delta_path, NULL, &stats, &err),
				 -EBADMSG);
		assert_true(err.message[0]);
		assert_int_equal(access(delta_path, F_OK), -1);
		child_end(&child);
	}
}

/* One memory in several mappings (QEMU's madvise splits them), and moved apart. */
static void split_it(uint8_t *memory, void *arg)
{
	/* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS wants -1 */
	void *elsewhere = mmap(NULL, 100 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	write_known(memory, NULL);
	if (mprotect(memory + 15 * PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) < 0 ||
	    mremap(memory + 200 * PAGE, 100 * PAGE, 100 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   elsewhere) != elsewhere)
		_exit(1);
}

static void split_only(uint8_t *memory, void *arg)
{
	if (madvise(memory + 12 * PAGE, 3 * PAGE, MADV_DONTDUMP) < 0)
		_exit(1);
}

static void split_mappings(void **state)
{
	struct child plain = child_start(base_path, MEMORY, write_known, NULL);
	struct child source = child_start(base_path, MEMORY, split_it, NULL);
	struct child target = child_start(base_path, MEMORY, split_only, NULL);
	struct delta_stats stats;

	save(&source, NULL, &stats);
	load(&target, NULL, &stats);
	assert_same_memory(&plain, &target);
	child_end(&plain);
	child_end(&source);
	child_end(&target);
}

static void maps_lines(void **state)
{
	struct maps_line line;

	assert_int_equal(
		maps_parse_line("7f001000-7f003000 rw-p 00002000 fe:01 1234    /a b", &line), 0);
	assert_int_equal(line.mapping.address, 0x7f001000);
	assert_int_equal(line.mapping.bytes, 0x2000);
	assert_int_equal(line.mapping.offset, 0x2000);
	assert_int_equal(line.inode, 1234);
	assert_true(line.writable && line.is_private);
	assert_int_equal(maps_parse_line("1000-2000 r--s 00000000 00:00 0", &line), 0);
	assert_false(line.writable || line.is_private);
	assert_int_equal(maps_parse_line("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 "
					 "                 [vsyscall]",
					 &line),
			 0);
	assert_int_equal(maps_parse_line("", &line), -EBADMSG);
	assert_int_equal(maps_parse_line("2000-1000 rw-p 00000000 00:00 0", &line), -EBADMSG);
	assert_int_equal(maps_parse_line("1000-2000 rw-p", &line), -EBADMSG);
	assert_int_equal(maps_parse_line("1000-2000 rw-p 00000000 00:00 x", &line), -EBADMSG);
	assert_int_equal(maps_parse_line("-1000-2000 rw-p 00000000 00:00 0", &line), -EBADMSG);
}

static bool write_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* In a new user namespace: files can only be made by a user and group that it knows. */
static bool become_root(uid_t uid, gid_t gid)
{
	char users[32], groups[32];

	snprintf(users, sizeof(users), "0 %u 1", uid);
	snprintf(groups, sizeof(groups), "0 %u 1", gid);
	return write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/uid_map", users) && write_text("/proc/self/gid_map", groups);
}

/* Runs in a process of its own, with a file system of its own that has room for 16 pages. The exit
 * status tells: 0 as it should be, 77 where namespaces are not allowed. */
static int save_to_full_disk(void)
{
	char disk[SCRATCH_SIZE + 16], path[SCRATCH_SIZE + 32];
	struct err err = ERR_INIT;
	uid_t uid = getuid();
	gid_t gid = getgid();
	struct delta_stats stats;
	struct child source;
	int r;

	snprintf(disk, sizeof(disk), "%s/disk", scratch);
	snprintf(path, sizeof(path), "%s/delta", disk);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !become_root(uid, gid) ||
	    mkdir(disk, 0700) < 0 || mount("none", disk, "tmpfs", 0, "size=64k") < 0)
		return 77;
	source = child_start(base_path, MEMORY, write_known, NULL);
	r = delta_save(source.pid, base_path, path, NULL, &stats, &err);
	child_end(&source);
	if (r != -ENOSPC || !str_eq(err_code_of(&err), "disk_full"))
		return 1;
	return access(path, F_OK) == 0 ? 2 : 0; /* nothing half-made is left */
}

static void full_disk(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(save_to_full_disk());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("SKIPPED: user namespaces are not allowed here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void existing_file(void **state)
{
	struct child source = child_start(base_path, MEMORY, write_known, NULL);
	struct delta_stats stats;

	unlink(delta_path);
	assert_int_equal(file_write_durable(delta_path, "x", 1, 0600), 0);
	assert_int_equal(delta_save(source.pid, base_path, delta_path, NULL, &stats, NULL),
			 -EEXIST);
	assert_int_equal(access(delta_path, F_OK), 0); /* what was there is kept */
	unlink(delta_path);
	child_end(&source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_pages),	      cmocka_unit_test(nothing_written),
		cmocka_unit_test(target_that_wrote),  cmocka_unit_test(from_pagemap_entries),
		cmocka_unit_test(both_methods_agree), cmocka_unit_test(many_extents),
		cmocka_unit_test(swapped_pages),      cmocka_unit_test(random_memories),
		cmocka_unit_test(damaged_files),      cmocka_unit_test(cut_files),
		cmocka_unit_test(other_memory),	      cmocka_unit_test(mappings_that_are_no_memory),
		cmocka_unit_test(split_mappings),     cmocka_unit_test(maps_lines),
		cmocka_unit_test(full_disk),	      cmocka_unit_test(existing_file),
		cmocka_unit_test(captured_memories),  cmocka_unit_test(captures_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
