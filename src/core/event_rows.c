/* Events that are written with the row that they speak of. See events.h. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/metrics_internal.h"

const char *const event_type_names[] = {
	[EVENT_SANDBOX_CREATED] = "sandbox_created",
	[EVENT_SANDBOX_RUNNING] = "sandbox_running",
	[EVENT_SANDBOX_PAUSING] = "sandbox_pausing",
	[EVENT_SANDBOX_PAUSED] = "sandbox_paused",
	[EVENT_SANDBOX_RESUMED] = "sandbox_resumed",
	[EVENT_SANDBOX_FORKED] = "sandbox_forked",
	[EVENT_SANDBOX_EXTENDED] = "sandbox_extended",
	[EVENT_SANDBOX_EXPIRED] = "sandbox_expired",
	[EVENT_SANDBOX_DESTROYED] = "sandbox_destroyed",
	[EVENT_SANDBOX_FAILED] = "sandbox_failed",
	[EVENT_SNAPSHOT_CREATED] = "snapshot_created",
	[EVENT_SNAPSHOT_REMOVED] = "snapshot_removed",
	[EVENT_EGRESS_CHANGED] = "egress_changed",
	[EVENT_EGRESS_DENIED] = "egress_denied",
	[EVENT_NETWORK_JOINED] = "network_joined",
	[EVENT_NETWORK_LEFT] = "network_left",
	[EVENT_EXEC_STARTED] = "exec_started",
	[EVENT_EXEC_ENDED] = "exec_ended",
	[EVENT_CREDIT_GRANTED] = "credit_granted",
	[EVENT_CREDIT_EXHAUSTED] = "credit_exhausted",
	[EVENT_EVENTS_LOST] = "events_lost",
	[EVENT_TYPES] = NULL,
};

int event_write(struct db_txn *txn, struct core *core, const char *account_id,
		const char *sandbox_id, enum event_type type, json_t *data, struct err *err)
{
	_cleanup_json_ json_t *owned = data;
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct event_new event = {
		.account_id = account_id,
		.sandbox_id = sandbox_id,
		.type = event_type_names[type],
		.at_unix_ms = clock_unix_ms(),
	};

	json_write(owned, &text);
	event.data = buf_str(&text);
	metrics_event(core, type);
	return events_append(txn, &event, core->limits.events_per_account, err);
}

static int write_of(struct db_txn *txn, struct sandbox *sb, enum event_type type, json_t *data,
		    struct err *err)
{
	return event_write(txn, sb->core, sb->account_id, sb->id, type, data, err);
}

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

/* ---- sandboxes ---- */

int event_created(struct db_txn *txn, struct core *core, const struct sandbox_row *row,
		  struct err *err)
{
	json_t *data = json_object();

	json_put_str(data, "name", or_null(row->name));
	json_put_str(data, "size", row->size);
	json_put_str(data, "image", row->image);
	json_put_str(data, "parent_id", or_null(row->parent_id));
	json_put_time(data, "expires_at", row->expires_unix_ms);
	return event_write(txn, core, row->account_id, row->id, EVENT_SANDBOX_CREATED, data, err);
}

int event_running(struct db_txn *txn, struct sandbox *sb, uint64_t generation, bool resumed,
		  struct err *err)
{
	json_t *data = json_object();

	json_put_int(data, "generation", (int64_t)generation);
	json_put_time(data, "expires_at", sb->expires_unix_ms);
	return write_of(txn, sb, resumed ? EVENT_SANDBOX_RESUMED : EVENT_SANDBOX_RUNNING, data,
			err);
}

int event_not_pausing(struct db_txn *txn, struct sandbox *sb, struct err *err)
{
	json_t *data = json_object();

	json_put_str(data, "reason", "pause_failed");
	return write_of(txn, sb, EVENT_SANDBOX_RUNNING, data, err);
}

int event_pausing(struct db_txn *txn, struct sandbox *sb, int64_t remaining_ms, struct err *err)
{
	json_t *data = json_object();

	json_put_int(data, "remaining_ms", remaining_ms);
	if (sb->unpaid)
		json_put_str(data, "reason", "no_credit");
	return write_of(txn, sb, EVENT_SANDBOX_PAUSING, data, err);
}

int event_paused(struct db_txn *txn, struct sandbox *sb, struct err *err)
{
	return write_of(txn, sb, EVENT_SANDBOX_PAUSED, json_object(), err);
}

int event_forked(struct db_txn *txn, struct sandbox *source, struct sandbox *const *children,
		 size_t n, struct err *err)
{
	json_t *data = json_object(), *ids = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(ids, json_string(children[i]->id));
	json_put(data, "children", ids);
	return write_of(txn, source, EVENT_SANDBOX_FORKED, data, err);
}

int event_extended(struct db_txn *txn, struct sandbox *sb, int64_t expires_unix_ms, struct err *err)
{
	json_t *data = json_object();

	json_put_time(data, "expires_at", expires_unix_ms);
	return write_of(txn, sb, EVENT_SANDBOX_EXTENDED, data, err);
}

int event_ended(struct db_txn *txn, struct sandbox *sb, const struct sandbox_end *end,
		struct err *err)
{
	enum event_type type = EVENT_SANDBOX_DESTROYED;
	json_t *data = json_object();

	if (str_eq(end->status, sandbox_status_name(SANDBOX_FAILED)))
		type = EVENT_SANDBOX_FAILED;
	else if (str_eq(end->reason, "expired"))
		type = EVENT_SANDBOX_EXPIRED;
	json_put_str(data, "reason", end->reason);
	json_put_str(data, "reason_text", end->reason_text);
	json_put_time(data, "ended_at", end->ended_unix_ms);
	return write_of(txn, sb, type, data, err);
}

/* ---- what belongs to them ---- */

int event_snapshot(struct db_txn *txn, struct core *core, const struct snapshot_row *row,
		   enum event_type type, struct err *err)
{
	json_t *data = json_object();

	json_put_str(data, "name", row->name);
	json_put_int(data, "size_bytes", row->bytes);
	return event_write(txn, core, row->account_id, row->source_id, type, data, err);
}

int event_egress(struct db_txn *txn, struct sandbox *sb, const char *rules, struct err *err)
{
	json_t *data = json_object(), *value = NULL;
	int r = json_parse(rules, strlen(rules), &value, err); /* text of ours */

	if (r < 0) {
		json_decref(data);
		return r;
	}
	if (json_is_array(value))
		json_put_int(data, "count", (int64_t)json_array_size(value));
	if (strlen(rules) <= EVENT_RULES_MAX)
		json_put(data, "rules", json_incref(value));
	json_decref(value);
	return write_of(txn, sb, EVENT_EGRESS_CHANGED, data, err);
}

int event_network(struct db_txn *txn, struct sandbox *sb, enum event_type type, const char *network,
		  const char *name, struct err *err)
{
	json_t *data = json_object();

	json_put_str(data, "network", network);
	if (name)
		json_put_str(data, "name", name);
	return write_of(txn, sb, type, data, err);
}
