/*
 * The core: what Skerry does, as functions. It joins store, images, VMs and agent channels; every
 * surface (REST, MCP, CLI) calls these and nothing below them. It knows no HTTP.
 *
 * Threads: functions marked [worker] may block and run on pool workers; done and sink callbacks run
 * on the loop's thread and must not block. One struct core a process.
 *
 * Truth: a sandbox's row is written before anything the world can see is made (intent), and marked
 * done after; core_recover() at start adopts what lives and finishes or undoes what was half done.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/limits.h"
#include "core/principal.h"
#include "image/image.h"
#include "loop/loop.h"
#include "loop/pool.h"
#include "net/slot.h"
#include "vmm/vmm.h"

struct core;

/* The network of sandboxes. OFF: they have none. AUTO: where the host cannot filter what they send,
 * they have none, which is said in the log and by the doctor. ON: then core_new fails. */
enum core_network_mode { CORE_NETWORK_OFF, CORE_NETWORK_AUTO, CORE_NETWORK_ON };

struct core_network_config {
	enum core_network_mode mode;
	const char *uplink;	 /* NULL: every interface */
	const char *pin_dir;	 /* NULL: /sys/fs/bpf/skerry */
	const char *resolv_conf; /* the resolvers that names are forwarded to; NULL: the host's */
	uint32_t range;		 /* 0: 100.64.0.0/10 */
	uint8_t range_prefix;
	const struct slot_cidr *allowed; /* private ranges that rules may allow */
	size_t n_allowed;
	uint32_t ready; /* slots made ahead */
};

struct core_config {
	const char *state_dir; /* absolute */
	struct core_limits limits;
	struct vmm_driver *driver;  /* borrowed, outlives the core */
	struct image_store *images; /* borrowed */
	struct loop *loop;	    /* borrowed, started */
	struct pool *pool;	    /* borrowed: for work that the core starts by itself */
	const struct core_network_config *network; /* NULL: sandboxes have none */
	/* What the surfaces call an operation's scope. NULL: scopes of keys are compared by their
	 * words alone. */
	operation_scope_fn operation_scope;
};

/* Opens (and migrates) the store, takes the state directory's lock (-EBUSY, code
 * "state_dir_locked", when another daemon has it, touching nothing), makes the admin account and
 * key at first start (STATE/admin.key, 0600). */
int core_new(const struct core_config *config, struct core **ret, struct err *err);
/* [worker] Reconciles store, records, processes, cgroups and files. Logs what it did. */
int core_recover(struct core *core, struct err *err);
/* [worker] Ends every sandbox but the paused ones, for uninstalling, after core_recover. -EAGAIN:
 * not all of them; the log names each. */
int core_end_running(struct core *core, size_t *ret_n, struct err *err);
/* [worker] Removes what the kernel has of the network (taps, programs, routes, masquerade), for
 * uninstalling; nothing but core_free may follow. "network_in_use" while sandboxes run. */
int core_network_uninstall(struct core *core, struct err *err);
/* Lets running operations end (bounded by grace_ms), leaves sandboxes running, closes everything.
 */
void core_free(struct core *core, int64_t grace_ms);

const struct core_limits *core_limits(const struct core *core);

/* ---- who is asking ---- */

/* Looks the key up by its hash, in a time that says nothing of the keys there are. *ret is cleared
 * by the caller. -EACCES (code "invalid_key": unknown, revoked or expired); -EAGAIN (code
 * "rate_limited", with *ret set) when the key is known and has asked too often. Any thread. */
int core_authenticate(struct core *core, const char *key, size_t len, struct principal *ret,
		      struct err *err);

/* What somebody is about to do. */
struct core_action {
	const char *scope; /* that it needs: "exec", "sandbox:read" …; "admin": admin keys only */
	const char *operation;	/* its own name */
	const char *sandbox_id; /* NULL: it is about no sandbox, or about those that it finds */
};

/* The one place where it is decided whether a key may do something; every surface asks before it
 * does anything. "scope_denied" (-EPERM) says what is missing and who can give it, "forbidden" that
 * it is for administrators. A sandbox that the key's scope does not have is "not_found", in the
 * words of one that never was. What depends on the arguments (sizes, lifetimes, rules, users) is
 * decided where they are acted upon. Any thread; reads a row at most. */
