/* Facts and checks of this host: what a person or an agent reads when something does not work. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "core/internal.h"
#include "loop/spawn.h"

#define PROGRAM_DEADLINE_MS 10000
#define LEDGER_READ_MAX	    100000 /* entries: two seconds, or so */

static void add_check(json_t *checks, const char *name, bool ok, const char *detail,
		      const char *fix)
{
	json_t *check = json_object();

	json_put_str(check, "name", name);
	json_put(check, "ok", json_boolean(ok));
	json_put_str(check, "detail", detail);
	json_put_str(check, "fix", ok ? NULL : fix);
	json_array_append_new(checks, check);
}

static void check_root(json_t *checks)
{
	char detail[64];

	snprintf(detail, sizeof(detail), "the daemon runs as uid %d", (int)geteuid());
	add_check(checks, "root", geteuid() == 0, detail,
		  "run skerryd as root: it makes jails for VMs");
}

static void check_isolation(const struct core *core, json_t *checks)
{
	bool kvm = vmm_driver_isolation(core->driver) == VMM_KVM;
	bool wanted = str_eq(core->limits.require_isolation, "kvm");
	_cleanup_buf_ struct buf detail = BUF_INIT;

	buf_printf(&detail, "%s: %s", kvm ? "KVM is used" : "emulation (TCG) is used",
		   vmm_driver_isolation_reason(core->driver));
	/* Emulation works; it is only wrong where the operator insists on KVM. */
	add_check(checks, "isolation", kvm || !wanted, detail.data,
		  "enable virtualization in the firmware (or nested virtualization in the cloud) "
		  "and load "
		  "the kvm module, or set require_isolation = any");
}

static void check_vmm(const struct core *core, json_t *checks)
{
	add_check(checks, "vmm", true, vmm_driver_fingerprint(core->driver), NULL);
}

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len) {
		bool begins = at == text || at[-1] == ' ' || at[-1] == '\n' || at[-1] == '\t';

		if (begins && (!at[len] || strchr(" \n\t", at[len])))
			return true;
	}
	return false;
}

/* v2 where its controllers are there, else v1. */
static void check_cgroups(json_t *checks)
{
	const char *const needed[] = { "cpu", "memory", "pids" };
	const char *const v1_dirs[] = { "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory",
					"/sys/fs/cgroup/pids" };
	_cleanup_buf_ struct buf controllers = BUF_INIT;
	_cleanup_buf_ struct buf missing = BUF_INIT;
	bool v2 = file_read("/sys/fs/cgroup/cgroup.controllers", 4096, &controllers) == 0;
	_cleanup_buf_ struct buf detail = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		bool there =
			v2 ? has_word(controllers.data, needed[i]) : access(v1_dirs[i], W_OK) == 0;

		if (!there)
			buf_printf(&missing, " %s", needed[i]);
	}
	buf_printf(&detail, "cgroup %s, %s%s", v2 ? "v2" : "v1",
		   missing.len ? "missing:" : "with cpu, memory and pids", buf_str(&missing));
	add_check(checks, "cgroups", missing.len == 0, detail.data,
		  "mount cgroup2 at /sys/fs/cgroup with the controllers cpu, memory and pids");
}

static void check_disk(const struct core *core, json_t *checks)
{
	struct statvfs fs;
	int64_t free_mb = 0;
	char detail[128];

	if (statvfs(core->state_dir, &fs) == 0)
		free_mb = (int64_t)(fs.f_bavail * fs.f_frsize / (1024 * 1024));
	snprintf(detail, sizeof(detail), "%lld MB are free for the state, %lld MB are kept free",
		 (long long)free_mb, (long long)core->limits.host_free_disk_mb_min);
	add_check(checks, "disk", free_mb >= core->limits.host_free_disk_mb_min, detail,
		  "make room on the file system of the state directory, or move the directory");
}

static void check_space(json_t *checks, const json_t *space)
{
	const json_t *fs = json_object_get(space, "file_system"), *item;
	bool reflink = json_get_bool(fs, "reflink", false);
	_cleanup_buf_ struct buf detail = BUF_INIT;
	size_t i;

	json_array_foreach(json_object_get(space, "items"), i, item)
		buf_printf(&detail, "%s%s take %lld MB", i ? ", " : "",
			   json_get_str(item, "name", ""),
			   (long long)(json_get_int(item, "allocated_bytes", 0) >> 20));
	add_check(checks, "space", true, buf_str(&detail), NULL);
	/* It works without, so it is no failure. */
	add_check(checks, "reflink", true,
		  reflink ? "files share blocks: copies of disks take neither time nor room"
			  : "the file system has none: forks and snapshots copy disks; `skerry "
			    "init` can give the state one that has",
		  NULL);
}

