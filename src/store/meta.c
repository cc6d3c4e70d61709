/* Named values of the database itself. */
#include "store/meta.h"

#include <errno.h>

#include "base/str.h"

int meta_get(struct db_txn *txn, const char *name, char *out, size_t out_size, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select value from meta where name = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, name);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no value '%s' in the database", name);
	str_copy(out, out_size, db_column_text(&query, 0));
	return 0;
}

int meta_set(struct db_txn *txn, const char *name, const char *value, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into meta (name, value) values ($1, $2)"
			 " on conflict (name) do update set value = excluded.value",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, name);
	db_bind_text(&query, 2, value);
	return db_run(&query, NULL, err);
}
