/* Room: disk, memory, descriptors, a port; and a clock that is right. */
#include <errno.h>
#include <libgen.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "host/checks.h"
#include "host/parse.h"

#define INODES_MIN	 10000
#define MEMORY_MB_MIN	 1024
#define MEMINFO_MAX	 65536
#define YEAR_2024_UNIX_S INT64_C(1704067200)

/* The state directory, or the nearest one above it that is there already. */
static char *existing_dir(const char *path)
{
	char *at = xstrdup(path);

	while (access(at, F_OK) < 0 && !str_eq(at, "/") && !str_eq(at, "."))
		dirname(at); /* cuts it in its place */
	return at;
}

void host_check_disk(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_free_ char *dir = existing_dir(spec->state_dir);
	struct statvfs fs;
	int64_t free_mb;

	if (statvfs(dir, &fs) < 0) {
		host_say(check, HOST_MISSING, "'%s': %s", dir, strerror(errno));
		return;
	}
	free_mb = (int64_t)(fs.f_bavail * fs.f_frsize / (1024 * 1024));
	host_say(check, free_mb >= spec->free_disk_mb_min ? HOST_OK : HOST_MISSING,
		 "%lld MB are free for the state, %lld MB are kept free", (long long)free_mb,
		 (long long)spec->free_disk_mb_min);
}

/* File systems that make them as they go (btrfs) say that they have none. */
void host_check_inodes(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_free_ char *dir = existing_dir(spec->state_dir);
	struct statvfs fs;

	if (statvfs(dir, &fs) < 0 || fs.f_files == 0)
		return;
	host_say(check, fs.f_favail >= INODES_MIN ? HOST_OK : HOST_MISSING,
		 "%llu are free for the state", (unsigned long long)fs.f_favail);
}

void host_check_reflink(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_free_ char *dir = existing_dir(spec->state_dir);

	if (access(dir, W_OK) < 0)
		return;
	if (dir_has_reflink(dir))
		host_say(check, HOST_OK,
			 "files share blocks: copies of disks take neither time nor room");
	else
		host_say(check, HOST_ADVICE,
			 "the file system has none: forks and snapshots copy disks");
}

/* ---- memory ---- */

int64_t host_available_mb(void)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int64_t kb;

	if (file_read("/proc/meminfo", MEMINFO_MAX, &text) < 0)
		return 0;
	kb = host_parse_meminfo(buf_str(&text), "MemAvailable");
	return kb > 0 ? kb / 1024 : 0;
}

void host_check_memory(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int64_t available_mb = host_available_mb(), swap_kb = 0;

	(void)spec;
	if (file_read("/proc/meminfo", MEMINFO_MAX, &text) == 0)
		swap_kb = host_parse_meminfo(buf_str(&text), "SwapFree");
	host_say(check, available_mb > MEMORY_MB_MIN ? HOST_OK : HOST_MISSING,
		 "%lld MB are available, and %lld MB of swap", (long long)available_mb,
		 (long long)(swap_kb > 0 ? swap_kb / 1024 : 0));
}

void host_check_overcommit(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	(void)spec;
	if (file_read("/proc/sys/vm/overcommit_memory", 64, &text) < 0)
		return;
	if (buf_str(&text)[0] == '2')
		host_say(check, HOST_ADVICE,
			 "the kernel promises no memory that it may not have (mode 2)");
	else
		host_say(check, HOST_OK, "mode %c", buf_str(&text)[0]);
}

/* ---- descriptors, clock, port ---- */

void host_check_descriptors(const struct host_spec *spec, struct host_check *check)
{
	struct rlimit limit = { 0 };
	bool enough;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	/* Root may raise it: what counts is what it can be raised to. */
	enough = limit.rlim_max >= (rlim_t)spec->descriptors_wanted;
	host_say(check, enough ? HOST_OK : HOST_ADVICE,
		 "a process may have %llu, %lld are wanted for many connections",
		 (unsigned long long)limit.rlim_max, (long long)spec->descriptors_wanted);
}

void host_check_clock(const struct host_spec *spec, struct host_check *check)
{
	struct timex state = { 0 };
	int r = adjtimex(&state);

	(void)spec;
	if (clock_unix_ms() / 1000 < YEAR_2024_UNIX_S)
		host_say(check, HOST_MISSING, "it is wrong by years");
	else if (r < 0 || (state.status & STA_UNSYNC))
		host_say(check, HOST_ADVICE,
			 "nobody says that it is right: deadlines and bills are as it goes");
	else
		host_say(check, HOST_OK, "it is synchronized");
}

void host_check_port(const struct host_spec *spec, struct host_check *check)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(spec->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	_cleanup_close_ int fd = -1;
	const int on = 1;

	if (spec->port == 0)
		return;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		host_say(check, HOST_OK, "127.0.0.1:%u is free", spec->port);
	else
		host_say(check, HOST_MISSING, "127.0.0.1:%u: %s", spec->port, strerror(errno));
}
