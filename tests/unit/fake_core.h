/*
 * A core without machines, for tests of the surfaces above it: one sandbox ("sbx_aa"), and commands
 * whose text says what happens to them.
 *
 *	"echo TEXT"   ends at once with TEXT on stdout
 *	"bytes"       stdout is the two bytes ff fe
 *	"large"       ends at once with FAKE_LARGE_BYTES on stdout
 *	"hang"        runs until it is cancelled (its caller went away)
 *	"spew"        streams a repeated "é" as long as it gets credit, 16 MiB in all
 *	"missing"     cannot be started
 */
#pragma once

#include "core/core.h"
#include "loop/loop.h"

#define FAKE_KEY	 "sk_test"
#define FAKE_LARGE_BYTES (2u << 20)
#define FAKE_SPEW_BYTES	 (16u << 20)

struct core *fake_core_new(struct loop *loop);
void fake_core_free(struct core *core);
struct loop *fake_core_loop(struct core *core);
int fake_core_created(struct core *core);     /* calls of core_create so far */
int fake_core_cancelled(struct core *core);   /* commands whose waiting caller was cancelled */
int fake_core_closed(struct core *core);      /* streams closed */
uint64_t fake_core_spewed(struct core *core); /* bytes that streams sent so far */
/* Arguments of the last core_create. */
const char *fake_core_request_hash(struct core *core);
const char *fake_core_idempotency_key(struct core *core);
