/*
 * All that a daemon leaves in the world, as sorted lines of text: processes, mounts, control
 * groups, the files of the state directory, the rows of its database. What differs from run to run
 * (ids, times, uids, random names) is replaced by a word, so that two worlds are the same exactly
 * when their lines are.
 */
#pragma once

#include "core_rig.h"

struct world {
	char **lines;
	size_t n;
};
void world_clear(struct world *world);

/* As it is now. */
void world_take(struct rig *rig, struct world *ret);
/* A copy of each line of files in which `from` occurs, with `to` in its place. */
void world_add_files(struct world *world, const char *from, const char *to);
/* Waits until the world is as expected, as processes and jobs take their time to end; where it does
 * not become so, the test fails with what is missing and what is too much. */
void world_expect(struct rig *rig, const struct world *expected, const char *after);
/* Takes the tombstones out of the database: so many, all with this status and reason. */
void world_bury(struct rig *rig, size_t n, const char *status, const char *reason);
