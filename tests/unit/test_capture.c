/* The capped log of an output stream: offsets stay true, the head and the newest bytes stay. */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/capture.h"

#define CAP   (256u * 1024u)
#define CHUNK 50000u

static char dir[SCRATCH_SIZE];

static int make_dir(void **state)
{
	scratch_make(dir);
	return 0;
}

static int remove_dir(void **state)
{
	scratch_remove(dir);
	return 0;
}

static char byte_at(uint64_t offset)
{
	return (char)(offset * 2654435761u >> 9);
}

static void append(struct capture *c, size_t len)
{
	char data[CHUNK];

	for (size_t i = 0; i < len; i++)
		data[i] = byte_at(c->total + i);
	capture_append(c, data, len);
}

static struct capture open_log(const char *name)
{
	struct capture c;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(capture_open(&c, fd, name, CAP), 0);
	assert_true(capture_open(&c, fd, name, CAP) < 0); /* never an existing file */
	close(fd);
	return c;
}

/* Reads everything that is kept and checks each byte; returns how many there were. */
static uint64_t check_content(const struct capture *c)
{
	uint64_t offset = 0, n_read = 0;
	char data[7000];
	ssize_t n;

	while (offset < c->total) {
		if (offset >= c->gap_from && offset < c->gap_to) {
			assert_int_equal(capture_read(c, offset, data, sizeof(data)), 0);
			offset = c->gap_to;
			continue;
		}
		n = capture_read(c, offset, data, sizeof(data));
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(data[i], byte_at(offset + (uint64_t)i));
		offset += (uint64_t)n;
		n_read += (uint64_t)n;
	}
	assert_int_equal(capture_read(c, c->total, data, sizeof(data)), 0);
	return n_read;
}

static void test_under_the_cap_all_is_kept(void **state)
{
	struct capture c = open_log("small");

	while (c.total + CHUNK <= CAP)
		append(&c, CHUNK);
	assert_int_equal(c.gap_from, c.gap_to);
	assert_int_equal(check_content(&c), c.total);
	capture_close(&c);
}

static void test_the_middle_goes(void **state)
{
	struct capture c = open_log("large");
	struct stat st;

	for (int i = 0; i < 200; i++) {
		append(&c, CHUNK - (size_t)i);
		assert_true(capture_kept(&c) <= CAP);
	}
	assert_int_equal(c.gap_from, CAP / 2);
	assert_int_equal(check_content(&c), capture_kept(&c));
	assert_true(c.total - c.gap_to >= CAP / 4); /* the newest bytes */
	assert_int_equal(fstat(c.fd, &st), 0);
	assert_int_equal(st.st_size, c.total);
	assert_true((uint64_t)st.st_blocks * 512 <= CAP + 64 * 1024);
	capture_close(&c);
}

static void test_room_keeps_what_is_needed(void **state)
{
	struct capture c = open_log("slow");
	uint64_t needed = 0;

	/* A reader that is always as far behind as it may be loses nothing. */
	for (int i = 0; i < 300; i++) {
		uint64_t room = capture_room(&c, needed);

		if (room == 0) {
			needed += 10000;
			continue;
		}
		append(&c, room < CHUNK ? (size_t)room : CHUNK);
		assert_true(c.gap_from == c.gap_to || c.gap_to <= needed);
	}
	assert_true(c.total > 1000 * 1000);
	assert_true(capture_room(&c, UINT64_MAX) >= 64 * 1024);
	capture_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_under_the_cap_all_is_kept),
		cmocka_unit_test(test_the_middle_goes),
		cmocka_unit_test(test_room_keeps_what_is_needed),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
