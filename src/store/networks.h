/* Private networks and their members as rows. What the kernel knows of them is the core's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

struct network_row {
	uint32_t number; /* never 0 */
	char account_id[24];
	char name[64];
	int64_t created_unix_ms;
};

struct network_member_row {
	uint32_t network;
	char network_name[64];
	char sandbox_id[24];
	char name[64]; /* in the network */
};

/* -EEXIST: the number, or the account's name, is taken. */
int networks_insert(struct db_txn *txn, const struct network_row *row, struct err *err);
/* -ENOENT ("network_not_found"). */
int networks_by_name(struct db_txn *txn, const char *account_id, const char *name,
		     struct network_row *ret, struct err *err);
/* By name; the caller frees *ret. */
int networks_list(struct db_txn *txn, const char *account_id, struct network_row **ret,
		  size_t *ret_n, struct err *err);
int networks_count(struct db_txn *txn, const char *account_id, int64_t *ret_n, struct err *err);
/* Without members. */
int networks_delete(struct db_txn *txn, uint32_t number, struct err *err);

/* -EEXIST: the sandbox is a member already, or the name is taken. */
int network_members_insert(struct db_txn *txn, uint32_t network, const char *sandbox_id,
			   const char *name, struct err *err);
int network_members_name_taken(struct db_txn *txn, uint32_t network, const char *name,
			       bool *ret_taken, struct err *err);
/* -ENOENT when it is none. */
int network_members_delete(struct db_txn *txn, uint32_t network, const char *sandbox_id,
			   struct err *err);
/* Of a sandbox that has ended. */
int network_members_delete_all(struct db_txn *txn, const char *sandbox_id, struct err *err);
/* In one network, by name; or of one sandbox, by network name. The caller frees *ret. */
int network_members_list(struct db_txn *txn, uint32_t network, struct network_member_row **ret,
			 size_t *ret_n, struct err *err);
int network_members_of(struct db_txn *txn, const char *sandbox_id, struct network_member_row **ret,
		       size_t *ret_n, struct err *err);
