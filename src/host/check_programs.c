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

struct program {
	const char *name, *argument;
};

/* Why those that do not run do not, after one another. */
static void note_missing(const struct program *programs, size_t n, struct buf *missing)
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		struct err err = ERR_INIT;

		if (!runs(programs[i].name, programs[i].argument, &out, &err))
			buf_printf(missing, "%s%s", missing->len ? "; " : "", err.message);
	}
}

void host_check_image_tools(const struct host_spec *spec, struct host_check *check)
{
	static const struct program needed[] = {
		{ "mmdebstrap", "--version" },
		{ "mkfs.erofs", "--help" },
		{ "jq", "--version" },
	};
	/* For images that were built elsewhere, and those of Dockerfiles. */
	static const struct program useful[] = {
		{ "skopeo", "--version" },
		{ "buildah", "--version" },
	};
	_cleanup_buf_ struct buf missing = BUF_INIT, wanted = BUF_INIT;

	(void)spec;
	note_missing(needed, ARRAY_SIZE(needed), &missing);
	note_missing(useful, ARRAY_SIZE(useful), &wanted);
	if (missing.len > 0)
		host_say(check, HOST_MISSING, "%s", missing.data);
	else if (wanted.len > 0)
		host_say(check, HOST_ADVICE, "no images of others can be imported or built: %s",
			 wanted.data);
	else
		host_say(check, HOST_OK,
			 "mmdebstrap, mkfs.erofs, jq, skopeo and buildah are there");
}
