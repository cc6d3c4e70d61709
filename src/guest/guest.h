/*
 * The guest's agent as a whole: what its parts share. One thread, one epoll set, one session at a
 * time, and no memory that grows with what the host or a command does: queues, windows, logs, execs
 * and handles all have their bounds.
 */
#pragma once

#include <stdint.h>

#include "guest/channel.h"
#include "guest/exec.h"
#include "guest/freeze.h"
#include "guest/identity_files.h"
#include "guest/poller.h"
#include "guest/session.h"

struct guest {
	struct poller poller;
	struct channel channel;
	struct session session;
	struct watch signals; /* signalfd: SIGCHLD */
	struct exec *execs, *last_exec;
	bool groups_due; /* children have ended, and maybe the last ones of their groups */
	struct freeze freeze;
	int exec_dir_fd; /* the logs' directory, on the disk */
	int cgroup_fd;	 /* parent of the execs' groups */
	int null_fd;
	int devpts_fd;
	int random_fd;
	struct identity_files identity_files;
	uint64_t epoch; /* of the last HELLO that gave an identity */
	uint64_t mem_total_kib;
	uint64_t log_budget; /* bytes that the logs of ended execs may keep together */
	char kernel_release[64];
	char os_name[128];
	char chunk[64 * 1024]; /* scratch for moving bytes; never used across a callback */
};
