/*
 * The operations on what a sandbox may reach.
 *
 *   1 intent   the row says what the rules are being changed to
 *   2 effect   the kernel's maps are replaced at once: the next packet meets the new rules
 *   3 done     the row says what they are
 *
 * A daemon that dies between 1 and 3 leaves a row that knows both sets, one of which is in force;
 * its next start carries the change out. Without the intent, one of two things would be possible
 * after a crash, whatever the order: a sandbox that reaches more than its row says.
 *
 * One change of a sandbox at a time: all of it is done holding op_lock.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "store/egress.h"

static char *text_of(const struct ruleset *rules)
{
	_cleanup_json_ json_t *value = ruleset_to_json(rules);
	_cleanup_buf_ struct buf text = BUF_INIT;

	json_write(value, &text);
	return buf_take(&text);
}

int egress_text(const struct core *core, const json_t *rules, char **ret, struct err *err)
{
	_cleanup_ruleset_ struct ruleset *set = NULL;
	int r;

	if (!rules) {
		*ret = xstrdup(EGRESS_OPEN);
		return 0;
	}
	r = ruleset_from_json(rules, (size_t)core->limits.egress_rules_max, &set, err);
	if (r == 0)
		*ret = text_of(set);
	return r;
}

int core_egress_get(struct core *core, const struct principal *who, const char *id, json_t **ret,
		    struct err *err)
{
	struct sandbox_info info = { 0 };
	int r = load_info(core, id, who->account_id, &info, err);

	if (r < 0)
		return r;
	*ret = json_incref(info.egress);
	sandbox_info_clear(&info);
	return 0;
}

/* ---- changing ---- */

typedef int (*write_fn)(struct db_txn *txn, const char *id, const char *egress, struct err *err);

