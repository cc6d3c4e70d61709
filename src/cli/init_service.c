/*
 * The service: skerryd, started now and at every boot by systemd. The unit is not init's: `make
 * install` and the package bring it. Where systemd does not run the machine, or there is no unit,
 * init says how the daemon is started by hand.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/init_steps.h"

#define UNIT "skerryd.service"

static bool is_running(void)
{
	return init_run((const char *const[]){ "systemctl", "is-active", "--quiet", UNIT, NULL },
			NULL, NULL) == 0;
}

static bool is_enabled(void)
{
	return init_run((const char *const[]){ "systemctl", "is-enabled", "--quiet", UNIT, NULL },
			NULL, NULL) == 0;
}

static bool has_unit(void)
{
	return init_run((const char *const[]){ "systemctl", "cat", UNIT, NULL }, NULL, NULL) == 0;
}

static int skip(const struct init *init, struct init_result *ret, const char *why)
{
	ret->outcome = INIT_SKIPPED;
	buf_printf(&ret->detail, "%s: start the daemon with `skerryd --state-dir %s`", why,
		   init->state_dir);
	return 0;
}

static int start(struct init_result *ret, struct err *err)
{
	int r = init_run((const char *const[]){ "systemctl", "enable", "--now", UNIT, NULL }, NULL,
			 err);

	if (r < 0) {
		err_hint(err, "`journalctl -u skerryd` says why; `skerry doctor --local` what is "
			      "missing");
		return r;
	}
	ret->outcome = INIT_DONE;
	buf_append_str(&ret->detail, UNIT " runs, now and at every boot");
	buf_append_str(&ret->undo, "systemctl disable --now " UNIT "\n");
	return 0;
}

int init_service(const struct init *init, struct init_result *ret, struct err *err)
{
	if (init->boot == INIT_BOOT_FSTAB || init->boot == INIT_BOOT_NONE)
		return skip(init, ret, "systemd was not wanted");
	if (init->boot == INIT_BOOT_AUTO && access(INIT_SYSTEMD_RUNS, F_OK) < 0)
		return skip(init, ret, "systemd does not run this machine");
	if (!has_unit())
		return skip(init, ret, "there is no " UNIT " (the package brings it)");
	/* The unit's configuration names the state; another directory is somebody's own doing. */
	if (!str_eq(init->state_dir, CLI_STATE_DIR))
		return skip(init, ret, UNIT " has its state elsewhere");
	if (is_running() && is_enabled()) {
		ret->outcome = INIT_ALREADY;
		buf_append_str(&ret->detail, UNIT " runs, now and at every boot");
		return 0;
	}
	if (!init_wants(init, "Start the daemon, " UNIT ", now and at every boot?")) {
		ret->outcome = INIT_SKIPPED;
		buf_append_str(&ret->detail, "`systemctl enable --now " UNIT "` starts it");
		return 0;
	}
	return start(ret, err);
}
