/* Facts and checks of this host: what a person or an agent reads when something does not work. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "core/internal.h"
#include "host/check.h"

#define LEDGER_READ_MAX 100000 /* entries: two seconds, or so */

static void add_check(json_t *checks, const char *name, bool ok, const char *detail,
		      const char *fix)
{
	struct host_check check = { .name = name,
				    .level = ok ? HOST_OK : HOST_MISSING,
				    .fix = fix };

	str_copy(check.detail, sizeof(check.detail), detail);
	host_check_add(checks, &check);
}

static void check_isolation(const struct core *core, json_t *checks)
{
	const bool kvm = vmm_driver_isolation(core->driver) == VMM_KVM;
	const bool wanted = str_eq(core->limits.require_isolation, "kvm");
	/* Emulation works; it is only wrong where the operator insists on KVM. */
	struct host_check check = {
		.name = "isolation",
		.level = kvm	  ? HOST_OK
			 : wanted ? HOST_MISSING
				  : HOST_ADVICE,
		.fix = "enable virtualization in the firmware (or nested virtualization in the "
		       "cloud) and load the kvm module, or set require_isolation = any",
	};

	snprintf(check.detail, sizeof(check.detail), "%s: %s",
		 kvm ? "KVM is used" : "emulation (TCG) is used",
		 vmm_driver_isolation_reason(core->driver));
	host_check_add(checks, &check);
}

static void check_vmm(const struct core *core, json_t *checks)
{
	add_check(checks, "vmm", true, vmm_driver_fingerprint(core->driver), NULL);
}

static void check_space(json_t *checks, const json_t *space)
{
	_cleanup_buf_ struct buf detail = BUF_INIT;
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(space, "items"), i, item)
		buf_printf(&detail, "%s%s take %lld MB", i ? ", " : "",
			   json_get_str(item, "name", ""),
			   (long long)(json_get_int(item, "allocated_bytes", 0) >> 20));
	add_check(checks, "space", true, buf_str(&detail), NULL);
}

/* What any machine is asked; whether KVM is used was found out when the daemon started. */
static void check_host(const struct core *core, json_t *checks)
{
	const char *const qemu[] = { vmm_driver_program(core->driver), NULL };
	const struct host_spec spec = {
		.state_dir = core->state_dir,
		.free_disk_mb_min = core->limits.host_free_disk_mb_min,
		.qemu = qemu,
		.descriptors_wanted = HOST_DESCRIPTORS_WANTED,
	};

	host_checks(&spec, checks);
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
	check_isolation(core, checks);
	check_vmm(core, checks);
	check_host(core, checks);
	check_space(checks, space);
	check_network(core, checks);
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
