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
 *               or called under it; core->net_lock is its like for the network (net.h)
 *
 * A command takes none of them while it runs. Who wants the end says so first (sandbox_want_end),
 * which everything that holds op_lock for long looks at, and then waits for op_lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "agent/agent.h"
#include "core/core.h"
#include "core/credit.h"
#include "core/events.h"
#include "core/exec_defaults.h"
#include "core/key_pass.h"
#include "core/net.h"
#include "core/rate.h"
#include "core/status.h"
#include "store/accounts.h"
#include "store/db.h"
#include "store/idempotency.h"
#include "store/meta.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

#define TABLE_BUCKETS	      256
#define CORE_PREVIEW_KEY_SIZE 32
#define VM_END_DEADLINE_MS    20000
#define VM_EXTEND_DEADLINE_MS 10000
#define CONNECT_DEADLINE_MS   10000
#define END_RETRY_MS	      5000

/* A sandbox that is paused at its deadline runs that much longer than its lifetime at most, until
 * its commands are held still: whoever dies, because its warden gets no later deadline. Enough for
 * two attempts on a host that is busy; no whole minute, which would look like an extension. */
#define PAUSE_GRACE_MS 45000

struct core_audit;
struct core_metrics;
struct core_stats_watch;
struct core_transfer;
struct delta_capture;
struct exec_view;
struct manifest;
struct manifest_base;
struct sandbox_stats;
struct standby;
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
	uint8_t preview_key[CORE_PREVIEW_KEY_SIZE];
	struct rate rate; /* of requests by a key */
	struct key_passes passes;
	operation_scope_fn operation_scope; /* may be NULL */

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

	/* Shared while a sandbox takes its files from a snapshot, exclusive while one is removed.
	 */
	pthread_rwlock_t snapshots_lock;

	/* net.h */
	struct core_net *net; /* NULL: sandboxes have no network, because of net_missing */
	char net_missing[256], net_fix[256];
	pthread_mutex_t net_lock;
	atomic_bool net_refilling;

	struct core_events *events;
	struct core_audit *audit;
	struct core_metrics *metrics;
	struct core_stats_watch *stats;
	struct standby *standby;
	atomic_bool shrinking;		    /* a job of shrink.c is under way */
	_Atomic int64_t shrink_boottime_ms; /* not before */
	atomic_bool recovered;		    /* what has no row is not swept any more */
	atomic_bool stall_looking;
	bool disk_was_low;		    /* of whoever has set stall_looking */
	atomic_bool charging;		    /* a job of metering.c is under way */
	atomic_bool credit_looking;	    /* one of credit.c is */
	atomic_bool credit_changed;	    /* it is to look at once */
	_Atomic int64_t credit_boottime_ms; /* else not before */

	/* loop's thread */
	struct loop_timer *housekeeping;
	struct loop_timer *idle_watch;
	struct loop_timer *stall_watch;
	int64_t charge_boottime_ms; /* what runs is not charged before */
	struct core_exec_call *calls;
	uint64_t last_call_id;
};

/* ---- core.c: work that core_free waits for ---- */

/* The core is being freed: long work in the background ends early. */
bool core_is_stopping(struct core *core);
/* NULL with err set ("shutting_down") when the core is being freed. */
struct core *core_enter(struct core *core, struct err *err);
void core_leave(struct core *core);
DEFINE_CLEANUP(struct core *, core_leavep, core_leave);
#define _cleanup_work_ _cleanup_(core_leavep)

