/* What this process takes of the host, as the kernel says. */
#pragma once

#include <stdint.h>

struct process_usage {
	double cpu_seconds;
	uint64_t resident_bytes;
	int64_t open_fds, max_fds;
	int64_t threads;
	double start_unix_seconds;
};
/* Negative errno where /proc does not say. */
int process_usage(struct process_usage *ret);
