/*
 * The state of a running machine as a thing one can hold: paused and continued, saved by what
 * differs from its template, restored, forked, frozen at its deadline. What ran goes on; who runs
 * is told.
 */
#include "vmm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "snapshot/delta.h"

#define STEP_MS	       60000
#define FIRST_EPOCH    1 /* of machine_connect */
#define FROZEN_WAIT_MS 10000

static int64_t until(void)
{
	return clock_boottime_ms() + STEP_MS;
}

static void sleep_ms(int ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

#define MUST(call)                                                                                 \
	do {                                                                                       \
		struct err err = ERR_INIT;                                                         \
		if ((call) < 0)                                                                    \
			fail_msg("%s: %s %s", #call, err.message, err.hint);                       \
	} while (0)

static void restore_and_connect(struct machine_run *m)
{
	machine_prepare(m, &fixture);
	machine_start(m);
	machine_connect(m);
}

static int64_t number(struct machine_run *m, const char *command)
{
	_cleanup_free_ char *text = shell(&m->guest, NULL, command);
	int64_t n;

	assert_int_equal(str_to_i64(text, &n), 0);
	return n;
}

static int64_t uptime_ms(struct machine_run *m)
{
	return number(m, "read up rest < /proc/uptime; echo ${up%.*}$(echo ${up#*.}0)");
}

/* How far the guest's clock is off, in either direction, by what one command can tell. */
static int64_t clock_skew_ms(struct machine_run *m)
{
	int64_t before_ms = clock_unix_ms();
	int64_t guest_ms = number(m, "date +%s%3N");
	int64_t after_ms = clock_unix_ms();

	if (guest_ms < before_ms)
		return before_ms - guest_ms;
	return guest_ms > after_ms ? guest_ms - after_ms : 0;
}

static void start_background(struct machine_run *m, const char *command)
{
	_cleanup_free_ char *line =
		xasprintf("setsid sh -c '%s' < /dev/null > /dev/null 2>&1 &", command);

	free(shell(&m->guest, NULL, line));
}

/* ---- snapshots, made of the pieces that core makes them of ---- */

struct snapshot {
	char state[160], delta[160], disk[160];
};

static void snapshot_names(struct snapshot *s, unsigned int n)
{
	snprintf(s->state, sizeof(s->state), "%s/snap%u.state", fixture.dir, n);
	snprintf(s->delta, sizeof(s->delta), "%s/snap%u.delta", fixture.dir, n);
	snprintf(s->disk, sizeof(s->disk), "%s/snap%u.disk", fixture.dir, n);
}

/* The machine is paused: everything of it, written down. */
static void save_paused(struct machine_run *m, struct snapshot *s)
{
	static unsigned int n;
	_cleanup_close_ int pidfd = -1;
	struct delta_stats stats;
	pid_t pid;

	snapshot_names(s, ++n);
	MUST(vmm_save_devices(fixture.driver, &m->vm, s->state, false, until(), &err));
	MUST(vmm_process(fixture.driver, &m->vm, &pid, &pidfd, &err));
	MUST(delta_save(pid, fixture.memory_path, s->delta, NULL, &stats, &err));
	assert_int_equal(file_copy_sparse(m->disk_path, s->disk, 0600), 0);
}

/* Freezes, pauses and saves; the machine stays paused. Commands stand still from the freeze on. */
static void pause_and_save(struct machine_run *m, struct snapshot *s)
{
	MUST(agent_freeze(m->guest.agent, until(), &err));
	MUST(vmm_pause(fixture.driver, &m->vm, until(), &err));
	save_paused(m, s);
}

static void go_on(struct machine_run *m)
{
	MUST(vmm_continue(fixture.driver, &m->vm, until(), &err));
	MUST(agent_thaw(m->guest.agent, until(), &err));
}

struct filling {
	const char *delta;
	bool called;
};

static int fill(void *arg, pid_t pid, struct err *err)
{
	struct filling *f = arg;
	struct delta_stats stats;

	f->called = true;
	return delta_load(pid, fixture.memory_path, f->delta, NULL, &stats, err);
}

static void connect_as(struct machine_run *m, uint64_t epoch)
{
	char hostname[32], machine_id[33];
	const struct agent_identity identity = {
		.apply = true,
		.epoch = epoch,
		.hostname = hostname,
		.machine_id = machine_id,
	};

	snprintf(hostname, sizeof(hostname), "sbx-%llu", (unsigned long long)epoch);
	snprintf(machine_id, sizeof(machine_id), "%032llx", (unsigned long long)epoch);
	m->guest = (struct vm){ .loop = fixture.loop };
	assert_true((size_t)snprintf(m->guest.socket_path, sizeof(m->guest.socket_path),
				     "%s/" VMM_AGENT_SOCKET_NAME,
				     m->run_dir) < sizeof(m->guest.socket_path));
	MUST(agent_open(fixture.loop, m->guest.socket_path, &identity, until(), NULL, NULL,
			&m->guest.agent, &m->guest.info, &err));
}

/* Starts a machine from a snapshot and makes it who epoch says. */
static void restore_from(struct machine_run *m, const struct snapshot *s, uint64_t epoch)
{
	struct filling filling = { .delta = s->delta };

	machine_prepare(m, &fixture);
	assert_int_equal(unlink(m->disk_path), 0);
	assert_int_equal(file_copy_sparse(s->disk, m->disk_path, 0600), 0);
	m->spec.device_state_path = s->state;
	m->spec.fill_memory = fill;
	m->spec.fill_memory_arg = &filling;
	machine_start(m);
	assert_true(filling.called);
	connect_as(m, epoch);
}

/* ---- pausing ---- */

static void time_stands_still_while_paused(void **state)
{
	struct machine_run m;
	int64_t guest_ms, host_ms;

	restore_and_connect(&m);
	host_ms = clock_boottime_ms();
	guest_ms = uptime_ms(&m);
	MUST(vmm_pause(fixture.driver, &m.vm, until(), &err));
	MUST(vmm_pause(fixture.driver, &m.vm, until(), &err));
	sleep_ms(3000);
	MUST(vmm_continue(fixture.driver, &m.vm, until(), &err));
	guest_ms = uptime_ms(&m) - guest_ms;
	host_ms = clock_boottime_ms() - host_ms;
	assert_in_range(guest_ms, 0, host_ms - 2900);
	machine_disconnect(&m);
	machine_end(&m);
}

static void state_is_saved_of_a_machine_that_goes_on(void **state)
{
	struct machine_run m;
	struct snapshot s;
	struct err err = ERR_INIT;
	_cleanup_free_ char *said = NULL;

	restore_and_connect(&m);
	pause_and_save(&m, &s);
	/* Never over a file that is there. */
	assert_int_equal(vmm_save_devices(fixture.driver, &m.vm, s.state, true, until(), &err),
			 -EEXIST);
	go_on(&m);
	said = shell(&m.guest, NULL, "echo alive");
	assert_string_equal(said, "alive");
	machine_disconnect(&m);
	machine_end(&m);
}

static int fail_to_fill(void *arg, pid_t pid, struct err *err)
{
	return err_code(err, -EBADMSG, "snapshot_damaged", "the pages of process %d are bad", pid);
}

static void a_memory_that_cannot_be_filled_never_runs(void **state)
{
	struct residue before = residue_count(&fixture);
	struct machine_run m;
	struct err err = ERR_INIT;

	machine_prepare(&m, &fixture);
	m.spec.fill_memory = fail_to_fill;
	assert_int_equal(vmm_start(fixture.driver, &m.spec, until(), &m.vm, &err), -EBADMSG);
	assert_string_equal(err_code_of(&err), "snapshot_damaged");
	assert_no_residue(&fixture, before);
	m.spec.device_state_path = NULL;
	assert_int_equal(vmm_start(fixture.driver, &m.spec, until(), &m.vm, &err), -EINVAL);
	assert_no_residue(&fixture, before);
}

static void frozen_commands_stand_still_and_go_on(void **state)
{
	struct machine_run m;
	struct command late;
	int64_t frozen_at, later;

	restore_and_connect(&m);
	start_background(&m, "i=0; while :; do i=$((i+1)); echo $i > /dev/shm/n; sleep 0.05; done");
	while (number(&m, "cat /dev/shm/n 2>/dev/null || echo 0") < 2)
		;
	MUST(agent_freeze(m.guest.agent, until(), &err));
	MUST(agent_freeze(m.guest.agent, until(), &err));
	/* A command that begins now stands still as well. */
	command_init(&late, &m.guest);
	command_start(&late, &(struct agent_exec_spec){ .command = "cat /dev/shm/n" });
	sleep_ms(1500);
	assert_false(command_wait(&late, has_exited, 1));
	MUST(agent_ping(m.guest.agent, until(), &err));
	MUST(agent_thaw(m.guest.agent, until(), &err));
	assert_true(command_wait(&late, has_ended, STEP_MS));
	assert_true(late.output[0].len > 1);
	*strchrnul(late.output[0].data, '\n') = '\0';
	assert_int_equal(str_to_i64(late.output[0].data, &frozen_at), 0);
	command_free(&late);
	later = number(&m, "sleep 1; cat /dev/shm/n");
	assert_true(later > frozen_at);
	/* A host that connects anew, as after its death in the middle of a pause. */
	MUST(agent_freeze(m.guest.agent, until(), &err));
	machine_disconnect(&m);
	vm_connect(&m.guest, false);
	assert_true(number(&m, "sleep 0.3; cat /dev/shm/n") > later);
	machine_disconnect(&m);
	machine_end(&m);
}

/* ---- resuming ---- */

/* The lines that seq prints, from a number on; the last line may be cut off. */
static void assert_counts(const struct buf *output, int64_t from)
{
	const char *at = output->len ? output->data : "";
	int64_t n = from;

	for (const char *newline; (newline = strchr(at, '\n')); at = newline + 1, n++) {
		char line[32];
		int64_t value;

		assert_true((size_t)(newline - at) < sizeof(line));
		memcpy(line, at, (size_t)(newline - at));
		line[newline - at] = '\0';
		assert_int_equal(str_to_i64(line, &value), 0);
		assert_true(value == n);
	}
	assert_true(n > from);
}

static bool has_two_lines(const struct command *c)
{
	return c->output[0].len > 0 &&
	       strchr(c->output[0].data, '\n') != strrchr(c->output[0].data, '\n');
}

static bool has_much(const struct command *c)
{
	return c->output[0].len > 60;
}

/* What runs, streams and waits for a deadline before a pause does so after it. */
static void resumed_machine_goes_on_where_it_was(void **state)
{
	const struct agent_exec_spec counting = {
		.command = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done",
	};
	const struct agent_exec_spec limited = { .command = "sleep 600", .timeout_ms = 9000 };
	struct machine_run m, resumed;
	struct command counter, sleeper, again, over;
	struct snapshot s;
	_cleanup_free_ char *said = NULL;
	int64_t from_us;

	restore_and_connect(&m);
	said = shell(&m.guest, NULL, "echo kept > ~/file; echo kept > /dev/shm/file");
	free(STEAL(said));
	command_init(&counter, &m.guest);
	command_start(&counter, &counting);
	command_init(&sleeper, &m.guest);
	command_start(&sleeper, &limited);
	assert_true(command_wait(&counter, has_two_lines, STEP_MS));
	assert_true(command_wait(&sleeper, has_started, STEP_MS));
	pause_and_save(&m, &s);
	machine_disconnect(&m);
	machine_end(&m);
	sleep_ms(10000); /* longer than the sleeper may run */

	from_us = clock_boottime_us();
	restore_from(&resumed, &s, FIRST_EPOCH + 1);
	print_message("           resume to the agent's answer %.1f ms\n",
		      (double)(clock_boottime_us() - from_us) / 1000);
	assert_in_range(clock_skew_ms(&resumed), 0, 500);
	command_init(&again, &resumed.guest);
	buf_append(&again.output[0], counter.output[0].data, counter.output[0].len);
	command_attach(&again, counter.id);
	command_follow(&again, PROTO_STDOUT, counter.next[0], false);
	assert_true(command_wait(&again, has_much, STEP_MS));
	assert_false(again.exited);
	assert_counts(&again.output[0], 1);

	command_init(&over, &resumed.guest);
	command_attach(&over, sleeper.id);
	assert_true(command_wait(&over, has_exited, STEP_MS));
	assert_true(over.exit.timed_out);
	assert_in_range(over.exit.duration_ms, 9000, 12000); /* the pause does not count */
	said = shell(&resumed.guest, NULL, "cat ~/file /dev/shm/file /run/skerry/generation");
	assert_string_equal(said, "kept\nkept\n2");
	command_free(&again);
	command_free(&over);
	command_free(&counter);
	command_free(&sleeper);
	machine_disconnect(&resumed);
	machine_end(&resumed);
}

/* ---- forks ---- */

/* Ends a text in front of its first line that does not begin with the prefix. */
static void keep_lines_of(char *text, const char *prefix)
{
	char *at = text;

	while (*at && str_starts(at, prefix)) {
		at = strchrnul(at, '\n');
		at += *at == '\n';
	}
	*at = '\0';
}

static void drop_last_line(char *text)
{
	size_t len = strlen(text);

	if (len > 0)
		text[len - 1] = '\0';
	*(strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text) = '\0';
}

static char *of_guest(struct machine_run *m, const char *command)
{
	return shell(&m->guest, "root", command);
}

/* Lines "generation random" that a process of the source has been writing all the time. */
static void check_randomness(struct machine_run *a, struct machine_run *b)
{
	/* A line of the new generation, which the first one to go on writes in its first moments.
	 */
	const char *wait = "while ! grep -q \"^$(cat /run/skerry/generation) \" /dev/shm/random; "
			   "do sleep 0.05; done; sed /^$/d /dev/shm/random";
	_cleanup_free_ char *of_a = of_guest(a, wait), *of_b = of_guest(b, wait);
	_cleanup_free_ char *old_a = xstrdup(of_a), *old_b = xstrdup(of_b);
	const char *line = of_a;

	/* Frozen until they were told who they are: both have done the same as the source before,
	 * and nothing else but, at most, end a line that was begun. */
	keep_lines_of(old_a, "1 ");
	keep_lines_of(old_b, "1 ");
	assert_true(strlen(old_a) > 0 && strlen(old_a) < strlen(of_a));
	line += strlen(old_a);
	drop_last_line(old_a);
	drop_last_line(old_b);
	assert_string_equal(old_a, old_b);
	/* And not one number of the new generations is the same. */
	for (; *line; line = strchrnul(line, '\n') + (*strchrnul(line, '\n') == '\n')) {
		const char *random = strchr(line, ' ');
		char word[64];

		assert_non_null(random);
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(random, "\n"), random);
		assert_true(strlen(word) > 16);
		assert_null(strstr(of_b, word));
	}
}

static void assert_differ(struct machine_run *a, struct machine_run *b, const char *command)
{
	_cleanup_free_ char *of_a = of_guest(a, command), *of_b = of_guest(b, command);

	assert_true(strlen(of_a) > 0);
	assert_string_not_equal(of_a, of_b);
}

static void assert_says(struct machine_run *m, const char *command, const char *expected)
{
	_cleanup_free_ char *said = of_guest(m, command);

	assert_string_equal(said, expected);
}

static void forks_are_independent_and_know_who_they_are(void **state)
{
	struct machine_run source, a, b;
	struct snapshot s;

	restore_and_connect(&source);
	assert_says(&source,
		    "echo before > /dev/shm/who; echo before > /var/tmp/who; cat "
		    "/run/skerry/generation",
		    "1");
	start_background(
		&source,
		"while :; do read g < /run/skerry/generation; "
		"echo \"$g $(od -An -N16 -tx8 /dev/urandom)\" >> /dev/shm/random; sleep 0.1; done");
	start_background(&source,
			 "i=0; while :; do i=$((i+1)); echo $i > /dev/shm/n; sleep 0.2; done");
	while (number(&source, "cat /dev/shm/n 2>/dev/null || echo 0") < 2)
		;
	pause_and_save(&source, &s);
	go_on(&source);
	restore_from(&a, &s, 21);
	restore_from(&b, &s, 22);

	check_randomness(&a, &b);
	assert_says(&a, "hostname; cat /etc/machine-id /run/skerry/generation",
		    "sbx-21\n00000000000000000000000000000015\n21");
	assert_says(&b, "hostname; cat /etc/machine-id /run/skerry/generation",
		    "sbx-22\n00000000000000000000000000000016\n22");
	assert_differ(&a, &b, "cat /proc/sys/kernel/random/uuid");
	assert_says(
		&a,
		"cat /dev/shm/who /var/tmp/who; echo a > /dev/shm/who; echo a > /var/tmp/who; sync",
		"before\nbefore");
	assert_says(&b, "cat /dev/shm/who /var/tmp/who", "before\nbefore");
	assert_says(&source, "cat /dev/shm/who /var/tmp/who /run/skerry/generation",
		    "before\nbefore\n1");
	assert_says(&a, "cat /dev/shm/who /var/tmp/who", "a\na");
	/* The counter goes on in all of them. */
	assert_differ(&a, &a, "cat /dev/shm/n; sleep 0.5");
	assert_differ(&b, &b, "cat /dev/shm/n; sleep 0.5");
	assert_differ(&source, &source, "cat /dev/shm/n; sleep 0.5");
	machine_disconnect(&source);
	machine_disconnect(&a);
	machine_disconnect(&b);
	machine_end(&source);
	machine_end(&a);
	machine_end(&b);
}

/* Who watches the file learns of it without asking. */
static void processes_are_told_of_the_new_generation(void **state)
{
	static const char watch[] =
		"import ctypes, os, struct\n"
		"c = ctypes.CDLL(None)\n"
		"fd = c.inotify_init()\n"
		"c.inotify_add_watch(fd, b\"/run/skerry/generation\", 2)\n"
		"open(\"/dev/shm/ready\", \"w\").close()\n"
		"os.read(fd, 4096)\n"
		"open(\"/dev/shm/told\", \"w\").write(open(\"/run/skerry/generation\").read())\n";
	struct machine_run m, child;
	struct snapshot s;
	_cleanup_free_ char *start =
		xasprintf("cat > /dev/shm/watch.py << 'E'\n%sE\n"
			  "setsid python3 /dev/shm/watch.py > /dev/null 2>&1 &\n"
			  "while ! [ -e /dev/shm/ready ]; do sleep 0.1; done",
			  watch);

	restore_and_connect(&m);
	if (number(&m, "command -v python3 > /dev/null; echo $?") != 0) {
		machine_disconnect(&m);
		machine_end(&m);
		skip(); /* the image has no python3 */
	}
	assert_says(&m, start, "");
	pause_and_save(&m, &s);
	machine_disconnect(&m);
	machine_end(&m);
	restore_from(&child, &s, 33);
	assert_says(&child, "while ! [ -s /dev/shm/told ]; do sleep 0.1; done; cat /dev/shm/told",
		    "33");
	machine_disconnect(&child);
	machine_end(&child);
}

/* ---- frozen at the deadline ---- */

static char process_state(pid_t pid)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	assert_int_equal(file_read(path, 4096, &text), 0);
	return strrchr(text.data, ')')[2];
}