/* Nothing new begins, and what is under way has ended when this returns. May be called again. */
void core_stop_work(struct core *core, int64_t grace_ms);

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
	char *pause_dir;  /* DIR/pause: its state, while it is paused */
	char *spent_dir;  /* DIR/spent: what was DIR/pause, of one that is being resumed */
	char *held_path;  /* DIR/held: its VM may be stopped, or its commands frozen */
	int64_t created_unix_ms;
	bool pause_on_timeout;
	int64_t idle_pause_ms; /* 0: never */
	uint32_t memory_mb;
	struct exec_defaults defaults; /* of its commands */

	pthread_mutex_t op_lock;
	struct vmm_vm vm;
	bool has_vm;
	bool held;    /* commands frozen, CPUs stopped (saved.c) */
	bool unpaid;  /* it is being paused for want of credit */
	bool patient; /* its warden's deadline is not the sandbox's, while it is being saved */
	_Atomic int64_t expires_boottime_ms; /* also read on the loop's thread */
	int64_t expires_unix_ms;
	int64_t held_boottime_us; /* since when its commands stood still, the last time */

	pthread_mutex_t state_lock;
	pthread_cond_t state_changed;
	enum sandbox_status status;
	bool end_wanted;

	struct sandbox_net net; /* its parts have guards of their own: net.h */

	struct sandbox_stats *stats; /* stats.c, under its lock; NULL: never looked at */

	_Atomic int64_t used_boottime_ms;	 /* when somebody last asked for something of it */
	atomic_bool pause_asked;		 /* a job that pauses it is under way */
	atomic_bool finish_asked;		 /* one that finishes a resume is */
	_Atomic int64_t pause_not_before_ms;	 /* after one that failed */
	_Atomic int64_t idle_not_before_ms;	 /* it is known not to be idle until then */
	_Atomic int64_t unpaid_boottime_ms;	 /* since when it runs without credit, … */
	_Atomic int64_t unpaid_seen_boottime_ms; /* … and when that was last seen; 0: never */

	/* loop's thread */
	struct agent *agent;
	bool channel_broken; /* since the last agent_open */
	bool channel_held;   /* a worker uses the agent: it is not closed meanwhile */
	int64_t connected_boottime_ms;
	int64_t reconnect_pause_ms;
	struct loop_timer *reconnect_timer;
	struct loop_io *exit_watch;
	struct exec_view *views;
	struct core_preview *previews; /* connections that are open */
	size_t n_previews;
	struct core_transfer *transfers; /* operations on files that are under way */
	size_t n_transfers;
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
/* Somebody has asked for something of it: it is not idle. */
void sandbox_touch(struct sandbox *sb);
/* [worker] The running sandbox, referenced; one that is paused is resumed first. "not_found",
 * "sandbox_ended" (with the tombstone's sentence), "sandbox_not_running", or why it could not be
 * resumed. */
int sandbox_find_running(struct core *core, const struct principal *who, const char *id,
			 struct sandbox **ret, struct err *err);

/* ---- failure.c: what callers are told ---- */

/* Codes that tell a caller what to do are kept; any other becomes `code`. */
void failure_name(struct err *err, const char *code, const char *const *kept, size_t n_kept);
/* The paths of the host are for its log: a message that names one is put into other words. */
void failure_hide_host(const struct core *core, struct err *err, const char *what);

/* ---- query.c ---- */

void info_from_row(const struct sandbox_row *row, struct sandbox_info *ret);
int load_info(struct core *core, const char *id, const char *account_id, struct sandbox_info *ret,
	      struct err *err);
bool sandbox_id_valid(const char *id);
/* The one way to say it: of ids that never were, of others' and of what a key's scope does not
 * have. */
int sandbox_not_found(const char *id, struct err *err);

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
/* A sandbox's name, which is also its hostname. */
int check_name(const char *name, struct err *err);
/* Of networks that a new sandbox is to be in: a list of names. */
int check_networks(const json_t *networks, struct err *err);
int check_labels(const struct core_limits *limits, json_t *labels, struct err *err);
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
	char *root_path; /* a link to the image's file, which keeps it as long as the template */
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
/* What names the template of an image in a shape under this driver. */
void template_key(const struct core *core, const char *image_digest, const struct shape *shape,
		  char out[33]);
/* Drops the templates of an image's content, but for those that a sandbox or a snapshot needs. */
void templates_drop_image(struct core *core, const char *image_digest);
/* Removes those that cannot be used any more, because of their image or of the driver, and that no
 * sandbox and no snapshot needs. */
