/*
 * The scope of a key: what it may do less than its account. Each field narrows by itself, and a
 * field that is absent does not; an empty list allows nothing. As JSON, of a key and of a request:
 *
 * - operations: names of scopes ("exec", "sandbox:read") or of operations ("exec_wait")
 * - sandboxes: ids; no others are there for this key
 * - labels: names and values; only sandboxes that have them all are there, and what it makes gets
 *   them
 * - sizes: what it may make ("custom": of any shape)
 * - lifetime_minutes_max: in total, of what it makes or extends
 * - egress_loosen: false: what it makes may reach nothing, what there is not more than it does
 * - root: false: no command, terminal or file operation as root, and no sudo
 * - spend_credits_max: what all that it makes may cost together
 *
 * Immutable and reference-counted (any thread). NULL is the scope that narrows nothing. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/err.h"

#define SCOPE_OPERATIONS_MAX 128
#define SCOPE_SANDBOXES_MAX  256
#define SCOPE_NAME_MAX	     64 /* bytes of an operation, of an id, of a size */

struct key_scope;

/* {} and null make NULL. "invalid_argument" with the field and what is wrong. Whether operations,
 * sizes and sandboxes exist is for the caller to check. */
int key_scope_parse(const json_t *json, struct key_scope **ret, struct err *err);
json_t *key_scope_json(const struct key_scope *scope); /* owned; {} when nothing is narrowed */
struct key_scope *key_scope_ref(struct key_scope *scope);
void key_scope_unref(struct key_scope *scope);
static inline void cleanup_key_scopep(struct key_scope **scope)
{
	key_scope_unref(*scope);
}
#define _cleanup_key_scope_ __attribute__((cleanup(cleanup_key_scopep)))

/* An operation by the scope that it needs and by its own name; either will do. name may be NULL. */
bool key_scope_allows(const struct key_scope *scope, const char *operation_scope, const char *name);

/* Some sandboxes of the account are not there for it. */
bool key_scope_narrows_sandboxes(const struct key_scope *scope);
/* Whether a sandbox is there; labels: a JSON object of strings, NULL: none. */
bool key_scope_sees(const struct key_scope *scope, const char *sandbox_id, const json_t *labels);
/* Whether the labels alone are needed to say so: without any, ids decide. */
bool key_scope_has_labels(const struct key_scope *scope);
/* The ids, NULL-terminated; NULL: all. Borrowed. */
const char *const *key_scope_sandboxes(const struct key_scope *scope);
/* The labels that it insists on: an object, NULL when none. Borrowed. */
const json_t *key_scope_labels(const struct key_scope *scope);

bool key_scope_allows_size(const struct key_scope *scope, const char *size);
int64_t key_scope_lifetime_minutes_max(const struct key_scope *scope); /* 0: no bound of its own */
bool key_scope_may_loosen_egress(const struct key_scope *scope);
bool key_scope_may_be_root(const struct key_scope *scope);
int64_t key_scope_spend_credits_max(const struct key_scope *scope); /* negative: no bound */

/* Which scope an operation needs; NULL: there is no such operation. */
typedef const char *(*operation_scope_fn)(const char *operation);

/* Whether whatever `inner` allows `outer` allows too, so that a key of scope outer may make, show
 * and change one of scope inner. Errs on the safe side. scope_of may be NULL. When not, *ret_field
 * (may be NULL) is the field that goes further. */
bool key_scope_within(const struct key_scope *inner, const struct key_scope *outer,
		      operation_scope_fn scope_of, const char **ret_field);
