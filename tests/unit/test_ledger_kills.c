/*
 * A daemon that is killed at random while it creates, pauses, resumes, forks, extends and destroys,
 * and while it recovers from that: SKERRY_TEST_KILLS times (default KILLS_DEFAULT). The daemon is
 * this program, started again: the real core on machines that are only played (fake_machines.h), so
 * that hundreds of deaths take a minute. Between two of its lives machines crash, and vanish
 * without a word.
 *
 * After each death everything that must hold in the ledger does (store/ledger_check.h). At the end
 * everything is destroyed, and every run is held against its warden's record and against what its
 * machine did.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"
#include "fake_machines.h"
#include "store/ledger_check.h"

#define KILLS_DEFAULT 25
#define LIFE_MAX_MS   250 /* from when the daemon is up */
#define WORKERS	      4
#define ALIVE_MAX     12
#define TOLERANCE_MS  250 /* of times against the records: clocks are not read at once */
#define ACCOUNT	      "acc_storm"
#define GRANT	      1234567 /* micro-credits of each reference */
#define REFERENCES    40
#define IMAGE_DIGEST  "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

DEFINE_CLEANUP(DIR *, closedirp, closedir);

struct storm {
	char dir[SCRATCH_SIZE];
	struct loop *loop;
	struct pool *pool;
	struct image_store *images;
	struct core *core;
	struct principal admin, user;
};

/* ---- a daemon ---- */

static void write_text(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(file_write_durable(path, text, strlen(text), 0600), 0);
}

static void make_image(const struct storm *s)
{
	_cleanup_free_ char *images = xasprintf("%s/images", s->dir);
	_cleanup_free_ char *blobs = xasprintf("%s/blobs", images);

	assert_int_equal(dir_make(images, 0700), 0);
	assert_int_equal(dir_make(blobs, 0700), 0);
	write_text(blobs, IMAGE_DIGEST, "root");
	write_text(images, "base.json",
		   "{\"digest\": \"" IMAGE_DIGEST "\", \"size_bytes\": 4, \"config\": {}}");
}

static void storm_open(struct storm *s)
{
	_cleanup_free_ char *state = xasprintf("%s/state", s->dir);
	_cleanup_free_ char *images = xasprintf("%s/images", s->dir);
	_cleanup_free_ char *truth = xasprintf("%s/truth", s->dir);
	_cleanup_free_ char *key_path = xasprintf("%s/admin.key", state);
	_cleanup_buf_ struct buf key = BUF_INIT;
	struct core_config config = { .state_dir = state };

	fake_machines_init(truth);
	core_limits_init(&config.limits);
	config.limits.host_free_disk_mb_min = 0;
	config.limits.charge_interval_seconds = 1;
	config.limits.sandboxes_per_account = ALIVE_MAX;
	assert_int_equal(loop_new(&s->loop, NULL), 0);
	assert_int_equal(loop_start(s->loop, "loop", NULL), 0);
	assert_int_equal(pool_new(4, 100, &s->pool, NULL), 0);
	assert_int_equal(image_store_new(images, s->dir, &s->images, NULL), 0);
	config.loop = s->loop;
	config.pool = s->pool;
	config.images = s->images;
	assert_int_equal(core_new(&config, &s->core, NULL), 0);
	assert_int_equal(core_recover(s->core, NULL), 0);
	assert_int_equal(file_read(key_path, 100, &key), 0);
	assert_int_equal(core_authenticate(s->core, key.data, key.len - 1, &s->admin, NULL), 0);
	s->user = (struct principal){ .account_id = ACCOUNT, .key_id = "key_storm" };
}

static void storm_close(struct storm *s)
{
	principal_clear(&s->admin);
	core_free(s->core, 1000);
	pool_free(s->pool);
	loop_free(s->loop);
	image_store_free(s->images);
}

/* ---- what it does until it is killed ---- */

static uint32_t random_below(uint32_t n)
{
	uint32_t random;

	rand_bytes(&random, sizeof(random));
	return random % n;
}

static struct sandbox *any_of(struct core *core)
{
	size_t n;
	struct sandbox **all = table_all(core, &n), *chosen = NULL;
	size_t wanted = n ? random_below((uint32_t)n) : 0;