void templates_collect(struct core *core);
/* The same for a driver of this fingerprint. */
void templates_collect_under(struct core *core, const char *fingerprint);
/* At start: removes half-made ones too. */
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

/* Makes the image's file a file of the template too, by a link where that can be. */
int template_keep_root(const char *root_path, const struct image_info *image, struct err *err);
/* Which memory file the template has: name, size and hash. -ENOENT, -EBADMSG. */
int template_memory_identity(const char *dir, const char *key, struct manifest_base *ret,
			     struct err *err);

/* ---- reserve.c: rows and objects of new sandboxes ---- */

/* In one transaction with the rows that it is for: n more may be alive. "quota_reached". */
int reserve_quota(struct core *core, struct db_txn *txn, const char *account_id, int64_t n,
		  struct err *err);
/* Gives the row an id of its own, this node, an identity, and the status creating. */
void reserve_fill(const struct core *core, const struct principal *who, struct sandbox_row *row);
/* Chooses the row's uid. */
int reserve_uid(struct core *core, struct db_txn *txn, struct sandbox_row *row, struct err *err);
/* Chooses the row's uid, unless it has one, and writes the row with the hold on its account's
 * credit. "no_credit", "spend_cap_reached". */
int reserve_row(struct core *core, struct db_txn *txn, struct sandbox_row *row, struct err *err);
/* Gives an object what the row says; before anybody else can see it. */
void reserve_bind(struct sandbox *sb, const struct sandbox_row *row);
/* The object that a row will have, with a slot that the row names; nobody knows it yet. */
int reserve_object(struct core *core, struct sandbox_row *row, struct sandbox **ret,
		   struct err *err);
/* Puts it into the table, before its row can be found. */
void reserve_publish(struct sandbox *sb, const struct sandbox_row *row);
/* The row was not written after all; also of one that was not published. */
void reserve_withdraw(struct sandbox *sb);
/* "disk_full" unless the host has the room that is kept free for what exists already. */
int reserve_check_disk(const struct core *core, struct err *err);
/* "isolation_unavailable" where the configuration insists on what the host has not. */
int reserve_check_isolation(const struct core *core, struct err *err);

/* ---- start.c: from saved state to an agent that has answered ---- */

struct start_from {
	const struct sandbox_row *row;
	uint64_t generation;	  /* of the run that begins */
	const char *root_path;	  /* the image's file */
	const char *memory_path;  /* the template's memory */
	const char *devices_path; /* the state of the VM's devices */
	const char
		*delta_path; /* how the memory differs from the template's; NULL: not at all, or */
	const struct delta_capture *capture; /* as was taken of another a moment ago */
};
/* [worker, op_lock] Starts the sandbox's VM over its disk, which must be there, and hands over its
 * identity. After a failure there may be a VM, which is the caller's to end. */
int start_sandbox(struct sandbox *sb, const struct start_from *from, struct err *err);
/* The same in two steps. */
int start_vm(struct sandbox *sb, const struct start_from *from, struct err *err);
int start_hand_over(struct sandbox *sb, const struct start_from *from, struct err *err);
/* [worker, op_lock of each] Rows and objects become running, from creating or resuming, and the
 * intervals of their runs begin: of all or, after a failure, of none. -ECANCELED: the end of one
 * was wanted before. source: what they are forks of; NULL: of nothing. */
int start_publish(struct sandbox *const *all, size_t n, uint64_t generation, struct sandbox *source,
		  struct err *err);
/* Copies a disk; "disk_full". */
int start_copy_disk(const char *from, const char *to, struct err *err);

/* ---- ask.c ---- */

/* [worker] Asks the agent of a running sandbox something that it answers at once; it is connected
 * first where it must be. "sandbox_not_running", and what ask gives. */
typedef int (*agent_ask_fn)(struct agent *agent, int64_t deadline_boottime_ms, void *arg,
			    struct err *err);
