/* Who is asking: keys by their hash, and the first account and key of a new state directory. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/metrics_internal.h"

#define KEY_FILE_MAX   4096
#define ADMIN_KEY_NEXT ".next"

/* Looking an algorithm up takes OpenSSL 3 longer than hashing a key with it. */
static EVP_MD *sha256;
static pthread_once_t sha256_once = PTHREAD_ONCE_INIT;

static void find_sha256(void)
{
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
}

void key_hash(const char *key, size_t len, char out[KEY_HASH_SIZE])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	pthread_once(&sha256_once, find_sha256);
	if (!sha256 || EVP_Digest(key, len, digest, NULL, sha256, NULL) != 1) {
		log_error("a key cannot be hashed", "algorithm=%s", "SHA256");
		abort();
	}
	hex_encode(digest, sizeof(digest), out);
}

void key_make_text(char text[KEY_TEXT_SIZE], struct key_row *row)
{
	char random[KEY_RANDOM_LEN + 1];

	rand_alnum(random, KEY_RANDOM_LEN);
	snprintf(text, KEY_TEXT_SIZE, KEY_PREFIX "%s", random);
	explicit_bzero(random, sizeof(random));
	key_hash(text, strlen(text), row->hash);
	str_copy(row->prefix, 10, text);
}

void key_make(char text[KEY_TEXT_SIZE], struct key_row *row)
{
	char id[17];

	*row = (struct key_row){ .created_unix_ms = clock_unix_ms() };
	rand_hex(id, sizeof(id) - 1);
	snprintf(row->id, sizeof(row->id), "key_%s", id);
	key_make_text(text, row);
}

