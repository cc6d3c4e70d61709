/*
 * What the files of src/core share.
 *
 * A sandbox that has not ended is an object in the core's table. Three guards, from outer to inner:
 *
 *   op_lock     one lifecycle operation at a time (create, extend, end, connect): held for seconds,
 *               by workers only, never on the loop's thread
 *   loop        what belongs to the loop's thread (the channel, the views of its commands) needs no
 *               lock; workers reach it with loop_call, which they may do holding op_lock
 *   state_lock  the status and the wish to end: held for moments, by anybody, nothing else is taken
 *               or called under it
 *
 * A command takes none of them while it runs. Who wants the end says so first (sandbox_want_end),
 * which everything that holds op_lock for long looks at, and then waits for op_lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "core/core.h"
#include "core/status.h"
#include "store/accounts.h"
#include "store/db.h"
#include "store/idempotency.h"
#include "store/meta.h"
#include "store/sandboxes.h"

#define TABLE_BUCKETS	      256
#define VM_END_DEADLINE_MS    20000
#define VM_EXTEND_DEADLINE_MS 10000
#define CONNECT_DEADLINE_MS   10000
#define END_RETRY_MS	      5000

struct exec_view;
struct template;

struct core {
	char *state_dir;
	struct core_limits limits;
	struct vmm_driver *driver;
	struct image_store *images;
	struct loop *loop;
	struct pool *pool;
	int lock_fd;
	struct db *db;
	char node_id[40];

	pthread_mutex_t table_lock;
	struct sandbox *table[TABLE_BUCKETS];

	/* Shared while a creation looks an image up and writes its row, exclusive while one is
	 * removed. */
	pthread_rwlock_t images_lock;

	pthread_mutex_t templates_lock;
	pthread_cond_t templates_changed;
	struct template *templates;

	pthread_mutex_t work_lock;
	pthread_cond_t work_done;
	size_t n_work; /* operations and jobs under way */
	bool stopping;

	/* loop's thread */
	struct loop_timer *housekeeping;
	struct core_exec_call *calls;
	uint64_t last_call_id;
};

/* ---- core.c: work that core_free waits for ---- */

/* NULL with err set ("shutting_down") when the core is being freed. */
struct core *core_enter(struct core *core, struct err *err);
void core_leave(struct core *core);
DEFINE_CLEANUP(struct core *, core_leavep, core_leave);
#define _cleanup_work_ _cleanup_(core_leavep)

/* Any thread. Runs fn(arg) on a worker; a full pool is tried again until it takes it. */
void core_job(struct core *core, pool_fn fn, void *arg, int64_t delay_ms);

/* ---- sandbox.c: objects and their table ---- */

struct sandbox {
	struct core *core;
	atomic_uint refs;
	struct sandbox *table_next;

	/* immutable */
	char id[SANDBOX_ID_SIZE];
	char account_id[ACCOUNT_ID_SIZE];
	char *dir;	  /* STATE/sandboxes/<id> */
	char *run_dir;	  /* DIR/run */
	char *disk_path;  /* DIR/disk */
	char *agent_path; /* DIR/run/agent.sock */
	int64_t created_unix_ms;

	pthread_mutex_t op_lock;
	struct vmm_vm vm;
	bool has_vm;
	_Atomic int64_t expires_boottime_ms; /* also read on the loop's thread */
	int64_t expires_unix_ms;

	pthread_mutex_t state_lock;
	pthread_cond_t state_changed;
	enum sandbox_status status;
	bool end_wanted;

	/* loop's thread */
	struct agent *agent;
	bool channel_broken; /* since the last agent_open */
	int64_t connected_boottime_ms;
	int64_t reconnect_pause_ms;
	struct loop_timer *reconnect_timer;
	struct loop_io *exit_watch;
	struct exec_view *views;
	bool over; /* no command can be started or looked at any more, because of over_err */
	struct err over_err;
};

/* With one reference, the caller's, and status creating. */
struct sandbox *sandbox_new(struct core *core, const char *id, const char *account_id);
struct sandbox *sandbox_ref(struct sandbox *sb);
void sandbox_unref(struct sandbox *sb);
DEFINE_CLEANUP(struct sandbox *, sandbox_unrefp, sandbox_unref);
#define _cleanup_sandbox_ _cleanup_(sandbox_unrefp)

void table_add(struct sandbox *sb); /* takes a reference of its own */
void table_remove(struct sandbox *sb);
/* A reference or NULL. account_id NULL: of any account. */
struct sandbox *table_find(struct core *core, const char *id, const char *account_id);
/* References to all; the caller unrefs each and frees the array. */
struct sandbox **table_all(struct core *core, size_t *ret_n);

