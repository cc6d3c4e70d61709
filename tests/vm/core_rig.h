/*
 * A core over the real driver and a real image, in a state directory of its own: for tests of what
 * the core does with VMs. The image is a copy of SKERRY_IMAGE_DIR/base.erofs, brought in by a
 * stand-in for the recipe script.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/buf.h"
#include "base/clock.h"
#include "core/internal.h"

struct rig {
	char dir[256];
	char cgroup[64];
	struct core_limits limits;
	struct loop *loop;
	struct pool *pool;
	struct vmm_driver *driver;
	struct image_store *images;
	struct core *core;
	struct principal admin;
};

/* A new state directory with the image and its template. Every failure ends the process. */
void rig_make(struct rig *rig);
/* Opens (again) and recovers what lies in rig->dir. */
void rig_open(struct rig *rig);
/* Closes as a daemon does that is asked to stop: sandboxes live on. */
void rig_close(struct rig *rig);
/* Closes and removes the state directory; nothing may be left. */
void rig_remove(struct rig *rig);
/* For another process: the same directory. */
void rig_for_dir(struct rig *rig, const char *dir);

/* How long to wait for what should take less: longer by SKERRY_TEST_PATIENCE where machines are
 * slow (nested). Not for times that the test is about. */
int64_t rig_patience_ms(int64_t ms);

/* ---- sandboxes ---- */

/* The smallest shape, and the sandbox's id. */
void rig_create(struct rig *rig, const struct core_create_request *more, char id[SANDBOX_ID_SIZE]);
int rig_try_create(struct rig *rig, const struct core_create_request *more,
		   char id[SANDBOX_ID_SIZE], struct err *err);
void rig_destroy(struct rig *rig, const char *id);
void rig_get(struct rig *rig, const char *id, struct sandbox_info *ret);
void rig_read_record(struct rig *rig, const char *id, struct record *ret);
/* The bound on minutes is the API's; a deadline in milliseconds is set where the VM takes it from.
 */
void rig_set_deadline(struct rig *rig, const char *id, int64_t in_ms);
/* Waits until it has ended; ends the test after timeout_ms. */
void rig_wait_ended(struct rig *rig, const char *id, int64_t timeout_ms, struct sandbox_info *ret);
/* Processes by a record, directories, mounts, cgroups: nothing is left of it. */
void rig_assert_no_residue(struct rig *rig, const char *id, const struct record *record);

/* ---- commands ---- */

struct answer {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	bool failed;
	struct core_exec_result result; /* out and err are the answer's */
	struct err err;
	struct core_exec_call *call;
};

void answer_init(struct answer *a);
void answer_clear(struct answer *a);
/* Starts; the answer comes to a. */
int answer_exec(struct answer *a, struct rig *rig, const char *id,
		const struct core_exec_request *req, struct err *err);
int answer_wait_for(struct answer *a, struct rig *rig, const char *id, const char *exec_id,
		    int64_t wait_ms, uint64_t from, struct err *err);
/* Waits for the answer; ends the test after timeout_ms. */
void answer_get(struct answer *a, int64_t timeout_ms);
/* Starts and waits for the answer. */
void rig_run(struct rig *rig, const char *id, const struct core_exec_request *req,
	     struct answer *a);
/* Runs a command to its end, as sandbox, and expects exit code 0 and this output (NULL: any). */
void rig_expect(struct rig *rig, const char *id, const char *command, const char *output);
