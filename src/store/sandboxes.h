/*
 * Sandboxes as rows. The words of status are the core's; which moves between them are allowed is
 * said there (core/status.h). Here a move is a compare-and-swap, so that of two movers one wins.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

struct traffic {
	uint64_t out_packets, out_bytes; /* from the guest */
	uint64_t in_packets, in_bytes;	 /* to the guest */
	uint64_t denied_packets;	 /* in both directions */
};

struct sandbox_row {
	char id[24];
	char node_id[40];
	char account_id[24];
	char key_id[24];
	char name[64];
	char status[16];
	char size[16];
	uint32_t milli_vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
	char image[65];
	char image_digest[72];
	char isolation[16];
	char *labels; /* a JSON object of strings; owned */
	uint64_t generation;
	int64_t uid; /* 0 once it has no process */
	int64_t created_unix_ms;
	int64_t expires_unix_ms;
	int64_t started_unix_ms; /* 0: never ran */
	int64_t ended_unix_ms;	 /* 0: may still have a process */
	char reason[32];
	char reason_text[256];
	char parent_id[24]; /* the sandbox that it was forked from; "" none */
	bool pause_on_timeout;
	uint32_t idle_pause_minutes; /* 0: never */
	char machine_id[33];
	char template_key[33];	/* what its memory is a difference to; "" not known */
	int64_t remaining_ms;	/* lifetime left, of one that is paused or pausing */
	int64_t paused_unix_ms; /* 0 unless paused */
	char *egress;	   /* what it may reach: JSON, as in store/egress.h; owned; NULL: nothing */
	char *egress_next; /* what that is being changed to; owned; NULL: nothing is under way */
	char guest_address[16]; /* inside; "": its machine has no network device */
	bool has_slot;
	uint32_t slot;
	char *image_config;	/* a JSON object, as its image had it; owned; NULL: {} */
	struct traffic traffic; /* of its earlier runs */
};
void sandbox_row_clear(struct sandbox_row *row);
void sandbox_rows_free(struct sandbox_row *rows, size_t n);

struct sandbox_label {
	const char *name;
	const char *value;
};

/* row->labels and labels say the same. -EEXIST when the id or the uid is taken. */
int sandboxes_insert(struct db_txn *txn, const struct sandbox_row *row,
		     const struct sandbox_label *labels, size_t n_labels, struct err *err);
/* account_id NULL: of any account. -ENOENT. */
int sandboxes_get(struct db_txn *txn, const char *id, const char *account_id,
		  struct sandbox_row *ret, struct err *err);
/* Those that count against the quota: creating, running, pausing, resuming. */
int sandboxes_count_alive(struct db_txn *txn, const char *account_id, int64_t *ret_n,
			  struct err *err);
/* Those whose state is kept on disk, or about to be. */
int sandboxes_count_paused(struct db_txn *txn, const char *account_id, int64_t *ret_n,
			   struct err *err);
/* Those that are not ended, of all accounts, with this image. */
int sandboxes_count_image(struct db_txn *txn, const char *image, int64_t *ret_n, struct err *err);
int sandboxes_uid_taken(struct db_txn *txn, const char *node_id, int64_t uid, bool *ret_taken,
			struct err *err);

struct sandbox_filter {
	const char *account_id;
	const char *status;		    /* NULL: not ended; "all"; or one */
	const char *image;		    /* NULL: any */
	const char *label_name;		    /* NULL: any */
	const char *label_value;	    /* NULL: any */
	const char *const *ids;		    /* NULL-terminated: only these; NULL: any */
	const struct sandbox_label *labels; /* and only those that have all of these */
	size_t n_labels;
	int64_t before_created_unix_ms; /* 0: from the newest */
	const char *before_id;
	uint32_t limit;
};
/* Newest first. */
int sandboxes_list(struct db_txn *txn, const struct sandbox_filter *filter,
		   struct sandbox_row **ret, size_t *ret_n, struct err *err);
/* All of a node that are not ended, oldest first: what recovery goes through. */
int sandboxes_unended(struct db_txn *txn, const char *node_id, struct sandbox_row **ret,
		      size_t *ret_n, struct err *err);

/* -ESTALE when the status is not `from` (any more). */
int sandboxes_move(struct db_txn *txn, const char *id, const char *from, const char *to,
		   struct err *err);
int sandboxes_set_started(struct db_txn *txn, const char *id, int64_t started_unix_ms,
			  struct err *err);
int sandboxes_set_expires(struct db_txn *txn, const char *id, int64_t expires_unix_ms,
			  struct err *err);

/* From running to pausing, from pausing to paused or back to running, and from resuming to running.
 * -ESTALE as for sandboxes_move. */
int sandboxes_set_pausing(struct db_txn *txn, const char *id, int64_t remaining_ms,
			  struct err *err);
int sandboxes_set_paused(struct db_txn *txn, const char *id, int64_t paused_unix_ms,
			 struct err *err);
int sandboxes_set_not_pausing(struct db_txn *txn, const char *id, struct err *err);
int sandboxes_set_resumed(struct db_txn *txn, const char *id, uint64_t generation,
			  int64_t expires_unix_ms, struct err *err);
/* Those that have been paused since before that time. */
int sandboxes_paused_before(struct db_txn *txn, const char *node_id, int64_t unix_ms,
			    struct sandbox_row **ret, size_t *ret_n, struct err *err);

struct sandbox_end {
	const char *status;	 /* "destroyed" or "failed" */
	int64_t started_unix_ms; /* unless it is known already; 0: as it is */
	int64_t ended_unix_ms;
	const char *reason;
	const char *reason_text;
};
/* Makes the tombstone and gives the uid back. -ESTALE when it had ended already. */
int sandboxes_end(struct db_txn *txn, const char *id, const struct sandbox_end *end,
		  struct err *err);
int sandboxes_delete_ended_before(struct db_txn *txn, int64_t unix_ms, int64_t *ret_n,
				  struct err *err);