enum sandbox_status sandbox_status(struct sandbox *sb);
/* Moves the object's status after the row's; an illegal move is refused (-EPROTO) and logged. */
int sandbox_set_status(struct sandbox *sb, enum sandbox_status to);
bool sandbox_end_wanted(struct sandbox *sb);
void sandbox_want_end(struct sandbox *sb);
/* Waits while it is being created; false at the deadline. */
bool sandbox_wait_created(struct sandbox *sb, int64_t deadline_boottime_ms);
/* Waits until it has ended; false at the deadline. */
bool sandbox_wait_ended(struct sandbox *sb, int64_t deadline_boottime_ms);
/* [worker] The running sandbox, referenced; "not_found", "sandbox_ended" (with the tombstone's
 * sentence) or "sandbox_not_running". */
int sandbox_find_running(struct core *core, const struct principal *who, const char *id,
			 struct sandbox **ret, struct err *err);

/* ---- query.c ---- */

void info_from_row(const struct sandbox_row *row, struct sandbox_info *ret);
int load_info(struct core *core, const char *id, const char *account_id, struct sandbox_info *ret,
	      struct err *err);
bool sandbox_id_valid(const char *id);

/* ---- shape.c: what a create request asks for, checked ---- */

struct shape {
	char size[16];
	uint32_t milli_vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
};
unsigned int shape_vcpus(const struct shape *shape);
int shape_resolve(const struct core_limits *limits, const struct core_create_request *req,
		  struct shape *ret, struct err *err);
int check_create_request(const struct core_limits *limits, const struct core_create_request *req,
			 struct err *err);

/* ---- template.c ---- */

struct template
{
	struct template *next;
	char key[33];
	char image_digest[72];
	char *dir;
	char *memory_path;
	char *state_path;
	char *disk_path;
	enum { TEMPLATE_MAKING, TEMPLATE_READY, TEMPLATE_FAILED } state;
	unsigned int users; /* who waits for it or starts from it */
	bool doomed;	    /* removed when the last user is gone */
	struct err err;	    /* why it failed */
};

typedef bool (*cancelled_fn)(void *arg);

/* [worker] The template of an image in a shape, made if there is none; one maker at a time, the
 * others wait. cancelled (may be NULL) ends the wait with -ECANCELED. Release it with
 * template_release. */
int template_use(struct core *core, const struct image_info *image, const struct shape *shape,
		 core_progress_fn progress, void *progress_arg, cancelled_fn cancelled,
		 void *cancelled_arg, struct template **ret, struct err *err);
void template_release(struct core *core, struct template *template);
/* Drops the templates of an image's content. */
void templates_drop_image(struct core *core, const char *image_digest);
/* At start: removes half-made ones and those that cannot be used any more. */
void templates_recover(struct core *core);
void templates_free(struct core *core);

/* template_make.c: fills an absent template->dir. */
int template_make(struct core *core, const struct template *template,
		  const struct image_info *image, const struct shape *shape,
		  core_progress_fn progress, void *progress_arg, struct err *err);
void template_sweep_making(struct core *core);

/* template_files.c: the manifest, and what it says about the files. */
int template_write_manifest(const char *dir, const struct template *template,
			    const char *fingerprint, struct err *err);
/* -ENOENT: there is none; -EBADMSG: damaged, or for another fingerprint. with_hashes also reads the
 * files. *ret_digest (may be NULL) is the image's. */
int template_check(const char *dir, const char *fingerprint, bool with_hashes, char ret_digest[72],
		   struct err *err);

/* ---- connect.c: the channel to a sandbox's agent ---- */

/* [worker, op_lock] Opens the channel and makes it the sandbox's; its views attach again. identity
 * NULL: none is handed over. -ECANCELED when the end was wanted meanwhile, -ESRCH when the VM
 * ended. */
int sandbox_connect(struct sandbox *sb, const struct agent_identity *identity,
		    int64_t deadline_boottime_ms, struct err *err);
/* [worker] Connects a running sandbox that has no channel. */
int sandbox_ensure_connected(struct sandbox *sb, struct err *err);
/* [worker, op_lock] Watches for the VM's end. */
void sandbox_watch(struct sandbox *sb);
/* [worker, op_lock] Ends every view with err, closes the channel, stops watching; for good. */
void sandbox_cut_off(struct sandbox *sb, const struct err *err);

/* ---- lifecycle.c ---- */

/* [worker, op_lock] Ends the VM, if there is one, and makes the tombstone: with what the record
 * says where it ran, else with the given status, reason and sentence. Removes files. -EAGAIN when
 * something cannot be done now: the row stays, call again. */
int sandbox_finish(struct sandbox *sb, enum sandbox_status status, const char *reason,
		   const char *reason_text, struct err *err);
/* Any thread. The VM has ended by itself: finish on a worker, and again until it works. */
void sandbox_finish_later(struct sandbox *sb, int64_t delay_ms);
/* The tombstone's word and sentence for what a record says. */
void end_from_record(const struct record *record, int64_t now_unix_ms, struct sandbox_end *end,
		     char reason[32], char text[256]);

/* ---- identity.c ---- */

int identity_init(struct core *core, struct err *err);
void key_hash(const char *key, size_t len, char out[KEY_HASH_SIZE]);

/* ---- exec_collect.c, loop's thread ---- */

/* Ends every call with err: the core is being freed. */
void exec_calls_end(struct core *core, const struct err *err);
