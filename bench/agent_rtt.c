/*
 * The baseline of the benchmarks: one VM, its agent, and nothing of the daemon.
 *
 *   agent_rtt --build DIR --image FILE --work DIR [--memory-mb N] [--accel auto|kvm|tcg]
 *
 * Reads commands from stdin, a word a line, and answers each with a line of JSON, so that a driver
 * can take its samples in turn with those of a server that runs beside it:
 *
 *   boot       boots a VM on a fresh disk, waits for its agent, ends it   {"us", "run_us",
 *                                                                          "first_exec_us"}
 *   template   boots one, warms it up as the core does, saves it          {"us"}
 *   restore    restores the template, waits for its agent, ends it        {"us", "run_us",
 *                                                                          "first_exec_us"}
 *   hold       restores one and keeps it for exec, ping and private       {"us"}
 *   exec       the command `true` in it, from request to exit             {"us"}
 *   ping       one round trip of its agent                                {"us"}
 *   out, in    AGENT_FLOW_BYTES that a command prints, or reads           {"us"}
 *   private    memory of its VMM that no other process shares             {"kib"}
 *
 * "us" is the whole; "run_us" is that part of it after which the guest runs.
 *
 * An answer of {"error"} ends the program. Times of boot and restore begin before vmm_start; making
 * and copying of disks is not in them. exec is timed on the loop's thread.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <semaphore.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <fcntl.h>

#include "agent/agent.h"
#include "agent_flow.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/warm_up.h"
#include "loop/loop.h"
#include "loop/spawn.h"
#include "vmm/vmm.h"

#define DEADLINE_MS 180000
#define LIFETIME_MS (60 * 60 * 1000)
#define SETTLE_US   (WARM_UP_SETTLE_MS * 1000)
#define DISK_BYTES  (INT64_C(10) << 30)
#define VMM_UID	    1999000 /* below those of sandboxes */

struct bench {
	struct loop *loop;
	struct vmm_driver *driver;
	const char *image;
	char *work;
	uint32_t memory_mb;
	char *blank_disk; /* made once, copied for each boot */
	unsigned int n_made;
	struct machine *template; /* ended; its files are what is restored */
	struct machine *held;
};

struct machine {
	struct bench *bench;
	char *dir, *run_dir, *disk, *memory;
	char name[24];
	struct vmm_vm vm;
	struct agent *agent;
	bool runs;
	int64_t run_us; /* from the beginning of its start */
};

static int64_t deadline_in(int64_t ms)
{
	return clock_boottime_ms() + ms;
}

/* ---- one exec ---- */

struct run {
	struct machine *machine;
	char exec_id[24];
	struct agent_exec *exec;
	int64_t begun_us, us; /* us < 0: failed */
	sem_t done;
};

static void on_exited(void *arg, const struct agent_exit *exit)
{
	struct run *run = arg;

	run->us = exit->exit_code == 0 ? clock_boottime_us() - run->begun_us : -1;
	agent_exec_free(STEAL(run->exec));
	sem_post(&run->done);
}

static void on_failed(void *arg, const struct err *err)
{
	struct run *run = arg;

	(void)err;
	run->us = -1;
	agent_exec_free(STEAL(run->exec));
	sem_post(&run->done);
}

static void start_exec(void *arg)
{
	static const struct agent_exec_events events = {
		.exited = on_exited,
		.failed = on_failed,
		.lost = on_failed,
	};
	struct run *run = arg;
	const struct agent_exec_spec spec = {
		.exec_id = run->exec_id,
		.command = "true",
		.timeout_ms = 60000,
		.stdout_credit = 65536,
		.stderr_credit = 65536,
	};

	run->begun_us = clock_boottime_us();
	run->exec = agent_exec_start(run->machine->agent, &spec, &events, run);
}

static int exec_true(struct machine *machine, int64_t *ret_us, struct err *err)
{
	struct run run = { .machine = machine };
	char random[13];

	assert(machine); /* a start that succeeded has made one */
	rand_hex(random, 12);
	snprintf(run.exec_id, sizeof(run.exec_id), "exe_%s", random);
	sem_init(&run.done, 0, 0);
	loop_call(machine->bench->loop, start_exec, &run);
	while (sem_wait(&run.done) < 0 && errno == EINTR)
		;
	sem_destroy(&run.done);
	if (run.us < 0)
		return err_set(err, -EIO, "the command 'true' failed");
	*ret_us = run.us;
	return 0;
}

/* ---- machines ---- */

static void machine_end(struct machine *machine)
{
	if (!machine->runs)
		return;
	vmm_end(machine->bench->driver, &machine->vm, "destroyed_by_user", deadline_in(20000),
		NULL);
	vmm_release(&machine->vm);
	machine->runs = false;
}

