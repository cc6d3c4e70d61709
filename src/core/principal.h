/*
 * Who is asking: an account, by one of its keys. A principal is a value that holds a reference: it
 * is copied with principal_copy and ends with principal_clear. One that was made by hand (tests,
 * the core for itself) has no pass and is narrowed by nothing.
 *
 * The pass is one text of one key as it is in force now: whoever keeps a principal, for a stream
 * that is open, asks principal_is_good from time to time, and hears within moments that the key was
 * revoked, or has expired, or that its text was replaced.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/scope.h"

struct key_pass;

struct principal {
	char account_id[24];
	char key_id[24];
	bool admin;		 /* may act on other accounts and on the server */
	bool by_session;	 /* a browser's, for the key: core/session.h */
	struct key_scope *scope; /* what it may do less; the pass's; NULL: nothing less */
	struct key_pass *pass;	 /* a reference; NULL: none */
};

void principal_copy(struct principal *to, const struct principal *from);
void principal_clear(struct principal *who);
/* Any thread; cheap. */
bool principal_is_good(const struct principal *who);

#define _cleanup_principal_ __attribute__((cleanup(principal_clear)))