int core_authorize(struct core *core, const struct principal *who, const struct core_action *action,
		   struct err *err);

/* ---- sandboxes ---- */

enum sandbox_status {
	SANDBOX_CREATING,
	SANDBOX_RUNNING,
	SANDBOX_PAUSING,
	SANDBOX_PAUSED,
	SANDBOX_RESUMING,
	SANDBOX_DESTROYING,
	SANDBOX_DESTROYED,
	SANDBOX_FAILED,
};
const char *sandbox_status_name(enum sandbox_status status);
int sandbox_status_parse(const char *name, enum sandbox_status *ret);

#define SANDBOX_ID_SIZE	 24
#define SANDBOX_NAME_MAX 63
#define EXEC_ID_SIZE	 24

struct sandbox_info {
	char id[SANDBOX_ID_SIZE];
	char name[SANDBOX_NAME_MAX + 1]; /* "" when it has none */
	enum sandbox_status status;
	char size[16]; /* "small" …, or "custom" */
	uint32_t milli_vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
	char image[IMAGE_NAME_MAX + 1];
	char isolation[16]; /* "kvm" | "emulated" */
	int64_t created_unix_ms;
	int64_t expires_unix_ms;
	int64_t ended_unix_ms;		 /* 0 while alive */
	char reason[32];		 /* tombstone: "expired" …; "" while alive */
	char reason_text[256];		 /* one sentence */
	json_t *labels;			 /* owned object, never NULL after a successful call */
	uint64_t generation;		 /* of its runs: raised by every resume */
	char parent_id[SANDBOX_ID_SIZE]; /* what it was forked from, or its snapshot was of; "" */
	bool pause_on_timeout;
	uint32_t idle_pause_minutes; /* 0: never */
	int64_t remaining_ms; /* lifetime that it will have when it is resumed; 0 unless paused */
	json_t *egress;	      /* what it may reach: null, [] or a list; owned */
	json_t *networks;     /* names of the private networks that it is in; owned */
	char address[16];     /* in them; "" while it has none */
	uint64_t out_packets, out_bytes, in_packets, in_bytes, denied_packets;
};
void sandbox_info_clear(struct sandbox_info *info);

struct core_create_request {
	const char *size;     /* NULL: the default size, unless the custom fields are set */
	uint32_t milli_vcpus; /* custom shape: all three or none; 0 = not given */
	uint32_t memory_mb;
	uint32_t disk_gb;
	uint32_t timeout_minutes; /* 0: default */
	const char *image;	  /* NULL: default */
	const char *name;	  /* NULL: none */
	json_t *labels;		  /* object of strings, borrowed; NULL: none */
	const char *snapshot;	  /* start from this one, which has shape and image; NULL: none */
	const json_t *egress;	  /* null (open), [] or a list; NULL: open, or as the snapshot's */
	const json_t *networks;	  /* names of networks to be in from the start; NULL: none */
	bool pause_on_timeout;	  /* at its deadline it is paused instead of destroyed */
	uint32_t idle_pause_minutes; /* paused after that long without use; 0: never */
	const char *idempotency_key; /* NULL: none */
	const char *request_hash; /* hex of the hash of the normalised body, with idempotency_key */
};

typedef void (*core_progress_fn)(void *arg, int percent, const char *what);

/* [worker] Returns when the guest's agent has answered with its identity confirmed. Quota is
 * counted in the transaction that reserves the row. Errors: "quota_reached", "image_not_found",
 * "invalid_argument" (shape, labels), "idempotency_conflict" (same key, other body: -EEXIST),
 * "idempotency_in_progress" (-EBUSY), "isolation_unavailable", "disk_full", "start_failed". */
int core_create(struct core *core, const struct principal *who,
		const struct core_create_request *req, core_progress_fn progress, void *arg,
		struct sandbox_info *ret, struct err *err);

/* -ENOENT ("not_found") reads the same for unknown and foreign ids. Tombstones are found. */
int core_get(struct core *core, const struct principal *who, const char *id,
	     struct sandbox_info *ret, struct err *err);

