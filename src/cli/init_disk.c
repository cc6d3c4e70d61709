/*
 * A file system with reflink for the state directory.
 *
 * A fork or a snapshot copies a disk in no time where files can share blocks. Where the file system
 * of the state directory cannot (ext4), an XFS image beside it can be mounted there: STATE.xfs,
 * sparse, so that it takes what is stored. It is made under another name and renamed when it is
 * whole: what bears the name can be mounted.
 *
 * State that is there already is never covered by a mount.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/init_steps.h"

#define GB	      ((int64_t)1 << 30)
#define SIZE_GB_MIN   10 /* of one that is made unasked */
#define MOUNTINFO_MAX (16u << 20)

DEFINE_CLEANUP(DIR *, closedirp, closedir);

int init_state_dir(const struct init *init, struct init_result *ret, struct err *err)
{
	struct stat st;
	int r;

	if (lstat(init->state_dir, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR, "'%s' is there and no directory", init->state_dir);
	ret->outcome = access(init->state_dir, F_OK) == 0 ? INIT_ALREADY : INIT_DONE;
	r = dir_make(init->state_dir, 0700);
	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", init->state_dir,
			       strerror(-r));
	buf_append_str(&ret->detail, init->state_dir);
	if (ret->outcome == INIT_DONE)
		buf_printf(&ret->undo, "rmdir '%s'\n", init->state_dir);
	return 0;
}

/* ---- looking ---- */

static bool is_empty(const char *path)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			return false;
	}
	return dir != NULL;
}

static bool is_mount_point(const char *path)
{
	_cleanup_free_ char *parent = xasprintf("%s/..", path);
	struct stat here, above;

	return stat(path, &here) == 0 && stat(parent, &above) == 0 && here.st_dev != above.st_dev;
}

static bool is_xfs_image(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char magic[4];

	return fd >= 0 && fd_read_full(fd, magic, sizeof(magic)) == sizeof(magic) &&
	       memcmp(magic, "XFSB", sizeof(magic)) == 0;
}

static int free_gb(const char *path, int64_t *ret_gb, struct err *err)
{
	struct statvfs fs;

	if (statvfs(path, &fs) < 0)
		return err_set(err, -errno, "look at the file system of '%s': %s", path,
			       strerror(errno));
	*ret_gb = (int64_t)(fs.f_bavail * fs.f_frsize) / GB;
	return 0;
}

/* Three quarters of the room, unless it was said: the image takes it as it fills. */
static int choose_size(const struct init *init, int64_t *ret_gb, struct err *err)
{
	int64_t room_gb = 0;
	int r = free_gb(init->state_dir, &room_gb, err);

	if (r < 0)
		return r;
	*ret_gb = init->size_gb ? init->size_gb : room_gb / 4 * 3;
	if (*ret_gb <= room_gb && (init->size_gb || *ret_gb >= SIZE_GB_MIN))
		return 0;
	err_code(err, -ENOSPC, "disk_full",
		 "there is no room for an image of %" PRId64 " GB beside '%s': %" PRId64
		 " GB are free",
		 *ret_gb > SIZE_GB_MIN || init->size_gb ? *ret_gb : SIZE_GB_MIN, init->state_dir,
		 room_gb);
	err_hint(err, "make room, or give --size-gb or another --state-dir");
	return -ENOSPC;
}

static int refuse_in_use(const struct init *init, struct err *err)
{
	err_set(err, -ENOTEMPTY, "'%s' is not empty, and a mount would hide what is in it",
		init->state_dir);
	err_hint(err,
		 "stop skerryd, destroy its sandboxes or move the directory's content aside, run "
		 "`skerry init` and move it back");
	return -ENOTEMPTY;
}

/* ---- making ---- */

static int make_image(const char *image, int64_t size_gb, struct err *err)
{
	_cleanup_free_ char *draft = xasprintf("%s.new", image);
	const char *const argv[] = { "mkfs.xfs", "-q",	   "-f",  "-m", "reflink=1",
				     "-L",	 "skerry", draft, NULL };
	_cleanup_close_ int fd =
		open(draft, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0 || ftruncate(fd, size_gb * GB) < 0)
		return err_set(err, -errno, "make '%s': %s", draft, strerror(errno));
	r = init_run(argv, NULL, err);
	if (r == -ENOENT)
		err_hint(err, "install xfsprogs");
	if (r == 0 && (fsync(fd) < 0 || rename(draft, image) < 0))
		r = err_set(err, -errno, "finish '%s': %s", image, strerror(errno));
	if (r < 0)
		unlink(draft);
	return r;
}

static int make_and_mount(const struct init *init, const char *image, struct init_result *ret,
			  struct err *err)
{
	bool had = is_xfs_image(image);
	int64_t size_gb = 0;
	int r = 0;

	if (!had && access(image, F_OK) == 0)
		return err_set(err, -EEXIST, "'%s' is there and no XFS image", image);
	if (!had)
		r = choose_size(init, &size_gb, err);
	if (r == 0 && !had)
		r = make_image(image, size_gb, err);
	if (r == 0)
		r = init_mount(image, init->state_dir, init->boot, &ret->undo, err);
	if (r < 0)
		return r;
	buf_printf(&ret->undo, "rm '%s'\n", image);
	if (!dir_has_reflink(init->state_dir))
		return err_set(err, -EIO, "'%s' is mounted on '%s' and still has no reflink", image,
			       init->state_dir);
	/* The image's own root directory is everybody's to read. */
	if (chmod(init->state_dir, 0700) < 0)
		return err_set(err, -errno, "chmod '%s': %s", init->state_dir, strerror(errno));
	ret->outcome = INIT_DONE;
	buf_printf(&ret->detail, "%s is mounted on %s: XFS with reflink", image, init->state_dir);
	if (!had)
		buf_printf(&ret->detail, ", up to %" PRId64 " GB", size_gb);
	return 0;
}

static bool is_wanted(const struct init *init, const char *image)
{
	_cleanup_buf_ struct buf question = BUF_INIT;

	if (init->reflink != INIT_REFLINK_AUTO)
		return init->reflink == INIT_REFLINK_YES;
	if (access(image, F_OK) == 0) /* was said earlier */
		return true;
	buf_printf(&question,
		   "The file system of %s cannot share blocks between files, so that a fork or a\n"
		   "snapshot has to copy its sandbox's disk. An XFS image, %s,\n"
		   "can be mounted there now and at every boot. Make it?",
		   init->state_dir, image);
	return init_wants(init, buf_str(&question));
}

int init_file_system(const struct init *init, struct init_result *ret, struct err *err)
{
	_cleanup_free_ char *image = xasprintf("%s.xfs", init->state_dir);

	if (dir_has_reflink(init->state_dir)) {
		ret->outcome = INIT_ALREADY;
		buf_printf(&ret->detail, "that of %s has reflink", init->state_dir);
		return 0;
	}
	if (!is_wanted(init, image)) {
		ret->outcome = INIT_SKIPPED;
		buf_printf(&ret->detail,
			   "that of %s has no reflink: forks and snapshots copy disks; "
			   "--reflink=yes mounts one that has",
			   init->state_dir);
		return 0;
	}
	if (is_mount_point(init->state_dir))
		return err_set(err, -EBUSY,
			       "'%s' is a mount of its own, whose file system has no reflink",
			       init->state_dir);
	if (!is_empty(init->state_dir))
		return refuse_in_use(init, err);
	return make_and_mount(init, image, ret, err);
}
