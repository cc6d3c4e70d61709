/*
 * Making the driver: which accelerator, which QEMU, what it needs to see in its jail, and the
 * fingerprint that saved states are bound to. Everything that does not change from VM to VM is
 * found out here.
 */
#include "vmm/qemu/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "loop/spawn.h"
#include "host/kvm_probe.h"
#include "vmm/qemu/tsc.h"
#include "warden/cgroup.h"

#define QEMU_VERSION_MS 10000

const char *vmm_isolation_name(enum vmm_isolation isolation)
{
	return isolation == VMM_KVM ? "kvm" : "emulated";
}

/* Where the dynamic loader and QEMU look for what they need. Shown whole, as the list of libraries
 * differs from build to build; all of it is gone again before a guest runs. */
static const char *const system_paths[] = {
	"/lib",
	"/lib64",
	"/usr/lib",
	"/usr/lib64",
	"/etc/ld.so.cache",
	"/usr/share/qemu",
	"/usr/share/seabios",
};

static int resolve(const char *what, const char *path, char **ret, struct err *err)
{
	char *real = path ? realpath(path, NULL) : NULL;

	if (!real)
		return err_set(err, path ? -errno : -EINVAL, "cannot find the %s '%s': %s", what,
			       path ? path : "", strerrordesc_np(path ? errno : EINVAL));
	*ret = real;
	return 0;
}

/* ---- accelerator ---- */

static int choose_accelerator(struct vmm_driver *driver, const struct vmm_config *config,
			      struct err *err)
{
	struct kvm_verdict verdict = { 0 };

	driver->machine.isolation = VMM_EMULATED;
	if (str_eq(config->accel, "tcg")) {
		driver->isolation_reason = xstrdup("the configuration says accel = tcg");
		return 0;
	}
	if (!str_eq(config->accel, "kvm") && !str_eq(config->accel, "auto"))
		return err_set(err, -EINVAL, "the accelerator '%s' is not auto, kvm or tcg",
			       config->accel ? config->accel : "");
	kvm_probe_cached(config->cache_dir, &verdict);
	driver->isolation_reason = xstrdup(verdict.why);
	if (verdict.usable)
		driver->machine.isolation = VMM_KVM;
	else if (str_eq(config->accel, "kvm")) {
		err_set(err, -ENOTSUP, "KVM is not usable: %s", verdict.why);
		err_hint(err, "run on a host with hardware virtualization, or set accel = "
			      "auto to allow emulation");
		return -ENOTSUP;
	}
	return 0;
}

static int choose_qemu(struct vmm_driver *driver, const struct vmm_config *config, struct err *err)
{
	const char *path = config->qemu_path;
	int r;

	/* Debian's small build has fewer libraries and devices, but no TCG. */
	if (driver->machine.isolation == VMM_KVM && config->qemu_kvm_path &&
	    access(config->qemu_kvm_path, X_OK) == 0)
		path = config->qemu_kvm_path;
	r = resolve("QEMU", path, &driver->machine.qemu_path, err);
	if (r < 0)
		err_hint(err, "install qemu-system-x86; isolation is '%s', because %s",
			 vmm_isolation_name(driver->machine.isolation), driver->isolation_reason);
	return r;
}

/* QEMU ends at once with an error on an option it was built without. */
static int find_sandbox(struct machine *machine, struct err *err)
{
	const char *argv[] = { machine->qemu_path, "-sandbox", "on", "-version", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	int r;

	spec.argv = argv;
	r = spawn_run(&spec, clock_boottime_ms() + QEMU_VERSION_MS, NULL, 0, NULL, NULL, err);
	machine->has_sandbox = r == 0;
	return r == -EIO ? 0 : r;
}

/* ---- fingerprint ---- */

static int hash_file(EVP_MD_CTX *hash, const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const size_t size = 256 * 1024;
	_cleanup_free_ char *data = xmalloc(size);
	ssize_t n;

	if (fd < 0)
		return err_set(err, -errno, "cannot read '%s': %s", path, strerrordesc_np(errno));
	do {
		n = fd_read_full(fd, data, size);
		if (n > 0)
			EVP_DigestUpdate(hash, data, (size_t)n);
	} while (n > 0);
	return n < 0 ? err_set(err, (int)n, "cannot read '%s': %s", path, strerrordesc_np((int)-n))
		     : 0;
}

/* Under KVM the guest sees the host's processor, so states are bound to its kind. */
static int hash_host_processor(EVP_MD_CTX *hash, struct err *err)
{
	static const char *const fields[] = { "vendor_id", "cpu family", "model\t", "flags" };
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read("/proc/cpuinfo", 16 * 1024 * 1024, &text);

	if (r < 0)
		return err_set(err, r, "cannot read /proc/cpuinfo");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *line = strstr(text.data, fields[i]);

		if (line)
			EVP_DigestUpdate(hash, line, (size_t)(strchrnul(line, '\n') - line));
	}
	return 0;
}