struct core_list_request {
	const char *status; /* NULL: those alive; "all": tombstones too; or one status */
	const char *image;
	const char *label;  /* "key=value" or "key" */
	const char *cursor; /* from the last answer; -EINVAL ("invalid_cursor") if not ours */
	uint32_t limit;	    /* 1 … 200; 0: 50 */
};
/* Newest first. The caller frees with core_list_clear; *ret_next_cursor is malloc'ed or NULL. */
int core_list(struct core *core, const struct principal *who, const struct core_list_request *req,
	      struct sandbox_info **ret, size_t *ret_n, char **ret_next_cursor, struct err *err);
void core_list_clear(struct sandbox_info *items, size_t n);

/* [worker] "limit_reached" when the total lifetime would pass the bound (nothing changes),
 * "already_ended" with the tombstone's sentence when too late. */
int core_extend(struct core *core, const struct principal *who, const char *id,
		uint32_t additional_minutes, struct sandbox_info *ret, struct err *err);

/* [worker] Idempotent from every state. */
int core_destroy(struct core *core, const struct principal *who, const char *id,
		 struct sandbox_info *ret, struct err *err);

/* [worker] Saves the whole state durably and frees the host's memory. Commands wait, also for their
 * callers. Fine for one that is paused. "disk_full", "quota_reached" (paused_per_account),
 * "pause_failed": it goes on as it was. */
int core_pause(struct core *core, const struct principal *who, const char *id,
	       struct sandbox_info *ret, struct err *err);
/* [worker] Fine for one that is running. "quota_reached", "snapshot_damaged",
 * "snapshot_version_mismatch", "snapshot_incomplete", "resume_failed": it stays paused. */
int core_resume(struct core *core, const struct principal *who, const char *id,
		struct sandbox_info *ret, struct err *err);

#define FORK_COUNT_MAX 16

struct core_fork_request {
	uint32_t count;		  /* 1 … FORK_COUNT_MAX */
	const char *name;	  /* children are <name>-1 …; NULL: none */
	uint32_t timeout_minutes; /* 0: what the source has left */
	json_t *labels;		  /* borrowed; NULL: the source's */
};

struct core_fork_result {
	struct sandbox_info children[FORK_COUNT_MAX];
	size_t n;
	int64_t source_held_ms; /* how long the source stood still */
};
void core_fork_result_clear(struct core_fork_result *result);

/* [worker] Makes independent children of a running or paused sandbox: all, or none. Each has
 * confirmed its own identity when this returns. Errors as of core_create. */
int core_fork(struct core *core, const struct principal *who, const char *id,
	      const struct core_fork_request *req, struct core_fork_result *ret, struct err *err);

/* ---- named snapshots ---- */

struct core_snapshot_info {
	char name[SANDBOX_NAME_MAX + 1];
	char source_id[SANDBOX_ID_SIZE];
	char size[16];
	uint32_t milli_vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
	char image[IMAGE_NAME_MAX + 1];
	int64_t size_bytes; /* on the host's disk, what it shares with others included */
	int64_t created_unix_ms;
};

/* [worker] Of a running or paused sandbox, which goes on. "snapshot_exists" (-EEXIST),
 * "quota_reached", "disk_full". */
int core_snapshot_create(struct core *core, const struct principal *who, const char *id,
			 const char *name, struct core_snapshot_info *ret, struct err *err);
/* Those that are complete, by name; the caller frees *ret. */
int core_snapshot_list(struct core *core, const struct principal *who,
		       struct core_snapshot_info **ret, size_t *ret_n, struct err *err);
/* [worker] Sandboxes made from it are their own. "snapshot_not_found". */
int core_snapshot_remove(struct core *core, const struct principal *who, const char *name,
			 struct err *err);

/* ---- what a sandbox may reach ---- */

/* Canonical: null, [] or a list of rules; owned by the caller. Also of one that has ended. */
int core_egress_get(struct core *core, const struct principal *who, const char *id, json_t **ret,
		    struct err *err);
/* [worker] Replaces the rules, live: the next packet meets the new ones, established connections
 * included. One malformed rule refuses the whole set ("invalid_egress_rule"), and nothing changes.
 * "network_unavailable", "sandbox_ended". *ret (may be NULL) is what core_egress_get gives then. */
int core_egress_set(struct core *core, const struct principal *who, const char *id,
		    const json_t *rules, json_t **ret, struct err *err);
/* [worker] Takes rules out of the list and adds others, at once; lists of strings or NULL.
 * "rule_not_found" for one to be removed that is not there; "egress_is_open" when there is no list
 * but everything is allowed. */
