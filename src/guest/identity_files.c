/*
 * The files of an identity. See identity_files.h.
 *
 * Theory of operation. The hand-over of an identity is on the way of every restore, and under
 * emulation it is the code it touches that costs: QEMU translates each piece when it is first run.
 * Replacing three files through overlay and ext4 was two thirds of all code that a restored guest
 * ran before its first answer, some 10000 pieces or 130 ms. So the files lie in a tmpfs, and those
 * of /etc are links to them. The agent has them mapped, and the first identity is written by
 * storing into memory.
 *
 * Only the first: commands have run since, and root can have put anything in the place of the
 * links, the files or the directories. Later identities, those of forks and of what was paused,
 * look at what is there: a file that is still ours is overwritten, anything else is replaced.
 * Commands that the host runs before it gives an identity are its own (core/warm_up.c).
 *
 * They are links, not bind mounts: programs that replace /etc/hosts by renaming (sed -i) can.
 */
#include "guest/identity_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define DIRECTORY	"/run/skerry/identity"
#define GENERATION_FILE "/run/skerry/generation"
#define PAGE		4096u
#define HOSTS_MAX	(256u * 1024u)
#define OWN_ADDRESS	"127.0.1.1"
/* As long as the name of a sandbox that was given none: the files need not be resized then. */
#define USUAL_NAME   "skerry-not-named"
#define LINE_MAX_LEN 128u /* of what we write: names of at most 64 characters, and some */

static const struct place {
	const char *path; /* where it is looked for */
	const char *own;  /* where it is */
	mode_t mode;
	const char *first; /* until there is an identity: as long as most */
} places[IDENTITY_NAMES] = {
	[IDENTITY_HOSTNAME] = { "/etc/hostname", DIRECTORY "/hostname", 0644, USUAL_NAME "\n" },
	[IDENTITY_HOSTS] = { "/etc/hosts", DIRECTORY "/hosts", 0644,
			     OWN_ADDRESS " " USUAL_NAME "\n" },
	[IDENTITY_MACHINE_ID] = { "/etc/machine-id", DIRECTORY "/machine-id", 0444,
				  "00000000000000000000000000000000\n" },
	[IDENTITY_GENERATION] = { GENERATION_FILE, GENERATION_FILE, 0444, "0\n" },
};

/* A line put together without stdio, whose code would have to be translated too. */
struct line {
	char text[LINE_MAX_LEN];
	size_t len;
};

static void line_add(struct line *line, const char *text)
{
	size_t len = strlen(text), room = sizeof(line->text) - line->len;

	if (len > room)
		len = room;
	memcpy(line->text + line->len, text, len);
	line->len += len;
}

static void line_add_number(struct line *line, uint64_t number)
{
	char digits[24];
	char *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do {
		*--at = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	line_add(line, at);
}

/* ---- the short way: what nobody has touched ---- */

static int file_store(struct identity_file *file, size_t offset, const struct line *line)
{
	size_t len = offset + line->len;

	if (len > PAGE)
		return -EFBIG;
	if (len != file->len && ftruncate(file->fd, (off_t)len) < 0)
		return -errno;
	file->len = len;
	memcpy(file->page + offset, line->text, line->len);
	return 0;
}

/* ---- the long way: whatever may stand there now ---- */

/* A file of the guest that should be a small text: never waits on a pipe put in its place. */
static int read_text(const char *path, struct buf *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > HOSTS_MAX)
		return -EINVAL;
	buf_reserve(out, (size_t)st.st_size);
	n = fd_read_full(fd, out->data + out->len, (size_t)st.st_size);
	if (n < 0)
		return (int)n;
	out->len += (size_t)n;
	out->data[out->len] = '\0';
	return 0;
}

/* Does the file hold this text already? So it is after a pause, and the first write after a restore
 * costs an emulated guest many milliseconds: all the code on its way has to be translated anew. */
static bool has_text(const char *path, const char *text, size_t len, mode_t mode)
{
	_cleanup_buf_ struct buf now = BUF_INIT;
	struct stat st;

	return lstat(path, &st) == 0 && (st.st_mode & 07777) == mode && st.st_uid == 0 &&
	       read_text(path, &now) == 0 && now.len == len && memcmp(now.data, text, len) == 0;
}

/* Replaces a file by another one at once. Whatever stands at the path (a link, a pipe) is replaced
 * and not followed. No fsync: an identity is applied again after every boot. */
