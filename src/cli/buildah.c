/*
 * See buildah.h. Two calls: build, which says the image's id in a file, and push of that id into an
 * archive. What was built stays in buildah's own store, so that the next time is quicker.
 */
#include "cli/buildah.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define ID_MAX	 256
#define SAID_MAX 2000

/* What it says goes to stderr, or is kept in keep_fd (-1: no). */
static int run(const char *const *argv, int keep_fd, struct err *err)
{
	posix_spawn_file_actions_t actions;
	int out = keep_fd >= 0 ? keep_fd : STDERR_FILENO, status = 0, r;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (keep_fd >= 0)
		posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	r = -posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r == -ENOENT) {
		err_code(err, r, "program_missing", "buildah is not installed on this machine");
		err_hint(err, "install it: apt-get install buildah; or build elsewhere and use "
			      "`skerry image import`");
		return r;
	}
	if (r < 0)
		return err_set(err, r, "cannot run buildah: %s", strerror(-r));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, -EIO, "buildah %s failed", argv[1]);
}

/* The end of what was kept. */
static void show_kept(int keep_fd)
{
	char text[SAID_MAX];
	off_t size = keep_fd >= 0 ? lseek(keep_fd, 0, SEEK_END) : 0;
	ssize_t n =
		size > 0 ? pread(keep_fd, text, sizeof(text), size > SAID_MAX ? size - SAID_MAX : 0)
			 : 0;

	if (n > 0)
		(void)fd_write_all(STDERR_FILENO, text, (size_t)n);
}

static int build(const struct buildah *b, const char *id_file, int keep_fd, struct err *err)
{
	const char *argv[16];
	size_t n = 0;

	argv[n++] = "buildah";
	argv[n++] = "build";
	argv[n++] = "--layers";
	argv[n++] = "--format=oci";
	argv[n++] = "--iidfile";
	argv[n++] = id_file;
	/* A choice that needs neither a runtime nor a network bridge; who has chosen otherwise for
	 * buildah keeps that. */
	if (!getenv("BUILDAH_ISOLATION"))
		argv[n++] = "--isolation=chroot";
	if (b->file) {
		argv[n++] = "--file";
		argv[n++] = b->file;
	}
	argv[n++] = b->directory;
	argv[n] = NULL;
	return run(argv, keep_fd, err);
}

static int push(const struct buildah *b, const char *id_file, int keep_fd, struct err *err)
{
	_cleanup_buf_ struct buf id = BUF_INIT;
	_cleanup_free_ char *to = xasprintf("oci-archive:%s", b->archive);
	const char *argv[] = { "buildah", "push", "--quiet", NULL, to, NULL };
	int r = file_read(id_file, ID_MAX, &id);

	if (r < 0 || id.len == 0)
		return err_set(err, r < 0 ? r : -EIO, "buildah did not say what it built");
	id.data[strcspn(id.data, "\n")] = '\0';
	argv[3] = id.data;
	return run(argv, keep_fd, err);
}

int buildah_run(const struct buildah *b, struct err *err)
{
	_cleanup_free_ char *id_file = xasprintf("%s.id", b->archive);
	_cleanup_close_ int keep_fd = b->quiet ? memfd_create("buildah", MFD_CLOEXEC) : -1;
	int r = build(b, id_file, keep_fd, err);

	if (r == 0)
		r = push(b, id_file, keep_fd, err);
	unlink(id_file);
	if (r < 0)
		show_kept(keep_fd);
	return r;
}
