/*
 * A sandbox's life with a real VM, from creation to tombstone: how it ends and what the tombstone
 * says, and the same asked for by many at once. One image and one template serve all tests.
 */
#include "core_rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

static struct rig rig;

static int make(void **state)
{
	rig_make(&rig);
	return 0;
}

static int remove_all(void **state)
{
	rig_remove(&rig);
	return 0;
}

/* ---- life ---- */

static void test_create_exec_destroy(void **state)
{
	struct sandbox_info info;
	struct record record;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];
	int64_t began = clock_boottime_ms(), created, first, second;
	struct answer a;

	rig_create(&rig, &(struct core_create_request){ .name = "web-1" }, id);
	created = clock_boottime_ms();
	rig_expect(&rig, id, "true", "");
	first = clock_boottime_ms();
	rig_expect(&rig, id, "true", "");
	second = clock_boottime_ms();
	print_message("create %lld ms, first exec %lld ms, second %lld ms\n",
		      (long long)(created - began), (long long)(first - created),
		      (long long)(second - first));
	rig_expect(&rig, id, "hostname; whoami; pwd", "web-1\nsandbox\n/home/sandbox\n");
	rig_get(&rig, id, &info);
	assert_int_equal(info.status, SANDBOX_RUNNING);
	assert_string_equal(info.isolation, "emulated");
	assert_int_equal(info.expires_unix_ms - info.created_unix_ms, 15 * 60000);
	sandbox_info_clear(&info);
	rig_read_record(&rig, id, &record);
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, &record);
	rig_get(&rig, id, &info);
	assert_string_equal(info.reason, "destroyed_by_user");
	assert_true(info.ended_unix_ms >= info.created_unix_ms);
	sandbox_info_clear(&info);
	rig_destroy(&rig, id); /* idempotent */
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id, &(struct core_exec_request){ .command = "true" }, &err),
		-ESHUTDOWN);
	assert_string_equal(err_code_of(&err), "sandbox_ended");
	answer_clear(&a);
}

static void test_sandboxes_are_distinct(void **state)
{
	char a[SANDBOX_ID_SIZE], b[SANDBOX_ID_SIZE];
	const char *const ids[] = { a, b };
	char *seen[2];

	rig_create(&rig, NULL, a);
	rig_create(&rig, NULL, b);
	for (int i = 0; i < 2; i++) {
		struct answer answer;

		answer_init(&answer);
		assert_int_equal(
			answer_exec(&answer, &rig, ids[i],
				    &(struct core_exec_request){
					    .command =
						    "hostname; cat /etc/machine-id; head -c 16 "
						    "/dev/urandom | od -An -tx1; echo x >~/f; ls ~",
					    .wait_ms = -1,
				    },
				    NULL),
			0);
		answer_get(&answer, 60000);
		assert_int_equal(answer.result.exit_code, 0);
		seen[i] = buf_take(&answer.result.out);
		answer_clear(&answer);
	}
	assert_string_not_equal(seen[0], seen[1]);
	/* Not one of the three lines is the same. */
	for (int line = 0; line < 3; line++) {
		char *l0 = seen[0], *l1 = seen[1], *e0, *e1;

		for (int skip = 0; skip < line; skip++) {
			l0 = strchr(l0, '\n') + 1;
			l1 = strchr(l1, '\n') + 1;
		}
		e0 = strchr(l0, '\n');
		e1 = strchr(l1, '\n');
		assert_true(e0 - l0 != e1 - l1 || memcmp(l0, l1, (size_t)(e0 - l0)) != 0);
	}
	free(seen[0]);
	free(seen[1]);
	rig_destroy(&rig, a);
	rig_destroy(&rig, b);
}

static void test_extend(void **state)
{
	struct sandbox_info before, after;
	struct err err = ERR_INIT;
	struct record record;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .timeout_minutes = 5 }, id);
	rig_get(&rig, id, &before);
	assert_int_equal(core_extend(rig.core, &rig.admin, id, 10, &after, NULL), 0);
	assert_int_equal(after.expires_unix_ms - before.expires_unix_ms, 600000);
	sandbox_info_clear(&after);
	rig_read_record(&rig, id, &record);
	assert_in_range(record.expires_boottime_ms - record.start_boottime_ms, 14 * 60000,
			15 * 60000);
	/* Beyond the total nothing changes. */
	assert_int_equal(core_extend(rig.core, &rig.admin, id, 1426, &after, &err), -ERANGE);
	assert_string_equal(err_code_of(&err), "limit_reached");
	assert_non_null(strstr(err.hint, "1425"));
	rig_get(&rig, id, &after);
	assert_int_equal(after.expires_unix_ms - before.expires_unix_ms, 600000);
	sandbox_info_clear(&after);
	sandbox_info_clear(&before);
	rig_destroy(&rig, id);
	assert_int_equal(core_extend(rig.core, &rig.admin, id, 1, &after, &err), -ESHUTDOWN);
	assert_string_equal(err_code_of(&err), "already_ended");
}