static int replace_file(const char *path, const char *text, size_t len, mode_t mode)
{
	char temporary[256];
	int fd, r;

	snprintf(temporary, sizeof(temporary), "%s.skerry-new", path);
	if (has_text(path, text, len, mode))
		return 0;
	unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = fchmod(fd, mode) < 0 ? -errno : fd_write_all(fd, text, len);
	close(fd);
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

/* Does the path still lead to the file that we made? */
static bool is_ours(const struct identity_file *file, const struct place *place)
{
	struct stat ours, there;

	return file->fd >= 0 && fstat(file->fd, &ours) == 0 && ours.st_nlink == 1 &&
	       stat(place->path, &there) == 0 && there.st_ino == ours.st_ino &&
	       there.st_dev == ours.st_dev;
}

static int overwrite(int fd, const char *text, size_t len, mode_t mode)
{
	if (fchmod(fd, mode) < 0 || pwrite(fd, text, len, 0) != (ssize_t)len ||
	    ftruncate(fd, (off_t)len) < 0)
		return -errno;
	return 0;
}

static int set_text(struct identity_files *files, enum identity_name name, const char *text,
		    size_t len)
{
	const struct identity_file *file = &files->file[name];
	const struct place *place = &places[name];

	return is_ours(file, place) ? overwrite(file->fd, text, len, place->mode)
				    : replace_file(place->path, text, len, place->mode);
}

static int set_line(struct identity_files *files, enum identity_name name, const struct line *line)
{
	if (files->untouched)
		return file_store(&files->file[name], 0, line);
	return set_text(files, name, line->text, line->len);
}

/* ---- hosts: ours is one line of it ---- */

/* Everybody else's lines. */
static void copy_hosts(const char *path, struct buf *out)
{
	_cleanup_buf_ struct buf old = BUF_INIT;

	if (read_text(path, &old) < 0 || old.len == 0) {
		buf_reset(&old);
		buf_append_str(&old,
			       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
	}
	for (const char *line = old.data; *line;) {
		const char *newline = strchr(line, '\n');
		size_t len = newline ? (size_t)(newline - line) : strlen(line);

		if (strncmp(line, OWN_ADDRESS, strlen(OWN_ADDRESS)) != 0) {
			buf_append(out, line, len);
			buf_append_char(out, '\n');
		}
		line += len + (newline ? 1 : 0);
	}
}

static int set_hosts(struct identity_files *files, const char *hostname)
{
	const struct place *place = &places[IDENTITY_HOSTS];
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct line line = { .len = 0 };

	line_add(&line, OWN_ADDRESS " ");
	line_add(&line, hostname);
	line_add(&line, "\n");
	if (files->untouched)
		return file_store(&files->file[IDENTITY_HOSTS], files->hosts_own, &line);
	copy_hosts(is_ours(&files->file[IDENTITY_HOSTS], place) ? place->own : place->path, &text);
	buf_append(&text, line.text, line.len);
	return set_text(files, IDENTITY_HOSTS, text.data, text.len);
}

int identity_files_hostname(struct identity_files *files, const char *hostname)
{
	struct line line = { .len = 0 };
	int r;

	line_add(&line, hostname);
	line_add(&line, "\n");
	r = set_line(files, IDENTITY_HOSTNAME, &line);
	return r < 0 ? r : set_hosts(files, hostname);
}

int identity_files_machine_id(struct identity_files *files, const char *machine_id)
{
	struct line line = { .len = 0 };

	line_add(&line, machine_id);
	line_add(&line, "\n");
	return set_line(files, IDENTITY_MACHINE_ID, &line);
}

/* ---- generation: written in place, for those who watch the file ---- */

static int open_generation(void)
{
	int fd = open(GENERATION_FILE, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC,
		      0444);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

int identity_files_generation(struct identity_files *files, uint64_t epoch)
{
	_cleanup_close_ int fd = -1;
	struct line line = { .len = 0 };

	line_add_number(&line, epoch);
	line_add(&line, "\n");
	if (files->untouched) /* so nobody watches */
		return file_store(&files->file[IDENTITY_GENERATION], 0, &line);
	fd = open_generation();
	if (fd < 0) {
		/* A link, a pipe or a directory at its path is taken away. */
		tree_remove(GENERATION_FILE);
		fd = open_generation();
	}
	if (fd < 0)
		return fd;
	/* Numbers grow: the text is never shorter than what it replaces, and is there at once. */
	return overwrite(fd, line.text, line.len, places[IDENTITY_GENERATION].mode);
}

/* ---- making them ---- */

static int file_make(struct identity_file *file, const struct place *place, const char *text,
		     size_t len)
{
	void *page;

	if (len > PAGE)
		return -EFBIG;
	file->fd = open(place->own, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, place->mode);
	if (file->fd < 0 || fchmod(file->fd, place->mode) < 0)
		return -errno;
	if (pwrite(file->fd, text, len, 0) != (ssize_t)len)
		return -EIO;
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	file->page = page;
	file->len = len;
	if (str_eq(place->path, place->own))
		return 0;
	unlink(place->path);
	return symlink(place->own, place->path) < 0 ? -errno : 0;
}

void identity_files_make(struct identity_files *files)
{
	_cleanup_buf_ struct buf hosts = BUF_INIT;
	int r = dir_make(DIRECTORY, 0755);

	for (int i = 0; i < IDENTITY_NAMES; i++)
		files->file[i].fd = -1;
	copy_hosts(places[IDENTITY_HOSTS].path, &hosts);
	files->hosts_own = hosts.len;
	buf_append_str(&hosts, places[IDENTITY_HOSTS].first);
	for (int i = 0; i < IDENTITY_NAMES && r == 0; i++) {
		const char *text = i == IDENTITY_HOSTS ? buf_str(&hosts) : places[i].first;

		r = file_make(&files->file[i], &places[i], text, strlen(text));
		if (r < 0)
			log_error("cannot make a file of the identity", "path=%s errno=%d",
				  places[i].path, -r);
	}
	files->untouched = r == 0;
}
