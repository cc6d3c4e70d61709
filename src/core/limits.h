/*
 * Every limit of the service: named, documented, configurable (section [limits] of the
 * configuration file, same names), served at /v1/limits. core_limits_init gives the defaults of the
 * product.
 */
#pragma once

#include <stdint.h>
#include <stddef.h>
#include <jansson.h>

#include "base/err.h"
#include "core/prices.h"

#define CORE_SIZES_MAX 16

struct core_size {
	char name[16];
	uint32_t milli_vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
};

struct core_limits {
	struct core_size sizes[CORE_SIZES_MAX];
	size_t n_sizes;
	char default_size[16];
	char default_image[65];
	char require_isolation[16]; /* "any" or "kvm" */

	int64_t vcpus_min_milli, vcpus_max_milli;
	int64_t memory_mb_min, memory_mb_max;
	int64_t disk_gb_min, disk_gb_max;
	int64_t timeout_minutes_default, timeout_minutes_max; /* in total, extensions included */
	int64_t sandboxes_per_account;
	int64_t keys_per_account; /* that are good */
	int64_t accounts_max;
	int64_t key_overlap_seconds_max; /* of a text that was replaced */
	int64_t labels_max;		 /* per sandbox */
	int64_t label_bytes_max;	 /* of a key or a value */
	int64_t exec_timeout_ms_default;
	int64_t exec_running_max;      /* per sandbox */
	int64_t exec_log_bytes;	       /* per stream, kept in the guest */
	int64_t terminals_per_sandbox; /* open at once */
	int64_t terminal_log_bytes;    /* of one, kept in the guest */
	int64_t terminal_replay_bytes; /* shown to who joins without saying from where */
	int64_t output_bytes_rest, output_bytes_mcp, output_bytes_max; /* per stream in an answer */
	int64_t mcp_exec_wait_ms; /* foreground exec over MCP answers within this */
	int64_t request_body_bytes;
	int64_t requests_per_second; /* of a key, on average; 0: any */
	int64_t session_minutes;     /* of a browser at the dashboard, then it signs in again */
	int64_t stream_heartbeat_ms; /* a stream of events that is silent gets a comment */
	int64_t tombstone_days;
	int64_t events_days;	    /* that events are kept, and … */
	int64_t events_per_account; /* … how many of them */
	int64_t event_followers_per_account;
	int64_t starting_credits;	 /* of a new account */
	int64_t credit_hold_seconds;	 /* of running are kept aside for what is about to run */
	int64_t charge_interval_seconds; /* what runs is charged this often, and at its end */
	int64_t out_of_credit_grace_seconds; /* that pausing what is unpaid is tried for */
	int64_t audit_days;		     /* that records of the audit are kept; 0: for ever */
	int64_t idempotency_hours;
	int64_t create_deadline_ms; /* restore to answer; booting a template may take longer */
	int64_t template_deadline_ms;
	int64_t image_build_deadline_ms; /* and of an import */
	int64_t image_mb_max;		 /* of an import: its files, unpacked */
	int64_t image_entries_max;	 /* … how many, of all layers */
	int64_t http_connections_max;
	int64_t http_header_timeout_ms;
	int64_t workers, worker_queue_max;
	int64_t snapshots_per_account;
	int64_t networks_per_account;
	int64_t network_slots_ready; /* made ahead, on the host */
	int64_t egress_rules_max;    /* per sandbox */
	int64_t egress_denials_kept; /* per sandbox */
	int64_t paused_per_account;
	int64_t paused_days;		       /* a sandbox paused for longer is destroyed */
	int64_t compress_paused_after_minutes; /* states of paused sandboxes; 0: never */
	int64_t resume_minutes_min;	       /* what a resumed sandbox has left at least */
	int64_t standby_per_template; /* sandboxes of the default shape that stand ready; 0: none */
	int64_t standby_free_memory_mb_min; /* with less memory available they are given up */
	int64_t host_free_disk_mb_min;	    /* below this, creating answers disk_full */
	int64_t preview_ttl_minutes_default, preview_ttl_minutes_max; /* of links */
	int64_t preview_connections_per_sandbox;
	int64_t preview_connect_timeout_ms;
	int64_t preview_answer_timeout_ms; /* silence of a guest's server before it answers */
	int64_t file_bytes_max;		   /* of an upload, be it a file or an archive */
	int64_t transfers_per_sandbox;	   /* operations on files at once */
	int64_t files_silence_ms;	   /* of a guest in the middle of one */
	int64_t sandbox_uid_base;  /* each VMM runs under a uid of its own, chosen from here … */
	int64_t sandbox_uid_count; /* … by this many; no one else on the host may use them */

	struct core_prices prices; /* section [prices] */
};

void core_limits_init(struct core_limits *limits);
/* Sets one by its name from text; -EINVAL with name, value and bounds, -ENOENT for an unknown name.
 * size.NAME takes "VCPUS MEMORY_MB DISK_GB" ("0.25 512 10") and changes or adds a size. */
int core_limits_set(struct core_limits *limits, const char *name, const char *value,
		    struct err *err);
/* What only shows when all are set: defaults out of bounds, sizes out of bounds. */
int core_limits_check(const struct core_limits *limits, struct err *err);
/* NULL when there is no such size. */
const struct core_size *core_limits_size(const struct core_limits *limits, const char *name);
/* As JSON for /v1/limits and the docs; owned by the caller. */
json_t *core_limits_json(const struct core_limits *limits);
