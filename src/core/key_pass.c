/* Passes and principals. See key_pass.h and principal.h. */
#include "core/key_pass.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

/* ---- passes ---- */

int64_t key_row_until(const struct key_row *row)
{
	int64_t until = KEY_PASS_FOREVER;

	if (row->revoked_unix_ms)
		return 0;
	if (row->expires_unix_ms)
		until = row->expires_unix_ms;
	if (row->text_expires_unix_ms && row->text_expires_unix_ms < until)
		until = row->text_expires_unix_ms;
	return until;
}

struct key_pass *key_pass_new(const struct key_row *row, struct key_scope *scope)
{
	struct key_pass *pass = xcalloc(1, sizeof(*pass));

	atomic_init(&pass->refs, 1);
	atomic_init(&pass->until_unix_ms, key_row_until(row));
	str_copy(pass->hash, sizeof(pass->hash), row->hash);
	str_copy(pass->key_id, sizeof(pass->key_id), row->id);
	str_copy(pass->account_id, sizeof(pass->account_id), row->account_id);
	pass->admin = row->admin;
	pass->scope = scope;
	return pass;
}

void key_pass_unref(struct key_pass *pass)
{
	if (!pass || atomic_fetch_sub(&pass->refs, 1) != 1)
		return;
	key_scope_unref(pass->scope);
	free(pass);
}

/* Takes the reference over. */
static struct principal principal_of(struct key_pass *pass)
{
	struct principal who = { .admin = pass->admin, .scope = pass->scope, .pass = pass };

	str_copy(who.account_id, sizeof(who.account_id), pass->account_id);
	str_copy(who.key_id, sizeof(who.key_id), pass->key_id);
	return who;
}

/* ---- principals ---- */

void principal_copy(struct principal *to, const struct principal *from)
{
	*to = *from;
	if (to->pass)
		atomic_fetch_add(&to->pass->refs, 1);
}

void principal_clear(struct principal *who)
{
	key_pass_unref(who->pass);
	who->pass = NULL;
	who->scope = NULL;
}

bool principal_is_good(const struct principal *who)
{
	return !who->pass || clock_unix_ms() < atomic_load(&who->pass->until_unix_ms);
}

/* ---- the table ---- */

void key_passes_init(struct key_passes *passes)
{
	*passes = (struct key_passes){ 0 };
	pthread_mutex_init(&passes->lock, NULL);
}

void key_passes_clear(struct key_passes *passes)
{
	for (size_t i = 0; i < KEY_PASS_BUCKETS; i++) {
		while (passes->buckets[i]) {
			struct key_pass *pass = passes->buckets[i];

			passes->buckets[i] = pass->next;
			key_pass_unref(pass);
		}
	}
	pthread_mutex_destroy(&passes->lock);
}

/* By the first two digits: of a hash, so that they are spread, and say nothing of the text. */
static struct key_pass **bucket_of(struct key_passes *passes, const char *hash)
{
	unsigned int n = 0;

	for (int i = 0; i < 2; i++) {
		const char c = hash[i];

		n = n * 16 + (unsigned int)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return &passes->buckets[n % KEY_PASS_BUCKETS];
}

/* Lock held. */
static struct key_pass *find(struct key_passes *passes, const char *hash)
{
	struct key_pass *pass;

	for (pass = *bucket_of(passes, hash); pass; pass = pass->next) {
		if (CRYPTO_memcmp(pass->hash, hash, KEY_HASH_SIZE) == 0)
			return pass;
	}
	return NULL;
}

bool key_passes_find(struct key_passes *passes, const char *hash, struct principal *ret,
		     uint64_t *ret_epoch)
{
	struct key_pass *pass;

	pthread_mutex_lock(&passes->lock);
	*ret_epoch = passes->epoch;
	pass = find(passes, hash);
	if (pass)
		atomic_fetch_add(&pass->refs, 1);
	pthread_mutex_unlock(&passes->lock);
	if (pass)
		*ret = principal_of(pass);
	return pass;
}

/* Lock held. Those that nobody holds: they can be looked up again. Others have to stay, so that
 * what changes a key reaches them. References are only added under the lock to what is in the
 * table. */
static void forget_unused(struct key_passes *passes)
{
	for (size_t i = 0; i < KEY_PASS_BUCKETS; i++) {
		struct key_pass **at = &passes->buckets[i];

		while (*at) {
			struct key_pass *pass = *at;

			if (atomic_load(&pass->refs) > 1) {
				at = &pass->next;
				continue;
			}
			*at = pass->next;
			passes->n--;
			key_pass_unref(pass);
		}
	}
}

int key_passes_add(struct key_passes *passes, const struct key_row *row, struct key_scope *scope,
		   uint64_t epoch, struct principal *ret)
{
	struct key_pass *made = key_pass_new(row, scope), *pass = NULL;
	struct key_pass **bucket;

	pthread_mutex_lock(&passes->lock);
	if (epoch == passes->epoch) {
		pass = find(passes, row->hash); /* somebody was quicker */
		if (!pass) {
			if (passes->n >= KEY_PASSES_KEPT)
				forget_unused(passes);
			pass = STEAL(made);
			bucket = bucket_of(passes, row->hash);
			pass->next = *bucket;
			*bucket = pass;
			passes->n++;
		}
		atomic_fetch_add(&pass->refs, 1);
	}
	pthread_mutex_unlock(&passes->lock);
	key_pass_unref(made);
	if (!pass)
		return -ESTALE;
	*ret = principal_of(pass);
	return 0;
}

void key_passes_limit(struct key_passes *passes, const char *key_id, const char *except_hash,
		      int64_t until_unix_ms)
{
	pthread_mutex_lock(&passes->lock);
	passes->epoch++;
	for (size_t i = 0; i < KEY_PASS_BUCKETS; i++) {
		for (struct key_pass *pass = passes->buckets[i]; pass; pass = pass->next) {
			if (!str_eq(pass->key_id, key_id) || str_eq(pass->hash, except_hash))
				continue;
			if (until_unix_ms < atomic_load(&pass->until_unix_ms))
				atomic_store(&pass->until_unix_ms, until_unix_ms);
		}
	}
	pthread_mutex_unlock(&passes->lock);
}
