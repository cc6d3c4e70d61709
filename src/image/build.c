/*
 * Building an image: the recipe script runs in a child process under the directory's lock.
 *
 * The script (images/build-root) prints "progress PERCENT WHAT" lines and, last, "digest sha256:…".
 * It writes into a temporary name in DIR/blobs; a rename makes it a blob, and then the manifest is
 * replaced. Killed before the rename, a build leaves a temporary file, which the next build
 * removes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "image/internal.h"
#include "loop/spawn.h"

#define LOCK_POLL_MS	 200
#define KEY_DEADLINE_MS	 30000
#define STOP_GRACE_MS	 5000
#define LINE_MAX_BYTES	 (64 * 1024)
#define CONFIG_MAX	 (64 * 1024)
#define TEMPORARY_PREFIX ".tmp-"

DEFINE_CLEANUP(DIR *, closedirp, closedir);

int image_lock(struct image_store *store, int64_t deadline_boottime_ms, image_progress_fn progress,
	       void *arg, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/lock", store->dir);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool said = false;

	if (fd < 0)
		return err_set(err, -errno, "open '%s': %s", path, strerror(errno));
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, -errno, "lock '%s': %s", path, strerror(errno));
		if (clock_remaining_ms(deadline_boottime_ms) == 0) {
			err_code(err, -ETIMEDOUT, "image_busy",
				 "another image is being built or removed");
			err_hint(err, "try again when it is done");
			return -ETIMEDOUT;
		}
		if (progress && !said)
			progress(arg, 0, "waiting for another build");
		said = true;
		poll(NULL, 0, LOCK_POLL_MS);
	}
	return STEAL_FD(fd);
}

/* ---- running the script ---- */

/* "progress 40 installing packages" */
static void relay_progress(const char *line, image_progress_fn progress, void *arg)
{
	char *end;
	long percent;

	if (!str_starts(line, "progress ") || !progress)
		return;
	percent = strtol(line + 9, &end, 10);
	if (end == line + 9 || *end != ' ' || percent < 0 || percent > 100)
		return;
	progress(arg, (int)percent, end + 1);
}

/* Reads the script's standard output to its end: relays progress, keeps the last line. */
static int read_script(int fd, int64_t deadline_boottime_ms, image_progress_fn progress, void *arg,
		       struct buf *last_line)
{
	_cleanup_buf_ struct buf in = BUF_INIT;
	char chunk[4096];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char *newline;
		ssize_t n;

		if (poll(&p, 1, clock_remaining_ms(deadline_boottime_ms)) == 0)
			return -ETIMEDOUT;
		n = read(fd, chunk, sizeof(chunk));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			buf_append(&in, chunk, (size_t)n);
		while (in.len > 0 && (newline = memchr(in.data, '\n', in.len))) {
			*newline = '\0';
			relay_progress(in.data, progress, arg);
			buf_reset(last_line);
			buf_append_str(last_line, in.data);
			buf_drop_front(&in, (size_t)(newline - in.data) + 1);
		}
		if (in.len > LINE_MAX_BYTES)
			return -EMSGSIZE;
	}
}

