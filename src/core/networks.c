/*
 * Private networks: sandboxes of one account that reach each other, by address and by name.
 *
 * A network is a row and a number in the kernel's maps of its members; there is nothing to set up
 * for one. Joining writes the row first and then tells the kernel, leaving the other way round, so
 * that a daemon that dies in between leaves no sandbox in a network that its row does not name; its
 * next start joins what the rows say.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"

#define NUMBER_ATTEMPTS 8
#define SUFFIX_LEN	6 /* digits of a child's id that tell it from its source */

void core_networks_free(struct core_network *networks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(networks[i].members);
	free(networks);
}

/* ---- names ---- */

/* As sandboxes are called in a network that were not given a name there. */
static void default_name(const struct sandbox_row *row, char out[SANDBOX_NAME_MAX + 1])
{
	str_copy(out, SANDBOX_NAME_MAX + 1, row->name[0] ? row->name : row->id);
	for (char *p = out; *p; p++)
		*p = *p == '_' ? '-' : *p;
}

/* A child's own name where it has one that is free; else that, or its source's, with what its id
 * has that no other has. */
static int child_name(struct db_txn *txn, const struct sandbox_row *child,
		      const struct network_member_row *source, char out[SANDBOX_NAME_MAX + 1],
		      struct err *err)
{
	bool taken = true;
	int r = 0;

	if (child->name[0])
		r = network_members_name_taken(txn, source->network, child->name, &taken, err);
	if (r < 0)
		return r;
	if (!taken)
		str_copy(out, SANDBOX_NAME_MAX + 1, child->name);
	else
		snprintf(out, SANDBOX_NAME_MAX + 1, "%.50s-%.*s",
			 child->name[0] ? child->name : source->name, SUFFIX_LEN,
			 child->id + strlen("sbx_"));
	return 0;
}

int check_networks(const json_t *networks, struct err *err)
{
	const json_t *name;
	size_t i;

	if (json_array_size(networks) > SLOT_NETWORKS_MAX)
		return err_code(err, -EINVAL, "invalid_argument",
				"%zu networks were given, a sandbox can be in %d",
				json_array_size(networks), SLOT_NETWORKS_MAX);
	json_array_foreach(networks, i, name) {
		if (check_name(json_string_value(name) ? json_string_value(name) : "", err) < 0)
			return err_wrap(err, -EINVAL, "networks[%zu]", i);
	}
	return 0;
}

/* ---- rows of members ---- */

static int insert_member(struct db_txn *txn, const struct network_row *network, const char *id,
			 const char *name, struct err *err)
{
	bool taken = false;
	int r = network_members_name_taken(txn, network->number, name, &taken, err);

	if (r < 0)
		return r;
	if (!taken)
		return network_members_insert(txn, network->number, id, name, err);
	err_code(err, -EEXIST, "name_taken", "network '%s' has a member '%s' already",
		 network->name, name);
	err_hint(err, "choose another name");
	return -EEXIST;
}

static bool given_before(const json_t *networks, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (json_equal(json_array_get(networks, k), json_array_get(networks, i)))
			return true;
	}
	return false;
}

static int look_up(struct db_txn *txn, const char *account_id, const char *name,
		   struct network_row *ret, struct err *err)
{
	int r = networks_by_name(txn, account_id, name, ret, err);

	if (r == -ENOENT)
		err_hint(err, "list your networks to see their names, or create it first");
	return r;
}

