#include "base/process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#define STAT_MAX 4096

static int64_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int64_t n = -3; /* itself, and the two dots */

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

int process_usage(struct process_usage *ret)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	const double ticks = (double)sysconf(_SC_CLK_TCK);
	unsigned long long user, kernel, start;
	long threads, pages;
	struct rlimit limit = { 0 };
	const char *brace;
	int r = file_read("/proc/self/stat", STAT_MAX, &text);

	if (r < 0)
		return r;
	brace = strrchr(buf_str(&text), ')'); /* the name before it may hold anything */
	/* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	if (!brace || sscanf(brace + 1,
			     " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
			     "%*d %ld %*d %llu %*u %ld",
			     &user, &kernel, &threads, &start, &pages) != 5)
		return -EBADMSG;
	getrlimit(RLIMIT_NOFILE, &limit);
	*ret = (struct process_usage){
		.cpu_seconds = (double)(user + kernel) / ticks,
		.resident_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.open_fds = count_fds(),
		.max_fds = (int64_t)limit.rlim_cur,
		.threads = threads,
		.start_unix_seconds = (double)(clock_unix_ms() - clock_boottime_ms()) / 1000 +
				      (double)start / ticks,
	};
	return 0;
}
