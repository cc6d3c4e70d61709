/* Reading sandboxes: get and list. What is read comes from the database, for the living as for the
 * ended, so that every filter agrees with get. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "core/internal.h"

#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX	   200

bool sandbox_id_valid(const char *id)
{
	size_t len = strlen(id);

	return str_starts(id, "sbx_") && len >= 12 && len <= 20 &&
	       strspn(id + 4, "0123456789abcdef") == len - 4;
}

int sandbox_not_found(const char *id, struct err *err)
{
	err_code(err, -ENOENT, "not_found", "no sandbox '%.64s'", id);
	err_hint(err, "list your sandboxes to see their ids");
	return -ENOENT;
}

void sandbox_info_clear(struct sandbox_info *info)
{
	json_decref(info->labels);
	json_decref(info->egress);
	json_decref(info->networks);
	info->labels = info->egress = info->networks = NULL;
}

void info_from_row(const struct sandbox_row *row, struct sandbox_info *ret)
{
	struct sandbox_info info = { 0 };

	str_copy(info.id, sizeof(info.id), row->id);
	str_copy(info.name, sizeof(info.name), row->name);
	if (sandbox_status_parse(row->status, &info.status) < 0)
		info.status = SANDBOX_FAILED;
	str_copy(info.size, sizeof(info.size), row->size);
	info.milli_vcpus = row->milli_vcpus;
	info.memory_mb = row->memory_mb;
	info.disk_gb = row->disk_gb;
	str_copy(info.image, sizeof(info.image), row->image);
	str_copy(info.isolation, sizeof(info.isolation), row->isolation);
	info.created_unix_ms = row->created_unix_ms;
	info.expires_unix_ms = row->expires_unix_ms;
	info.ended_unix_ms = row->ended_unix_ms;
	str_copy(info.reason, sizeof(info.reason), row->reason);
	str_copy(info.reason_text, sizeof(info.reason_text), row->reason_text);
	if (!row->labels || json_parse(row->labels, strlen(row->labels), &info.labels, NULL) < 0)
		info.labels = json_object();
	info.generation = row->generation;
	str_copy(info.parent_id, sizeof(info.parent_id), row->parent_id);
	info.pause_on_timeout = row->pause_on_timeout;
	info.idle_pause_minutes = row->idle_pause_minutes;
	if (info.status == SANDBOX_PAUSED)
		info.remaining_ms = row->remaining_ms;
	if (!row->egress || json_parse(row->egress, strlen(row->egress), &info.egress, NULL) < 0)
		info.egress = json_array();
	info.networks = json_array();
	info.out_packets = row->traffic.out_packets;
	info.out_bytes = row->traffic.out_bytes;
	info.in_packets = row->traffic.in_packets;
	info.in_bytes = row->traffic.in_bytes;
	info.denied_packets = row->traffic.denied_packets;
	*ret = info;
}

/* What its row does not have: its networks, and what its slot knows. */
static int add_network(struct core *core, struct db_txn *txn, struct sandbox_info *info,
		       struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, info->id, NULL);
	_cleanup_free_ struct network_member_row *members = NULL;
	struct traffic traffic;
	size_t n = 0;
	int r = network_members_of(txn, info->id, &members, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(info->networks, json_string(members[i].network_name));
	if (!sb)
		return 0;
	sandbox_net_address(sb, info->address);
	sandbox_net_traffic(sb, &traffic);
	info->out_packets += traffic.out_packets;
	info->out_bytes += traffic.out_bytes;
	info->in_packets += traffic.in_packets;
	info->in_bytes += traffic.in_bytes;
	info->denied_packets += traffic.denied_packets;
	return 0;
}

int load_info(struct core *core, const char *id, const char *account_id, struct sandbox_info *ret,
	      struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	struct sandbox_info info = { 0 };
	int r;

	if (!sandbox_id_valid(id))
		return sandbox_not_found(id, err);
	r = db_begin_read(core->db, &txn, err);
	if (r == 0)
		r = sandboxes_get(&txn, id, account_id, &row, err);
	if (r == -ENOENT)
		return sandbox_not_found(id, err);
	if (r < 0)
		return r;
	info_from_row(&row, &info);
	r = add_network(core, &txn, &info, err);
	if (r < 0)
		sandbox_info_clear(&info);
	else
		*ret = info;
	return r;
}

int core_get(struct core *core, const struct principal *who, const char *id,
	     struct sandbox_info *ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, id, who->account_id);

	if (sb)
		sandbox_touch(sb);
	return load_info(core, id, who->account_id, ret, err);
}

/* ---- lists ---- */

/* A cursor is "<created_unix_ms>_<id>" of the last one shown, in hex, so that nobody is tempted to
 * make one. */