static void wait_frozen(struct machine_run *m)
{
	int64_t give_up_ms = machine_record(m).expires_boottime_ms + FROZEN_WAIT_MS;
	struct record record;

	while (!(record = machine_record(m)).frozen) {
		assert_true(clock_boottime_ms() < give_up_ms);
		sleep_ms(20);
	}
	assert_int_equal(record.cause, RECORD_RUNNING);
	assert_true(record.frozen_boottime_ms >= record.expires_boottime_ms);
	assert_true(record.frozen_boottime_ms < record.expires_boottime_ms + 1500);
	/* The kernel takes a moment for all threads. */
	for (int i = 0; i < 100 && process_state(record.vmm_pid) != 'T'; i++)
		sleep_ms(10);
	assert_int_equal(process_state(record.vmm_pid), 'T');
}

/* Connected, with a counter and a command that may run for six seconds. */
static void start_freezing(struct machine_run *m, struct command *limited)
{
	machine_prepare(m, &fixture);
	m->spec.freeze_at_deadline = true;
	machine_start(m);
	machine_connect(m);
	start_background(m, "i=0; while :; do i=$((i+1)); echo $i > /dev/shm/n; sleep 0.05; done");
	command_init(limited, &m->guest);
	command_start(limited,
		      &(struct agent_exec_spec){ .command = "sleep 600", .timeout_ms = 6000 });
	assert_true(command_wait(limited, has_started, STEP_MS));
	MUST(vmm_extend(fixture.driver, &m->vm, clock_boottime_ms() + 500, until(), &err));
	wait_frozen(m);
}

