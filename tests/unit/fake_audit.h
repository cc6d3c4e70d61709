/* The audit of the core of fake_core.h: what it was told, in memory. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Forgets what it was told. */
void fake_audit_reset(void);
/* Nothing can be written. */
void fake_audit_fail(bool fails);
size_t fake_audit_begun(void);
/* Records: {operation, surface, request_id, key_id, sandbox_id, args, result, outcome}; borrowed.
 */
const json_t *fake_audit_records(void);
