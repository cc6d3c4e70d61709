/* Companions are looked for relative to the program itself, so that a build folder can be anywhere.
 */
#include "daemon/paths.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"

struct companion {
	char **at;
	const char *what, *key;
	const char *built;     /* relative to the program's folder */
	const char *installed; /* relative to the parent of the program's folder */
};

static int program_folder(char out[PATH_MAX], struct err *err)
{
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	if (len < 0)
		return err_set(err, -errno, "find the program's own path: %s", strerror(errno));
	out[len] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return err_set(err, -ENOENT, "find the program's own path: '%s' has no folder",
			       out);
	*slash = '\0';
	return 0;
}

static int find_companion(const struct companion *companion, const char *folder, struct err *err)
{
	_cleanup_free_ char *built = xasprintf("%s/%s", folder, companion->built);
	_cleanup_free_ char *installed = xasprintf("%s/../%s", folder, companion->installed);

	if (*companion->at)
		return 0;
	if (access(built, R_OK) == 0)
		*companion->at = STEAL(built);
	else if (access(installed, R_OK) == 0)
		*companion->at = STEAL(installed);
	if (*companion->at)
		return 0;
	err_set(err, -ENOENT, "%s is neither at '%s' nor at '%s'", companion->what, built,
		installed);
	err_hint(err, "build it with `make build`, or set %s in the configuration", companion->key);
	return -ENOENT;
}

static void set_default(char **at, const char *value)
{
	if (!*at)
		*at = xstrdup(value);
}

int paths_complete(struct options *options, struct err *err)
{
	const struct companion companions[] = {
		{ &options->warden, "the warden", "warden in [vm]", "skerry-warden",
		  "libexec/skerry/skerry-warden" },
		{ &options->kernel, "the guest's kernel", "kernel in [vm]", "guest/vmlinux",
		  "share/skerry/guest/vmlinux" },
		{ &options->initramfs, "the guest's initramfs", "initramfs in [vm]",
		  "guest/initramfs.cpio", "share/skerry/guest/initramfs.cpio" },
		{ &options->recipe_dir, "the folder of image recipes", "recipes in [images]",
		  "images", "share/skerry/images" },
		{ &options->importer, "the importer of images", "importer in [images]",
		  "skerry-import", "libexec/skerry/skerry-import" },
		{ &options->lib_dir, "the folder of the VMM's helpers", "lib_dir in [vm]",
		  "src/vmm", "libexec/skerry" },
	};
	char folder[PATH_MAX];
	int rc = program_folder(folder, err);

	for (size_t i = 0; rc >= 0 && i < ARRAY_SIZE(companions); i++)
		rc = find_companion(&companions[i], folder, err);
	if (rc < 0)
		return rc;
	set_default(&options->qemu, "/usr/bin/qemu-system-x86_64");
	set_default(&options->qemu_kvm, "/usr/bin/qemu-system-x86_64-microvm");
	set_default(&options->accel, "auto");
	set_default(&options->cgroup, "skerry");
	if (!options->image_dir)
		options->image_dir = xasprintf("%s/images", options->state_dir);
	return 0;
}