static void extended_after_the_deadline_it_goes_on(void **state)
{
	struct machine_run m;
	struct command limited;
	struct record record;

	start_freezing(&m, &limited);
	sleep_ms(7000); /* the command's time is the guest's, which stands still */
	MUST(vmm_extend(fixture.driver, &m.vm, clock_boottime_ms() + 60000, until(), &err));
	record = machine_record(&m);
	assert_false(record.frozen);
	assert_in_range(record.frozen_total_ms, 6500, 20000);
	assert_true(number(&m, "cat /dev/shm/n") > 0);
	assert_false(limited.exited);
	assert_true(command_wait(&limited, has_exited, STEP_MS));
	assert_true(limited.exit.timed_out);
	assert_in_range(limited.exit.duration_ms, 6000, 9000);
	command_free(&limited);
	machine_disconnect(&m);
	machine_end(&m);
}

static void ended_after_the_deadline_it_is_gone(void **state)
{
	struct residue before = residue_count(&fixture);
	struct machine_run m;
	struct command limited;

	start_freezing(&m, &limited);
	command_free(&limited);
	machine_disconnect(&m);
	machine_end(&m);
	assert_int_equal(machine_record(&m).cause, RECORD_ENDED);
	assert_true(machine_record(&m).frozen);
	assert_no_residue(&fixture, before);
}

