/*
 * A daemon that dies at each step of what it does, and again at steps of the recovery from that.
 * After the last recovery the world (world.h) must be exactly what it is where the same was done,
 * or was never begun. The daemons that die are this program, started again; the steps are the abort
 * points of src/core (core/abort_point.h), numbered as the files' opening comments do.
 */
#include "state_rig.h"
#include "world.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define ABORT_STATUS  77 /* core/abort_point.h */
#define AGAIN_MAX     4
#define JOB_WAIT_MS   30000
#define OTHER_DISK_GB 11 /* a shape that has no template yet */

enum operation {
	CREATE,
	CREATE_FROM_STANDBY,
	CREATE_FROM_SNAPSHOT,
	CREATE_WITH_TEMPLATE,
	STAND_READY,
	DESTROY,
	DESTROY_PAUSED,
	PAUSE,
	RESUME,
	COMPRESS,
	FORK,
	SNAPSHOT,
	CHARGE,
	RECOVER,
};

/* What there is, besides the image and the template. */
enum place {
	NOTHING,
	RUNNING,
	PAUSED,
	COMPRESSED, /* paused */
	RESUMED,
	FORKED,	       /* and two children */
	WITH_SNAPSHOT, /* running */
	SNAPSHOT_ONLY,
	PLACES,
};

struct step {
	const char *point;
	enum operation operation;
	enum place after;
	unsigned int failed, destroyed;	  /* tombstones */
	const char *again[AGAIN_MAX + 1]; /* where the recoveries die, one after the other */
};

static const struct step life_steps[] = {
	{ "create.reserved", CREATE, NOTHING, 1, 0, { "destroy.ended", "destroy.tombstone" } },
	{ "create.disk", CREATE, NOTHING, 1, 0, { "destroy.disk", "recover.row" } },
	{ "create.started",
	  CREATE,
	  NOTHING,
	  1,
	  0,
	  { "destroy.ended", "destroy.disk", "destroy.tombstone", "recover.orphans" } },
	{ "create.published", CREATE, RUNNING, 0, 0, { "recover.row", "recover.templates" } },
	{ "create.snapshot_taken",
	  CREATE_FROM_SNAPSHOT,
	  SNAPSHOT_ONLY,
	  1,
	  0,
	  { "destroy.tombstone", "recover.snapshots" } },

	{ "standby.files", STAND_READY, NOTHING, 0, 0, { "recover.rows" } },
	{ "standby.started", STAND_READY, NOTHING, 0, 0, { "recover.rows", "recover.orphans" } },
	{ "create.reserved", CREATE_FROM_STANDBY, NOTHING, 1, 0, { "destroy.ended" } },
	{ "create.started", CREATE_FROM_STANDBY, NOTHING, 1, 0, { "destroy.tombstone" } },
	{ "create.published", CREATE_FROM_STANDBY, RUNNING, 0, 0, { "recover.row" } },

	{ "destroy.intent", DESTROY, NOTHING, 0, 1, { "destroy.ended", "destroy.tombstone" } },
	{ "destroy.ended", DESTROY, NOTHING, 0, 1, { "destroy.disk", "recover.row" } },
	{ "destroy.disk", DESTROY, NOTHING, 0, 1, { "destroy.tombstone" } },
	{ "destroy.tombstone", DESTROY, NOTHING, 0, 1, { "recover.rows", "recover.orphans" } },
	{ "destroy.intent", DESTROY_PAUSED, NOTHING, 0, 1, { "destroy.disk" } },

	{ "meters.charged", CHARGE, RUNNING, 0, 0, { "recover.row" } },
};