static void machine_free(struct machine *machine)
{
	if (!machine)
		return;
	agent_close(machine->agent);
	machine_end(machine);
	tree_remove(machine->dir);
	free(machine->dir);
	free(machine->run_dir);
	free(machine->disk);
	free(machine->memory);
	free(machine);
}

DEFINE_CLEANUP(struct machine *, machine_freep, machine_free);

static int make_sparse(const char *path, int64_t bytes, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, bytes) < 0)
		return err_set(err, -errno, "make '%s': %s", path, strerror(errno));
	return 0;
}

static int machine_new(struct bench *bench, struct machine **ret, struct err *err)
{
	_cleanup_(machine_freep) struct machine *machine = xcalloc(1, sizeof(*machine));
	int r;

	machine->bench = bench;
	machine->vm = VMM_VM_INIT;
	snprintf(machine->name, sizeof(machine->name), "bench-%d-%u", (int)getpid(),
		 bench->n_made++);
	machine->dir = xasprintf("%s/%s", bench->work, machine->name);
	machine->run_dir = xasprintf("%s/run", machine->dir);
	machine->disk = xasprintf("%s/disk", machine->dir);
	machine->memory = xasprintf("%s/memory", machine->dir);
	r = dir_make(machine->run_dir, 0700);
	if (r < 0)
		return err_set(err, r, "make '%s'", machine->run_dir);
	*ret = STEAL(machine);
	return 0;
}

/* Starts it and waits for its agent: restored from a template, or (NULL) booted. What becomes a
 * template is not named: it takes its identity over when it is restored. */
static int machine_start(struct machine *machine, const struct machine *template, bool named,
			 int64_t *ret_us, struct err *err)
{
	struct bench *bench = machine->bench;
	_cleanup_free_ char *socket = xasprintf("%s/%s", machine->run_dir, VMM_AGENT_SOCKET_NAME);
	_cleanup_free_ char *state = template ? xasprintf("%s/state", template->dir) : NULL;
	const struct agent_identity identity = {
		.apply = named,
		.epoch = 1,
		.hostname = machine->name,
		.machine_id = "0123456789abcdef0123456789abcdef",
	};
	const struct vmm_spec spec = {
		.name = machine->name,
		.run_dir = machine->run_dir,
		.vcpus = 1,
		.memory_mb = bench->memory_mb,
		.root_image_path = bench->image,
		.disk_path = machine->disk,
		.memory_path = template ? template->memory : machine->memory,
		.memory_shared = !template,
		.device_state_path = state,
		.uid = VMM_UID,
		.expires_boottime_ms = deadline_in(LIFETIME_MS),
	};
	int64_t begun_us = clock_boottime_us();
	struct agent_info info;
	int r;

	r = vmm_start(bench->driver, &spec, deadline_in(DEADLINE_MS), &machine->vm, err);
	if (r < 0)
		return r;
	machine->runs = true;
	machine->run_us = clock_boottime_us() - begun_us;
	r = agent_open(bench->loop, socket, &identity, deadline_in(DEADLINE_MS), NULL, NULL,
		       &machine->agent, &info, err);
	*ret_us = clock_boottime_us() - begun_us;
	return r;
}

static int make_blank_disk(struct bench *bench, struct err *err)
{
	const char *argv[] = {
		"mke2fs", "-q",	  "-F",
		"-t",	  "ext4", "-m",
		"0",	  "-E",	  "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
		NULL,	  NULL
	};
	const struct spawn_spec spec = {
		.argv = argv, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1
	};
	int r = make_sparse(bench->blank_disk, DISK_BYTES, err);

	argv[9] = bench->blank_disk;
	return r < 0 ? r : spawn_run(&spec, deadline_in(DEADLINE_MS), NULL, 0, NULL, NULL, err);
}

static int booted_as(struct bench *bench, bool named, struct machine **ret, int64_t *ret_us,
		     struct err *err)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	int r = machine_new(bench, &machine, err);

	if (r == 0 && file_copy_sparse(bench->blank_disk, machine->disk, 0600) < 0)
		r = err_set(err, -EIO, "copy '%s'", bench->blank_disk);
	if (r == 0)
		r = make_sparse(machine->memory, (int64_t)bench->memory_mb << 20, err);
	if (r == 0)
		r = machine_start(machine, NULL, named, ret_us, err);
	if (r == 0)
		*ret = STEAL(machine);
	return r;
}

static int booted(struct bench *bench, struct machine **ret, int64_t *ret_us, struct err *err)
{
	return booted_as(bench, true, ret, ret_us, err);
}

static int restored(struct bench *bench, struct machine **ret, int64_t *ret_us, struct err *err)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	int r;

	if (!bench->template)
		return err_set(err, -EINVAL, "there is no template yet");
	r = machine_new(bench, &machine, err);
	if (r == 0 && file_copy_sparse(bench->template->disk, machine->disk, 0600) < 0)
		r = err_set(err, -EIO, "copy '%s'", bench->template->disk);
	if (r == 0)
		r = machine_start(machine, bench->template, true, ret_us, err);
	if (r == 0)
		*ret = STEAL(machine);
	return r;
}

