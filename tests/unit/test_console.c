/* The console's ring, and what is read from a guest's last words. */
#include "unit.h"

#include <string.h>

#include "warden/console.h"

static struct console console;
static char copy[CONSOLE_SIZE];

static void say(const char *text)
{
	console_append(&console, text, strlen(text));
}

static int forget(void **state)
{
	memset(&console, 0, sizeof(console));
	return 0;
}

static void assert_reads(enum console_verdict verdict, const char *sentence)
{
	char got[128];

	assert_int_equal(console_read(&console, got, sizeof(got)), verdict);
	assert_string_equal(got, sentence);
}

static void silence_says_nothing(void **state)
{
	assert_reads(CONSOLE_QUIET, "");
	say("\n\r\n   \n");
	assert_reads(CONSOLE_QUIET, "");
}

static void last_line_is_the_last_word(void **state)
{
	say("first\r\nqemu: could not open '/x': Permission denied\r\n\r\n");
	assert_reads(CONSOLE_QUIET, "qemu: could not open '/x': Permission denied");
}

static void panic_is_found_before_its_trace(void **state)
{
	say("[    5.1] Kernel panic - not syncing: sysrq triggered crash\r\n[    5.2] Call "
	    "Trace:\r\n"
	    "[    5.3] Rebooting\r\n");
	assert_reads(CONSOLE_PANIC, "[    5.1] Kernel panic - not syncing: sysrq triggered crash");
}

static void panic_for_memory_is_told_apart(void **state)
{
	say("Kernel panic - not syncing: System is deadlocked on memory\n");
	assert_reads(CONSOLE_OUT_OF_MEMORY,
		     "Kernel panic - not syncing: System is deadlocked on memory");
	forget(NULL);
	say("Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled\n");
	assert_reads(
		CONSOLE_OUT_OF_MEMORY,
		"Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled");
}

static void control_bytes_are_replaced_and_length_cut(void **state)
{
	char got[8];

	say("\x1b[2Jab\x7f\x80"
	    "c d e f g h");
	assert_int_equal(console_read(&console, got, sizeof(got)), CONSOLE_QUIET);
	assert_string_equal(got, "[2Jab??");
}

static void ring_keeps_the_newest(void **state)
{
	char block[1000];

	for (int i = 0; i < 300; i++) {
		memset(block, 'a' + i % 26, sizeof(block));
		console_append(&console, block, sizeof(block));
		say("\n");
	}
	assert_int_equal(console.total, 300 * 1001);
	assert_int_equal(console_copy(&console, copy), CONSOLE_SIZE);
	assert_int_equal(copy[CONSOLE_SIZE - 1], '\n');
	assert_int_equal(copy[CONSOLE_SIZE - 2], 'a' + 299 % 26);
	assert_int_equal(copy[CONSOLE_SIZE - 1 - 1001], '\n');
}

static void block_larger_than_the_ring(void **state)
{
	static char block[3 * CONSOLE_SIZE + 17];
	static const char end[] = { 'e', 'n', 'd', '\n' };

	memset(block, 'x', sizeof(block));
	memcpy(block + sizeof(block) - sizeof(end), end, sizeof(end));
	console_append(&console, block, sizeof(block));
	assert_int_equal(console_copy(&console, copy), CONSOLE_SIZE);
	assert_memory_equal(copy + CONSOLE_SIZE - 5, "xend\n", 5);
	assert_int_equal(copy[0], 'x');
}

/* The line with the panic lies across the ring's seam. */
static void panic_across_the_seam(void **state)
{
	while (console.total < CONSOLE_SIZE - 20)
		say(".");
	say("\nKernel panic - not syncing: across\n");
	assert_reads(CONSOLE_PANIC, "Kernel panic - not syncing: across");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(silence_says_nothing, forget),
		cmocka_unit_test_setup(last_line_is_the_last_word, forget),
		cmocka_unit_test_setup(panic_is_found_before_its_trace, forget),
		cmocka_unit_test_setup(panic_for_memory_is_told_apart, forget),
		cmocka_unit_test_setup(control_bytes_are_replaced_and_length_cut, forget),
		cmocka_unit_test_setup(ring_keeps_the_newest, forget),
		cmocka_unit_test_setup(block_larger_than_the_ring, forget),
		cmocka_unit_test_setup(panic_across_the_seam, forget),
	};

	return cmocka_run_group_tests_name("console", tests, NULL, NULL);
}