static const struct step pause_steps[] = {
	{ "pause.intent", PAUSE, RUNNING, 0, 0, { "recover.row" } },
	{ "saved.held", PAUSE, RUNNING, 0, 0, { "recover.row" } },
	{ "saved.written", PAUSE, RUNNING, 0, 0, { "recover.rows" } },
	{ "pause.sealed", PAUSE, PAUSED, 0, 0, { "pause.ended", "pause.done", "recover.row" } },
	{ "pause.ended", PAUSE, PAUSED, 0, 0, { "pause.done" } },
	{ "pause.done", PAUSE, PAUSED, 0, 0, { "recover.row" } },

	{ "resume.intent", RESUME, PAUSED, 0, 0, { "recover.row" } },
	{ "resume.started", RESUME, PAUSED, 0, 0, { "recover.row" } },
	{ "resume.spent",
	  RESUME,
	  RESUMED,
	  0,
	  0,
	  { "recover.row", "resume.identity", "resume.published" } },
	{ "resume.identity", RESUME, RESUMED, 0, 0, { "recover.row", "resume.published" } },
	{ "resume.published", RESUME, RESUMED, 0, 0, { "recover.row" } },

	{ "compress.written", COMPRESS, PAUSED, 0, 0, { "recover.row" } },
	{ "compress.listed", COMPRESS, COMPRESSED, 0, 0, { "recover.row" } },
};

static const struct step fork_steps[] = {
	{ "fork.reserved", FORK, RUNNING, 2, 0, { "destroy.ended", "destroy.tombstone" } },
	{ "saved.held", FORK, RUNNING, 2, 0, { "recover.row" } },
	{ "saved.copied", FORK, RUNNING, 2, 0, { "recover.row", "recover.forks" } },
	{ "fork.taken", FORK, RUNNING, 2, 0, { "destroy.disk", "recover.forks" } },
	{ "fork.started",
	  FORK,
	  RUNNING,
	  2,
	  0,
	  { "destroy.ended", "recover.row", "recover.forks" } },
	{ "fork.published", FORK, FORKED, 0, 0, { "recover.row", "recover.forks" } },

	{ "snapshot.intent", SNAPSHOT, RUNNING, 0, 0, { "recover.forks" } },
	{ "saved.copied", SNAPSHOT, RUNNING, 0, 0, { "recover.row" } },
	{ "snapshot.taken", SNAPSHOT, RUNNING, 0, 0, { "recover.snapshots" } },
	{ "snapshot.sealed", SNAPSHOT, RUNNING, 0, 0, { "recover.snapshots" } },
	{ "snapshot.row_gone", SNAPSHOT, RUNNING, 0, 0, { "recover.forks" } },
};

static const struct step template_steps[] = {
	{ "template.files", CREATE_WITH_TEMPLATE, NOTHING, 1, 0, { "recover.snapshots" } },
	{ "template.booting", CREATE_WITH_TEMPLATE, NOTHING, 1, 0, { "recover.row" } },
	{ "template.warm", CREATE_WITH_TEMPLATE, NOTHING, 1, 0, { "recover.orphans" } },
	{ "template.sealed", CREATE_WITH_TEMPLATE, NOTHING, 1, 0, { "recover.templates" } },
};
static const struct step installed = {
	"template.installed", CREATE_WITH_TEMPLATE, NOTHING, 1, 0, {}
};

static struct rig rig;
static struct world worlds[PLACES];

/* ---- doing things ---- */

static int create_from(const char *snapshot)
{
	char id[SANDBOX_ID_SIZE];

	return rig_try_create(&rig, &(struct core_create_request){ .snapshot = snapshot }, id,
			      NULL);
}

static int create_with_template(void)
{
	const struct core_create_request req = {
		.milli_vcpus = 1000,
		.memory_mb = 256,
		.disk_gb = OTHER_DISK_GB,
	};
	char id[SANDBOX_ID_SIZE];

	return rig_try_create(&rig, &req, id, NULL);
}

static void stand_ready(void)
{
	rig.core->limits.standby_per_template = 1;
	for (int i = 0; i < JOB_WAIT_MS / 50 && !standby_count(rig.core); i++)
		poll(NULL, 0, 50);
	rig.core->limits.standby_per_template = 0;
}

static int fork_two(const char *id)
{
	const struct core_fork_request two = { .count = 2 };
	struct core_fork_result forks = { 0 };
	int r = core_fork(rig.core, &rig.admin, id, &two, &forks, NULL);

	core_fork_result_clear(&forks);
	return r;
}

static int take_snapshot(const char *id)
{
	struct core_snapshot_info snapshot;

	return core_snapshot_create(rig.core, &rig.admin, id, "kept", &snapshot, NULL);
}