/* ---- commands ---- */

typedef int (*start_fn)(struct bench *bench, struct machine **ret, int64_t *ret_us,
			struct err *err);

static int measure_start(struct bench *bench, start_fn start, struct err *err)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	int64_t us = 0, exec_us = 0;
	int r = start(bench, &machine, &us, err);

	if (r == 0)
		r = exec_true(machine, &exec_us, err);
	assert(r < 0 || machine);
	if (r == 0)
		printf("{\"us\":%" PRId64 ",\"run_us\":%" PRId64 ",\"first_exec_us\":%" PRId64
		       "}\n",
		       us, machine->run_us, exec_us);
	return r;
}

static int do_boot(struct bench *bench, struct err *err)
{
	return measure_start(bench, booted, err);
}

static int do_restore(struct bench *bench, struct err *err)
{
	return measure_start(bench, restored, err);
}

static int do_template(struct bench *bench, struct err *err)
{
	_cleanup_(machine_freep) struct machine *machine = NULL;
	_cleanup_free_ char *state = NULL;
	int64_t us = 0;
	int r = booted_as(bench, false, &machine, &us, err);

	if (r < 0)
		return r;
	assert(machine);
	r = warm_up(bench->loop, machine->agent, NULL, err);
	if (r < 0)
		return r;
	usleep(SETTLE_US);
	agent_close(STEAL(machine->agent));
	state = xasprintf("%s/state", machine->dir);
	r = vmm_save(bench->driver, &machine->vm, state, deadline_in(DEADLINE_MS), err);
	machine_end(machine);
	if (r < 0)
		return r;
	machine_free(bench->template);
	bench->template = STEAL(machine);
	printf("{\"us\":%" PRId64 "}\n", us);
	return 0;
}

static int do_hold(struct bench *bench, struct err *err)
{
	int64_t us = 0;
	int r;

	machine_free(STEAL(bench->held));
	r = restored(bench, &bench->held, &us, err);
	if (r == 0)
		printf("{\"us\":%" PRId64 "}\n", us);
	return r;
}

static int do_exec(struct bench *bench, struct err *err)
{
	int64_t us = 0;
	int r = bench->held ? exec_true(bench->held, &us, err)
			    : err_set(err, -EINVAL, "no machine is held");

	if (r == 0)
		printf("{\"us\":%" PRId64 "}\n", us);
	return r;
}

static int do_ping(struct bench *bench, struct err *err)
{
	int64_t begun_us = clock_boottime_us();
	int r = bench->held ? agent_ping(bench->held->agent, deadline_in(10000), err)
			    : err_set(err, -EINVAL, "no machine is held");

	if (r == 0)
		printf("{\"us\":%" PRId64 "}\n", clock_boottime_us() - begun_us);
	return r;
}

static int do_flow(struct bench *bench,
		   int (*flow)(struct loop *, struct agent *, int64_t *, struct err *),
		   struct err *err)
{
	int64_t us = 0;
	int r = bench->held ? flow(bench->loop, bench->held->agent, &us, err)
			    : err_set(err, -EINVAL, "no machine is held");

	if (r == 0)
		printf("{\"us\":%" PRId64 "}\n", us);
	return r;
}

static int do_out(struct bench *bench, struct err *err)
{
	return do_flow(bench, agent_flow_out, err);
}

static int do_in(struct bench *bench, struct err *err)
{
	return do_flow(bench, agent_flow_in, err);
}

static int do_private(struct bench *bench, struct err *err)
{
	_cleanup_free_ char *record_path = NULL, *rollup_path = NULL;
	_cleanup_buf_ struct buf rollup = BUF_INIT;
	struct record record;
	long kib = 0;
	int r;

	if (!bench->held)
		return err_set(err, -EINVAL, "no machine is held");
	record_path = xasprintf("%s/%s", bench->held->run_dir, VMM_RECORD_NAME);
	r = record_read(record_path, &record, err);
	if (r < 0)
		return r;
	rollup_path = xasprintf("/proc/%d/smaps_rollup", (int)record.vmm_pid);
	r = file_read(rollup_path, 65536, &rollup);
	if (r < 0)
		return err_set(err, r, "read '%s': %s", rollup_path, strerror(-r));
	for (const char *at = strstr(buf_str(&rollup), "Private_"); at;
	     at = strstr(at + 1, "Private_")) {
		const char *value = strchr(at, ':');

		if (value && (str_starts(at, "Private_Dirty") || str_starts(at, "Private_Clean")))
			kib += strtol(value + 1, NULL, 10);
	}
	printf("{\"kib\":%ld}\n", kib);
	return 0;
}

