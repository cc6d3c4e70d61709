/* A guest under QEMU for tests. See guest_vm.h. */
#include "guest_vm.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"

#define MACHINE "microvm,pit=off,pic=off,rtc=on"
#define KERNEL_ARGUMENTS                                                                           \
	"console=ttyS0 quiet panic=-1 random.trust_cpu=on no_timer_check mitigations=off "         \
	"norandmaps tsc=reliable skerry.root=/dev/vda skerry.disk=/dev/vdb"

#define BOOT_MS 120000
#define WAIT_MS 180000

/* As src/vmm starts its machines under emulation; machine.c has the reasons. */
static const char cpu[] =
	"EPYC-v1,-rdseed,-sha-ni,-fxsr-opt,-misalignsse,-3dnowprefetch,-osvw,-topoext,-nrip-save,"
	"-xsavec,-svm,-npt";
static const char port[] = "virtserialport,chardev=agent,name=" PROTO_PORT_NAME;

static const char *need_env(const char *name)
{
	const char *value = getenv(name);

	if (!value || access(value, R_OK) < 0)
		fail_msg("%s must name a readable file: %s", name, value ? value : "(not set)");
	return value;
}

/* Under emulation the guest's TSC is the host's, and without a PIT it cannot find its rate. */
static uint64_t tsc_khz(void)
{
	const struct timespec pause = { .tv_nsec = 100000000 };
	int64_t from_us = clock_boottime_us();
	uint64_t from = __rdtsc();

	nanosleep(&pause, NULL);
	return (__rdtsc() - from) * 1000 / (uint64_t)(clock_boottime_us() - from_us);
}

static void make_disk(const char *path)
{
	const char *argv[] = { "mke2fs", "-q", "-t",
			       "ext4",	 "-E", "lazy_itable_init=1,lazy_journal_init=1",
			       path,	 "2G", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	spec.argv = argv;
	if (spawn_run(&spec, clock_boottime_ms() + WAIT_MS, NULL, 0, NULL, NULL, &err) < 0)
		fail_msg("%s", err.message);
}

static void start_qemu(struct vm *vm)
{
	_cleanup_free_ char *base = xasprintf("%s/base.erofs", getenv("SKERRY_IMAGE_DIR") ?: ".");
	_cleanup_free_ char *root =
		xasprintf("if=none,id=root,file=%s,format=raw,readonly=on", base);
	_cleanup_free_ char *disk = xasprintf("if=none,id=disk,file=%s/disk,format=raw", vm->dir);
	_cleanup_free_ char *disk_path = xasprintf("%s/disk", vm->dir);
	_cleanup_free_ char *chardev =
		xasprintf("socket,id=agent,path=%s,server=on,wait=off", vm->socket_path);
	_cleanup_free_ char *console = xasprintf("file:%s/console", vm->dir);
	_cleanup_free_ char *append =
		xasprintf(KERNEL_ARGUMENTS " tsc_early_khz=%llu", (unsigned long long)tsc_khz());
	const char *kernel = need_env("SKERRY_TEST_KERNEL");
	const char *initramfs = need_env("SKERRY_TEST_INITRAMFS");
	/* clang-format off */
	const char *argv[] = {
		"qemu-system-x86_64", "-M", MACHINE, "-accel", "tcg", "-cpu", cpu, "-m", "512",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", kernel, "-initrd", initramfs, "-append", append,
		"-drive", root, "-device", "virtio-blk-device,drive=root",
		"-drive", disk, "-device", "virtio-blk-device,drive=disk",
		"-device", "virtio-serial-device", "-chardev", chardev, "-device", port,
		"-serial", console, NULL,
	};
	/* clang-format on */
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	if (access(base, R_OK) < 0)
		fail_msg("SKERRY_IMAGE_DIR must hold the image base.erofs (images/build-root "
			 "base): %s",
			 base);
	make_disk(disk_path);
	spec.argv = argv;
	if (spawn(&spec, &vm->qemu, &err) < 0)
		fail_msg("%s", err.message);
}

void vm_connect(struct vm *vm, bool with_identity)
{
	const struct agent_identity identity = {
		.apply = with_identity,
		.epoch = 7,
		.hostname = "sbx-test",
		.machine_id = "0123456789abcdef0123456789abcdef",
	};

	vm_connect_as(vm, &identity);
}

void vm_connect_as(struct vm *vm, const struct agent_identity *identity)
{
	struct err err = ERR_INIT;

	if (agent_open(vm->loop, vm->socket_path, identity, clock_boottime_ms() + BOOT_MS, NULL,
		       NULL, &vm->agent, &vm->info, &err) < 0)
		fail_msg("%s", err.message);
}

void vm_disconnect(struct vm *vm)
{
	agent_close(vm->agent);
	vm->agent = NULL;
}

void vm_start(struct vm *vm)
{
	struct err err = ERR_INIT;

	*vm = (struct vm){ .dir = "/tmp/skerry-vm-XXXXXX" };
	assert_non_null(mkdtemp(vm->dir));
	snprintf(vm->socket_path, sizeof(vm->socket_path), "%s/agent", vm->dir);
	assert_int_equal(loop_new(&vm->loop, &err), 0);
	assert_int_equal(loop_start(vm->loop, "test", &err), 0);
	start_qemu(vm);
	vm->boot_ms = clock_boottime_ms();
	vm_connect(vm, true);
	vm->boot_ms = clock_boottime_ms() - vm->boot_ms;
}

void vm_stop(struct vm *vm)
{
	vm_disconnect(vm);
	child_kill(&vm->qemu);
	loop_free(vm->loop);
	tree_remove(vm->dir);
}

void vm_sleep_ms(int ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

/* ---- commands: what the loop's thread sees ---- */

uint64_t fnv_add(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ at[i]) * 0x100000001b3u;
	return hash;
}

static void changed(struct command *c)
{
	pthread_cond_broadcast(&c->cond);
	pthread_mutex_unlock(&c->lock);
}

static void on_started(void *arg, uint32_t pid)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->started = true;
	c->pid = pid;
	changed(c);
}