static void test_expiry_ends_on_time_with_its_commands(void **state)
{
	struct sandbox_info info;
	struct record record;
	struct answer a;
	char id[SANDBOX_ID_SIZE];
	int64_t deadline_unix;

	rig_create(&rig, NULL, id);
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id,
			    &(struct core_exec_request){ .command = "sleep 1000", .wait_ms = -1 },
			    NULL),
		0);
	deadline_unix = clock_unix_ms() + 2000;
	rig_set_deadline(&rig, id, 2000);
	rig_read_record(&rig, id, &record);
	answer_get(&a, 10000);
	assert_true(a.failed);
	assert_string_equal(err_code_of(&a.err), "sandbox_ended");
	assert_non_null(strstr(a.err.message, "expired"));
	answer_clear(&a);
	rig_wait_ended(&rig, id, 5000, &info);
	assert_string_equal(info.reason, "expired");
	assert_in_range(info.ended_unix_ms - deadline_unix + 1000, 900, 2500);
	sandbox_info_clear(&info);
	rig_assert_no_residue(&rig, id, &record);
}

/* Holds all that it reads: a file without a line. */
#define EAT_MEMORY "tail /dev/zero"

static void test_crashes_have_reasons(void **state)
{
	static const struct {
		const char *command, *reason;
	} cases[] = {
		{ "echo c >/proc/sysrq-trigger; sleep 60", "guest_crashed" },
		{ "echo o >/proc/sysrq-trigger; sleep 60", "destroyed_by_user" },
		{ "echo 2 >/proc/sys/vm/panic_on_oom; " EAT_MEMORY, "guest_out_of_memory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases) + 1; i++) {
		bool vmm = i == ARRAY_SIZE(cases);
		struct sandbox_info info;
		struct record record;
		struct answer a;
		char id[SANDBOX_ID_SIZE];

		rig_create(&rig, NULL, id);
		rig_read_record(&rig, id, &record);
		answer_init(&a);
		assert_int_equal(answer_exec(&a, &rig, id,
					     &(struct core_exec_request){
						     .command = vmm ? "sleep 60" : cases[i].command,
						     .user = "root",
						     .wait_ms = -1,
					     },
					     NULL),
				 0);
		if (vmm)
			kill(record.vmm_pid, SIGKILL);
		answer_get(&a, 30000); /* long before the command would end */
		assert_true(a.failed);
		assert_string_equal(err_code_of(&a.err), "sandbox_ended");
		answer_clear(&a);
		rig_wait_ended(&rig, id, 10000, &info);
		assert_string_equal(info.reason, vmm ? "vmm_crashed" : cases[i].reason);
		sandbox_info_clear(&info);
		rig_assert_no_residue(&rig, id, &record);
	}
}

/* A command that runs out of memory is killed, and told so; the sandbox is none the worse for it.
 */
static void test_out_of_memory_is_the_command_s(void **state)
{
	char id[SANDBOX_ID_SIZE];
	struct answer a;

	rig_create(&rig, NULL, id);
	rig_run(&rig, id,
		&(struct core_exec_request){ .command = "echo before; exec " EAT_MEMORY,
					     .wait_ms = -1 },
		&a);
	assert_false(a.failed);
	assert_true(a.result.out_of_memory);
	assert_int_equal(a.result.signal, SIGKILL);
	assert_int_equal(a.result.exit_code, 128 + SIGKILL);
	assert_string_equal(buf_str(&a.result.out), "before\n");
	answer_clear(&a);
	rig_expect(&rig, id, "echo after", "after\n");
	rig_destroy(&rig, id);
}

/* ---- concurrency ---- */

struct creator {
	pthread_t thread;
	struct core_create_request req;
	int result;
	struct err err;
	char id[SANDBOX_ID_SIZE];
};

static void *create_one(void *arg)
{
	struct creator *c = arg;

	c->result = rig_try_create(&rig, &c->req, c->id, &c->err);
	return NULL;
}

static void test_quota_under_concurrency(void **state)
{
	struct creator creators[8] = { 0 };
	int made = 0;

	rig.core->limits.sandboxes_per_account = 3;
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++)
		pthread_create(&creators[i].thread, NULL, create_one, &creators[i]);
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		pthread_join(creators[i].thread, NULL);
		if (creators[i].result == 0)
			made++;
		else
			assert_string_equal(err_code_of(&creators[i].err), "quota_reached");
	}
	assert_int_equal(made, 3);
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		if (creators[i].result == 0) {
			char id[SANDBOX_ID_SIZE];

			rig_destroy(&rig, creators[i].id);
			rig_assert_no_residue(&rig, creators[i].id, NULL);
			rig_create(&rig, NULL, id); /* its place is free at once */
			rig_destroy(&rig, id);
		}
	}
	rig.core->limits.sandboxes_per_account = 20;
}

