/* The warden's command line: see options_usage() for its meaning. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define OPTIONS_BINDS_MAX 32
#define OPTIONS_KEEP_MAX  32
#define OPTIONS_ENV_MAX	  16

struct options {
	const char *name;
	const char *run_dir;
	const char *cgroup_parent;
	uid_t uid;
	int64_t expires_boottime_ms;
	unsigned int cpu_quota_percent; /* 0: no limit */
	uint64_t memory_max;
	uint64_t pids_max;
	uint64_t file_size_max;
	bool huge_pages;
	const char *freeze_by_qmp; /* QEMU's control socket: freeze at the deadline; NULL: kill */

	int status_fd;
	int console_fd;
	const char *binds[OPTIONS_BINDS_MAX];
	size_t n_binds;
	int keep_fds[OPTIONS_KEEP_MAX];
	size_t n_keep_fds;
	const char *env[OPTIONS_ENV_MAX + 1]; /* NULL-terminated */
	size_t n_env;
	char *const *command; /* NULL-terminated */
};

/* Strings are borrowed from argv. */
int options_parse(int argc, char *argv[], struct options *ret, struct err *err);
const char *options_usage(void);
