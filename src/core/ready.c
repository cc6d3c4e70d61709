#include "core/ready.h"

#include <errno.h>
#include <sys/statvfs.h>

#include "base/json.h"
#include "core/audit.h"
#include "core/internal.h"

static bool add(json_t *checks, const char *name, bool ok, const char *detail)
{
	json_t *check = json_object();

	json_put_str(check, "name", name);
	json_put(check, "ok", json_boolean(ok));
	json_put_str(check, "detail", ok ? "" : detail);
	json_array_append_new(checks, check);
	return ok;
}

static bool database_answers(struct core *core)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n = 0;

	return db_begin_read(core->db, &txn, NULL) == 0 && accounts_count(&txn, &n, NULL) == 0 &&
	       n > 0;
}

static bool disk_has_room(const struct core *core)
{
	struct statvfs fs;

	return statvfs(core->state_dir, &fs) == 0 &&
	       (int64_t)(fs.f_bavail * fs.f_frsize >> 20) >= core->limits.host_free_disk_mb_min;
}

bool core_is_ready(struct core *core, json_t **ret_checks)
{
	json_t *checks = json_array();
	struct err why;
	bool ready = true;

	ready &= add(checks, "recovered", core->recovered,
		     "what an earlier daemon left is being taken over");
	ready &= add(checks, "staying", !core_is_stopping(core), "the daemon is ending");
	ready &= add(checks, "database", database_answers(core), "the database does not answer");
	ready &= add(checks, "audit", !core_audit_is_failing(core, &why),
		     "the audit cannot be written, and changes are refused");
	ready &= add(checks, "disk", disk_has_room(core),
		     "less than host_free_disk_mb_min is free, and nothing is created");
	*ret_checks = checks;
	return ready;
}