int sandbox_ask(struct sandbox *sb, agent_ask_fn ask, void *arg, struct err *err);

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
/* [worker] Connects it soon, if it has no channel then. */
void sandbox_connect_later(struct sandbox *sb);
/* [worker, op_lock] The agent, which is not closed until sandbox_release_agent; NULL when there is
 * no channel. */
struct agent *sandbox_hold_agent(struct sandbox *sb);
/* broken: it did not answer, and is closed. */
void sandbox_release_agent(struct sandbox *sb, bool broken);
/* [worker, op_lock] Closes the channel and stops watching, for a pause: views stay, and wait. */
void sandbox_detach(struct sandbox *sb);
/* [worker, op_lock] The VM has ended, or does within wait_ms. */
bool sandbox_vm_has_ended(const struct sandbox *sb, int wait_ms);
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

/* [worker, op_lock] Ends the VM, if there is one, with all that belongs to it but its files. */
int sandbox_end_vm(struct sandbox *sb, const char *reason, struct err *err);

/* ---- hold.c ---- */

/* [worker, op_lock] Holds a running sandbox still: its commands frozen, its file system written
 * out, its CPUs stopped. On failure it goes on as it was. */
int sandbox_hold(struct sandbox *sb, struct err *err);
/* [worker, op_lock] Lets it go on; fine for one that is not held. Also after failures: whatever
 * goes wrong is logged and made good by the next connection. One whose lifetime is over stays as it
 * is: held it can be saved without running again. */
void sandbox_let_go(struct sandbox *sb);
/* It was to be paused by now. */
bool sandbox_is_overdue(const struct sandbox *sb);
/* [worker, op_lock] The warden's deadline is the sandbox's again. */
void sandbox_end_patience(struct sandbox *sb);
/* [worker, op_lock] Of one that an earlier daemon left: whether it is held. */
void sandbox_recover_hold(struct sandbox *sb);

/* ---- saved.c: a sandbox's state in a directory ---- */

#define SAVED_MEMORY  "memory"	/* the difference to the template's */
#define SAVED_DEVICES "devices" /* of the VM */
#define SAVED_DISK    "disk"	/* only where it is not the sandbox's own */

/* [worker, op_lock] Writes devices and memory of a held sandbox into the directory. reserve_bytes
 * are left free on the disk. */
int saved_write(struct sandbox *sb, const struct sandbox_row *row, const char *path, bool durable,
		uint64_t reserve_bytes, struct err *err);
/* [worker, op_lock] Writes devices, memory and disk of a running (held for this time) or paused
 * sandbox into the directory. *ret_held_ms is how long it stood still. With ret_capture (may be
 * NULL) the memory of a running one may come there instead, and then not into the directory; freed
 * by the caller. */
int saved_take(struct sandbox *sb, const struct sandbox_row *row, const char *path, bool durable,
	       struct delta_capture **ret_capture, int64_t *ret_held_ms, struct err *err);
/* The manifest of a state of this sandbox, but for its files. */
int saved_describe(const struct core *core, const struct sandbox_row *row, const char *id,
		   const char *kind, struct manifest *ret, struct err *err);
/* Checks a sealed state: whole, of this id (NULL: any), for this driver, and its template is what
 * it was. */
int saved_check(const struct core *core, const char *dir, const char *id, const char *template_key,
		struct manifest *ret, struct err *err);
/* "<sandbox>.<generation>": which pause of which sandbox. */
void saved_pause_id(const struct sandbox_row *row, char out[65]);
/* Gives the directory to the files memory (unless it is elsewhere) and devices of another one, by
 * links. */
int saved_link(const char *from_dir, const char *to_dir, bool with_memory, struct err *err);

/* Starting from what lies in the sandbox's pause directory. */
struct saved_start {
	struct start_from from;
	char *paths[4];
};
void saved_start_init(struct saved_start *start, const struct sandbox *sb,
		      const struct sandbox_row *row, uint64_t generation);
