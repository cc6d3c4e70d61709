/*
 * The VM layer with real guests: boot, save, restore, deadline, ends of every kind, taking over,
 * and that nothing is left. One template is made first and serves all.
 */
#include "vmm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define PRIVATE_MAX_KB (40 * 1024)

static void pause_ms(int ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

static void restore(struct machine_run *m)
{
	machine_prepare(m, &fixture);
	machine_start(m);
}

static void restore_and_connect(struct machine_run *m)
{
	restore(m);
	machine_connect(m);
}

static void assert_shell(struct machine_run *m, const char *user, const char *command,
			 const char *expected)
{
	_cleanup_free_ char *said = shell(&m->guest, user, command);

	assert_string_equal(said, expected);
}

/* Starts a command that takes the guest down; there is no answer to wait for. */
static void shell_fatal(struct machine_run *m, const char *command)
{
	const struct agent_exec_spec spec = { .exec_id = "fatal",
					      .command = command,
					      .user = "root" };
	struct command c;

	command_init(&c, &m->guest);
	command_start(&c, &spec);
	machine_wait_exit(m, 60000);
	command_free(&c);
	machine_disconnect(m);
}

/* ---- saving and restoring ---- */

static void hash_file(const char *path, unsigned char digest[32])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };
	void *data;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(data != MAP_FAILED);
	assert_int_equal(EVP_Digest(data, (size_t)st.st_size, digest, NULL, EVP_sha256(), NULL), 1);
	munmap(data, (size_t)st.st_size);
}

static void template_file_is_read_only(void **state)
{
	struct stat st;

	assert_int_equal(stat(fixture.memory_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_size, FIXTURE_MEMORY_MB * 1024 * 1024);
}

static void restored_twice_at_once_and_independent(void **state)
{
	unsigned char before[32], after[32];
	struct machine_run a, b;

	hash_file(fixture.memory_path, before);
	restore_and_connect(&a);
	restore_and_connect(&b);
	assert_shell(&a, NULL, "echo of-a > ~/file && sync && cat ~/file", "of-a");
	assert_shell(&b, NULL, "cat ~/file 2>/dev/null || echo none", "none");
	assert_shell(&b, NULL, "echo of-b > /dev/shm/file && cat /dev/shm/file", "of-b");
	assert_shell(&a, NULL, "cat /dev/shm/file 2>/dev/null || echo none", "none");
	machine_disconnect(&a);
	machine_disconnect(&b);
	machine_end(&a);
	machine_end(&b);
	hash_file(fixture.memory_path, after);
	assert_memory_equal(before, after, sizeof(before));
}

static long read_rollup_kb(pid_t pid, const char *key)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[64];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	assert_int_equal(file_read(path, 65536, &text), 0);
	line = strstr(text.data, key);
	assert_non_null(line);
	return strtol(line + strlen(key), NULL, 10);
}

static void idle_machine_has_little_private_memory(void **state)
{
	struct machine_run m;
	struct record record;
	long dirty_kb;

	restore_and_connect(&m);
	assert_shell(&m, NULL, "true", "");
	pause_ms(1000);
	record = machine_record(&m);
	dirty_kb = read_rollup_kb(record.vmm_pid, "Private_Dirty:") +
		   read_rollup_kb(record.warden_pid, "Private_Dirty:");
	print_message("           private memory of an idle machine: %ld KiB\n", dirty_kb);
	assert_in_range(dirty_kb, 1024, PRIVATE_MAX_KB);
	machine_disconnect(&m);
	machine_end(&m);
}

static void machine_without_template_boots(void **state)
{
	struct machine_run m;

	machine_prepare(&m, &fixture);
	m.spec.memory_path = NULL;
	m.spec.device_state_path = NULL;
	m.spec.vcpus = 2;
	machine_start(&m);
	machine_connect(&m);
	assert_shell(&m, NULL, "nproc", "2");
	machine_disconnect(&m);
	machine_end(&m);
}

/* ---- deadline ---- */

