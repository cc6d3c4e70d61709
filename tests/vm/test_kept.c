/*
 * What is kept of sandboxes that do not run: states that are compressed when they lie for long, how
 * many may be kept, and for how long.
 */
#include "core_rig.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
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

static void must_pause(const char *id)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	if (core_pause(rig.core, &rig.admin, id, &info, &err) < 0)
		fail_msg("pause: %s (%s)", err.message, err_code_of(&err));
	assert_int_equal(info.status, SANDBOX_PAUSED);
	sandbox_info_clear(&info);
}

static void assert_status(const char *id, enum sandbox_status status)
{
	struct sandbox_info info;

	rig_get(&rig, id, &info);
	assert_string_equal(sandbox_status_name(info.status), sandbox_status_name(status));
	sandbox_info_clear(&info);
}

/* ---- compressed ---- */

static void assert_compressed(const char *id, bool compressed)
{
	_cleanup_free_ char *plain =
		xasprintf("%s/state/sandboxes/%s/pause/" SAVED_MEMORY, rig.dir, id);
	_cleanup_free_ char *small = xasprintf("%s.zst", plain);

	assert_int_equal(access(plain, F_OK), compressed ? -1 : 0);
	assert_int_equal(access(small, F_OK), compressed ? 0 : -1);
}

/* A job that appends a number to ~/count every half second. */
static void start_counter(const char *id)
{
	const struct core_exec_request count = {
		.command = "n=0; while :; do n=$((n+1)); echo $n >>~/count; sleep 0.5; done",
		.timeout_ms = 600000,
	};
	struct answer a;
	struct err err = ERR_INIT;

	answer_init(&a);
	if (answer_exec(&a, &rig, id, &count, &err) < 0)
		fail_msg("exec: %s", err.message);
	answer_get(&a, 60000);
	assert_false(a.failed);
	assert_true(a.result.running);
	answer_clear(&a);
}

static void test_paused_for_long_is_compressed(void **state)
{
	const struct core_fork_request one = { .count = 1 };
	struct core_fork_result forks = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo kept >~/mark; yes skerry | head -c 20000000 >/dev/shm/x; sync",
		   "");
	start_counter(id);
	must_pause(id);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() - 60000), 0); /* not for long */
	assert_compressed(id, false);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 1);
	assert_compressed(id, true);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 0); /* it is */
	/* It is what it was for a fork, after a restart of the daemon, and for a command. */
	if (core_fork(rig.core, &rig.admin, id, &one, &forks, &err) < 0)
		fail_msg("fork: %s", err.message);
	rig_expect(&rig, forks.children[0].id, "cat ~/mark; head -n 1 /dev/shm/x",
		   "kept\nskerry\n");
	rig_destroy(&rig, forks.children[0].id);
	core_fork_result_clear(&forks);
	assert_status(id, SANDBOX_PAUSED);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 1);
	rig_close(&rig);
	rig_open(&rig);
	assert_compressed(id, true);
	rig_expect(&rig, id, "cat ~/mark; head -n 1 /dev/shm/x", "kept\nskerry\n");
	rig_expect(&rig, id,
		   "n=$(wc -l <~/count); until [ $(wc -l <~/count) -gt $n ]; do sleep 0.1; done",
		   "");
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 0); /* it runs */
	rig_destroy(&rig, id);
}

/* ---- retention and limits ---- */

static void set_paused_at(const char *id, int64_t unix_ms)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;

	assert_int_equal(db_begin_write(rig.core->db, &txn, NULL), 0);
	assert_int_equal(db_query(&txn, "update sandboxes set paused_unix_ms = $1 where id = $2",
				  &query, NULL),
			 0);
	db_bind_int(&query, 1, unix_ms);
	db_bind_text(&query, 2, id);
	assert_int_equal(db_run(&query, NULL, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void test_paused_for_too_long_ends(void **state)
{
	const int64_t day_ms = 24 * 60 * 60 * 1000LL;
	int64_t days = rig.core->limits.paused_days, now = clock_unix_ms();
	struct core_limits *limits = &rig.core->limits;
	int64_t paused_max = limits->paused_per_account, kept_max = limits->snapshots_per_account;
	char old[SANDBOX_ID_SIZE], young[SANDBOX_ID_SIZE];
	struct core_snapshot_info snapshot, *snapshots;
	struct sandbox_info info;
	struct err err = ERR_INIT;
	size_t n = 0;

	assert_int_equal(days, 30);
	rig_create(&rig, NULL, old);
	rig_create(&rig, NULL, young);
	rig_expect(&rig, young, "echo kept >~/mark; sync", "");
	must_pause(old);
	limits->paused_per_account = 1;
	assert_true(core_pause(rig.core, &rig.admin, young, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), "quota_reached");
	assert_status(young, SANDBOX_RUNNING);
	limits->paused_per_account = paused_max;
	must_pause(young);
	limits->snapshots_per_account = 0;
	assert_true(core_snapshot_create(rig.core, &rig.admin, young, "s", &snapshot, &err) < 0);
	assert_string_equal(err_code_of(&err), "quota_reached");
	limits->snapshots_per_account = kept_max;
	assert_int_equal(core_snapshot_list(rig.core, &rig.admin, &snapshots, &n, &err), 0);
	assert_int_equal(n, 0);
	free(snapshots);

	set_paused_at(old, now - days * day_ms - 1000);
	set_paused_at(young, now - days * day_ms + 60000);
	paused_expire(rig.core);
	rig_get(&rig, old, &info);
	assert_int_equal(info.status, SANDBOX_DESTROYED);
	assert_string_equal(info.reason, "expired");
	assert_non_null(strstr(info.reason_text, "30 days"));
	sandbox_info_clear(&info);
	rig_assert_no_residue(&rig, old, NULL);
	assert_status(young, SANDBOX_PAUSED);
	rig_expect(&rig, young, "cat ~/mark", "kept\n");
	rig_destroy(&rig, young);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paused_for_long_is_compressed),
		cmocka_unit_test(test_paused_for_too_long_ends),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