static int insert_admin(struct core *core, struct key_row *key, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	char random[17];
	int r = db_begin_write(core->db, &txn, err);

	if (r < 0)
		return r;
	rand_hex(random, sizeof(random) - 1);
	snprintf(key->account_id, sizeof(key->account_id), "acc_%s", random);
	str_copy(key->label, sizeof(key->label), "admin");
	key->admin = true;
	r = accounts_insert(&txn, key->account_id, "admin", key->created_unix_ms, err);
	if (r == 0)
		r = accounts_set_admin(&txn, key->account_id, err);
	if (r == 0)
		r = credit_open(core, &txn, key->account_id, true, err);
	if (r == 0)
		r = keys_insert(&txn, key, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static int count_accounts(struct core *core, int64_t *ret_n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(core->db, &txn, err);

	return r < 0 ? r : accounts_count(&txn, ret_n, err);
}

/* ---- STATE/admin.key ---- */

static char *admin_key_path(const struct core *core, const char *suffix)
{
	return xasprintf("%s/admin.key%s", core->state_dir, suffix);
}

/* The hash of the text in a file; false: there is none. */
static bool hash_of_file(const char *path, char hash[KEY_HASH_SIZE])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	size_t len;
	bool found = file_read(path, KEY_FILE_MAX, &text) == 0;

	if (found) {
		len = strcspn(buf_str(&text), "\r\n \t");
		key_hash(text.data, len, hash);
		explicit_bzero(text.data, text.len);
	}
	return found;
}

static bool file_has(const char *path, const char *hash)
{
	char found[KEY_HASH_SIZE];

	return hash_of_file(path, found) && CRYPTO_memcmp(found, hash, KEY_HASH_SIZE) == 0;
}

static int write_key(const char *path, const char *text, struct err *err)
{
	char line[KEY_TEXT_SIZE + 1];
	int r;

	snprintf(line, sizeof(line), "%s\n", text);
	r = file_write_durable(path, line, strlen(line), 0600);
	explicit_bzero(line, sizeof(line));
	return r < 0 ? err_set(err, r, "write the admin key to '%s': %s", path, strerror(-r)) : 0;
}

int admin_key_prepare(struct core *core, const char *hash, const char *text, struct err *err)
{
	_cleanup_free_ char *path = admin_key_path(core, "");
	_cleanup_free_ char *next = admin_key_path(core, ADMIN_KEY_NEXT);

	return file_has(path, hash) ? write_key(next, text, err) : 0;
}

void admin_key_replace(struct core *core)
{
	_cleanup_free_ char *path = admin_key_path(core, "");
	_cleanup_free_ char *next = admin_key_path(core, ADMIN_KEY_NEXT);

	if (rename(next, path) < 0 && errno != ENOENT)
		log_error("the file of the admin key has its old text", "key_file=%s error=\"%s\"",
			  path, strerror(errno));
}

void admin_key_forget(struct core *core, const char *hash)
{
	_cleanup_free_ char *path = admin_key_path(core, "");

	if (file_has(path, hash) && unlink(path) < 0)
		log_warn("the file of a revoked key stays", "key_file=%s error=\"%s\"", path,
			 strerror(errno));
}

/* A daemon that died while it rotated the key: the new text is the key's, or never became it. */
static int finish_rotation(struct core *core, struct err *err)
{
	_cleanup_free_ char *next = admin_key_path(core, ADMIN_KEY_NEXT);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_(key_row_clear) struct key_row row = { 0 };
	char hash[KEY_HASH_SIZE];
	int r;

	if (!hash_of_file(next, hash))
		return 0;
	r = db_begin_read(core->db, &txn, err);
	if (r == 0)
		r = keys_by_hash(&txn, hash, &row, err);
	if (r == 0)
		admin_key_replace(core);
	else if (r == -ENOENT)
		unlink(next);
	return r == -ENOENT ? 0 : r;
}

/* The file is written before the rows: a crash in between makes a new key at the next start, and
 * never leaves a database whose only key nobody knows. */
int identity_init(struct core *core, struct err *err)
{
	_cleanup_free_ char *path = admin_key_path(core, "");
	char text[KEY_TEXT_SIZE];
	struct key_row key;
	int64_t n;
	int r = count_accounts(core, &n, err);

	if (r < 0 || n > 0)
		return r < 0 ? r : finish_rotation(core, err);
	key_make(text, &key);
	r = write_key(path, text, err);
	explicit_bzero(text, sizeof(text));
	if (r == 0)
		r = insert_admin(core, &key, err);
	if (r < 0)
		return r;
	log_info("admin account made", "account=%s key=%s key_file=%s", key.account_id, key.id,
		 path);
	return 0;
}

/* ---- who is asking ---- */

static int refuse_key(struct core *core, struct err *err)
{
	metrics_count(core, METRICS_BAD_KEYS, 1);
	err_code(err, -EACCES, "invalid_key", "the key is not valid");
	err_hint(err,
		 "send 'Authorization: Bearer sk_…' with a key of this server; the first one is in "
		 "admin.key of its state directory");
	return -EACCES;
}

static int refuse_rate(struct core *core, struct err *err)
{
	metrics_count(core, METRICS_RATE_LIMITED, 1);
	err_code(err, -EAGAIN, "rate_limited",
		 "this key has sent more than requests_per_second (%lld) for a while",
		 (long long)core->limits.requests_per_second);
	err_hint(err, "nothing was done; send it again in a second");
	return -EAGAIN;
}

/* What the row says of the key, whatever that is. */
static int look_up(struct core *core, const char *hash, uint64_t epoch, struct principal *ret,
		   struct err *err)
{
	_cleanup_(key_row_clear) struct key_row row = { 0 };
	struct key_scope *scope = NULL;
	int r;
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		r = db_begin_read(core->db, &txn, err);
		if (r == 0)
			r = keys_by_hash(&txn, hash, &row, err);
	}
	if (r == 0)
		r = key_row_scope(&row, &scope, err);
	if (r < 0)
		return r;
	if (CRYPTO_memcmp(hash, row.hash, sizeof(row.hash)) != 0) {
		key_scope_unref(scope);
		return -ENOENT;
	}
	return key_passes_add(&core->passes, &row, scope, epoch, ret);
}

int identity_admit(struct core *core, const char *hash, struct principal *ret, struct err *err)
{
	struct principal who = { 0 };
	uint64_t epoch;
	int r = 0;

	do {
		if (!key_passes_find(&core->passes, hash, &who, &epoch))
			r = look_up(core, hash, epoch, &who, err);
	} while (r == -ESTALE);
	if (r < 0)
		return r == -ENOENT ? refuse_key(core, err) : r;
	if (!principal_is_good(&who)) {
		principal_clear(&who);
		return refuse_key(core, err);
	}
	*ret = who;
	return rate_take(&core->rate, who.key_id, clock_boottime_ms()) ? 0 : refuse_rate(core, err);
}

int core_authenticate(struct core *core, const char *key, size_t len, struct principal *ret,
		      struct err *err)
{
	char hash[KEY_HASH_SIZE];

	if (len != KEY_TEXT_SIZE - 1)
		return refuse_key(core, err);
	key_hash(key, len, hash);
	return identity_admit(core, hash, ret, err);
}