static void extending_moves_the_deadline(void **state)
{
	struct machine_run m;
	struct err err = ERR_INIT;
	int64_t first_ms = clock_boottime_ms() + 3000;
	int64_t second_ms = first_ms + 60000;

	machine_prepare(&m, &fixture);
	m.spec.expires_boottime_ms = first_ms;
	machine_start(&m);
	assert_int_equal(
		vmm_extend(fixture.driver, &m.vm, second_ms, clock_boottime_ms() + 2000, &err), 0);
	assert_true(machine_record(&m).expires_boottime_ms == second_ms);
	while (clock_boottime_ms() < first_ms + 300)
		pause_ms(50);
	machine_connect(&m);
	assert_shell(&m, NULL, "echo here", "here");
	machine_disconnect(&m);
	machine_end(&m);
}

static void extending_an_expired_machine_says_so(void **state)
{
	struct machine_run m;
	struct err err = ERR_INIT;
	struct record record;

	machine_prepare(&m, &fixture);
	m.spec.expires_boottime_ms = clock_boottime_ms() + 1500;
	machine_start(&m);
	while (clock_boottime_ms() < m.spec.expires_boottime_ms)
		pause_ms(20);
	assert_int_equal(vmm_extend(fixture.driver, &m.vm, clock_boottime_ms() + 60000,
				    clock_boottime_ms() + 2000, &err),
			 -ESRCH);
	assert_string_equal(err_code_of(&err), "already_expired");
	record = machine_wait_exit(&m, 5000);
	assert_int_equal(record.cause, RECORD_EXPIRED);
	assert_true(record.expires_boottime_ms == m.spec.expires_boottime_ms);
}

/* The starter is a process of its own, gone before the deadline: what a killed daemon looks like.
 */
static void expires_on_time_while_no_daemon_lives(void **state)
{
	struct residue before = residue_count(&fixture);
	struct machine_run m;
	struct vmm_vm vm;
	struct record record;
	pid_t pid;
	int status;

	machine_prepare(&m, &fixture);
	m.spec.expires_boottime_ms = clock_boottime_ms() + 10000;
	pid = fork();
	if (pid == 0) {
		struct err err = ERR_INIT;

		if (vmm_start(fixture.driver, &m.spec, clock_boottime_ms() + 9000, &m.vm, &err) < 0)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(machine_record(&m).cause, RECORD_RUNNING);
	while (clock_boottime_ms() < m.spec.expires_boottime_ms + 1000)
		pause_ms(50);
	record = machine_record(&m);
	assert_int_equal(record.cause, RECORD_EXPIRED);
	assert_true(record.exit_boottime_ms >= m.spec.expires_boottime_ms);
	assert_true(record.exit_boottime_ms < m.spec.expires_boottime_ms + 500);
	assert_int_equal(vmm_attach(fixture.driver, m.run_dir, &vm, NULL), -ESRCH);
	assert_no_residue(&fixture, before);
}

/* ---- ends by themselves ---- */

static void killed_vmm_is_a_crash(void **state)
{
	struct machine_run m;
	struct record record;

	restore(&m);
	assert_int_equal(kill(machine_record(&m).vmm_pid, SIGKILL), 0);
	record = machine_wait_exit(&m, 5000);
	assert_int_equal(record.cause, RECORD_VMM_CRASHED);
	assert_true(WIFSIGNALED(record.vmm_status) && WTERMSIG(record.vmm_status) == SIGKILL);
	assert_non_null(strstr(record.detail, "signal 9"));
}

static void guest_panic_is_told_by_its_own_words(void **state)
{
	_cleanup_buf_ struct buf console = BUF_INIT;
	struct machine_run m;
	struct record record;
	char path[160];

	restore_and_connect(&m);
	shell_fatal(&m, "echo c > /proc/sysrq-trigger");
	record = machine_record(&m);
	assert_int_equal(record.cause, RECORD_GUEST_PANIC);
	assert_non_null(strstr(record.detail, "Kernel panic - not syncing: sysrq triggered crash"));
	snprintf(path, sizeof(path), "%s/" VMM_CONSOLE_NAME, m.run_dir);
	assert_int_equal(file_read(path, 128 * 1024, &console), 0);
	assert_non_null(strstr(console.data, "Call Trace"));
}

static void guest_out_of_memory_is_told_apart(void **state)
{
	struct machine_run m;
	struct record record;

	restore_and_connect(&m);
	shell_fatal(&m, "echo 2 > /proc/sys/vm/panic_on_oom; tail /dev/zero");
	record = machine_record(&m);
	assert_int_equal(record.cause, RECORD_GUEST_OOM);
	assert_non_null(strstr(record.detail, "Out of memory"));
}

static void guest_that_reboots_is_off(void **state)
{
	struct machine_run m;
	struct record record;

	restore_and_connect(&m);
	shell_fatal(&m, "echo b > /proc/sysrq-trigger");
	record = machine_record(&m);
	assert_int_equal(record.cause, RECORD_GUEST_OFF);
	assert_true(WIFEXITED(record.vmm_status) && WEXITSTATUS(record.vmm_status) == 0);
}

/* User and system time of a process: fields 14 and 15 of its stat. */
static long cpu_ticks(pid_t pid)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[64];
	char *field;
	long user;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	assert_int_equal(file_read(path, 4096, &text), 0);
	field = strrchr(text.data, ')'); /* ends field 2 */
	for (int i = 2; i < 14 && field; i++)
		field = strchr(field + 1, ' ');
	if (!field)
		fail_msg("%s is cut short", path);
	user = strtol(field ?: "", &field, 10);
	return user + strtol(field, NULL, 10);
}