/* By another daemon than the one that started it, as after a crash. */
static void saved_after_the_deadline_it_goes_on_elsewhere(void **state)
{
	struct machine_run m, resumed;
	struct command limited, over;
	struct snapshot s;
	struct record record;
	int64_t count;

	start_freezing(&m, &limited);
	machine_disconnect(&m);
	vmm_release(&m.vm);
	MUST(vmm_attach(fixture.driver, m.run_dir, &m.vm, &err));
	sleep_ms(7000);
	MUST(vmm_pause(fixture.driver, &m.vm, until(), &err));
	save_paused(&m, &s);
	record = machine_record(&m);
	assert_true(record.frozen); /* saving it costs its owner nothing */
	machine_end(&m);

	restore_from(&resumed, &s, FIRST_EPOCH + 1);
	count = number(&resumed, "cat /dev/shm/n");
	assert_true(number(&resumed, "sleep 0.3; cat /dev/shm/n") > count);
	command_init(&over, &resumed.guest);
	command_attach(&over, limited.id);
	assert_true(command_wait(&over, has_exited, STEP_MS));
	assert_true(over.exit.timed_out);
	assert_in_range(over.exit.duration_ms, 6000, 9000);
	command_free(&over);
	command_free(&limited);
	machine_disconnect(&resumed);
	machine_end(&resumed);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_stands_still_while_paused),
		cmocka_unit_test(state_is_saved_of_a_machine_that_goes_on),
		cmocka_unit_test(a_memory_that_cannot_be_filled_never_runs),
		cmocka_unit_test(frozen_commands_stand_still_and_go_on),
		cmocka_unit_test(resumed_machine_goes_on_where_it_was),
		cmocka_unit_test(forks_are_independent_and_know_who_they_are),
		cmocka_unit_test(processes_are_told_of_the_new_generation),
		cmocka_unit_test(extended_after_the_deadline_it_goes_on),
		cmocka_unit_test(ended_after_the_deadline_it_is_gone),
		cmocka_unit_test(saved_after_the_deadline_it_goes_on_elsewhere),
	};

	/* A pattern as the one argument chooses among the tests. */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("vmm_state", tests, fixture_set_up, fixture_tear_down);
}
