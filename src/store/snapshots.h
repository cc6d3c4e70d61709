/* Named snapshots as rows; their files are the core's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

struct snapshot_row {
	char id[24];
	char node_id[40];
	char account_id[24];
	char name[64];
	bool ready; /* else it is being made, or was when the daemon ended */
	char source_id[24];
	char size[16];
	uint32_t milli_vcpus;
	uint32_t memory_mb;
	uint32_t disk_gb;
	char image[65];
	char image_digest[72];
	char template_key[33];
	char *labels;	     /* a JSON object of strings; owned */
	uint64_t generation; /* of the run that it was taken from */
	int64_t bytes;
	int64_t created_unix_ms;
	char guest_address[16];
	char *egress;	    /* of its source, as in store/egress.h; owned; NULL: nothing */
	char *image_config; /* likewise; owned; NULL: {} */
};
void snapshot_row_clear(struct snapshot_row *row);
void snapshot_rows_free(struct snapshot_row *rows, size_t n);

/* -EEXIST when the account has one of this name. */
int snapshots_insert(struct db_txn *txn, const struct snapshot_row *row, struct err *err);
/* -ENOENT; also finds one that is being made. */
int snapshots_by_name(struct db_txn *txn, const char *account_id, const char *name,
		      struct snapshot_row *ret, struct err *err);
/* By name; account_id NULL: of all accounts. */
int snapshots_list(struct db_txn *txn, const char *account_id, struct snapshot_row **ret,
		   size_t *ret_n, struct err *err);
int snapshots_count(struct db_txn *txn, const char *account_id, int64_t *ret_n, struct err *err);
/* Of all accounts. */
int snapshots_count_image(struct db_txn *txn, const char *image, int64_t *ret_n, struct err *err);
int snapshots_set_ready(struct db_txn *txn, const char *id, int64_t bytes, struct err *err);
int snapshots_delete(struct db_txn *txn, const char *id, struct err *err);

/* How many sandboxes that have not ended and snapshots need this template. */
int templates_count_users(struct db_txn *txn, const char *template_key, int64_t *ret_n,
			  struct err *err);