void saved_start_clear(struct saved_start *start);

/* ---- pause.c, resume.c ---- */

/* [worker, op_lock] Pauses a running sandbox. */
int sandbox_pause(struct sandbox *sb, struct err *err);
/* [worker, op_lock] The rest of a pause, once its state is sealed: may be called again. */
int sandbox_pause_finish(struct sandbox *sb, struct err *err);
/* [worker, op_lock] Takes back a pause that was not sealed: it goes on as it was. One that is held
 * and overdue stays pausing, and is tried again. */
void sandbox_pause_undo(struct sandbox *sb);
/* [worker, op_lock] Its lifetime is over, and nothing of it can be kept. */
void sandbox_pause_give_up(struct sandbox *sb, const char *why);
/* [worker, op_lock] Resumes a paused sandbox, or finishes it; 0 also when it runs already. */
int sandbox_resume(struct sandbox *sb, struct err *err);
/* Its saved state is spent: it cannot become paused again but by a pause. */
bool sandbox_resume_is_spent(const struct sandbox *sb);
/* [worker, op_lock] Of one that an earlier daemon was resuming: takes it back to paused, or where
 * its state is spent has the rest done by a job. */
void sandbox_resume_recover(struct sandbox *sb);
/* [any thread] Its row. */
int sandbox_load_row(struct sandbox *sb, struct sandbox_row *ret, struct err *err);

/* ---- idle.c ---- */

/* Loop's thread. Every second: pauses what is idle, or about to reach its deadline. */
void idle_watch_start(struct core *core);
void idle_watch_stop(struct core *core);
/* [worker] Destroys what has been paused for too long. */
void paused_expire(struct core *core);

/* ---- shrink.c ---- */

/* Loop's thread, every second: once a minute makes small what has been paused for long, on a
 * worker. */
void shrink_look(struct core *core);
/* [worker] Makes small what was paused before then, one after the other. Returns how many it made
 * small. */
size_t shrink_paused(struct core *core, int64_t before_unix_ms);

/* ---- stall.c ---- */

/* Loop's thread. Lets sandboxes go on that stand still for want of the host's disk. */
void stall_watch_start(struct core *core);
void stall_watch_stop(struct core *core);

/* ---- standby.c ---- */

int standby_init(struct core *core);
/* Ends all that stand ready. */
void standby_free(struct core *core);
/* Loop's thread, every second: makes or gives up some, on a worker. */
void standby_look(struct core *core);
/* One that stands ready for this template, or NULL. Its row (id, uid) is the caller's to write, its
 * object to put into the table; then standby_adopt, or standby_discard. */
struct sandbox *standby_take(struct core *core, const char *template_key, struct sandbox_row *row);
/* [worker, op_lock] Sets its deadline and hands over its identity. After a failure nothing of its
 * VM is left. */
int standby_adopt(struct sandbox *sb, const struct start_from *from, struct err *err);
/* [worker] It is not used after all. */
void standby_discard(struct sandbox *sb);
size_t standby_count(struct core *core);
bool standby_has_uid(struct core *core, int64_t uid);

/* ---- egress.c, networks.c ---- */

/* The rules that a new sandbox begins with, as its row has them; NULL: open. */
int egress_text(const struct core *core, const json_t *rules, char **ret, struct err *err);
/* In the transaction that writes its row: makes it a member of the networks named. */
int networks_enter(struct core *core, struct db_txn *txn, const struct sandbox_row *row,
		   const json_t *networks, struct err *err);
/* The same for a fork's child, for the networks that its source is in. */
int networks_inherit(struct db_txn *txn, const struct sandbox_row *child, const char *source_id,
		     struct err *err);

/* ---- fork.c, snapshots.c ---- */

/* At start: removes what forks left, and snapshots that were never finished. */
void forks_recover(struct core *core);
void snapshots_recover(struct core *core);
/* [worker] Takes the files of a snapshot for a new sandbox: disk, and memory and devices by links
 * in DIR/pause. */