int networks_enter(struct core *core, struct db_txn *txn, const struct sandbox_row *row,
		   const json_t *networks, struct err *err)
{
	char name[SANDBOX_NAME_MAX + 1];
	const json_t *value;
	size_t i;

	default_name(row, name);
	json_array_foreach(networks, i, value) {
		struct network_row network = { 0 };
		int r;

		if (given_before(networks, i))
			continue;
		r = look_up(txn, row->account_id, json_string_value(value), &network, err);
		if (r == 0)
			r = insert_member(txn, &network, row->id, name, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int networks_inherit(struct db_txn *txn, const struct sandbox_row *child, const char *source_id,
		     struct err *err)
{
	_cleanup_free_ struct network_member_row *members = NULL;
	char name[SANDBOX_NAME_MAX + 1];
	size_t n = 0;
	int r = network_members_of(txn, source_id, &members, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct network_row network = { .number = members[i].network };

		str_copy(network.name, sizeof(network.name), members[i].network_name);
		r = child_name(txn, child, &members[i], name, err);
		if (r == 0)
			r = insert_member(txn, &network, child->id, name, err);
	}
	return r;
}

/* ---- networks ---- */

static int check_limit(struct core *core, struct db_txn *txn, const char *account_id,
		       struct err *err)
{
	int64_t limit = core->limits.networks_per_account, n;
	int r = networks_count(txn, account_id, &n, err);

	if (r < 0 || n < limit)
		return r;
	err_code(err, -EDQUOT, "quota_reached", "there are %lld networks, the limit is %lld",
		 (long long)n, (long long)limit);
	err_hint(err, "delete one that is not needed any more, then try again");
	return -EDQUOT;
}

static int insert_network(struct core *core, struct network_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct network_row same;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = check_limit(core, &txn, row->account_id, err);
	if (r < 0)
		return r;
	if (networks_by_name(&txn, row->account_id, row->name, &same, NULL) == 0) {
		err_code(err, -EEXIST, "network_exists", "there is a network '%s' already",
			 row->name);
		return -EEXIST;
	}
	/* Numbers are not used again soon, whatever the kernel may still know of one. */
	for (int i = 0; i < NUMBER_ATTEMPTS; i++) {
		rand_bytes(&row->number, sizeof(row->number));
		row->number = (row->number & INT32_MAX) | 1;
		r = networks_insert(&txn, row, err);
		if (r != -EEXIST)
			break;
	}
	return r < 0 ? r : db_commit(&txn, err);
}

int core_network_create(struct core *core, const struct principal *who, const char *name,
			int64_t *ret_created_unix_ms, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct network_row row = { .created_unix_ms = clock_unix_ms() };
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = check_name(name, err);
	if (r < 0)
		return r;
	str_copy(row.account_id, sizeof(row.account_id), who->account_id);
	str_copy(row.name, sizeof(row.name), name);
	r = insert_network(core, &row, err);
	if (r < 0)
		return r;
	log_info("network created", "network=%s account=%s", name, who->account_id);
	*ret_created_unix_ms = row.created_unix_ms;
	return 0;
}

static int delete_network(struct core *core, const struct principal *who, const char *name,
			  struct err *err)
{
	_cleanup_free_ struct network_member_row *members = NULL;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct network_row network = { 0 };
	size_t n = 0;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = look_up(&txn, who->account_id, name, &network, err);
	if (r == 0)
		r = network_members_list(&txn, network.number, &members, &n, err);
	if (r == 0 && n > 0) {
		err_code(err, -EBUSY, "network_in_use", "network '%s' has %zu members", name, n);
		err_hint(err, "let them leave, or destroy them, then try again");
		r = -EBUSY;
	}
	if (r == 0)
		r = networks_delete(&txn, network.number, err);
	return r < 0 ? r : db_commit(&txn, err);
}

int core_network_remove(struct core *core, const struct principal *who, const char *name,
			struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = delete_network(core, who, name, err);
	if (r == 0)
		log_info("network removed", "network=%s account=%s", name, who->account_id);
	return r;
}

/* ---- listing ---- */

static void member_from_row(struct core *core, const struct network_member_row *row,
			    struct core_network_member *ret)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, row->sandbox_id, NULL);

	*ret = (struct core_network_member){ 0 };
	str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), row->sandbox_id);
	str_copy(ret->name, sizeof(ret->name), row->name);
	if (sb)
		sandbox_net_address(sb, ret->address);
}

static int list_members(struct core *core, struct db_txn *txn, const struct network_row *row,
			struct core_network *ret, struct err *err)
{
	_cleanup_free_ struct network_member_row *members = NULL;
	size_t n = 0;
	int r = network_members_list(txn, row->number, &members, &n, err);

	if (r < 0)
		return r;
	str_copy(ret->name, sizeof(ret->name), row->name);
	ret->created_unix_ms = row->created_unix_ms;
	ret->members = xcalloc(n + 1, sizeof(*ret->members));
	for (ret->n_members = 0; ret->n_members < n; ret->n_members++)
		member_from_row(core, &members[ret->n_members], &ret->members[ret->n_members]);
	return 0;
}

/* Leaves those that are not there for the scope out. */
static void narrow_members(struct core *core, const struct key_scope *scope,
			   struct core_network *network)
{
	size_t n = 0;

	for (size_t i = 0; i < network->n_members; i++) {
		if (scope_sees_sandbox(core, scope, network->members[i].sandbox_id))
			network->members[n++] = network->members[i];
	}
	network->n_members = n;
}

int core_network_list(struct core *core, const struct principal *who, struct core_network **ret,
		      size_t *ret_n, struct err *err)
{
	_cleanup_free_ struct network_row *rows = NULL;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct core_network *networks;
	size_t n = 0;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = networks_list(&txn, who->account_id, &rows, &n, err);
	if (r < 0)
		return r;
	networks = xcalloc(n + 1, sizeof(*networks));
	for (size_t i = 0; r == 0 && i < n; i++)
		r = list_members(core, &txn, &rows[i], &networks[i], err);
	if (r < 0) {
		core_networks_free(networks, n);
		return r;
	}
	db_rollback(&txn);
	for (size_t i = 0; i < n; i++)
		narrow_members(core, who->scope, &networks[i]);
	*ret = networks;
	*ret_n = n;
	return 0;
}

/* ---- joining and leaving ---- */