static void operate(enum operation operation, const char *id)
{
	struct sandbox_info info = { 0 };

	switch (operation) {
	case CREATE:
	case CREATE_FROM_STANDBY: /* it stands ready by now */
		create_from(NULL);
		break;
	case CREATE_FROM_SNAPSHOT:
		create_from("kept");
		break;
	case CREATE_WITH_TEMPLATE:
		create_with_template();
		break;
	case STAND_READY:
		stand_ready();
		break;
	case DESTROY:
	case DESTROY_PAUSED:
		core_destroy(rig.core, &rig.admin, id, &info, NULL);
		break;
	case PAUSE:
		core_pause(rig.core, &rig.admin, id, &info, NULL);
		break;
	case RESUME:
		core_resume(rig.core, &rig.admin, id, &info, NULL);
		break;
	case COMPRESS:
		shrink_paused(rig.core, clock_unix_ms() + 1000);
		break;
	case FORK:
		fork_two(id);
		break;
	case SNAPSHOT:
		take_snapshot(id);
		core_snapshot_remove(rig.core, &rig.admin, "kept", NULL);
		break;
	case CHARGE:
		meters_charge(rig.core, NULL);
		break;
	case RECOVER: /* has begun with opening; a job may do the rest */
		poll(NULL, 0, JOB_WAIT_MS);
		break;
	}
	sandbox_info_clear(&info);
}

/* The daemon that dies. Returns only where it did not. */
static int be_aborted(const char *dir, const char *point, const char *operation_text,
		      const char *id)
{
	enum operation operation = (enum operation)strtol(operation_text, NULL, 10);

	rig_for_dir(&rig, dir);
	if (operation == RECOVER)
		setenv("SKERRY_ABORT_AT", point, 1);
	rig_open(&rig);
	if (operation == CREATE_FROM_STANDBY)
		stand_ready();
	setenv("SKERRY_ABORT_AT", point, 1);
	operate(operation, id);
	return 1;
}

static void die(const char *point, enum operation operation, const char *id)
{
	_cleanup_free_ char *text = xasprintf("%d", (int)operation);
	char *const argv[] = { (char *)"test_recovery",
			       (char *)"--abort",
			       rig.dir,
			       (char *)point,
			       text,
			       (char *)id,
			       NULL };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != ABORT_STATUS)
		fail_msg("at %s the daemon ended with %#x", point, (unsigned int)status);
}

/* ---- before and after ---- */

/* A sandbox in which something goes on. */
static void make_busy(char id[SANDBOX_ID_SIZE])
{
	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo alive >~/mark; echo 0 >~/count", "");
	rig_background(&rig, id, "n=0; while :; do n=$((n+1)); echo $n >~/count; sleep 0.2; done");
}

static void prepare(enum operation operation, char id[SANDBOX_ID_SIZE])
{
	id[0] = '\0';
	switch (operation) {
	case CREATE_FROM_SNAPSHOT:
		make_busy(id);
		assert_int_equal(take_snapshot(id), 0);
		rig_destroy(&rig, id);
		world_bury(&rig, 1, "destroyed", "destroyed_by_user");
		break;
	case DESTROY:
	case PAUSE:
	case FORK:
	case SNAPSHOT:
	case CHARGE:
		make_busy(id);
		break;
	case DESTROY_PAUSED:
	case RESUME:
	case COMPRESS:
		make_busy(id);
		rig_pause(&rig, id);
		break;
	default:
		break;
	}
}

static size_t list(struct sandbox_info **ret)
{
	char *cursor = NULL;
	size_t n = 0;

	assert_int_equal(core_list(rig.core, &rig.admin, &(struct core_list_request){ 0 }, ret, &n,
				   &cursor, NULL),
			 0);
	assert_null(cursor);
	return n;
}

/* All that is there can be used: what ran before goes on, whoever let it. */
static void check_alive(bool busy)
{
	struct sandbox_info *infos = NULL;
	size_t n = list(&infos);

	for (size_t i = 0; i < n; i++)
		rig_expect(&rig, infos[i].id,
			   busy ? "cat ~/mark; n=$(cat ~/count);"
				  "while [ \"$(cat ~/count)\" = \"$n\" ]; do sleep 0.1; done"
				: "echo alive",
			   "alive\n");
	core_list_clear(infos, n);
}