static void flooded_console_costs_the_host_little(void **state)
{
	struct machine_run m;
	struct record record;
	long ticks;

	restore_and_connect(&m);
	record = machine_record(&m);
	ticks = cpu_ticks(record.warden_pid);
	assert_shell(&m, "root", "(timeout 3 cat /dev/zero > /dev/ttyS0) ; echo done", "done");
	ticks = cpu_ticks(record.warden_pid) - ticks;
	assert_in_range(ticks, 0, sysconf(_SC_CLK_TCK) / 2);
	assert_in_range(read_rollup_kb(record.warden_pid, "Private_Dirty:"), 0, 1024);
	machine_disconnect(&m);
	machine_end(&m);
}

/* ---- taking over, ending, clearing up ---- */

static void another_process_takes_over(void **state)
{
	struct residue before = residue_count(&fixture);
	struct machine_run m;
	struct record record;
	pid_t pid;
	int status;

	restore(&m);
	pid = fork();
	if (pid == 0) {
		struct vmm_vm vm = VMM_VM_INIT;
		int64_t until_ms = clock_boottime_ms() + 10000;

		if (vmm_attach(fixture.driver, m.run_dir, &vm, NULL) < 0)
			_exit(1);
		if (vmm_extend(fixture.driver, &vm, until_ms + 60000, until_ms, NULL) < 0)
			_exit(2);
		if (vmm_end(fixture.driver, &vm, "ended_by_another", until_ms, NULL) < 0)
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	record = machine_wait_exit(&m, 2000);
	assert_int_equal(record.cause, RECORD_ENDED);
	assert_string_equal(record.reason, "ended_by_another");
	assert_no_residue(&fixture, before);
}

static void ending_twice_is_fine(void **state)
{
	struct machine_run m;
	struct err err = ERR_INIT;

	restore(&m);
	for (int i = 0; i < 2; i++)
		assert_int_equal(vmm_end(fixture.driver, &m.vm, "destroyed_by_user",
					 clock_boottime_ms() + 5000, &err),
				 0);
	vmm_release(&m.vm);
	assert_string_equal(machine_record(&m).reason, "destroyed_by_user");
}

static void killed_warden_takes_its_vmm_along(void **state)
{
	struct residue before = residue_count(&fixture);
	struct machine_run m;
	struct record record;
	struct err err = ERR_INIT;

	restore(&m);
	record = machine_record(&m);
	assert_int_equal(kill(record.warden_pid, SIGKILL), 0);
	machine_end(&m);
	assert_int_equal(machine_record(&m).cause, RECORD_VMM_CRASHED);
	assert_int_equal(vmm_sweep(fixture.driver, m.name, m.run_dir, &err), 0);
	assert_no_residue(&fixture, before);
}

static void warden_that_does_not_obey_is_killed(void **state)
{
	struct residue before = residue_count(&fixture);
	struct machine_run m;
	struct record record;
	struct err err = ERR_INIT;

	restore(&m);
	record = machine_record(&m);
	assert_int_equal(kill(record.warden_pid, SIGSTOP), 0);
	assert_int_equal(vmm_end(fixture.driver, &m.vm, "destroyed_by_user",
				 clock_boottime_ms() + 500, &err),
			 0);
	vmm_release(&m.vm);
	record = machine_record(&m);
	assert_int_equal(record.cause, RECORD_ENDED);
	assert_string_equal(record.reason, "destroyed_by_user");
	assert_int_equal(vmm_sweep(fixture.driver, m.name, m.run_dir, &err), 0);
	assert_no_residue(&fixture, before);
}

/* A pid of the record that has since been given to somebody else. */
static void sweep_leaves_look_alikes_alone(void **state)
{
	const char *argv[] = { "sleep", "60", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct record record = { .cause = RECORD_RUNNING, .expires_boottime_ms = 1 };
	struct machine_run m;
	struct child child;
	struct err err = ERR_INIT;
	uint64_t ticks;
	char path[160];

	spec.argv = argv;
	assert_int_equal(spawn(&spec, &child, &err), 0);
	machine_prepare(&m, &fixture);
	assert_int_equal(record_process_start(child.pid, &ticks), 0);
	assert_int_equal(clock_boot_id(record.boot_id), 0);
	record.warden_pid = record.vmm_pid = child.pid;
	record.warden_start_ticks = record.vmm_start_ticks = ticks - 1;
	snprintf(path, sizeof(path), "%s/" VMM_RECORD_NAME, m.run_dir);
	assert_int_equal(record_append_start(path, &record), 0);

	assert_int_equal(vmm_attach(fixture.driver, m.run_dir, &m.vm, &err), -ESRCH);
	assert_int_equal(vmm_sweep(fixture.driver, m.name, m.run_dir, &err), 0);
	assert_int_equal(kill(child.pid, 0), 0);
	assert_int_equal(waitpid(child.pid, NULL, WNOHANG), 0);
	child_kill(&child);
}

/* ---- starts that fail ---- */

static void bad_disk(struct machine_run *m)
{
	m->spec.disk_path = "/nonexistent/disk";
}

static void bad_disk_kind(struct machine_run *m)
{
	m->spec.disk_path = "/dev/zero";
}

static void bad_memory_size(struct machine_run *m)
{
	m->spec.memory_mb = 256;
}

/* Not a stream of QEMU's at all. */
static void bad_state(struct machine_run *m)
{
	static char path[160];

	snprintf(path, sizeof(path), "%s/bad-state", m->run_dir);
	assert_int_equal(file_write_durable(path, "garbage garbage garbage", 23, 0600), 0);
	m->spec.device_state_path = path;
}

static void bad_state_cut(struct machine_run *m)
{
	_cleanup_buf_ struct buf whole = BUF_INIT;
	static char path[160];

	assert_int_equal(file_read(fixture.state_path, 1024 * 1024, &whole), 0);
	snprintf(path, sizeof(path), "%s/cut-state", m->run_dir);
	assert_int_equal(file_write_durable(path, whole.data, whole.len / 2, 0600), 0);
	m->spec.device_state_path = path;
}

static void bad_memory_limit(struct machine_run *m)
{
	m->spec.memory_limit_bytes = 1024 * 1024;
}

static void bad_user(struct machine_run *m)
{
	m->spec.uid = 0;
}

static void bad_name(struct machine_run *m)
{
	m->spec.name = "../escape";
}

static void failed_starts_leave_nothing(void **state)
{
	static const struct {
		void (*spoil)(struct machine_run *m);
		const char *says;
	} cases[] = {
		{ bad_disk, "/nonexistent/disk" },
		{ bad_disk_kind, "is not a file" },
		{ bad_memory_size, "268435456" },
		{ bad_state, "load of migration failed" },
		{ bad_state_cut, "load of migration failed" },
		{ bad_memory_limit, "memory limit" },
		{ bad_user, "root" },
		{ bad_name, "../escape" },
	};
	struct residue before = residue_count(&fixture);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = ERR_INIT;
		struct machine_run m;

		machine_prepare(&m, &fixture);
		cases[i].spoil(&m);
		if (vmm_start(fixture.driver, &m.spec, clock_boottime_ms() + 20000, &m.vm, &err) >=
		    0)
			fail_msg("case %zu started", i);
		if (!strstr(err.message, cases[i].says))
			fail_msg("case %zu says '%s', not '%s'", i, err.message, cases[i].says);
		assert_no_residue(&fixture, before);
	}
}

/* Until the warden, who is our child now, has gone: swept by its record, or, where it was too young
 * to have one, by finding out itself that nobody waits for it. */
static void sweep_until_gone(const struct machine_run *m)
{
	int64_t until_ms = clock_boottime_ms() + 20000;
	struct err err = ERR_INIT;

	while (clock_boottime_ms() < until_ms) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			return; /* no children */
		if (pid == 0)
			pause_ms(5);
		if (vmm_sweep(fixture.driver, m->name, m->run_dir, &err) < 0)
			fail_msg("%s", err.message);
	}
	fail_msg("the machine '%s' is still there", m->name);
}

