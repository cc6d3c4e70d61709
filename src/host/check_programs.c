/* Programs of others that are run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "host/checks.h"
#include "host/parse.h"
#include "loop/spawn.h"

#define PROGRAM_MS 10000
#define OUTPUT_MAX 4096
#define QEMU_MAJOR 7
#define QEMU_MINOR 2

/* Its output, when it runs and ends well. */
static bool runs(const char *program, const char *argument, struct buf *out, struct err *err)
{
	const char *const argv[] = { program, argument, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;

	spec.argv = argv;
	return spawn_run(&spec, clock_boottime_ms() + PROGRAM_MS, out, OUTPUT_MAX, NULL, NULL,
			 err) == 0;
}

void host_check_qemu(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	int major = 0, minor = 0;
	size_t i = 0;

	while (spec->qemu[i] && access(spec->qemu[i], X_OK) < 0)
		i++;
	if (!spec->qemu[i]) {
		host_say(check, HOST_MISSING, "'%s' is not there", spec->qemu[0]);
		return;
	}
	if (!runs(spec->qemu[i], "-version", &out, &err)) {
		host_say(check, HOST_MISSING, "%s", err.message);
		return;
	}
	if (host_parse_version(buf_str(&out), &major, &minor) < 0)
		host_say(check, HOST_ADVICE, "%s does not say which version it is", spec->qemu[i]);
	else
		host_say(check,
			 major > QEMU_MAJOR || (major == QEMU_MAJOR && minor >= QEMU_MINOR)
				 ? HOST_OK
				 : HOST_ADVICE,
			 "%s, version %d.%d; %d.%d and later are known to work", spec->qemu[i],
			 major, minor, QEMU_MAJOR, QEMU_MINOR);
}

void host_check_mke2fs(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	(void)spec;
	if (runs("mke2fs", "-V", &out, &err))
		host_say(check, HOST_OK, "it makes the disks of sandboxes");
	else
		host_say(check, HOST_MISSING, "%s", err.message);
}

void host_check_image_tools(const struct host_spec *spec, struct host_check *check)
{
	static const char *const programs[][2] = {
		{ "mmdebstrap", "--version" },
		{ "mkfs.erofs", "--help" },
		{ "jq", "--version" },
	};
	_cleanup_buf_ struct buf missing = BUF_INIT;

	(void)spec;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		struct err err = ERR_INIT;

		if (!runs(programs[i][0], programs[i][1], &out, &err))
			buf_printf(&missing, "%s%s", missing.len ? "; " : "", err.message);
	}
	if (missing.len == 0)
		host_say(check, HOST_OK, "mmdebstrap, mkfs.erofs and jq are there");
	else
		host_say(check, HOST_MISSING, "%s", missing.data);
}