static int check_joinable(struct sandbox *sb, struct err *err)
{
	enum sandbox_status status = sandbox_status(sb);

	if (sandbox_end_wanted(sb) || sandbox_status_ended(status))
		return err_code(err, -ESHUTDOWN, "sandbox_ended", "sandbox '%s' has ended", sb->id);
	if (status == SANDBOX_RUNNING || status == SANDBOX_PAUSED)
		return 0;
	return err_code(err, -EBUSY, "sandbox_not_running",
			"sandbox '%s' is neither running nor paused but %s", sb->id,
			sandbox_status_name(status));
}

/* 1: it is a member already; *row is how. */
static int write_member(struct sandbox *sb, const char *network_name, const char *name,
			struct network_member_row *row, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row sandbox = { 0 };
	_cleanup_free_ struct network_member_row *members = NULL;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct network_row network = { 0 };
	size_t n = 0;
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = look_up(&txn, sb->account_id, network_name, &network, err);
	if (r == 0)
		r = network_members_of(&txn, sb->id, &members, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (members[i].network != network.number)
			continue;
		*row = members[i];
		return 1;
	}
	if (r == 0 && n >= SLOT_NETWORKS_MAX)
		r = err_code(err, -ENOSPC, "limit_reached",
			     "sandbox '%s' is in %zu networks, the limit is %d", sb->id, n,
			     SLOT_NETWORKS_MAX);
	if (r == 0)
		r = sandboxes_get(&txn, sb->id, NULL, &sandbox, err);
	if (r < 0)
		return r;
	*row = (struct network_member_row){ .network = network.number };
	str_copy(row->network_name, sizeof(row->network_name), network.name);
	str_copy(row->sandbox_id, sizeof(row->sandbox_id), sb->id);
	if (name)
		str_copy(row->name, sizeof(row->name), name);
	else
		default_name(&sandbox, row->name);
	r = insert_member(&txn, &network, sb->id, row->name, err);
	if (r == 0)
		r = event_network(&txn, sb, EVENT_NETWORK_JOINED, network.name, row->name, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static int delete_member(struct sandbox *sb, uint32_t network, const char *network_name,
			 struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = network_members_delete(&txn, network, sb->id, err);
	if (r == 0)
		r = event_network(&txn, sb, EVENT_NETWORK_LEFT, network_name, NULL, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static int join(struct sandbox *sb, const char *network, const char *name,
		struct network_member_row *row, struct err *err)
{
	int r = check_joinable(sb, err);

	if (r == 0)
		r = core_net_require(sb->core, err);
	if (r == 0)
		r = write_member(sb, network, name, row, err);
	abort_point("network.row");
	if (r != 0)
		return r < 0 ? r : 0;
	r = sandbox_net_join(sb, row, err);
	if (r == 0) {
		log_info("sandbox joined a network", "sandbox=%s network=%s name=%s", sb->id,
			 row->network_name, row->name);
		return 0;
	}
	if (delete_member(sb, row->network, row->network_name, NULL) < 0)
		log_error("a sandbox joins a network at the next start only",
			  "sandbox=%s network=%s", sb->id, row->network_name);
	return err_wrap(err, r, "join network '%s'", network);
}

int core_network_join(struct core *core, const struct principal *who, const char *network,
		      const char *id, const char *name, struct core_network_member *ret,
		      struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct network_member_row row;
	int r;

	if (!work)
		return -ESHUTDOWN;
	if (name && check_name(name, err) < 0)
		return -EINVAL;
	sb = table_find(core, id, who->account_id);
	if (!sb)
		return sandbox_find_running(core, who, id, &sb, err);
	sandbox_touch(sb);
	pthread_mutex_lock(&sb->op_lock);
	r = join(sb, network, name, &row, err);
	pthread_mutex_unlock(&sb->op_lock);
	if (r == 0)
		member_from_row(core, &row, ret);
	return r;
}

static int leave(struct sandbox *sb, const char *network_name, struct err *err)
{
	struct network_row network = { 0 };
	int r = check_joinable(sb, err);

	if (r < 0)
		return r;
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		r = db_begin_read(sb->core->db, &txn, err);
		if (r == 0)
			r = look_up(&txn, sb->account_id, network_name, &network, err);
		if (r < 0)
			return r;
	}
	r = sandbox_net_leave(sb, network.number, err);
	abort_point("network.left");
	if (r == 0)
		r = delete_member(sb, network.number, network_name, err);
	if (r == -ENOENT)
		return 0;
	if (r == 0)
		log_info("sandbox left a network", "sandbox=%s network=%s", sb->id, network_name);
	return r;
}

int core_network_leave(struct core *core, const struct principal *who, const char *network,
		       const char *id, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct err own = ERR_INIT;
	int r;

	if (!work)
		return -ESHUTDOWN;
	sb = table_find(core, id, who->account_id);
	if (!sb)
		return sandbox_find_running(core, who, id, &sb, err);
	sandbox_touch(sb);
	pthread_mutex_lock(&sb->op_lock);
	r = leave(sb, network, &own);
	pthread_mutex_unlock(&sb->op_lock);
	if (r < 0 && err)
		*err = own;
	return r;
}
