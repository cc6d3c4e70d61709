/* What processes take of the host, as the kernel says. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Of /proc/PID/stat. Ticks are those of sysconf(_SC_CLK_TCK). */
struct process_stat {
	uint64_t cpu_ticks;   /* user and system */
	uint64_t start_ticks; /* since the boot; with the pid it names a process for good */
	int64_t threads;
	int64_t resident_pages;
};
/* pid 0: this process. -ESRCH when there is none, -EBADMSG when the text is not understood. */
int process_stat(pid_t pid, struct process_stat *ret);
/* Its text alone. Pure. */
int process_stat_parse(const char *text, struct process_stat *ret);

struct process_usage {
	double cpu_seconds;
	uint64_t resident_bytes;
	int64_t open_fds, max_fds;
	int64_t threads;
	double start_unix_seconds;
};
/* Of this process. Negative errno where /proc does not say. */
int process_usage(struct process_usage *ret);
