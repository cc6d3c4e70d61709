/*
 * What the makers of images have in common: the lock, the program, and putting in place what it
 * made.
 *
 * The program prints "progress PERCENT WHAT" lines and, last, "digest sha256:…", or "error {…}". It
 * writes into a temporary name in DIR/blobs; a rename makes it a blob, and then the manifest is
 * replaced. Killed before the rename, it leaves temporary files, which the next maker, or the next
 * start of a daemon, removes.
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
#define STOP_GRACE_MS	 5000
#define LINE_MAX_BYTES	 (64 * 1024)
#define RECORD_MAX	 (256 * 1024)
#define TEMPORARY_PREFIX ".tmp-"
#define ERROR_PREFIX	 "error "

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

/* An err's code is of static storage: of those that a maker may give. */
static const char *known_code(const char *code)
{
	static const char *const known[] = { "image_refused",	    "image_too_large",
					     "image_source_failed", "program_missing",
					     "disk_full",	    "invalid_argument" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(code, known[i]))
			return known[i];
	return "image_build_failed";
}

static int relay_error(const char *text, struct err *err)
{
	_cleanup_json_ json_t *error = NULL;
	int r = json_parse(text, strlen(text), &error, err);

	if (r < 0)
		return err_wrap(err, r, "what the program says of its failure");
	r = err_code(err, -EIO, known_code(json_get_str(error, "code", "")), "%s",
		     json_get_str(error, "message", "it does not say why"));
	err_hint(err, "%s", json_get_str(error, "hint", ""));
	return r;
}

/* SIGTERM lets the script take its temporary files along. */
static void stop_script(struct child *child)
{
	int status;

	kill(child->pid, SIGTERM);
	child_wait(child, clock_boottime_ms() + STOP_GRACE_MS, &status);
	child_kill(child);
}

int image_run(const char *const *argv, int64_t deadline_boottime_ms, image_progress_fn progress,
	      void *arg, struct buf *last_line, struct err *err)
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
		if (str_starts(buf_str(last_line), ERROR_PREFIX))
			return relay_error(buf_str(last_line) + strlen(ERROR_PREFIX), err);
		stderr_tail(log_fd, tail, sizeof(tail));
		return err_code(err, -EIO, "image_build_failed", "'%s' failed: %s", argv[0], tail);
	}
	return 0;
}

/* ---- what is made, and its place ---- */

/* Under the lock, what has a temporary name belongs to a build that died. */
static void remove_leftovers(const struct image_store *store)
{
	_cleanup_free_ char *blobs = xasprintf("%s/blobs", store->dir);
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

void image_clean(struct image_store *store)
{
	_cleanup_close_ int lock = image_lock(store, 0, NULL, NULL, NULL);

	if (lock >= 0)
		remove_leftovers(store);
}

void image_making_begin(struct image_making *m, struct image_store *store, const char *name)
{
	char random[17];

	remove_leftovers(store);
	rand_hex(random, sizeof(random) - 1);
	m->store = store;
	m->name = name;
	m->temporary = xasprintf("%s/blobs/" TEMPORARY_PREFIX "%s.erofs", store->dir, random);
	m->record = xasprintf("%s.json", m->temporary);
	m->work = xasprintf("%s.work", m->temporary);
}

void image_making_clear(struct image_making *m)
{
	if (m->temporary) {
		unlink(m->temporary);
		unlink(m->record);
		tree_remove(m->work);
	}
	free(m->temporary);
	free(m->record);
	free(m->work);
}

int image_making_record(const struct image_making *m, json_t **ret, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read(m->record, RECORD_MAX, &text);

	if (r < 0)
		return err_set(err, r, "read what was made of the image: %s", strerror(-r));
	r = json_parse(text.data, text.len, ret, err);
	return r < 0 ? err_wrap(err, r, "what was made of the image") : 0;
}

static int write_manifest(const struct image_making *m, json_t *manifest, const char *digest,
			  int64_t size_bytes, struct err *err)
{
	_cleanup_free_ char *path = image_manifest_path(m->store, m->name);
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r;

	json_put_str(manifest, "name", m->name);
	json_put_str(manifest, "digest", digest);
	json_put_int(manifest, "size_bytes", size_bytes);
	json_put_int(manifest, "created_unix_ms", clock_unix_ms());
	json_write(manifest, &text);
	r = file_write_durable(path, text.data, text.len, 0644);
	return r < 0 ? err_set(err, r, "write '%s': %s", path, strerror(-r)) : 0;
}

/* The temporary file becomes a blob, then the manifest names it. */
static int install(const struct image_making *m, const char *digest, json_t *manifest,
		   struct err *err)
{
	_cleanup_free_ char *blob = image_blob_path(m->store, digest);
	_cleanup_free_ char *blobs = xasprintf("%s/blobs", m->store->dir);
	_cleanup_json_ json_t *before = NULL;
	const char *old_digest;
	struct stat st;
	int r;

	if (chmod(m->temporary, 0444) < 0 || stat(m->temporary, &st) < 0 ||
	    rename(m->temporary, blob) < 0)
		return err_set(err, -errno, "put the image in place as '%s': %s", blob,
			       strerror(errno));
	dir_fsync(blobs);
	image_read_manifest(m->store, m->name, &before, NULL);
	r = write_manifest(m, manifest, digest, st.st_size, err);
	if (r < 0)
		return r;
	old_digest = before ? json_get_str(before, "digest", "") : "";
	if (image_digest_valid(old_digest) && !str_eq(old_digest, digest))
		return image_drop_blob_if_unused(m->store, old_digest, err);
	return 0;
}

int image_making_install(const struct image_making *m, const struct buf *last_line,
			 json_t *manifest, struct err *err)
{
	const char *digest = buf_str(last_line);

	if (!str_starts(digest, "digest ") || !image_digest_valid(digest + 7))
		return err_set(err, -EPROTO, "the digest of what was made was not said");
	return install(m, digest + 7, manifest, err);
}