	for (size_t i = 0; i < n; i++) {
		if (i == wanted)
			chosen = all[i];
		else
			sandbox_unref(all[i]);
	}
	free(all);
	return chosen;
}

static void create_one(struct storm *s)
{
	struct core_create_request req = { .timeout_minutes = 60 };
	struct sandbox_info info = { 0 };

	req.pause_on_timeout = random_below(2);
	core_create(s->core, &s->user, &req, NULL, NULL, &info, NULL);
	sandbox_info_clear(&info);
}

static void grant_one(struct storm *s)
{
	_cleanup_free_ char *reference = xasprintf("ref-%u", random_below(REFERENCES));
	const struct core_grant_request req = {
		.account_id = ACCOUNT,
		.microcredits = GRANT,
		.reference = reference,
	};
	_cleanup_json_ json_t *entry = NULL;

	core_grant(s->core, &s->admin, &req, &entry, NULL);
}

static void fork_one(struct storm *s, const char *id)
{
	const struct core_fork_request req = { .count = 1 + random_below(3) };
	struct core_fork_result result = { 0 };

	core_fork(s->core, &s->user, id, &req, &result, NULL);
	core_fork_result_clear(&result);
}

/* It ends by itself, and the daemon hears of it. */
static void crash_one(struct sandbox *sb)
{
	if (fake_machine_crash(sb->run_dir, 0))
		sandbox_finish_later(sb, 0);
}

static void do_something(struct storm *s)
{
	_cleanup_sandbox_ struct sandbox *sb = any_of(s->core);
	struct sandbox_info info = { 0 };
	uint32_t what = random_below(16);

	if (!sb || what < 4)
		create_one(s);
	else if (what < 7)
		core_pause(s->core, &s->user, sb->id, &info, NULL);
	else if (what < 10)
		core_resume(s->core, &s->user, sb->id, &info, NULL);
	else if (what < 11)
		fork_one(s, sb->id);
	else if (what < 13)
		core_destroy(s->core, &s->user, sb->id, &info, NULL);
	else if (what < 14)
		core_extend(s->core, &s->user, sb->id, 1, &info, NULL);
	else if (what < 15)
		crash_one(sb);
	else
		grant_one(s);
	if (what % 3 == 0)
		meters_charge(s->core, NULL);
	sandbox_info_clear(&info);
}

static void *work(void *arg)
{
	for (;;)
		do_something(arg);
	return NULL;
}

static int be_daemon(const char *dir)
{
	struct storm s = { 0 };
	pthread_t thread;

	str_copy(s.dir, sizeof(s.dir), dir);
	storm_open(&s);
	if (write(STDOUT_FILENO, "r", 1) != 1)
		return 1;
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&thread, NULL, work, &s), 0);
	for (;;)
		pause();
}

/* ---- killing it ---- */

static pid_t start_daemon(const struct storm *s, int *ret_fd)
{
	char *const argv[] = { (char *)"test_ledger_kills", (char *)"--daemon", (char *)s->dir,
			       NULL };
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

/* One in eight dies while it opens and recovers. */
static void live_and_die(const struct storm *s)
{
	char up = 0;
	int fd, status = 0;
	pid_t pid = start_daemon(s, &fd);

	if (random_below(8) == 0)
		poll(NULL, 0, (int)random_below(60));
	else if (read(fd, &up, 1) == 1)
		poll(NULL, 0, (int)random_below(LIFE_MAX_MS));
	close(fd);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("the daemon ended by itself, with %#x", (unsigned int)status);
}

/* While there is no daemon, machines end. */
static void harm_machines(const struct storm *s)
{
	_cleanup_free_ char *path = xasprintf("%s/state/sandboxes", s->dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *run = xasprintf("%s/%s/run", path, entry->d_name);
		uint32_t what = random_below(20);

		if (entry->d_name[0] == '.')
			continue;
		if (what < 2)
			fake_machine_crash(run, 0);
		else if (what == 2)
			fake_machine_vanish(run, entry->d_name);
	}
}

static struct db *open_db(const struct storm *s)
{
	_cleanup_free_ char *path = xasprintf("%s/state/skerry.db", s->dir);
	struct db *db = NULL;

	assert_int_equal(db_open(path, &db, NULL), 0);
	return db;
}

static void check_ledger(struct db *db, struct ledger_findings *findings)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(db_begin_long_read(db, &txn, NULL), 0);
	if (ledger_check(&txn, findings, &err) < 0)
		fail_msg("%s", err.message);
	if (findings->n)
		fail_msg("%zu findings: %s", findings->n, findings->first);
}