static void check_memory(json_t *checks)
{
	int64_t available_mb = host_available_mb();
	char detail[64];

	snprintf(detail, sizeof(detail), "%lld MB are available", (long long)available_mb);
	add_check(checks, "memory", available_mb > 1024, detail,
		  "free memory: a sandbox of the default size can use 1 GiB");
}

static void check_program(json_t *checks, const char *program, const char *argument,
			  const char *fix)
{
	const char *const argv[] = { program, argument, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;
	int r;

	spec.argv = argv;
	r = spawn_run(&spec, clock_boottime_ms() + PROGRAM_DEADLINE_MS, NULL, 0, NULL, NULL, &err);
	add_check(checks, program, r == 0, r == 0 ? "found" : err.message, fix);
}

static void check_network(const struct core *core, json_t *checks)
{
	char detail[320];
	const char *fix;
	bool ok;

	core_net_check(core, &ok, detail, sizeof(detail), &fix);
	add_check(checks, "network", ok, detail, fix);
}

static int64_t count_entries(struct core *core)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n = 0;

	if (db_begin_read(core->db, &txn, NULL) == 0)
		wallets_entries(&txn, &n, NULL);
	return n;
}

static bool describe_ledger(struct core *core, struct buf *detail)
{
	_cleanup_json_ json_t *ledger = NULL;
	struct err err = ERR_INIT;

	if (core_ledger_check(core, &ledger, &err) < 0) {
		buf_append_str(detail, err.message);
		return false;
	}
	buf_printf(detail, "%lld entries, ", (long long)json_get_int(ledger, "entries", 0));
	if (json_get_bool(ledger, "ok", false)) {
		buf_append_str(detail, "grants are balances and charges exactly");
		return true;
	}
	buf_printf(detail, "%lld findings: %s", (long long)json_get_int(ledger, "findings", 0),
		   json_get_str(ledger, "first_finding", ""));
	return false;
}

/* Reading a ledger of years takes longer than anybody waits here. */
static void check_ledger(struct core *core, json_t *checks)
{
	_cleanup_buf_ struct buf detail = BUF_INIT;
	int64_t n = count_entries(core);
	bool ok = true;

	if (n > LEDGER_READ_MAX)
		buf_printf(&detail, "%lld entries, checked by GET /v1/ledger/check", (long long)n);
	else
		ok = describe_ledger(core, &detail);
	add_check(checks, "ledger", ok, buf_str(&detail),
		  "keep a copy of skerry.db and report this: what is charged may be wrong");
}

static void check_images(struct core *core, json_t *checks)
{
	_cleanup_free_ struct image_info *images = NULL;
	_cleanup_buf_ struct buf detail = BUF_INIT;
	bool has_default = false;
	size_t n = 0;

	image_list(core->images, &images, &n, NULL);
	for (size_t i = 0; i < n; i++) {
		buf_printf(&detail, "%s%s", i ? ", " : "built: ", images[i].name);
		has_default |= str_eq(images[i].name, core->limits.default_image);
	}
	add_check(checks, "images", has_default, n ? detail.data : "no image is built",
		  "build the default image: skerry image build base");
}

int core_doctor(struct core *core, json_t **ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	json_t *checks, *all, *space;
	struct utsname uts;

	if (!work)
		return -ESHUTDOWN;
	checks = json_array();
	space = space_report(core->state_dir);
	check_root(checks);
	check_isolation(core, checks);
	check_vmm(core, checks);
	check_cgroups(checks);
	check_disk(core, checks);
	check_space(checks, space);
	check_memory(checks);
	check_network(core, checks);
	check_program(checks, "mke2fs", "-V", "install e2fsprogs");
	check_program(checks, "mkfs.erofs", "--help",
		      "install erofs-utils; it is needed to build images");
	check_program(checks, "mmdebstrap", "--version",
		      "install mmdebstrap; it is needed to build images");
	check_images(core, checks);
	check_ledger(core, checks);
	all = json_object();
	json_put(all, "checks", checks);
	json_put(all, "space", space);
	json_put_str(all, "isolation", vmm_isolation_name(vmm_driver_isolation(core->driver)));
	json_put_str(all, "version", SKERRY_VERSION);
	if (uname(&uts) == 0)
		json_put_str(all, "kernel", uts.release);
	*ret = all;
	return 0;
}