static void clear_up(const struct step *step)
{
	struct sandbox_info *infos = NULL;
	size_t n = list(&infos);

	for (size_t i = 0; i < n; i++)
		rig_destroy(&rig, infos[i].id);
	core_list_clear(infos, n);
	world_bury(&rig, n, "destroyed", "destroyed_by_user");
	if (step->after == WITH_SNAPSHOT || step->after == SNAPSHOT_ONLY)
		assert_int_equal(core_snapshot_remove(rig.core, &rig.admin, "kept", NULL), 0);
}

static void run(const struct step *step, const struct world *after)
{
	bool busy = step->operation >= DESTROY;
	char id[SANDBOX_ID_SIZE];

	print_message("%s (%d)\n", step->point, (int)step->operation);
	prepare(step->operation, id);
	rig_close(&rig);
	die(step->point, step->operation, id);
	for (size_t i = 0; step->again[i]; i++) {
		print_message("  %s\n", step->again[i]);
		die(step->again[i], RECOVER, id);
	}
	rig_open(&rig);
	if (step->failed)
		world_bury(&rig, step->failed, "failed", "start_failed");
	else
		world_bury(&rig, step->destroyed, "destroyed", "destroyed_by_user");
	world_expect(&rig, after, step->point);
	check_alive(busy);
	clear_up(step);
}

/* ---- the tests ---- */

/* How the world is where nobody dies. */
static void take_worlds(void)
{
	char id[SANDBOX_ID_SIZE];
	struct sandbox_info *infos = NULL;
	size_t n;

	world_take(&rig, &worlds[NOTHING]);
	make_busy(id);
	world_take(&rig, &worlds[RUNNING]);
	assert_int_equal(take_snapshot(id), 0);
	world_take(&rig, &worlds[WITH_SNAPSHOT]);
	assert_int_equal(core_snapshot_remove(rig.core, &rig.admin, "kept", NULL), 0);
	assert_int_equal(fork_two(id), 0);
	world_take(&rig, &worlds[FORKED]);
	n = list(&infos);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++) {
		if (!str_eq(infos[i].id, id))
			rig_destroy(&rig, infos[i].id);
	}
	core_list_clear(infos, n);
	world_bury(&rig, 2, "destroyed", "destroyed_by_user");
	world_expect(&rig, &worlds[RUNNING], "a fork whose children were destroyed");
	rig_pause(&rig, id);
	world_take(&rig, &worlds[PAUSED]);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 1);
	world_take(&rig, &worlds[COMPRESSED]);
	rig_resume(&rig, id);
	world_take(&rig, &worlds[RESUMED]);
	rig_destroy(&rig, id);
	world_bury(&rig, 1, "destroyed", "destroyed_by_user");
	prepare(CREATE_FROM_SNAPSHOT, id);
	world_take(&rig, &worlds[SNAPSHOT_ONLY]);
	assert_int_equal(core_snapshot_remove(rig.core, &rig.admin, "kept", NULL), 0);
	world_expect(&rig, &worlds[NOTHING], "everything was destroyed");
}

static int make(void **state)
{
	rig_make(&rig);
	take_worlds();
	return 0;
}

static int remove_all(void **state)
{
	rig_remove(&rig);
	for (size_t i = 0; i < PLACES; i++)
		world_clear(&worlds[i]);
	return 0;
}

static void run_all(const struct step *steps, size_t n)
{
	const char *only = getenv("SKERRY_TEST_POINT");

	for (size_t i = 0; i < n; i++) {
		if (only && !str_eq(only, steps[i].point))
			continue;
		run(&steps[i], &worlds[steps[i].after]);
		world_expect(&rig, &worlds[NOTHING], "clearing up");
	}
}

static void test_a_daemon_that_dies_while_it_creates_or_destroys(void **state)
{
	run_all(life_steps, ARRAY_SIZE(life_steps));
}

static void test_a_daemon_that_dies_while_it_pauses_or_resumes(void **state)
{
	run_all(pause_steps, ARRAY_SIZE(pause_steps));
}

static void test_a_daemon_that_dies_while_it_forks_or_takes_a_snapshot(void **state)
{
	run_all(fork_steps, ARRAY_SIZE(fork_steps));
}