/* ---- the truth ---- */

struct truth {
	struct record record;	      /* of the run that began last before that moment */
	int64_t answered, held, gone; /* boot time; 0: not, or it was let go again */
};

static int64_t min_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The newest record of a sandbox that began before, and when the next one did. */
static bool find_record(const char *truth_dir, const char *id, int64_t before_boottime_ms,
			struct record *ret, int64_t *ret_next)
{
	_cleanup_(closedirp) DIR *dir = opendir(truth_dir);
	const struct dirent *entry;
	bool found = false;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		_cleanup_free_ char *path = xasprintf("%s/%s", truth_dir, entry->d_name);
		struct record record;

		if (strncmp(entry->d_name, id, strlen(id)) != 0 ||
		    str_eq(entry->d_name + strlen(id), ".log"))
			continue;
		assert_int_equal(record_read(path, &record, NULL), 0);
		if (record.start_boottime_ms > before_boottime_ms)
			*ret_next = min_of(*ret_next, record.start_boottime_ms);
		if (record.start_boottime_ms > before_boottime_ms ||
		    (found && record.start_boottime_ms < ret->start_boottime_ms))
			continue;
		*ret = record;
		found = true;
	}
	return found;
}

static void read_log(const char *truth_dir, const char *id, struct truth *truth, int64_t until)
{
	_cleanup_free_ char *path = xasprintf("%s/%s.log", truth_dir, id);
	FILE *log = fopen(path, "re");
	char what[16];
	long long at;

	assert_non_null(log);
	/* NOLINTNEXTLINE(cert-err34-c): written by this program */
	while (fscanf(log, "%15s %lld", what, &at) == 2) {
		if (at < truth->record.start_boottime_ms || at > until)
			continue;
		if (str_eq(what, "answered"))
			truth->answered = at;
		else if (str_eq(what, "gone"))
			truth->gone = at;
		else
			truth->held = str_eq(what, "held") ? at : 0;
	}
	fclose(log);
}

struct totals {
	size_t runs, exact, vanished;
	int64_t late_ms; /* the longest from an answer to the start of its run */
};

/* A run as it was charged, by the clock of the records. */
static void check_run(const char *truth_dir, const char *id, int64_t began, int64_t ended,
		      struct totals *totals)
{
	struct truth truth = { 0 };
	int64_t exit, next = INT64_MAX;

	if (!find_record(truth_dir, id, min_of(began + TOLERANCE_MS, ended + 1), &truth.record,
			 &next))
		fail_msg("sandbox %s was charged from %lld on, and did not run", id,
			 (long long)began);
	exit = truth.record.cause == RECORD_RUNNING ? INT64_MAX : truth.record.exit_boottime_ms;
	read_log(truth_dir, id, &truth, min_of(exit, next));
	totals->runs++;
	if (!truth.answered || began < truth.answered - TOLERANCE_MS)
		fail_msg("sandbox %s was charged from %lld on, its agent answered at %lld", id,
			 (long long)began, (long long)truth.answered);
	if (began - truth.answered > totals->late_ms)
		totals->late_ms = began - truth.answered;
	if (truth.gone) { /* nobody knows more than that it ran until then */
		totals->vanished++;
		if (ended > truth.gone + TOLERANCE_MS)
			fail_msg("sandbox %s was charged to %lld, it vanished at %lld", id,
				 (long long)ended, (long long)truth.gone);
		return;
	}
	if (exit == INT64_MAX)
		fail_msg("sandbox %s: run ended, and its machine did not", id);
	/* What was sealed stood still from then on, whenever its machine was ended. */
	if (ended > exit + TOLERANCE_MS ||
	    ended < min_of(exit, truth.held ? truth.held : exit) - TOLERANCE_MS)
		fail_msg("sandbox %s was charged to %lld, its machine was held at %lld and ended "
			 "at %lld",
			 id, (long long)ended, (long long)truth.held, (long long)exit);
	totals->exact += ended >= exit - 1 && ended <= exit + 1;
}

