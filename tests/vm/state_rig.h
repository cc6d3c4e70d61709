/*
 * What the tests of pausing, forks, snapshots and recovery share: a small file system of their own
 * for the state directory, and short words for what they do to sandboxes all the time. Every
 * failure ends the test.
 */
#pragma once

#include "core_rig.h"

/* A file system in a file, small enough to be filled, which TMPDIR points to from then on: XFS with
 * reflink where there is mkfs.xfs, so that forks take FICLONE, else ext4. Where nothing can be
 * mounted dir is empty and TMPDIR as it was. SKERRY_TEST_DISK=memory in the environment: a tmpfs,
 * so that forks copy extents. */
struct small_disk {
	char dir[64];
	char image[72];
};
void small_disk_enter(struct small_disk *disk);
void small_disk_leave(struct small_disk *disk);
/* Makes the file, as large as leaves so much of the file system. */
void small_disk_fill(const struct small_disk *disk, const char *path, int64_t left_bytes);

void rig_pause(struct rig *rig, const char *id);
void rig_resume(struct rig *rig, const char *id);
void rig_assert_status(struct rig *rig, const char *id, enum sandbox_status status);
/* -ETIMEDOUT. */
int rig_wait_status(struct rig *rig, const char *id, enum sandbox_status status,
		    int64_t timeout_ms);
/* Takes its agent's channel away from the daemon, for which the guest hangs from then on. The VMM
 * serves one peer: the descriptor, which the caller closes. */
int rig_take_channel(struct rig *rig, const char *id);
/* How many entries of a directory of the state begin so. */
size_t rig_count_names(struct rig *rig, const char *sub, const char *prefix);

/* Standard output of a command that must succeed; the caller frees. */
char *rig_output(struct rig *rig, const char *id, const char *command);
long rig_number(struct rig *rig, const char *id, const char *command);
/* Starts a command and leaves it. */
void rig_background(struct rig *rig, const char *id, const char *command);

/* A web server, and a process that writes a number into ~/count twice a second. */
void rig_start_server_and_counter(struct rig *rig, const char *id);
void rig_check_server(struct rig *rig, const char *id);