static void on_state(void *arg, const struct agent_exec_state *state)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->has_state = true;
	c->state = *state;
	changed(c);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct command *c = arg;
	int i = stream == PROTO_STDERR;
	bool give_credit;

	pthread_mutex_lock(&c->lock);
	if (c->output[i].len + len <= KEEP_MAX)
		buf_append(&c->output[i], data, len);
	c->next[i] = offset + len;
	c->received[i] += len;
	c->hash[i] = fnv_add(c->hash[i], data, len);
	give_credit = c->hold_at[i] == 0 || c->received[i] < c->hold_at[i];
	changed(c);
	if (give_credit)
		agent_exec_credit(c->exec, stream, len);
}

static void on_gap(void *arg, int stream, uint64_t from, uint64_t to)
{
	struct command *c = arg;
	int i = stream == PROTO_STDERR;

	pthread_mutex_lock(&c->lock);
	if (c->gap_to[i] == 0)
		c->gap_from[i] = from;
	c->next[i] = c->gap_to[i] = to;
	changed(c);
}

static void on_eof(void *arg, int stream, uint64_t total)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->eof[stream == PROTO_STDERR] = true;
	changed(c);
}

static void on_exited(void *arg, const struct agent_exit *ended)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->exited = true;
	c->exit = *ended;
	changed(c);
}

static void on_window(void *arg, uint64_t may_send_up_to)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->window = may_send_up_to;
	changed(c);
}

static void on_failed(void *arg, const struct err *err)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->failed = true;
	c->err = *err;
	changed(c);
}

static void on_lost(void *arg, const struct err *err)
{
	struct command *c = arg;

	pthread_mutex_lock(&c->lock);
	c->lost = true;
	c->err = *err;
	changed(c);
}

static const struct agent_exec_events events = {
	.started = on_started,
	.state = on_state,
	.data = on_data,
	.gap = on_gap,
	.eof = on_eof,
	.exited = on_exited,
	.input_window = on_window,
	.failed = on_failed,
	.lost = on_lost,
};

/* ---- commands: the test's side ---- */

void command_init(struct command *c, struct vm *vm)
{
	*c = (struct command){ .vm = vm, .hash = { FNV_START, FNV_START } };
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->cond, NULL);
}

struct call {
	struct command *c;
	const struct agent_exec_spec *spec;
	const void *data;
	uint64_t offset, len;
	int number;
	bool flag;
};

static void start_on_loop(void *arg)
{
	struct call *call = arg;

	call->c->exec = agent_exec_start(call->c->vm->agent, call->spec, &events, call->c);
}

