/*
 * Where hostile images are unpacked: a process that is root in its own world only.
 *
 * The world is a file system of a bounded size in a file (scratch), the host's programs read-only,
 * and the one file that the result is written to. What is not in it has no name in it. The process
 * is PID 1 of its own PID namespace, so that everything ends with it, and its users are a range of
 * the host's that nobody else has: it may chown within the range, and nothing that needs more. It
 * has the host's network only where the source is a registry, and only until the image is there.
 *
 * It dies with whoever started it, and with it go its mounts and the loop device; what is left on
 * the disk is the working directory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define JAIL_USERS 65536u

/* Paths in the jail. */
#define JAIL_WORK   "/work" /* the scratch; the only place to write to */
#define JAIL_SOURCE "/source"
#define JAIL_OUT    "/out"

struct jail_spec {
	const char *work_dir;	 /* empty; on the host */
	const char *source_path; /* shown as JAIL_SOURCE; NULL: none */
	const char *out_path;	 /* an existing file */
	const char *auth_path;	 /* copied to JAIL_AUTH; NULL: none */
	uint64_t scratch_bytes, scratch_inodes;
	uint64_t file_bytes_max;
	uid_t uid_base; /* the first of JAIL_USERS */
	bool network;
};

#define JAIL_AUTH "/auth.json"

/* Runs in the jail; what it returns is the process's exit code. result_fd is read by jail_run. */
typedef int (*jail_fn)(void *arg, int result_fd);

struct buf;

/* Runs fn in a jail to its end. What it wrote to result_fd is appended to result (at most
 * result_max bytes, more is -EMSGSIZE). -EIO: the process did not end with 0 and wrote nothing. */
int jail_run(const struct jail_spec *spec, jail_fn fn, void *arg, struct buf *result,
	     size_t result_max, struct err *err);

/* In the jail: the network is given up. */
int jail_drop_network(struct err *err);