int core_egress_change(struct core *core, const struct principal *who, const char *id,
		       const json_t *add, const json_t *remove, json_t **ret, struct err *err);
/* The newest of what it was denied, newest first, and how many more there were that came too fast.
 * Owned by the caller. Nothing is kept over a restart of the daemon or the sandbox's end. */
int core_egress_denials(struct core *core, const struct principal *who, const char *id,
			json_t **ret, uint64_t *ret_unreported, struct err *err);

/* ---- private networks ---- */

struct core_network_member {
	char sandbox_id[SANDBOX_ID_SIZE];
	char name[SANDBOX_NAME_MAX + 1]; /* reached as <name>.<network>.internal */
	char address[16];		 /* "" while it has none, being paused */
};

struct core_network {
	char name[SANDBOX_NAME_MAX + 1];
	int64_t created_unix_ms;
	struct core_network_member *members; /* by name; owned */
	size_t n_members;
};
void core_networks_free(struct core_network *networks, size_t n); /* an array of n */

/* [worker] "network_exists" (-EEXIST), "limit_reached". */
int core_network_create(struct core *core, const struct principal *who, const char *name,
			int64_t *ret_created_unix_ms, struct err *err);
/* By name, with members. */
int core_network_list(struct core *core, const struct principal *who, struct core_network **ret,
		      size_t *ret_n, struct err *err);
/* [worker] "network_not_found", "network_in_use" while it has members. */
int core_network_remove(struct core *core, const struct principal *who, const char *name,
			struct err *err);
/* [worker] Live; name NULL: the sandbox's, else its id. Fine for one that is a member already,
 * whose name stays. "network_not_found", "name_taken", "limit_reached", "network_unavailable". */
int core_network_join(struct core *core, const struct principal *who, const char *network,
		      const char *id, const char *name, struct core_network_member *ret,
		      struct err *err);
/* [worker] Live: the next packet is denied. Fine for one that is no member. */
int core_network_leave(struct core *core, const struct principal *who, const char *network,
		       const char *id, struct err *err);

/* ---- credit ---- */

#define CORE_GRANT_MAX 1000000000000000LL /* micro-credits: a billion credits */

struct core_usage_request {
	const char *account_id; /* NULL: the caller's; another's only for administrators */
	uint32_t days;		/* with charges, the newest; 0: 30 */
	uint32_t limit;		/* of keys, and of sandboxes, charged last; 0: 50 */
};
/* Balance, rate, when the credit ends, and what was spent by day, key and sandbox: as GET /v1/usage
 * answers; owned by the caller. "account_not_found". */
int core_usage(struct core *core, const struct principal *who, const struct core_usage_request *req,
	       json_t **ret, struct err *err);

struct core_ledger_request {
	const char *account_id; /* as for core_usage */
	int64_t after_id;
	uint32_t limit; /* 1 … 1000; 0: 100 */
};
/* The account's entries, oldest first: {"items", "next_cursor"}. */
int core_ledger(struct core *core, const struct principal *who,
		const struct core_ledger_request *req, json_t **ret, struct err *err);

struct core_grant_request {
	const char *account_id;
	int64_t microcredits;
	const char *reference; /* the same reference is the same grant; NULL: none */
	const char *note;      /* NULL: none */
};
/* [worker] Administrators. *ret is the entry. "account_not_found", "reference_conflict". */
int core_grant(struct core *core, const struct principal *who, const struct core_grant_request *req,
	       json_t **ret, struct err *err);
/* [worker] Whether the ledger is right, for administrators: {"ok", "entries", "findings", …}. */
int core_ledger_check(struct core *core, json_t **ret, struct err *err);

/* ---- commands ---- */

struct core_exec_request {
	const char *command;
	size_t command_len;
	const char *cwd;	/* NULL: home */
	const char *user;	/* NULL: sandbox */
	const char *const *env; /* "K=V", NULL-terminated, or NULL */
	int64_t timeout_ms;	/* 0: default */
	const void *stdin_data; /* fed and closed; NULL and stdin_open false: /dev/null */
	size_t stdin_len;
	bool stdin_open;	   /* keep stdin open for core_exec_input */
	uint64_t max_output_bytes; /* per stream, head + tail; 0: default */
	int64_t wait_ms; /* answer with running = true after this long; < 0: wait to the end;
			    0: at once (background) */
};

