/* Named values of the database itself, such as the id of this node. */
#pragma once

#include <stddef.h>

#include "store/db.h"

/* -ENOENT when it was never set. */
int meta_get(struct db_txn *txn, const char *name, char *out, size_t out_size, struct err *err);
int meta_set(struct db_txn *txn, const char *name, const char *value, struct err *err);