static char *cursor_make(const struct sandbox_row *last)
{
	_cleanup_free_ char *plain = xasprintf("%" PRId64 "_%s", last->created_unix_ms, last->id);
	char *out = xmalloc(strlen(plain) * 2 + 1);

	hex_encode(plain, strlen(plain), out);
	return out;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static int cursor_parse(const char *cursor, int64_t *ret_created, char ret_id[SANDBOX_ID_SIZE],
			struct err *err)
{
	char plain[64] = "";
	size_t len = strlen(cursor);
	char *separator;

	if (len % 2 != 0 || len / 2 >= sizeof(plain))
		goto invalid;
	for (size_t i = 0; i < len; i += 2) {
		int high = hex_digit(cursor[i]), low = hex_digit(cursor[i + 1]);

		if (high < 0 || low < 0)
			goto invalid;
		plain[i / 2] = (char)(high << 4 | low);
	}
	separator = strchr(plain, '_');
	if (!separator)
		goto invalid;
	*separator = '\0';
	if (!sandbox_id_valid(separator + 1) || str_to_i64(plain, ret_created) < 0 ||
	    *ret_created <= 0)
		goto invalid;
	str_copy(ret_id, SANDBOX_ID_SIZE, separator + 1);
	return 0;
invalid:
	err_code(err, -EINVAL, "invalid_cursor", "cursor is not one of ours");
	err_hint(err, "use next_cursor of the last answer, or leave it out to begin anew");
	return -EINVAL;
}

static int check_status_filter(const char *status, struct err *err)
{
	enum sandbox_status parsed;

	if (!status || str_eq(status, "all") || sandbox_status_parse(status, &parsed) == 0)
		return 0;
	err_set(err, -EINVAL, "status '%.32s' is none there is", status);
	err_hint(err,
		 "use all, creating, running, pausing, paused, resuming, destroying, destroyed "
		 "or failed");
	return -EINVAL;
}

static int filter_from_request(const struct principal *who, const struct core_list_request *req,
			       char **label_storage, char before_id[SANDBOX_ID_SIZE],
			       struct sandbox_filter *ret, struct err *err)
{
	struct sandbox_filter filter = {
		.account_id = who->account_id,
		.status = req->status,
		.image = req->image,
		.before_id = before_id,
		.limit = req->limit ? req->limit : LIST_LIMIT_DEFAULT,
	};
	int r = check_status_filter(req->status, err);

	if (r < 0)
		return r;
	if (filter.limit > LIST_LIMIT_MAX)
		return err_set(err, -EINVAL, "limit %u is not from 1 to %d", filter.limit,
			       LIST_LIMIT_MAX);
	if (req->label) {
		char *equals;

		*label_storage = xstrdup(req->label);
		equals = strchr(*label_storage, '=');
		if (equals)
			*equals = '\0';
		filter.label_name = *label_storage;
		filter.label_value = equals ? equals + 1 : NULL;
	}
	if (req->cursor) {
		r = cursor_parse(req->cursor, &filter.before_created_unix_ms, before_id, err);
		if (r < 0)
			return r;
	}
	*ret = filter;
	return 0;
}

/* Those that are there for a scope; the caller frees *labels. */
static void narrow_filter(const struct key_scope *scope, struct sandbox_label **labels,
			  struct sandbox_filter *filter)
{
	const json_t *wanted = key_scope_labels(scope);
	const char *name;
	json_t *value;

	filter->ids = key_scope_sandboxes(scope);
	*labels = xcalloc(json_object_size(wanted) + 1, sizeof(**labels));
	json_object_foreach((json_t *)(uintptr_t)wanted, name, value) {
		(*labels)[filter->n_labels++] =
			(struct sandbox_label){ name, json_string_value(value) };
	}
	filter->labels = *labels;
}

int core_list(struct core *core, const struct principal *who, const struct core_list_request *req,
	      struct sandbox_info **ret, size_t *ret_n, char **ret_next_cursor, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct sandbox_label *scope_labels = NULL;
	_cleanup_free_ char *label = NULL;
	char before_id[SANDBOX_ID_SIZE] = "";
	struct sandbox_filter filter = { 0 };
	struct sandbox_row *rows = NULL;
	struct sandbox_info *infos;
	size_t n = 0, shown, limit;
	int r = filter_from_request(who, req, &label, before_id, &filter, err);

	if (r < 0)
		return r;
	narrow_filter(who->scope, &scope_labels, &filter);
	limit = filter.limit;
	filter.limit++; /* one more tells whether there is a next page */
	r = db_begin_read(core->db, &txn, err);
	if (r == 0)
		r = sandboxes_list(&txn, &filter, &rows, &n, err);
	if (r < 0)
		return r;
	shown = n > limit ? limit : n;
	infos = xcalloc(shown ? shown : 1, sizeof(*infos));
	for (size_t i = 0; i < shown; i++) {
		info_from_row(&rows[i], &infos[i]);
		if (r == 0)
			r = add_network(core, &txn, &infos[i], err);
	}
	if (r == 0) {
		*ret = infos;
		*ret_n = shown;
		*ret_next_cursor = n > limit ? cursor_make(&rows[shown - 1]) : NULL;
	} else {
		core_list_clear(infos, shown);
	}
	sandbox_rows_free(rows, n);
	return r;
}

void core_list_clear(struct sandbox_info *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sandbox_info_clear(&items[i]);
	free(items);
}
