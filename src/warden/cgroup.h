/*
 * The control group of one VM: limits on CPU time, memory and threads. Version 2 where the host's
 * cgroup2 hierarchy has these controllers, else the version 1 hierarchies of each. The group is
 * `<parent>/<name>` below the hierarchy's root.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum cgroup_controller { CGROUP_CPU, CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CONTROLLERS };

struct cgroup {
	bool unified;			      /* version 2: all three dirs are the same */
	char parent[CGROUP_CONTROLLERS][256]; /* directories */
	char dir[CGROUP_CONTROLLERS][320];
};

/* 1 … 64 characters of [A-Za-z0-9_.-], no leading dot. */
bool cgroup_name_valid(const char *name);

/* Finds where the group lies or would lie; makes nothing. */
int cgroup_find(const char *parent, const char *name, struct cgroup *ret, struct err *err);
int cgroup_create(const struct cgroup *group, struct err *err);
int cgroup_limit_memory(const struct cgroup *group, uint64_t bytes, struct err *err);
int cgroup_limit_pids(const struct cgroup *group, uint64_t count, struct err *err);
int cgroup_limit_cpu(const struct cgroup *group, unsigned int percent_of_one, struct err *err);
int cgroup_add(const struct cgroup *group, pid_t pid, struct err *err);
/* How often the kernel killed a process of the group for its memory limit; 0 when unknown. */
int64_t cgroup_oom_kills(const struct cgroup *group);
/* Removes the group; its dying processes are waited for up to wait_ms. Absent is success. */
int cgroup_remove(const struct cgroup *group, int wait_ms, struct err *err);
/* Removes the parent if no group is left in it. */
void cgroup_remove_parent(const struct cgroup *group);
