/*
 * A file system of a bounded size, in a file: whatever is unpacked into it, the host's disk gives
 * no more than that, and no more names than were allowed.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Makes the file, sparse, with an empty ext4 in it. */
int scratch_make(const char *path, uint64_t bytes, uint64_t inodes, struct err *err);
/* Mounts it, by a loop device that goes when the mount goes. */
int scratch_mount(const char *path, const char *target, struct err *err);
