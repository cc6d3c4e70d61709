/*
 * Control groups: every exec lives in /sys/fs/cgroup/skerry/exec-<id>, so that all of it can be
 * killed at once and nothing of it can take the agent's memory, processes or processor. The agent
 * itself stays in the root group.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Mounts nothing; expects cgroup2 at /sys/fs/cgroup. Makes the parent group with its limits;
 * returns a descriptor of it or -errno. */
int cgroup_setup(uint64_t mem_total_kib);
/* Makes the group of an exec; returns a descriptor of it or -errno. */
int cgroup_make(int parent_fd, const char *exec_id);
/* Kills everything in the group, also what forks at this moment. */
void cgroup_kill(int group_fd);
/* Sends a signal to every process in the group. */
void cgroup_signal(int group_fd, int signal);
/* Freezes or thaws everything in the group and below; 0 or -errno. Freezing takes a moment. */
int cgroup_freeze(int group_fd, bool freeze);
bool cgroup_is_frozen(int group_fd);
/* Has the kernel killed a process of it for memory? */
bool cgroup_had_oom_kill(int group_fd);
/* Removes the group, and what groups its processes made in it; false while processes are left. */
bool cgroup_remove(int parent_fd, int group_fd, const char *exec_id);