/* An exec as an answer. stdout/stderr: head + tail, not longer than max_output_bytes plus the line
 * that says how many bytes were left out and where the log lies. */
struct core_exec_result {
	char exec_id[EXEC_ID_SIZE];
	bool running;
	struct buf out;
	struct buf err;
	uint64_t out_from, out_to; /* absolute range looked at: from_offset and where to go on */
	uint64_t err_from, err_to;
	int exit_code; /* unless running; 124 when timed out, 128 + n when ended by signal n */
	int signal;
	bool timed_out;
	bool out_of_memory;
	bool truncated;
	json_t *egress_denied; /* what was denied while it ran, in short; borrowed; NULL: nothing */
	uint64_t stdout_bytes; /* totals so far */
	uint64_t stderr_bytes;
	int64_t duration_ms;
};

struct core_exec_call; /* one waiting caller */

/* Loop's thread; exactly one of result and err is not NULL; called once, unless the call was
 * cancelled before. Buffers are the callee's to take (STEAL) or leave. Typed ends: "sandbox_ended"
 * with the tombstone's reason, "agent_gone", "out_of_memory" is a result with out_of_memory = true.
 */
typedef void (*core_exec_done_fn)(void *arg, struct core_exec_result *result,
				  const struct err *err);

/* [worker] Starts a command and answers through done, which may run before this has returned. On
 * success *ret is a handle for core_exec_cancel: a number that is never used again, so that it may
 * be used after done has run, and must not be dereferenced. When this fails done is not called. */
int core_exec(struct core *core, const struct principal *who, const char *sandbox_id,
	      const struct core_exec_request *req, core_exec_done_fn done, void *arg,
	      struct core_exec_call **ret, struct err *err);

/* [worker] Polls an exec (also one whose caller went away, or from before a daemon restart): waits
 * up to wait_ms for its end (< 0: to its end). While it runs, the answer is what follows the
 * offsets, up to half of max_output_bytes each, and goes on at out_to and err_to; of an ended one
 * it is head and tail of all that follows the offsets. */
int core_exec_wait(struct core *core, const struct principal *who, const char *sandbox_id,
		   const char *exec_id, int64_t wait_ms, uint64_t from_stdout, uint64_t from_stderr,
		   uint64_t max_output_bytes, core_exec_done_fn done, void *arg,
		   struct core_exec_call **ret, struct err *err);

/* Any thread. The caller went away: done will not be called once this has returned. The command
 * goes on. Safe against a done that is being called: returns false when done already ran or runs.
 */
bool core_exec_cancel(struct core *core, struct core_exec_call *call);

/* [worker] */
int core_exec_input(struct core *core, const struct principal *who, const char *sandbox_id,
		    const char *exec_id, const void *data, size_t len, bool close_after,
		    struct err *err);
int core_exec_signal(struct core *core, const struct principal *who, const char *sandbox_id,
		     const char *exec_id, int signal, struct err *err);

/* A live view of one exec's output, byte-exact (back-pressure instead of loss while it is open).
 * Callbacks on the loop's thread. Bytes come against credit, granted with core_stream_credit.
 * A stream is 1 for stdout or 2 for stderr, the numbers of enum proto_stream. */
struct core_stream;
struct core_stream_sink {
	void (*started)(void *arg, const char *exec_id);
	void (*data)(void *arg, int stream, uint64_t offset, const void *data, size_t len);
	void (*gap)(void *arg, int stream, uint64_t from, uint64_t to);
	/* The last call. When result is not NULL: every byte up to the exit was delivered. */
	void (*ended)(void *arg, const struct core_exec_result *result, const struct err *err);
};
/* [worker] Starts a command and streams it (out and err of the result stay empty). */
int core_exec_stream(struct core *core, const struct principal *who, const char *sandbox_id,
		     const struct core_exec_request *req, const struct core_stream_sink *sink,
		     void *arg, uint64_t initial_credit, struct core_stream **ret, struct err *err);
/* [worker] Joins an exec at the given offsets. */
int core_exec_follow(struct core *core, const struct principal *who, const char *sandbox_id,
		     const char *exec_id, uint64_t from_stdout, uint64_t from_stderr,
		     const struct core_stream_sink *sink, void *arg, uint64_t initial_credit,
		     struct core_stream **ret, struct err *err);