static int write_row(struct sandbox *sb, write_fn fn, const char *text, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = fn(&txn, sb->id, text, err);
	if (r == 0 && fn == egress_set)
		r = event_egress(&txn, sb, text, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* The change did not take effect: what there was goes on. */
static void take_back(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	if (write_row(sb, egress_set_next, NULL, &err) < 0)
		log_error("a change of egress rules that failed is tried again at the next start",
			  "sandbox=%s error=\"%s\"", sb->id, err.message);
}

static int change_live(struct sandbox *sb, struct ruleset *rules, const char *text, struct err *err)
{
	struct err late = ERR_INIT;
	int r = write_row(sb, egress_set_next, text, err);

	abort_point("egress.intent");
	if (r < 0)
		return r;
	r = sandbox_net_set_rules(sb, rules, err);
	abort_point("egress.effect");
	if (r < 0) {
		take_back(sb);
		return err_wrap(err, r, "set the egress rules of sandbox '%s'", sb->id);
	}
	/* In effect, and the row says so in one way already. */
	if (write_row(sb, egress_set, text, &late) < 0)
		log_warn("egress rules are in effect, and the row is made to agree at the next "
			 "start",
			 "sandbox=%s error=\"%s\"", sb->id, late.message);
	return 0;
}

/* Of a paused one nothing is in force: the next resume takes what its row says. */
static int change(struct sandbox *sb, struct ruleset *rules, struct err *err)
{
	_cleanup_free_ char *text = text_of(rules);
	int r;

	if (sandbox_status(sb) == SANDBOX_RUNNING)
		r = change_live(sb, rules, text, err);
	else
		r = write_row(sb, egress_set, text, err);
	if (r == 0)
		log_info("egress rules set", "sandbox=%s account=%s state=%s rules=%zu", sb->id,
			 sb->account_id,
			 rules->state == POLICY_OPEN	  ? "open"
			 : rules->state == POLICY_NOTHING ? "nothing"
							  : "list",
			 rules->n);
	return r;
}

static int check_changeable(struct sandbox *sb, struct err *err)
{
	enum sandbox_status status = sandbox_status(sb);

	if (sandbox_end_wanted(sb) || sandbox_status_ended(status))
		return err_code(err, -ESHUTDOWN, "sandbox_ended", "sandbox '%s' has ended", sb->id);
	if (status == SANDBOX_RUNNING || status == SANDBOX_PAUSED)
		return core_net_require(sb->core, err);
	return err_code(err, -EBUSY, "sandbox_not_running",
			"sandbox '%s' is neither running nor "
			"paused but %s",
			sb->id, sandbox_status_name(status));
}

/* Under the lock, so that what is compared with is what will be replaced. */
static int check_loosening(struct sandbox *sb, const struct principal *who,
			   const struct ruleset *after, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_ruleset_ struct ruleset *before = NULL;
	_cleanup_json_ json_t *json = NULL;
	int r;

	if (key_scope_may_loosen_egress(who->scope))
		return 0;
	r = sandbox_load_row(sb, &row, err);
	if (r == 0)
		r = json_parse(row.egress, strlen(row.egress), &json, err);
	if (r == 0)
		r = ruleset_from_json(json, SIZE_MAX, &before, err);
	return r < 0 ? r : authorize_egress(who, before, after, err);
}

/* Makes the new set; may look at the row. */
typedef int (*make_rules_fn)(struct sandbox *sb, const void *arg, struct ruleset **ret,
			     struct err *err);

static int change_locked(struct sandbox *sb, const struct principal *who, make_rules_fn make,
			 const void *arg, json_t **ret, struct err *err)
{
	_cleanup_ruleset_ struct ruleset *rules = NULL;
	int r = check_changeable(sb, err);

	if (r == 0)
		r = make(sb, arg, &rules, err);
	if (r == 0)
		r = check_loosening(sb, who, rules, err);
	if (r == 0)
		r = change(sb, rules, err);
	if (r == 0 && ret)
		*ret = ruleset_to_json(rules);
	return r;
}

static int change_of(struct core *core, const struct principal *who, const char *id,
		     make_rules_fn make, const void *arg, json_t **ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	sb = table_find(core, id, who->account_id);
	if (!sb) /* never was, or has ended: the same words as for everything else */
		return sandbox_find_running(core, who, id, &sb, err);
	sandbox_touch(sb);
	pthread_mutex_lock(&sb->op_lock);
	r = change_locked(sb, who, make, arg, ret, err);
	pthread_mutex_unlock(&sb->op_lock);
	return r;
}

static int make_given(struct sandbox *sb, const void *arg, struct ruleset **ret, struct err *err)
{
	return ruleset_from_json(arg, (size_t)sb->core->limits.egress_rules_max, ret, err);
}

int core_egress_set(struct core *core, const struct principal *who, const char *id,
		    const json_t *rules, json_t **ret, struct err *err)
{
	return change_of(core, who, id, make_given, rules, ret, err);
}

/* ---- adding and removing ---- */

struct edit {
	const json_t *add, *remove;
};

/* The list of the row, to be edited. */
static int load_list(struct sandbox *sb, json_t **ret, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_json_ json_t *list = NULL;
	int r = sandbox_load_row(sb, &row, err);

	if (r == 0)
		r = json_parse(row.egress, strlen(row.egress), &list, err);
	if (r < 0)
		return r;
	if (!json_is_array(list)) {
		err_code(err, -EINVAL, "egress_is_open",
			 "sandbox '%s' may reach everything: it has no list of rules", sb->id);
		err_hint(err, "set a list instead; what is not in it is denied from then on");
		return -EINVAL;
	}
	*ret = STEAL(list);
	return 0;
}

/* In the spelling of the list. */
static int canonical(const json_t *rules, const struct core *core, json_t **ret, struct err *err)
{
	_cleanup_ruleset_ struct ruleset *set = NULL;
	int r;

	if (!rules) {
		*ret = json_array();
		return 0;
	}
	r = ruleset_from_json(rules, (size_t)core->limits.egress_rules_max, &set, err);
	if (r == 0)
		*ret = ruleset_to_json(set);
	return r;
}

static int remove_one(json_t *list, const char *rule, struct err *err)
{
	size_t i;
	json_t *value;

	json_array_foreach(list, i, value) {
		if (!str_eq(json_string_value(value), rule))
			continue;
		json_array_remove(list, i);
		return 0;
	}
	err_code(err, -ENOENT, "rule_not_found", "there is no rule '%s'", rule);
	err_hint(err, "show the rules to see which there are");
	return -ENOENT;
}

static int make_edited(struct sandbox *sb, const void *arg, struct ruleset **ret, struct err *err)
{
	const struct edit *edit = arg;
	_cleanup_json_ json_t *list = NULL, *add = NULL, *gone = NULL;
	const json_t *value;
	size_t i;
	int r = load_list(sb, &list, err);

	if (r == 0)
		r = canonical(edit->add, sb->core, &add, err);
	if (r == 0)
		r = canonical(edit->remove, sb->core, &gone, err);
	if (r < 0)
		return r;
	json_array_foreach(gone, i, value) {
		r = remove_one(list, json_string_value(value), err);
		if (r < 0)
			return r;
	}
	json_array_extend(list, add); /* what is in it twice the parser keeps once */
	return make_given(sb, list, ret, err);
}

int core_egress_change(struct core *core, const struct principal *who, const char *id,
		       const json_t *add, const json_t *remove, json_t **ret, struct err *err)
{
	const struct edit edit = { add, remove };

	return change_of(core, who, id, make_edited, &edit, ret, err);
}

/* ---- denials ---- */

int core_egress_denials(struct core *core, const struct principal *who, const char *id,
			json_t **ret, uint64_t *ret_unreported, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, id, who->account_id);
	struct sandbox_info info = { 0 };
	int r;

	if (!sb) { /* of one that has ended there are none any more */
		r = load_info(core, id, who->account_id, &info, err);
		sandbox_info_clear(&info);
		if (r < 0)
			return r;
		*ret = json_array();
		*ret_unreported = 0;
		return 0;
	}
	sandbox_touch(sb);
	pthread_mutex_lock(&core->net_lock);
	*ret = denials_json(&sb->net.denials);
	*ret_unreported = sb->net.denials.unreported;
	pthread_mutex_unlock(&core->net_lock);
	return 0;
}
