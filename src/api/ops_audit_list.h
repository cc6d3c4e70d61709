/* What pages and streams of the audit share. */
#pragma once

#include "api/ops.h"
#include "core/audit.h"

struct core_audit_filter audit_filter_of(const struct op_call *call);
/* A record as it is shown; owned by the caller. */
json_t *audit_record_json(const struct core_audit_record *record);