static void test_idempotency(void **state)
{
	struct creator creators[4] = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		creators[i].req = (struct core_create_request){ .idempotency_key = "once",
								.request_hash = "aa" };
		pthread_create(&creators[i].thread, NULL, create_one, &creators[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		pthread_join(creators[i].thread, NULL);
		assert_int_equal(creators[i].result, 0);
		assert_string_equal(creators[i].id, creators[0].id);
	}
	assert_int_equal(rig_try_create(&rig,
					&(struct core_create_request){ .idempotency_key = "once",
								       .request_hash = "bb" },
					id, &err),
			 -EEXIST);
	assert_string_equal(err_code_of(&err), "idempotency_conflict");
	rig_destroy(&rig, creators[0].id);
}

static void *destroy_one(void *arg)
{
	struct creator *c = arg;
	struct sandbox_info info;

	c->result = core_destroy(rig.core, &rig.admin, c->id, &info, &c->err);
	if (c->result == 0)
		sandbox_info_clear(&info);
	return NULL;
}

static void test_destroy_twenty_times_at_once(void **state)
{
	struct creator destroyers[20] = { 0 };
	struct record record;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	rig_read_record(&rig, id, &record);
	for (size_t i = 0; i < ARRAY_SIZE(destroyers); i++) {
		str_copy(destroyers[i].id, sizeof(destroyers[i].id), id);
		pthread_create(&destroyers[i].thread, NULL, destroy_one, &destroyers[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(destroyers); i++) {
		pthread_join(destroyers[i].thread, NULL);
		assert_int_equal(destroyers[i].result, 0);
	}
	rig_assert_no_residue(&rig, id, &record);
}

static void test_destroy_while_creating(void **state)
{
	for (int delay_ms = 0; delay_ms <= 200; delay_ms += 25) {
		struct creator c = { 0 };
		struct sandbox_info *items = NULL, info;
		char *cursor = NULL;
		size_t n = 0;
		int64_t deadline = clock_boottime_ms() + 5000;

		pthread_create(&c.thread, NULL, create_one, &c);
		poll(NULL, 0, delay_ms);
		do {
			core_list_clear(items, n);
			assert_int_equal(core_list(rig.core, &rig.admin,
						   &(struct core_list_request){ 0 }, &items, &n,
						   &cursor, NULL),
					 0);
		} while (n == 0 && clock_boottime_ms() < deadline);
		assert_int_equal(n, 1);
		assert_int_equal(core_destroy(rig.core, &rig.admin, items[0].id, &info, NULL), 0);
		assert_int_equal(info.status, SANDBOX_DESTROYED);
		assert_string_equal(info.reason, "destroyed_by_user");
		sandbox_info_clear(&info);
		pthread_join(c.thread, NULL);
		if (c.result < 0)
			assert_string_equal(err_code_of(&c.err), "sandbox_ended");
		rig_assert_no_residue(&rig, items[0].id, NULL);
		core_list_clear(items, n);
	}
}

static void test_destroy_of_a_guest_that_hangs(void **state)
{
	struct sandbox_info info;
	struct record record;
	struct answer a;
	char id[SANDBOX_ID_SIZE];
	int64_t began;

	rig_create(&rig, NULL, id);
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id,
			    &(struct core_exec_request){ .command = "sleep 100", .wait_ms = -1 },
			    NULL),
		0);
	rig_read_record(&rig, id, &record);
	assert_int_equal(kill(record.vmm_pid, SIGSTOP), 0);
	began = clock_boottime_ms();
	assert_int_equal(core_destroy(rig.core, &rig.admin, id, &info, NULL), 0);
	assert_int_equal(info.status, SANDBOX_DESTROYED);
	sandbox_info_clear(&info);
	print_message("destroyed after %lld ms\n", (long long)(clock_boottime_ms() - began));
	answer_get(&a, 1000);
	assert_string_equal(err_code_of(&a.err), "sandbox_ended");
	answer_clear(&a);
	rig_assert_no_residue(&rig, id, &record);
}

static void test_image_in_use_is_kept(void **state)
{
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	assert_int_equal(core_image_remove(rig.core, &rig.admin, "base", &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "image_in_use");
	rig_destroy(&rig, id);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_exec_destroy),
		cmocka_unit_test(test_sandboxes_are_distinct),
		cmocka_unit_test(test_extend),
		cmocka_unit_test(test_expiry_ends_on_time_with_its_commands),
		cmocka_unit_test(test_crashes_have_reasons),
		cmocka_unit_test(test_out_of_memory_is_the_command_s),
		cmocka_unit_test(test_quota_under_concurrency),
		cmocka_unit_test(test_idempotency),
		cmocka_unit_test(test_destroy_twenty_times_at_once),
		cmocka_unit_test(test_destroy_while_creating),
		cmocka_unit_test(test_destroy_of_a_guest_that_hangs),
		cmocka_unit_test(test_image_in_use_is_kept),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