/* As when the daemon is killed in the middle of a start, at different moments of it. */
static void killed_starters_leave_nothing(void **state)
{
	struct residue before = residue_count(&fixture);

	/* What the killed process leaves behind becomes a child of this one. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	for (int after_ms = 0; after_ms <= 120; after_ms += 8) {
		struct machine_run m;
		pid_t pid;

		machine_prepare(&m, &fixture);
		pid = fork();
		if (pid == 0) {
			vmm_start(fixture.driver, &m.spec, clock_boottime_ms() + 20000, &m.vm,
				  NULL);
			pause();
		}
		pause_ms(after_ms);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		sweep_until_gone(&m);
		assert_no_residue(&fixture, before);
	}
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void twenty_cycles_leave_nothing(void **state)
{
	struct residue before = residue_count(&fixture);
	int64_t start_us = 0, end_us = 0, answer_us = 0;
	const int cycles = 20;

	for (int i = 0; i < cycles; i++) {
		struct machine_run m;
		int64_t from_us;

		machine_prepare(&m, &fixture);
		from_us = clock_boottime_us();
		machine_start(&m);
		machine_connect(&m);
		answer_us += clock_boottime_us() - from_us;
		start_us += m.start_us;
		machine_disconnect(&m);
		from_us = clock_boottime_us();
		machine_end(&m);
		end_us += clock_boottime_us() - from_us;
	}
	print_message(
		"           boot to the agent's answer %lld ms; restore to running %.1f ms, to "
		"the agent's answer %.1f ms; end %.1f ms\n",
		(long long)fixture.boot_ms, (double)start_us / cycles / 1000,
		(double)answer_us / cycles / 1000, (double)end_us / cycles / 1000);
	assert_no_residue(&fixture, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(template_file_is_read_only),
		cmocka_unit_test(restored_twice_at_once_and_independent),
		cmocka_unit_test(idle_machine_has_little_private_memory),
		cmocka_unit_test(machine_without_template_boots),
		cmocka_unit_test(extending_moves_the_deadline),
		cmocka_unit_test(extending_an_expired_machine_says_so),
		cmocka_unit_test(expires_on_time_while_no_daemon_lives),
		cmocka_unit_test(killed_vmm_is_a_crash),
		cmocka_unit_test(guest_panic_is_told_by_its_own_words),
		cmocka_unit_test(guest_out_of_memory_is_told_apart),
		cmocka_unit_test(guest_that_reboots_is_off),
		cmocka_unit_test(flooded_console_costs_the_host_little),
		cmocka_unit_test(another_process_takes_over),
		cmocka_unit_test(ending_twice_is_fine),
		cmocka_unit_test(killed_warden_takes_its_vmm_along),
		cmocka_unit_test(warden_that_does_not_obey_is_killed),
		cmocka_unit_test(sweep_leaves_look_alikes_alone),
		cmocka_unit_test(failed_starts_leave_nothing),
		cmocka_unit_test(killed_starters_leave_nothing),
		cmocka_unit_test(twenty_cycles_leave_nothing),
	};

	return cmocka_run_group_tests_name("vmm", tests, fixture_set_up, fixture_tear_down);
}