static int obey(struct bench *bench, const char *word, struct err *err)
{
	static const struct {
		const char *word;
		int (*run)(struct bench *bench, struct err *err);
	} commands[] = {
		{ "boot", do_boot },	   { "template", do_template }, { "restore", do_restore },
		{ "hold", do_hold },	   { "exec", do_exec },		{ "ping", do_ping },
		{ "private", do_private }, { "out", do_out },		{ "in", do_in },
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (str_eq(commands[i].word, word))
			return commands[i].run(bench, err);
	return err_set(err, -EINVAL, "there is no command '%s'", word);
}

/* ---- start and end ---- */

static void say_error(const struct err *err)
{
	printf("{\"error\":\"");
	for (const char *c = err->message; *c; c++)
		putchar(*c == '"' || *c == '\\' || (unsigned char)*c < 0x20 ? '\'' : *c);
	printf("\"}\n");
}

static int make_driver(struct bench *bench, const char *build, const char *accel, struct err *err)
{
	_cleanup_free_ char *warden = xasprintf("%s/skerry-warden", build);
	_cleanup_free_ char *kernel = xasprintf("%s/guest/vmlinux", build);
	_cleanup_free_ char *initramfs = xasprintf("%s/guest/initramfs.cpio", build);
	_cleanup_free_ char *lib = xasprintf("%s/src/vmm", build);
	const struct vmm_config config = {
		.warden_path = warden,
		.qemu_path = "/usr/bin/qemu-system-x86_64",
		.qemu_kvm_path = "/usr/bin/qemu-system-x86_64-microvm",
		.kernel_path = kernel,
		.initramfs_path = initramfs,
		.lib_dir = lib,
		.cache_dir = bench->work,
		.accel = accel,
		.cgroup_name = "skerry-bench",
	};

	return vmm_qemu_new(&config, &bench->driver, err);
}

static int serve(struct bench *bench, struct err *err)
{
	char line[64];
	int r = 0;

	while (r == 0 && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		r = obey(bench, line, err);
		if (r < 0)
			say_error(err);
		fflush(stdout);
	}
	return r;
}

struct settings {
	const char *build, *work, *accel;
};

static int parse_options(int argc, char **argv, struct settings *settings, struct bench *bench)
{
	static const struct option options[] = {
		{ "build", required_argument, NULL, 'b' },
		{ "image", required_argument, NULL, 'i' },
		{ "work", required_argument, NULL, 'w' },
		{ "memory-mb", required_argument, NULL, 'm' },
		{ "accel", required_argument, NULL, 'a' },
		{ 0 },
	};
	int64_t memory_mb = 1024;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'b')
			settings->build = optarg;
		else if (c == 'i')
			bench->image = optarg;
		else if (c == 'w')
			settings->work = optarg;
		else if (c == 'a')
			settings->accel = optarg;
		else if (c != 'm' || str_to_i64(optarg, &memory_mb) < 0)
			return -EINVAL;
	}
	if (memory_mb < 128 || memory_mb > 65536)
		return -EINVAL;
	bench->memory_mb = (uint32_t)memory_mb;
	return settings->build && bench->image && settings->work && optind == argc ? 0 : -EINVAL;
}

static int prepare(struct bench *bench, const struct settings *settings, struct err *err)
{
	int r;

	bench->work = xasprintf("%s/agent_rtt.%d", settings->work, (int)getpid());
	bench->blank_disk = xasprintf("%s/blank", bench->work);
	r = dir_make(bench->work, 0700);
	if (r < 0)
		return err_set(err, r, "make '%s': %s", bench->work, strerror(-r));
	r = make_driver(bench, settings->build, settings->accel, err);
	if (r == 0)
		r = make_blank_disk(bench, err);
	if (r == 0)
		r = loop_new(&bench->loop, err);
	return r == 0 ? loop_start(bench->loop, "bench", err) : r;
}

static void clear(struct bench *bench)
{
	machine_free(bench->held);
	machine_free(bench->template);
	loop_free(bench->loop);
	vmm_driver_free(bench->driver);
	tree_remove(bench->work);
	free(bench->blank_disk);
	free(bench->work);
}

int main(int argc, char **argv)
{
	struct settings settings = { .accel = "auto" };
	struct bench bench = { 0 };
	struct err err = ERR_INIT;
	int r;

	if (parse_options(argc, argv, &settings, &bench) < 0) {
		fprintf(stderr,
			"usage: agent_rtt --build DIR --image FILE --work DIR [--memory-mb N] "
			"[--accel auto|kvm|tcg]\n");
		return 2;
	}
	r = prepare(&bench, &settings, &err);
	if (r < 0)
		say_error(&err);
	else
		r = serve(&bench, &err);
	clear(&bench);
	return r < 0;
}