/* What a state can be restored under. The guest's kernel and init are in the state itself. */
static int hash_vmm(const struct machine *machine, EVP_MD_CTX *hash, struct err *err)
{
	const char *description = machine_description(machine);
	int r;

	EVP_DigestUpdate(hash, description, strlen(description) + 1);
	EVP_DigestUpdate(hash, &machine->tsc_khz, sizeof(machine->tsc_khz));
	r = hash_file(hash, machine->qemu_path, err);
	if (r == 0 && machine->isolation == VMM_KVM)
		r = hash_host_processor(hash, err);
	return r;
}

/* What a machine that boots comes out as. */
static int hash_boot(const struct machine *machine, EVP_MD_CTX *hash, struct err *err)
{
	int r = hash_vmm(machine, hash, err);

	if (r == 0)
		r = hash_file(hash, machine->kernel_path, err);
	return r < 0 ? r : hash_file(hash, machine->initramfs_path, err);
}

static int make_fingerprint(const struct machine *machine,
			    int (*add)(const struct machine *, EVP_MD_CTX *, struct err *),
			    char **ret, struct err *err)
{
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	char hex[2 * EVP_MAX_MD_SIZE + 1];
	unsigned int len = 0;
	int r = -ENOMEM;

	if (hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1)
		r = add(machine, hash, err);
	if (r == 0 && EVP_DigestFinal_ex(hash, digest, &len) != 1)
		r = err_set(err, -EIO, "cannot hash QEMU and the guest's kernel");
	EVP_MD_CTX_free(hash);
	if (r < 0)
		return r;
	hex_encode(digest, len, hex);
	*ret = xasprintf("qemu-%s-%s", vmm_isolation_name(machine->isolation), hex);
	return 0;
}

/* ---- construction ---- */

static void collect_binds(struct vmm_driver *driver)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(system_paths); i++)
		if (lstat(system_paths[i], &st) == 0)
			args_option(&driver->binds, "--bind", "%s", system_paths[i]);
	args_option(&driver->binds, "--bind", "%s", driver->machine.qemu_path);
	args_option(&driver->binds, "--bind", "%s", driver->preload_path);
}

static int fill_driver(struct vmm_driver *driver, const struct vmm_config *config, struct err *err)
{
	_cleanup_buf_ struct buf preload = BUF_INIT;
	struct machine *machine = &driver->machine;
	struct cgroup group;
	int r;

	buf_printf(&preload, "%s/" PRELOAD_NAME, config->lib_dir);
	driver->cgroup_name = xstrdup(config->cgroup_name);
	r = cgroup_find(config->cgroup_name, "probe", &group, err);
	if (r == 0)
		r = dir_make(config->cache_dir, 0755);
	if (r == 0)
		r = choose_accelerator(driver, config, err);
	if (r == 0)
		r = choose_qemu(driver, config, err);
	if (r == 0)
		r = find_sandbox(machine, err);
	if (r == 0)
		r = resolve("warden", config->warden_path, &driver->warden_path, err);
	if (r == 0)
		r = resolve("preload library", preload.data, &driver->preload_path, err);
	if (r == 0)
		r = resolve("guest kernel", config->kernel_path, &machine->kernel_path, err);
	if (r == 0)
		r = resolve("guest initramfs", config->initramfs_path, &machine->initramfs_path,
			    err);
	if (r == 0 && machine->isolation == VMM_EMULATED)
		r = tsc_frequency_khz(config->cache_dir, &machine->tsc_khz, err);
	if (r == 0)
		r = make_fingerprint(machine, hash_boot, &driver->fingerprint, err);
	if (r == 0)
		r = make_fingerprint(machine, hash_vmm, &driver->state_fingerprint, err);
	if (r == 0)
		collect_binds(driver);
	return r;
}

int vmm_qemu_new(const struct vmm_config *config, struct vmm_driver **ret, struct err *err)
{
	struct vmm_driver *driver = xcalloc(1, sizeof(*driver));
	int r = fill_driver(driver, config, err);

	if (r < 0) {
		vmm_driver_free(driver);
		return err_wrap(err, r, "cannot set up QEMU");
	}
	*ret = driver;
	return 0;
}

void vmm_driver_free(struct vmm_driver *driver)
{
	struct cgroup group;

	if (!driver)
		return;
	if (driver->cgroup_name && cgroup_find(driver->cgroup_name, "any", &group, NULL) == 0)
		cgroup_remove_parent(&group);
	free(driver->machine.qemu_path);
	free(driver->machine.kernel_path);
	free(driver->machine.initramfs_path);
	free(driver->warden_path);
	free(driver->cgroup_name);
	free(driver->preload_path);
	free(driver->isolation_reason);
	free(driver->fingerprint);
	free(driver->state_fingerprint);
	args_clear(&driver->binds);
	free(driver);
}

enum vmm_isolation vmm_driver_isolation(const struct vmm_driver *driver)
{
	return driver->machine.isolation;
}

const char *vmm_driver_isolation_reason(const struct vmm_driver *driver)
{
	return driver->isolation_reason;
}

const char *vmm_driver_program(const struct vmm_driver *driver)
{
	return driver->machine.qemu_path;
}

const char *vmm_driver_fingerprint(const struct vmm_driver *driver)
{
	return driver->fingerprint;
}

const char *vmm_driver_state_fingerprint(const struct vmm_driver *driver)
{
	return driver->state_fingerprint;
}
