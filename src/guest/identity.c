/* Entropy, clock, hostname, machine-id, generation. See identity.h. */
#include "guest/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define HOSTS_MAX	(256u * 1024u)
#define GENERATION_FILE "/run/skerry/generation"
#define OWN_ADDRESS	"127.0.1.1"

/* The kernel's generator is seeded and its current keys are thrown away: two forks of one snapshot
 * give different numbers from the next byte on. */
static int add_entropy(const uint8_t entropy[PROTO_ENTROPY_LEN])
{
	/* struct rand_pool_info: entropy in bits, size in bytes, data. */
	uint32_t pool[2 + PROTO_ENTROPY_LEN / 4] = { PROTO_ENTROPY_LEN * 8, PROTO_ENTROPY_LEN };
	_cleanup_close_ int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return -errno;
	memcpy(&pool[2], entropy, PROTO_ENTROPY_LEN);
	if (ioctl(fd, RNDADDENTROPY, pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
		r = -errno;
	explicit_bzero(pool, sizeof(pool));
	return r;
}

int identity_set_clock(uint64_t unix_us)
{
	const struct timespec ts = {
		.tv_sec = (time_t)(unix_us / 1000000),
		.tv_nsec = (long)(unix_us % 1000000) * 1000,
	};

	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? -errno : 0;
}

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

/* Our line in /etc/hosts is renewed, everybody else's lines stay. */
static int write_hosts(const char *hostname)
{
	_cleanup_buf_ struct buf old = BUF_INIT;
	_cleanup_buf_ struct buf new = BUF_INIT;
	const char *line;

	if (read_text("/etc/hosts", &old) < 0 || old.len == 0) {
		buf_reset(&old);
		buf_append_str(&old,
			       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
	}
	for (line = old.data; *line;) {
		const char *newline = strchr(line, '\n');
		size_t len = newline ? (size_t)(newline - line) : strlen(line);

		if (strncmp(line, OWN_ADDRESS, strlen(OWN_ADDRESS)) != 0) {
			buf_append(&new, line, len);
			buf_append_char(&new, '\n');
		}
		line += len + (newline ? 1 : 0);
	}
	buf_printf(&new, OWN_ADDRESS " %s\n", hostname);
	return replace_file("/etc/hosts", new.data, new.len, 0644);
}

static int set_hostname(const char *hostname)
{
	size_t len = strlen(hostname);
	char line[IDENTITY_HOSTNAME_MAX + 2];
	int r;

	if (len == 0 || strspn(hostname, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		return -EINVAL;
	if (sethostname(hostname, len) < 0)
		return -errno;
	snprintf(line, sizeof(line), "%s\n", hostname);
	r = replace_file("/etc/hostname", line, len + 1, 0644);
	return r < 0 ? r : write_hosts(hostname);
}

static int set_machine_id(const char *machine_id)
{
	char line[IDENTITY_MACHINE_ID_LEN + 2];

	if (strlen(machine_id) != IDENTITY_MACHINE_ID_LEN ||
	    strspn(machine_id, "0123456789abcdef") != IDENTITY_MACHINE_ID_LEN)
		return -EINVAL;
	snprintf(line, sizeof(line), "%s\n", machine_id);
	return replace_file("/etc/machine-id", line, strlen(line), 0444);
}

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

/* In place, for those who watch the file. A link, a pipe or a directory at its path is taken away.
 */
static int set_generation(uint64_t epoch)
{
	_cleanup_close_ int fd = open_generation();
	char line[32];
	size_t len = (size_t)snprintf(line, sizeof(line), "%llu\n", (unsigned long long)epoch);

	if (fd < 0) {
		tree_remove(GENERATION_FILE);
		fd = open_generation();
	}
	if (fd < 0)
		return fd;
	/* Numbers grow: the text is never shorter than what it replaces, and is there at once. */
	if (fchmod(fd, 0444) < 0 || pwrite(fd, line, len, 0) != (ssize_t)len ||
	    ftruncate(fd, (off_t)len) < 0)
		return -errno;
	return 0;
}

static uint32_t applied(int r, uint32_t bit, const char *what)
{
	if (r == 0)
		return bit;
	log_error("cannot take a part of the identity", "part=%s errno=%d", what, -r);
	return 0;
}

uint32_t identity_apply(const struct identity *id)
{
	uint32_t bits = applied(add_entropy(id->entropy), PROTO_APPLIED_ENTROPY, "entropy");

	bits |= applied(identity_set_clock(id->unix_us), PROTO_APPLIED_CLOCK, "clock");
	bits |= applied(set_hostname(id->hostname), PROTO_APPLIED_HOSTNAME, "hostname");
	bits |= applied(set_machine_id(id->machine_id), PROTO_APPLIED_MACHINE_ID, "machine-id");
	bits |= applied(set_generation(id->epoch), PROTO_APPLIED_GENERATION, "generation");
	return bits;
}