int snapshot_take_files(struct core *core, const struct snapshot_row *row, struct sandbox *sb,
			struct err *err);

/* ---- space.c ---- */

/* What a state directory takes, as core_doctor has it; owned by the caller. */
json_t *space_report(const char *state_dir);

/* ---- identity.c ---- */

int identity_init(struct core *core, struct err *err);
/* The key of this hash, if it is good now and has not asked too often. Fails as core_authenticate.
 */
int identity_admit(struct core *core, const char *hash, struct principal *ret, struct err *err);
void key_hash(const char *key, size_t len, char out[KEY_HASH_SIZE]);
/* A new text, with its hash and prefix in the row. The caller wipes it. */
void key_make_text(char text[KEY_TEXT_SIZE], struct key_row *row);
/* A row with an id and a text of its own; the rest is the caller's. */
void key_make(char text[KEY_TEXT_SIZE], struct key_row *row);

/* STATE/admin.key follows the key whose text it has: a new text of the key with this hash is laid
 * ready before the commit, and takes the file's place after it; one that was revoked is removed. */
int admin_key_prepare(struct core *core, const char *hash, const char *text, struct err *err);
void admin_key_replace(struct core *core);
void admin_key_forget(struct core *core, const char *hash);

/* ---- keys.c, accounts.c ---- */

struct core_key_info;
/* *ret NULL: narrowed by nothing. */
int key_row_scope(const struct key_row *row, struct key_scope **ret, struct err *err);
void key_info(const struct key_row *row, struct core_key_info *ret);
/* 0 becomes the default. */
int list_limit(uint32_t *limit, struct err *err);
/* What a look-up of the cursor gave: -ENOENT becomes "invalid_cursor". */
int list_cursor(int r, struct err *err);

/* ---- authorize.c: what arguments come to; all "scope_denied" ---- */

/* "not_found" where the scope does not have the sandbox. */
int authorize_sandbox(struct core *core, const struct principal *who, const char *id,
		      struct err *err);
/* By name, where the scope has it: "snapshot_not_found". */
int snapshot_find(struct db_txn *txn, const struct principal *who, const char *name,
		  struct snapshot_row *ret, struct err *err);
/* The same as a question, for lists and events: no transaction for reading may be open here. */
bool scope_sees_sandbox(struct core *core, const struct key_scope *scope, const char *id);
bool scope_sees_snapshot(const struct key_scope *scope, const struct snapshot_row *row);
/* Something within an operation that needs another scope; what: "join networks". */
int authorize_scope(const struct principal *who, const char *scope, const char *what,
		    struct err *err);
int authorize_size(const struct principal *who, const char *size, struct err *err);
/* In total. */
int authorize_lifetime(const struct principal *who, int64_t minutes, struct err *err);
/* What is given where nothing was asked for. */
int64_t authorize_default_minutes(const struct principal *who, int64_t minutes);
/* A sandbox that is not there yet is not among those of a list. */
int authorize_making(const struct principal *who, struct err *err);
int authorize_labels(const struct principal *who, const json_t *labels, struct err *err);
/* Those of a new sandbox: with what the scope insists on, where nothing else was asked for. Owned.
 */
json_t *authorize_add_labels(const struct principal *who, const json_t *labels);
int authorize_egress(const struct principal *who, const struct ruleset *before,
		     const struct ruleset *after, struct err *err);

/* ---- preview.c ---- */

int preview_key_init(struct core *core, struct err *err);
/* Loop's thread: ends the connections that are open. */
void previews_end(struct sandbox *sb, const struct err *why);
void previews_pause(struct sandbox *sb);

/* ---- files.c ---- */

/* Loop's thread: ends the operations that are under way. */
void transfers_end(struct sandbox *sb, const struct err *why);
void transfers_pause(struct sandbox *sb);

/* ---- exec_collect.c, loop's thread ---- */

/* Ends every call with err: the core is being freed. */
void exec_calls_end(struct core *core, const struct err *err);
