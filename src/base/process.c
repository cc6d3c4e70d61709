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

int process_stat_parse(const char *text, struct process_stat *ret)
{
	unsigned long long user, kernel, start;
	long threads, pages;
	/* The name in the second field may hold anything: fields are counted from its last brace.
	 */
	const char *brace = strrchr(text, ')');

	/* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	if (!brace || sscanf(brace + 1,
			     " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
			     "%*d %ld %*d %llu %*u %ld",
			     &user, &kernel, &threads, &start, &pages) != 5)
		return -EBADMSG;
	*ret = (struct process_stat){
		.cpu_ticks = user + kernel,
		.start_ticks = start,
		.threads = threads,
		.resident_pages = pages,
	};
	return 0;
}

int process_stat(pid_t pid, struct process_stat *ret)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[64] = "/proc/self/stat";
	int r;

	if (pid != 0)
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = file_read(path, STAT_MAX, &text);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	return process_stat_parse(buf_str(&text), ret);
}

int process_usage(struct process_usage *ret)
{
	const double ticks = (double)sysconf(_SC_CLK_TCK);
	struct process_stat stat;
	struct rlimit limit = { 0 };
	int r = process_stat(0, &stat);

	if (r < 0)
		return r;
	getrlimit(RLIMIT_NOFILE, &limit);
	*ret = (struct process_usage){
		.cpu_seconds = (double)stat.cpu_ticks / ticks,
		.resident_bytes = (uint64_t)stat.resident_pages * (uint64_t)sysconf(_SC_PAGESIZE),
		.open_fds = count_fds(),
		.max_fds = (int64_t)limit.rlim_cur,
		.threads = stat.threads,
		.start_unix_seconds = (double)(clock_unix_ms() - clock_boottime_ms()) / 1000 +
				      (double)stat.start_ticks / ticks,
	};
	return 0;
}
