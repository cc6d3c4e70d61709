/*
 * What keeps the audit whole over deaths and years: records of what a dead daemon had begun, the
 * dropping of what is too old, and the head of the chain, noted elsewhere.
 *
 * The end of the chain (number and hash) is logged, and noted in the other database, at the start,
 * at the end and once an hour: so that a chain that was cut short does not look whole.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit_internal.h"

#define HEAD_META     "audit_head"
#define HEAD_META_LEN 128
#define DAY_MS	      (24 * 60 * 60 * 1000LL)

/* ---- what an earlier daemon left under way ---- */

static int finish_one(struct db_txn *txn, struct audit_state *state, const struct audit_open *open,
		      struct err *err)
{
	static const char *const end = ",\"result\":\"interrupted\",\"outcome\":{}}";
	_cleanup_buf_ struct buf text = BUF_INIT, tail = BUF_INIT;
	struct audit_row row = { 0 };
	size_t len = strlen(open->body);
	bool has_sandbox;
	int r;

	if (len < 2)
		return err_code(err, -EBADMSG, "audit_broken", "what was under way is no text");
	buf_append(&text, open->body, len - 1);
	buf_append_str(&text, end);
	r = audit_row_from_body(buf_str(&text), &row, err);
	if (r < 0)
		return r;
	has_sandbox = row.sandbox_id[0] != '\0';
	buf_printf(&tail, "{%s%s", has_sandbox ? "" : "\"sandbox_id\":null,", end + 1);
	r = audit_append_record(txn, state, &row, open->body, buf_str(&tail), err);
	return r < 0 ? r : audit_open_delete(txn, open->id, err);
}

int audit_finish_all(struct core_audit *audit, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct audit_open *open = NULL;
	size_t n = 0;
	int r = db_begin_write(audit->db, &txn, err);

	if (r == 0)
		r = audit_state_get(&txn, &audit->state, err);
	if (r == 0)
		r = audit_open_list(&txn, &open, &n, err);
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = finish_one(&txn, &audit->state, &open[i], err);
		free(open[i].body);
	}
	free(open);
	if (r == 0)
		r = db_commit(&txn, err);
	if (r == 0 && n > 0)
		log_info("operations that a crash interrupted were noted", "count=%zu", n);
	return r;
}

/* ---- the head of the chain, noted elsewhere ---- */

static int write_note(struct core *core, const char *text, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = meta_set(&txn, HEAD_META, text, err);
	return r < 0 ? r : db_commit(&txn, err);
}

void audit_note_head(struct core *core)
{
	struct core_audit *audit = core->audit;
	char text[HEAD_META_LEN];
	struct err err = ERR_INIT;
	int64_t seq;

	pthread_mutex_lock(&audit->lock);
	seq = audit->state.last_seq;
	snprintf(text, sizeof(text), "%" PRId64 " %s", seq, audit->state.last_hash);
	pthread_mutex_unlock(&audit->lock);
	if (seq == audit->noted_seq || audit->note_is_kept)
		return;
	audit->noted_seq = seq;
	log_info("head of the audit", "seq=%" PRId64 " hash=%s", seq,
		 text + strcspn(text, " ") + 1);
	if (write_note(core, text, &err) < 0)
		log_warn("the head of the audit cannot be noted", "error=\"%s\"", err.message);
}

int audit_noted_head(struct core *core, int64_t *ret_seq, char ret_hash[CHAIN_HASH_SIZE],
		     struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	char text[HEAD_META_LEN], *blank;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = meta_get(&txn, HEAD_META, text, sizeof(text), err);
	if (r < 0)
		return r;
	blank = strchr(text, ' ');
	if (blank)
		*blank = '\0';
	if (!blank || str_to_i64(text, ret_seq) < 0)
		return err_set(err, -EBADMSG, "the note of the audit's head is no head");
	str_copy(ret_hash, CHAIN_HASH_SIZE, blank + 1);
	return 0;
}

/* A chain that has not what was noted of it keeps the note, for whoever looks into it. */
void audit_look_at_note(struct core_audit *audit)
{
	struct err err = ERR_INIT;
	int r = audit_check_note(audit, &err);

	if (r == 0 || r == -ENOENT)
		return;
	audit->note_is_kept = true;
	log_error("the audit is not what it was", "error=\"%s\"", err.message);
}

/* ---- dropping the old ---- */

static int find_old(struct core_audit *audit, int64_t before_unix_ms, int64_t *ret_seq,
		    struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(audit->db, &txn, err);

	return r < 0 ? r : audit_newest_before(&txn, before_unix_ms, ret_seq, err);
}

static int prune(struct core_audit *audit, int64_t seq, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(audit->db, &txn, err);

	if (r == 0)
		r = audit_prune(&txn, seq, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* The server's own deed, which has its record before it is done. */
static int note_pruning(struct core *core, int64_t seq, struct err *err)
{
	static const struct principal server = { .admin = true };
	struct core_audit_entry *entry;
	struct core_audit_call call = {
		.operation = "audit_pruned", .surface = "server", .request_id = "", .peer = ""
	};
	int r;

	call.args = json_object();
	json_put_int(call.args, "up_to", seq);
	r = core_audit_begin(core, &server, &call, true, &entry, err);
	if (r == 0)
		core_audit_end_wait(core, entry, &(struct core_audit_end){ .result = "ok" });
	return r;
}

void audit_keep_house(struct core *core)
{
	struct core_audit *audit = core->audit;
	struct err err = ERR_INIT;
	int64_t seq = 0, before = clock_unix_ms() - core->limits.audit_days * DAY_MS;
	int r = core->limits.audit_days ? find_old(audit, before, &seq, &err) : 0;

	if (r == 0 && seq > 0) {
		pthread_mutex_lock(&audit->prune_lock);
		r = note_pruning(core, seq, &err);
		if (r == 0)
			r = prune(audit, seq, &err);
		pthread_mutex_unlock(&audit->prune_lock);
	}
	if (r < 0)
		log_warn("old records of the audit cannot be dropped", "error=\"%s\"", err.message);
	audit_note_head(core);
}