/* From boot time to wall-clock time, read when nothing came in between. */
static int64_t unix_offset(void)
{
	for (;;) {
		int64_t before = clock_boottime_ms(), unix_ms = clock_unix_ms();

		if (clock_boottime_ms() == before)
			return unix_ms - before;
	}
}

static void check_truth(const struct storm *s, struct db *db, struct totals *totals)
{
	_cleanup_free_ char *dir = xasprintf("%s/truth", s->dir);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int64_t offset = unix_offset();
	int r;

	assert_int_equal(db_begin_read(db, &txn, NULL), 0);
	assert_int_equal(db_query(&txn,
				  "select sandbox_id, started_unix_ms, ended_unix_ms"
				  " from intervals",
				  &query, NULL),
			 0);
	while ((r = db_step(&query, NULL)) > 0)
		check_run(dir, db_column_text(&query, 0), db_column_int(&query, 1) - offset,
			  db_column_int(&query, 2) - offset, totals);
	assert_int_equal(r, 0);
}

static int64_t count(struct db *db, const char *sql)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;

	assert_int_equal(db_begin_read(db, &txn, NULL), 0);
	assert_int_equal(db_query(&txn, sql, &query, NULL), 0);
	assert_int_equal(db_step(&query, NULL), 1);
	return db_column_int(&query, 0);
}

/* ---- the test ---- */

static void make_account(struct storm *s)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(s->core->db, &txn, NULL), 0);
	assert_int_equal(accounts_insert(&txn, ACCOUNT, "storm", 1, NULL), 0);
	assert_int_equal(credit_open(s->core, &txn, ACCOUNT, false, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void destroy_all(struct storm *s)
{
	size_t n;
	struct sandbox **all = table_all(s->core, &n);

	for (size_t i = 0; i < n; i++) {
		struct sandbox_info info = { 0 };

		assert_int_equal(core_destroy(s->core, &s->user, all[i]->id, &info, NULL), 0);
		sandbox_info_clear(&info);
		sandbox_unref(all[i]);
	}
	free(all);
}

static void check_end(const struct storm *s, int kills)
{
	struct ledger_findings findings;
	struct totals totals = { 0 };
	struct db *db = open_db(s);
	int64_t grants;

	check_ledger(db, &findings);
	check_truth(s, db, &totals);
	assert_int_equal(count(db, "select count(*) from meters"), 0);
	assert_int_equal(count(db, "select count(*) from intervals where ended_unix_ms is null"),
			 0);
	assert_int_equal(count(db, "select count(*) from sandboxes where ended_unix_ms is null"),
			 0);
	grants = count(db, "select count(*) from ledger_entries where reference like 'ref-%'");
	assert_true(grants <= REFERENCES);
	assert_int_equal(findings.granted, 500 * MICROCREDITS + grants * GRANT);
	print_message("%d kills, %lld entries, %zu runs, %zu ended to the millisecond of their "
		      "record, %zu vanished, begun at most %lld ms after their agent's answer\n",
		      kills, (long long)findings.entries, totals.runs, totals.exact,
		      totals.vanished, (long long)totals.late_ms);
	assert_true(totals.runs > 0);
	db_close(db);
}

static void test_a_daemon_that_is_killed_at_random(void **state)
{
	const char *wanted = getenv("SKERRY_TEST_KILLS");
	int kills = wanted ? (int)strtol(wanted, NULL, 10) : KILLS_DEFAULT;
	_cleanup_free_ char *truth = NULL;
	struct storm s = { 0 };

	scratch_make(s.dir);
	truth = xasprintf("%s/truth", s.dir);
	assert_int_equal(dir_make(truth, 0700), 0);
	make_image(&s);
	storm_open(&s);
	make_account(&s);
	create_one(&s); /* the template is made while nobody dies */
	storm_close(&s);
	for (int i = 0; i < kills; i++) {
		struct ledger_findings findings;
		struct db *db;

		live_and_die(&s);
		harm_machines(&s);
		db = open_db(&s);
		check_ledger(db, &findings);
		db_close(db);
	}
	storm_open(&s);
	destroy_all(&s);
	storm_close(&s);
	check_end(&s, kills);
	scratch_remove(s.dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_daemon_that_is_killed_at_random),
	};

	log_init(LOG_LVL_ERROR);
	if (argc == 3 && str_eq(argv[1], "--daemon"))
		return be_daemon(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