/* The last lines of what the script wrote to standard error, on one line. */
static void stderr_tail(int fd, char *out, size_t out_size)
{
	off_t size = lseek(fd, 0, SEEK_END);
	off_t from = size > (off_t)out_size ? size - (off_t)out_size + 1 : 0;
	ssize_t n = pread(fd, out, out_size - 1, from);

	out[n > 0 ? n : 0] = '\0';
	for (char *c = out; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
}

/* SIGTERM lets the script take its temporary files along. */
static void stop_script(struct child *child)
{
	int status;

	kill(child->pid, SIGTERM);
	child_wait(child, clock_boottime_ms() + STOP_GRACE_MS, &status);
	child_kill(child);
}

static int run_script(const char *const *argv, int64_t deadline_boottime_ms,
		      image_progress_fn progress, void *arg, struct buf *last_line, struct err *err)
{
	_cleanup_close_ int log_fd = memfd_create("build-log", MFD_CLOEXEC);
	_cleanup_close_ int read_fd = -1;
	_cleanup_close_ int write_fd = -1;
	_cleanup_(child_kill) struct child child = { .pid = -1, .pidfd = -1 };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	int pipe_fds[2], status = 0, r;
	char tail[600];

	if (log_fd < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make a pipe: %s", strerror(errno));
	read_fd = pipe_fds[0];
	write_fd = pipe_fds[1];
	spec.argv = argv;
	spec.stdout_fd = write_fd;
	spec.stderr_fd = log_fd;
	spec.parent_death_signal = SIGTERM;
	r = spawn(&spec, &child, err);
	if (r < 0)
		return r;
	close(STEAL_FD(write_fd));
	r = read_script(read_fd, deadline_boottime_ms, progress, arg, last_line);
	if (r == 0)
		r = child_wait(&child, deadline_boottime_ms, &status);
	if (r < 0) {
		stop_script(&child);
		return err_set(err, r, "'%s' %s", argv[0],
			       r == -ETIMEDOUT ? "did not end in time" : strerror(-r));
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		stderr_tail(log_fd, tail, sizeof(tail));
		return err_code(err, -EIO, "image_build_failed", "'%s' failed: %s", argv[0], tail);
	}
	return 0;
}

/* ---- building ---- */

struct build {
	struct image_store *store;
	const char *name;
	char *script;
	char *recipe;
	char recipe_key[129];
	char *temporary; /* in DIR/blobs, ends in .erofs; the script writes ….json beside it */
	char *temporary_config;
	int64_t deadline_boottime_ms;
	image_progress_fn progress;
	void *arg;
};

static void build_clear(struct build *build)
{
	if (build->temporary)
		unlink(build->temporary);
	if (build->temporary_config)
		unlink(build->temporary_config);
	free(build->script);
	free(build->recipe);
	free(build->temporary);
	free(build->temporary_config);
}

static int recipe_not_found(struct image_store *store, const char *name, struct err *err)
{
	_cleanup_(closedirp) DIR *dir = opendir(store->recipe_dir);
	_cleanup_buf_ struct buf names = BUF_INIT;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);

		if (len > 7 && str_eq(entry->d_name + len - 7, ".recipe"))
			buf_printf(&names, "%s%.*s", names.len ? ", " : "", (int)(len - 7),
				   entry->d_name);
	}
	err_code(err, -ENOENT, "recipe_not_found", "no recipe for an image '%.*s'", IMAGE_NAME_MAX,
		 name);
	err_hint(err, "there are recipes in '%s' for: %s", store->recipe_dir,
		 names.len ? buf_str(&names) : "none");
	return -ENOENT;
}

static int find_recipe(struct build *build, struct err *err)
{
	const char *argv[] = { NULL, "--key", NULL, NULL };
	_cleanup_buf_ struct buf key = BUF_INIT;
	int r;

	if (!image_name_valid(build->name))
		return recipe_not_found(build->store, build->name, err);
	build->script = xasprintf("%s/build-root", build->store->recipe_dir);
	build->recipe = xasprintf("%s/%s.recipe", build->store->recipe_dir, build->name);
	if (access(build->recipe, R_OK) < 0)
		return recipe_not_found(build->store, build->name, err);
	argv[0] = build->script;
	argv[2] = build->recipe;
	r = run_script(argv, clock_boottime_ms() + KEY_DEADLINE_MS, NULL, NULL, &key, err);
	if (r < 0)
		return r;
	if (key.len == 0 || !str_copy(build->recipe_key, sizeof(build->recipe_key), key.data))
		return err_set(err, -EPROTO, "'%s --key' printed no key", build->script);
	return 0;
}

static bool already_built(const struct build *build, struct image_info *ret)
{
	_cleanup_json_ json_t *manifest = NULL;

	if (image_read_manifest(build->store, build->name, &manifest, NULL) < 0)
		return false;
	if (!str_eq(json_get_str(manifest, "recipe_key", ""), build->recipe_key))
		return false;
	return image_get(build->store, build->name, ret, NULL) == 0;
}

/* Under the lock, what has a temporary name belongs to a build that died. */
static void remove_leftovers(const struct build *build)
{
	_cleanup_free_ char *blobs = xasprintf("%s/blobs", build->store->dir);
	_cleanup_(closedirp) DIR *dir = opendir(blobs);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *path = NULL;

		if (!str_starts(entry->d_name, TEMPORARY_PREFIX))
			continue;
		path = xasprintf("%s/%s", blobs, entry->d_name);
		log_info("left-over of an image build removed", "path=%s", path);
		tree_remove(path);
	}
}