static void template_name(const char *other_than, char out[64])
{
	_cleanup_free_ char *path = xasprintf("%s/state/templates", rig.dir);
	DIR *dir = opendir(path);
	const struct dirent *entry;

	out[0] = '\0';
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (strlen(entry->d_name) == 32 && !str_eq(entry->d_name, other_than))
			str_copy(out, 64, entry->d_name);
	}
	closedir(dir);
	assert_true(out[0]);
}

static void test_a_daemon_that_dies_while_it_makes_a_template(void **state)
{
	char first[64], second[64];
	char id[SANDBOX_ID_SIZE] = "";

	run_all(template_steps, ARRAY_SIZE(template_steps));
	/* One that is installed stays, as it is whole. */
	template_name("", first);
	rig_close(&rig);
	die(installed.point, installed.operation, id);
	rig_open(&rig);
	world_bury(&rig, 1, "failed", "start_failed");
	template_name(first, second);
	world_add_files(&worlds[NOTHING], first, second);
	world_expect(&rig, &worlds[NOTHING], installed.point);
	assert_int_equal(create_with_template(), 0);
	clear_up(&installed);
}

/* ---- after the saved state is spent ---- */

static void die_in_resume(char id[SANDBOX_ID_SIZE], struct record *record)
{
	make_busy(id);
	rig_pause(&rig, id);
	rig_close(&rig);
	die("resume.spent", RESUME, id);
	rig_read_record(&rig, id, record);
}

/* Its disk may have been written to since it was saved: it has ended, and is not paused again. */
static void test_a_machine_that_dies_while_it_is_resumed(void **state)
{
	struct record record;
	char id[SANDBOX_ID_SIZE];

	die_in_resume(id, &record);
	assert_int_equal(kill(record.vmm_pid, SIGKILL), 0);
	while (kill(record.warden_pid, 0) == 0)
		poll(NULL, 0, 10);
	rig_open(&rig);
	world_bury(&rig, 1, "destroyed", "vmm_crashed");
	world_expect(&rig, &worlds[NOTHING], "the machine's end");
}

/* Nobody can speak to it: it is neither paused nor running, recovery does not wait for it, and a
 * request is told; it goes on once its agent answers. */
static void test_an_agent_that_does_not_answer_while_it_is_resumed(void **state)
{
	struct sandbox_info info = { 0 };
	struct record record;
	struct err err = ERR_INIT;
	int64_t deadline_ms = rig.limits.create_deadline_ms;
	char id[SANDBOX_ID_SIZE];
	_cleanup_free_ char *path = NULL;
	int channel;

	die_in_resume(id, &record);
	path = xasprintf("%s/state/sandboxes/%s/run/agent.sock", rig.dir, id);
	channel = unix_connect(path, true);
	assert_true(channel >= 0);
	rig.limits.create_deadline_ms = 3000;
	rig_open(&rig);
	rig_assert_status(&rig, id, SANDBOX_RESUMING);
	assert_true(core_resume(rig.core, &rig.admin, id, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), "resume_failed");
	rig_assert_status(&rig, id, SANDBOX_RESUMING);
	close(channel);
	rig.core->limits.create_deadline_ms = deadline_ms;
	assert_int_equal(rig_wait_status(&rig, id, SANDBOX_RUNNING, 60000), 0);
	world_expect(&rig, &worlds[RESUMED], "its agent's answer");
	check_alive(true);
	rig.limits.create_deadline_ms = deadline_ms;
	rig_destroy(&rig, id);
	world_bury(&rig, 1, "destroyed", "destroyed_by_user");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_daemon_that_dies_while_it_creates_or_destroys),
		cmocka_unit_test(test_a_daemon_that_dies_while_it_pauses_or_resumes),
		cmocka_unit_test(test_a_daemon_that_dies_while_it_forks_or_takes_a_snapshot),
		cmocka_unit_test(test_a_machine_that_dies_while_it_is_resumed),
		cmocka_unit_test(test_an_agent_that_does_not_answer_while_it_is_resumed),
		cmocka_unit_test(test_a_daemon_that_dies_while_it_makes_a_template),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 6 && str_eq(argv[1], "--abort"))
		return be_aborted(argv[2], argv[3], argv[4], argv[5]);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
