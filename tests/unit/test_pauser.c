/* What the warden asks of QEMU: it waits for the answer to its own question, and for no other. */
#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "warden/pauser.h"

#define GREETING "{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\r\n"
#define NODDED	 "{\"return\": {}}\r\n"

static char dir[SCRATCH_SIZE], path[SCRATCH_SIZE + 16];
static int listener = -1, qemu = -1;
static struct pauser pauser = { .fd = -1 };

static int set_up(void **state)
{
	scratch_make(dir);
	snprintf(path, sizeof(path), "%s/qmp", dir);
	listener = unix_listen(path, 0600);
	assert_true(listener >= 0);
	return 0;
}

static int tear_down(void **state)
{
	pauser_drop(&pauser);
	close(qemu);
	close(listener);
	scratch_remove(dir);
	return 0;
}

static void be_asked(const char *command)
{
	char words[256] = "";

	qemu = accept(listener, NULL, NULL);
	assert_true(qemu >= 0);
	assert_true(recv(qemu, words, sizeof(words) - 1, 0) > 0);
	assert_non_null(strstr(words, command));
}

static bool done_after(const char *text)
{
	assert_int_equal(send(qemu, text, strlen(text), 0), (ssize_t)strlen(text));
	return pauser_read(&pauser);
}

static void continuing_outlasts_the_answers_of_others(void **state)
{
	assert_int_equal(pauser_ask_continue(&pauser, path), 0);
	be_asked("\"cont\"");
	assert_false(done_after(GREETING));
	/* To a stop that was dropped half-way. */
	assert_false(done_after("{\"return\": {}, \"id\": \"stop\"}\r\n"));
	assert_false(done_after("{\"return\": {}, \"id\": \"greeting\"}\r\n"));
	assert_false(done_after("{\"event\": \"STOP\"}\r\n"));
	assert_false(done_after("{\"event\": \"RESUME\"}\r\n"));
	assert_true(done_after("{\"return\": {}, \"id\": \"cont\"}\r\n"));
}

static void stopping_ends_when_the_processors_stand_still(void **state)
{
	assert_int_equal(pauser_ask_stop(&pauser, path), 0);
	be_asked("\"stop\"");
	assert_false(done_after(GREETING NODDED));
	assert_true(done_after("{\"event\": \"STOP\"}\r\n"));
}

static void a_refusal_is_an_answer(void **state)
{
	assert_int_equal(pauser_ask_stop(&pauser, path), 0);
	be_asked("\"stop\"");
	assert_true(done_after(GREETING "{\"id\": \"stop\", \"error\": {\"desc\": \"no\"}}\r\n"));
}

static void one_that_is_gone_is_not_waited_for(void **state)
{
	assert_int_equal(pauser_ask_stop(&pauser, path), 0);
	be_asked("\"stop\"");
	assert_int_equal(shutdown(qemu, SHUT_RDWR), 0);
	assert_true(pauser_read(&pauser));
}

#define PAUSER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAUSER_TEST(continuing_outlasts_the_answers_of_others),
		PAUSER_TEST(stopping_ends_when_the_processors_stand_still),
		PAUSER_TEST(a_refusal_is_an_answer),
		PAUSER_TEST(one_that_is_gone_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