static int read_config(const struct build *build, json_t **ret, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read(build->temporary_config, CONFIG_MAX, &text);

	if (r < 0)
		return err_set(err, r, "read the image's configuration: %s", strerror(-r));
	r = json_parse(text.data, text.len, ret, err);
	return r < 0 ? err_wrap(err, r, "the image's configuration") : 0;
}

static int write_manifest(const struct build *build, const char *digest, int64_t size_bytes,
			  struct err *err)
{
	_cleanup_json_ json_t *manifest = json_object();
	_cleanup_free_ char *path = image_manifest_path(build->store, build->name);
	_cleanup_buf_ struct buf text = BUF_INIT;
	json_t *config = NULL;
	int r = read_config(build, &config, err);

	if (r < 0)
		return r;
	json_put_str(manifest, "name", build->name);
	json_put_str(manifest, "digest", digest);
	json_put_str(manifest, "recipe_key", build->recipe_key);
	json_put_int(manifest, "size_bytes", size_bytes);
	json_put_int(manifest, "created_unix_ms", clock_unix_ms());
	json_put(manifest, "config", config);
	json_write(manifest, &text);
	r = file_write_durable(path, text.data, text.len, 0644);
	return r < 0 ? err_set(err, r, "write '%s': %s", path, strerror(-r)) : 0;
}

/* The temporary file becomes a blob, then the manifest names it. */
static int install(const struct build *build, const char *digest, struct err *err)
{
	_cleanup_free_ char *blob = image_blob_path(build->store, digest);
	_cleanup_free_ char *blobs = xasprintf("%s/blobs", build->store->dir);
	_cleanup_json_ json_t *before = NULL;
	const char *old_digest;
	struct stat st;
	int r;

	if (chmod(build->temporary, 0444) < 0 || stat(build->temporary, &st) < 0 ||
	    rename(build->temporary, blob) < 0)
		return err_set(err, -errno, "put the image in place as '%s': %s", blob,
			       strerror(errno));
	dir_fsync(blobs);
	image_read_manifest(build->store, build->name, &before, NULL);
	r = write_manifest(build, digest, st.st_size, err);
	if (r < 0)
		return r;
	old_digest = before ? json_get_str(before, "digest", "") : "";
	if (image_digest_valid(old_digest) && !str_eq(old_digest, digest))
		return image_drop_blob_if_unused(build->store, old_digest, err);
	return 0;
}

static int build_locked(struct build *build, struct err *err)
{
	const char *argv[] = { build->script, build->recipe, NULL, NULL };
	_cleanup_buf_ struct buf last_line = BUF_INIT;
	char random[17];
	const char *digest;
	int r;

	remove_leftovers(build);
	rand_hex(random, sizeof(random) - 1);
	build->temporary =
		xasprintf("%s/blobs/" TEMPORARY_PREFIX "%s.erofs", build->store->dir, random);
	build->temporary_config = xasprintf("%s.json", build->temporary);
	argv[2] = build->temporary;
	r = run_script(argv, build->deadline_boottime_ms, build->progress, build->arg, &last_line,
		       err);
	if (r < 0)
		return r;
	digest = buf_str(&last_line);
	if (!str_starts(digest, "digest ") || !image_digest_valid(digest + 7))
		return err_set(err, -EPROTO, "'%s' did not print the digest of what it built",
			       build->script);
	return install(build, digest + 7, err);
}

int image_build(struct image_store *store, const char *name, bool rebuild,
		int64_t deadline_boottime_ms, image_progress_fn progress, void *arg,
		struct image_info *ret, struct err *err)
{
	_cleanup_(build_clear) struct build build = {
		.store = store,
		.name = name,
		.deadline_boottime_ms = deadline_boottime_ms,
		.progress = progress,
		.arg = arg,
	};
	_cleanup_close_ int lock = -1;
	int r = find_recipe(&build, err);

	if (r < 0)
		return r;
	lock = image_lock(store, deadline_boottime_ms, progress, arg, err);
	if (lock < 0)
		return lock;
	if (!rebuild && already_built(&build, ret))
		return 0;
	r = build_locked(&build, err);
	if (r < 0)
		return err_wrap(err, r, "build image '%s'", name);
	return image_get(store, name, ret, err);
}