/* Any thread. */
void core_stream_credit(struct core_stream *stream, int which, uint64_t bytes);
/* Any thread. Detaches and frees; no callback runs afterwards. The command goes on. NULL is fine.
 */
void core_stream_close(struct core_stream *stream);

/* ---- events ---- */

/* What happened, in the order in which it did: docs/events.md has the types and what each says. */
struct core_event {
	int64_t id; /* of the account's: 1, 2, …; what followers go on from */
	int64_t at_unix_ms;
	const char *type;
	const char *sandbox_id; /* "": none */
	const char *data;	/* a JSON object */
};

/* The names of all types, NULL-terminated. */
const char *const *core_event_types(void);

struct core_event_filter {
	const char *sandbox_id; /* NULL: any */
	const char *types;	/* names with commas between; NULL: all */
};

/* Events up to `to` that are not kept any more, between where the reader was and what follows. */
struct core_event_gap {
	int64_t from, to; /* 0: there is none */
};

struct core_event_page {
	struct core_event *items; /* oldest first */
	size_t n;
	int64_t cursor; /* of the last one looked at: go on there */
	bool more;	/* at once */
	struct core_event_gap gap;
	void *rows; /* what the items borrow from */
	size_t n_rows;
};
void core_event_page_clear(struct core_event_page *page);
#define CORE_EVENTS_NEWEST (-1)
/* What follows the cursor (0: from the oldest that is kept on; CORE_EVENTS_NEWEST: the newest of
 * all). limit: 1 to 1000; 0: 100. "invalid_cursor": no event has had that id yet. */
int core_events_page(struct core *core, const struct principal *who,
		     const struct core_event_filter *filter, int64_t cursor, uint32_t limit,
		     struct core_event_page *ret, struct err *err);

struct core_event_follower;
struct core_event_sink {
	/* On the events' thread, must not block. false: no more until core_event_follower_resume.
	 */
	bool (*event)(void *arg, const struct core_event *event);
	bool (*gap)(void *arg, const struct core_event_gap *gap);
};
/* [worker] Follows from the cursor on (negative: from now on); nothing comes before the first
 * core_event_follower_resume. *ret_cursor is where it begins. "invalid_cursor", "limit_reached".
 * Close it before the core is freed. */
int core_events_follow(struct core *core, const struct principal *who,
		       const struct core_event_filter *filter, int64_t cursor,
		       const struct core_event_sink *sink, void *arg, int64_t *ret_cursor,
		       struct core_event_follower **ret, struct err *err);
/* Any thread, but not from within the sink. */
void core_event_follower_resume(struct core_event_follower *follower);
/* Any thread, but not from within the sink, which is not called again. Frees; NULL is fine. */
void core_event_follower_close(struct core_event_follower *follower);

/* ---- images ---- */

int core_image_list(struct core *core, struct image_info **ret, size_t *ret_n, struct err *err);
/* [worker] Admin only. Builds and then prepares the template of the default size. */
int core_image_build(struct core *core, const struct principal *who, const char *name, bool rebuild,
		     core_progress_fn progress, void *arg, struct image_info *ret, struct err *err);
struct core_image_import {
	const char *source; /* image/source.h */
	const char *name;   /* NULL: made of the source */
	bool replace;	    /* an image of that name */
	bool any_certificate;
};
/* [worker] Admin only. An image that was built elsewhere, and its template of the default size. One
 * that does not start is not kept. */
int core_image_import(struct core *core, const struct principal *who,
		      const struct core_image_import *req, core_progress_fn progress, void *arg,
		      struct image_info *ret, struct err *err);
/* [worker] Admin only. Refused ("image_in_use") while sandboxes of it are alive. */
int core_image_remove(struct core *core, const struct principal *who, const char *name,
		      struct err *err);

/* ---- doctor ---- */

/* Facts and checks of this host as JSON: {"checks": [{"name", "ok", "detail", "fix"}], "space":
 * {"items": [{"name", "files", "apparent_bytes", "allocated_bytes", "shared_bytes"}],
 * "file_system":
 * {"size_bytes", "free_bytes", "reflink"}}, "isolation": …}. Owned by the caller. [worker] */
int core_doctor(struct core *core, json_t **ret, struct err *err);