void command_start(struct command *c, const struct agent_exec_spec *spec)
{
	static atomic_uint number;
	struct agent_exec_spec full = *spec;

	snprintf(c->id, sizeof(c->id), "%s%u", spec->exec_id ? spec->exec_id : "e", ++number);
	full.exec_id = c->id;
	if (full.stdout_credit == 0)
		full.stdout_credit = full.stderr_credit = CREDIT;
	loop_call(c->vm->loop, start_on_loop, &(struct call){ .c = c, .spec = &full });
}

static void attach_on_loop(void *arg)
{
	struct call *call = arg;

	call->c->exec = agent_exec_attach(call->c->vm->agent, call->data, &events, call->c);
}

void command_attach(struct command *c, const char *id)
{
	loop_call(c->vm->loop, attach_on_loop, &(struct call){ .c = c, .data = id });
}

static void follow_on_loop(void *arg)
{
	struct call *call = arg;

	agent_exec_follow(call->c->exec, call->number, call->offset, CREDIT, call->flag);
}

void command_follow(struct command *c, int stream, uint64_t offset, bool backpressure)
{
	loop_call(
		c->vm->loop, follow_on_loop,
		&(struct call){ .c = c, .number = stream, .offset = offset, .flag = backpressure });
}

static void credit_on_loop(void *arg)
{
	struct call *call = arg;

	agent_exec_credit(call->c->exec, call->number, call->len);
}

void command_credit(struct command *c, int stream, uint64_t bytes)
{
	loop_call(c->vm->loop, credit_on_loop,
		  &(struct call){ .c = c, .number = stream, .len = bytes });
}

static void input_on_loop(void *arg)
{
	struct call *call = arg;

	if (call->flag)
		agent_exec_input_close(call->c->exec);
	else
		agent_exec_input(call->c->exec, call->offset, call->data, (size_t)call->len);
}

void command_input(struct command *c, uint64_t offset, const void *data, size_t len)
{
	loop_call(c->vm->loop, input_on_loop,
		  &(struct call){ .c = c, .offset = offset, .data = data, .len = len });
}

void command_input_close(struct command *c)
{
	loop_call(c->vm->loop, input_on_loop, &(struct call){ .c = c, .flag = true });
}

static void signal_on_loop(void *arg)
{
	struct call *call = arg;

	agent_exec_signal(call->c->exec, call->number);
}

void command_signal(struct command *c, int signal)
{
	loop_call(c->vm->loop, signal_on_loop, &(struct call){ .c = c, .number = signal });
}

static void free_on_loop(void *arg)
{
	agent_exec_free(arg);
}

void command_free(struct command *c)
{
	loop_call(c->vm->loop, free_on_loop, c->exec);
	buf_clear(&c->output[0]);
	buf_clear(&c->output[1]);
}

bool command_wait(struct command *c, bool (*pred)(const struct command *), int timeout_ms)
{
	struct timespec until;
	bool holds;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000l;
	if (until.tv_nsec >= 1000000000l) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000l;
	}
	pthread_mutex_lock(&c->lock);
	while (!(holds = pred(c)) && pthread_cond_timedwait(&c->cond, &c->lock, &until) == 0)
		;
	pthread_mutex_unlock(&c->lock);
	return holds;
}

bool has_started(const struct command *c)
{
	return c->started;
}

bool has_exited(const struct command *c)
{
	return c->exited;
}

bool has_failed(const struct command *c)
{
	return c->failed;
}

bool has_ended(const struct command *c)
{
	return c->failed || c->lost || (c->exited && c->eof[0] && c->eof[1]);
}

void run(struct command *c, struct vm *vm, const struct agent_exec_spec *spec)
{
	command_init(c, vm);
	command_start(c, spec);
	if (!command_wait(c, has_ended, WAIT_MS))
		fail_msg("'%s' did not end", spec->command);
}

char *shell(struct vm *vm, const char *user, const char *command)
{
	struct command c;
	char *text;

	run(&c, vm, &(struct agent_exec_spec){ .command = command, .user = user });
	if (!c.exited || c.exit.exit_code != 0)
		fail_msg("'%s' gave %d: %s%s", command, c.exit.exit_code, c.err.message,
			 buf_str(&c.output[1]));
	while (c.output[0].len > 0 && c.output[0].data[c.output[0].len - 1] == '\n')
		c.output[0].data[--c.output[0].len] = '\0';
	text = buf_take(&c.output[0]);
	command_free(&c);
	return text;
}
