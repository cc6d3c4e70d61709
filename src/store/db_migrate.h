/* The schema's history: the files in migrations/, embedded by the build in the order of their
 * numbers. */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct db_migration {
	int version; /* the number its file name begins with */
	const char *name;
	const char *sql;
};

extern const struct db_migration db_migrations[];
extern const size_t db_n_migrations;
/* Of the audit's own database: the files in audit_migrations/. */
extern const struct db_migration audit_migrations[];
extern const size_t audit_n_migrations;
