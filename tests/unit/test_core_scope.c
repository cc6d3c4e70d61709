/* Scopes in the core: what is there for a key, and what its arguments may come to. A creation that
 * is allowed ends at the image, which there is none of. */
#include "core/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/exec.h"
#include "network_rig.h"

#define _cleanup_who_ __attribute__((cleanup(principal_clear)))

/* Of the administrator's account, by a key of this scope. */
static struct principal narrowed(struct fixture *f, const char *scopes)
{
	_cleanup_json_ json_t *json = json_loads(scopes, 0, NULL);
	const struct core_key_request req = { .scopes = json };
	struct core_key_info info = { 0 };
	struct principal who = { 0 };
	char text[CORE_KEY_TEXT_SIZE];

	assert_non_null(json);
	assert_int_equal(core_key_create(f->core, &f->admin, &req, text, &info, NULL), 0);
	core_key_info_clear(&info);
	assert_int_equal(core_authenticate(f->core, text, strlen(text), &who, NULL), 0);
	return who;
}

static struct principal of_sandbox(struct fixture *f, const char *id)
{
	_cleanup_free_ char *scopes = xasprintf("{\"sandboxes\": [\"%s\"]}", id);

	return narrowed(f, scopes);
}

/* ---- what is there ---- */

static size_t count_listed(struct fixture *f, const struct principal *who, const char **first)
{
	static char id[SANDBOX_ID_SIZE];
	struct sandbox_info *infos = NULL;
	char *cursor = NULL;
	size_t n = 0;

	assert_int_equal(core_list(f->core, who, &(struct core_list_request){ 0 }, &infos, &n,
				   &cursor, NULL),
			 0);
	if (n > 0)
		str_copy(id, sizeof(id), infos[0].id);
	if (first)
		*first = id;
	core_list_clear(infos, n);
	free(cursor);
	return n;
}

static void lists_show_what_is_there(void **state)
{
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *a =
		make_labelled(f, "a", "[]", "{\"team\": \"one\", \"x\": \"y\"}");
	_cleanup_sandbox_ struct sandbox *b = make_labelled(f, "b", "[]", "{\"team\": \"two\"}");
	_cleanup_sandbox_ struct sandbox *c = make_labelled(f, "c", "[]", "{\"team\": \"one\"}");
	_cleanup_who_ struct principal by_id = of_sandbox(f, b->id);
	_cleanup_who_ struct principal by_label = narrowed(f, "{\"labels\": {\"team\": \"one\"}}");
	_cleanup_who_ struct principal by_both =
		narrowed(f, "{\"labels\": {\"team\": \"one\", \"x\": \"y\"}}");
	_cleanup_who_ struct principal none = narrowed(f, "{\"sandboxes\": []}");
	const char *first;

	assert_int_equal(count_listed(f, &f->admin, NULL), 3);
	assert_int_equal(count_listed(f, &by_id, &first), 1);
	assert_string_equal(first, b->id);
	assert_int_equal(count_listed(f, &by_label, &first), 2);
	assert_true(str_eq(first, a->id) || str_eq(first, c->id));
	assert_int_equal(count_listed(f, &by_both, &first), 1);
	assert_string_equal(first, a->id);
	assert_int_equal(count_listed(f, &none, NULL), 0);
}

static void a_look_at_another_reads_like_none(void **state)
{
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *a = make_sandbox(f, "a", "[]");
	_cleanup_sandbox_ struct sandbox *b = make_sandbox(f, "b", "[]");
	_cleanup_who_ struct principal who = of_sandbox(f, a->id);
	struct core_action read = { "sandbox:read", "get_sandbox", a->id };
	struct err out = ERR_INIT, never = ERR_INIT;

	assert_int_equal(core_authorize(f->core, &who, &read, NULL), 0);
	read.sandbox_id = b->id;
	assert_int_equal(core_authorize(f->core, &who, &read, &out), -ENOENT);
	read.sandbox_id = "sbx_0123456789ab";
	assert_int_equal(core_authorize(f->core, &who, &read, &never), -ENOENT);
	assert_string_equal(err_code_of(&out), err_code_of(&never));
	assert_string_equal(out.hint, never.hint);
}

static size_t count_events(struct fixture *f, const struct principal *who)
{
	struct core_event_page page = { 0 };
	size_t n;

	assert_int_equal(
		core_events_page(f->core, who, &(struct core_event_filter){ 0 }, 0, 0, &page, NULL),
		0);
	n = page.n;
	core_event_page_clear(&page);
	return n;
}

struct heard {
	atomic_int n;
	char last[SANDBOX_ID_SIZE];
};

static bool on_event(void *arg, const struct core_event *event)
{
	struct heard *heard = arg;

	str_copy(heard->last, sizeof(heard->last), event->sandbox_id);
	heard->n++;
	return true;
}

static bool on_gap(void *arg, const struct core_event_gap *gap)
{
	return true;
}

static void events_tell_of_what_is_there(void **state)
{
	static const struct core_event_sink sink = { on_event, on_gap };
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *a = make_labelled(f, "a", "[]", "{\"t\": \"1\"}");
	_cleanup_sandbox_ struct sandbox *b = make_sandbox(f, "b", "[]");
	_cleanup_who_ struct principal by_id = of_sandbox(f, b->id);
	_cleanup_who_ struct principal by_label = narrowed(f, "{\"labels\": {\"t\": \"1\"}}");
	struct core_event_follower *follower;
	struct heard heard = { 0 };
	int64_t cursor;

	assert_int_equal(count_events(f, &f->admin), 2);
	assert_int_equal(count_events(f, &by_id), 1);
	assert_int_equal(count_events(f, &by_label), 1);
	assert_int_equal(core_events_follow(f->core, &by_label, &(struct core_event_filter){ 0 },
					    -1, &sink, &heard, &cursor, &follower, NULL),
			 0);
	core_event_follower_resume(follower);
	assert_int_equal(set_rules(f, b, "[\"192.0.2.1\"]", NULL), 0);
	assert_int_equal(set_rules(f, a, "[\"192.0.2.1\"]", NULL), 0);
	for (int i = 0; i < 500 && heard.n < 1; i++)
		usleep(10000);
	assert_int_equal(heard.n, 1);
	assert_string_equal(heard.last, a->id);
	core_event_follower_close(follower);
}

static void members_are_those_that_are_there(void **state)
{
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *a = make_sandbox(f, "a", "[]");
	_cleanup_sandbox_ struct sandbox *b = make_sandbox(f, "b", "[]");
	_cleanup_who_ struct principal who = of_sandbox(f, a->id);
	struct core_network_member member;
	struct core_network *networks;
	int64_t created;
	size_t n;

	assert_int_equal(core_network_create(f->core, &f->admin, "lan", &created, NULL), 0);
	assert_int_equal(core_network_join(f->core, &f->admin, "lan", a->id, NULL, &member, NULL),
			 0);
	assert_int_equal(core_network_join(f->core, &f->admin, "lan", b->id, NULL, &member, NULL),
			 0);
	assert_int_equal(core_network_list(f->core, &who, &networks, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(networks[0].n_members, 1);
	assert_string_equal(networks[0].members[0].sandbox_id, a->id);
	core_networks_free(networks, n);
}

/* ---- what arguments come to ---- */

static void create_gives(struct fixture *f, const struct principal *who,
			 const struct core_create_request *req, const char *code)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	assert_true(core_create(f->core, who, req, NULL, NULL, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), code);
}

#define ALLOWED "image_not_found"
#define DENIED	"scope_denied"
#define CREATE(who, code, ...)                                                                     \
	create_gives(f, who, &(struct core_create_request){ __VA_ARGS__ }, code)

static void creations_are_within_the_scope(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *open = json_null(), *nothing = json_array();
	_cleanup_json_ json_t *one = json_pack("[s]", "example.com"),
			      *lan = json_pack("[s]", "lan");
	_cleanup_json_ json_t *good = json_pack("{s:s}", "t", "1"),
			      *bad = json_pack("{s:s}", "t", "2");
	_cleanup_who_ struct principal sizes =
		narrowed(f, "{\"sizes\": [\"tiny\"], \"lifetime_minutes_max\": 10}");
	_cleanup_who_ struct principal custom = narrowed(f, "{\"sizes\": [\"custom\"]}");
	_cleanup_who_ struct principal shut = narrowed(f, "{\"egress_loosen\": false}");
	_cleanup_who_ struct principal labels = narrowed(f, "{\"labels\": {\"t\": \"1\"}}");
	_cleanup_who_ struct principal list = narrowed(f, "{\"sandboxes\": []}");
	_cleanup_who_ struct principal maker =
		narrowed(f, "{\"operations\": [\"sandbox:create\"]}");

	CREATE(&sizes, ALLOWED, .size = "tiny");
	CREATE(&sizes, ALLOWED, .size = "tiny", .timeout_minutes = 10);
	CREATE(&sizes, DENIED, .size = "tiny", .timeout_minutes = 11);
	CREATE(&sizes, DENIED, .size = NULL); /* the default is another */
	CREATE(&sizes, DENIED, .size = "large");
	CREATE(&sizes, DENIED, .milli_vcpus = 250, .memory_mb = 512, .disk_gb = 10);
	CREATE(&custom, ALLOWED, .milli_vcpus = 250, .memory_mb = 512, .disk_gb = 10);
	CREATE(&custom, DENIED, .size = "tiny");
	CREATE(&shut, ALLOWED, .size = "tiny");
	CREATE(&shut, ALLOWED, .egress = nothing);
	CREATE(&shut, DENIED, .egress = open);
	CREATE(&shut, DENIED, .egress = one);
	CREATE(&labels, ALLOWED, .size = "tiny"); /* it gets them */
	CREATE(&labels, ALLOWED, .labels = good);
	CREATE(&labels, DENIED, .labels = bad);
	CREATE(&list, DENIED, .size = "tiny");
	CREATE(&maker, ALLOWED, .size = "tiny");
	CREATE(&maker, DENIED, .networks = lan);
	CREATE(&f->admin, ALLOWED, .networks = lan, .egress = open, .size = "xlarge");
}

static int set_egress(struct fixture *f, const struct principal *who, const char *id,
		      const char *rules)
{
	_cleanup_json_ json_t *value = json_loads(rules, JSON_DECODE_ANY, NULL);
	struct err err = ERR_INIT;
	int r = core_egress_set(f->core, who, id, value, NULL, &err);

	if (r < 0)
		assert_string_equal(err_code_of(&err), "scope_denied");
	return r;
}

static void expect_egress(struct sandbox *sb, const char *rules)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row;

	load_row(sb, &row);
	assert_string_equal(row.egress, rules);
}

static void egress_is_only_tightened(void **state)
{
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *sb = make_sandbox(f, "a", "null");
	_cleanup_who_ struct principal who = narrowed(f, "{\"egress_loosen\": false}");
	_cleanup_json_ json_t *more = json_pack("[s]", "192.0.2.9"),
			      *less = json_pack("[s]", "10.1.0.0/16:443");
	struct err err = ERR_INIT;

	assert_int_equal(set_egress(f, &who, sb->id, "[\"*.example.com\", \"192.0.2.0/24\"]"), 0);
	assert_int_equal(set_egress(f, &who, sb->id, "null"), -EPERM);
	assert_int_equal(set_egress(f, &who, sb->id, "[\"example.org\"]"), -EPERM);
	assert_int_equal(set_egress(f, &who, sb->id, "[\"192.0.0.0/16\"]"), -EPERM);
	expect_egress(sb, "[\"*.example.com\",\"192.0.2.0/24\"]");
	assert_int_equal(set_egress(f, &who, sb->id, "[\"a.example.com:443\", \"192.0.2.1\"]"), 0);
	assert_int_equal(core_egress_change(f->core, &who, sb->id, more, NULL, NULL, &err), -EPERM);
	assert_string_equal(err_code_of(&err), "scope_denied");
	expect_egress(sb, "[\"a.example.com:443\",\"192.0.2.1\"]");
	assert_int_equal(core_egress_change(f->core, &f->admin, sb->id, less, NULL, NULL, &err), 0);
	assert_int_equal(core_egress_change(f->core, &who, sb->id, NULL, less, NULL, &err), 0);
	assert_int_equal(set_egress(f, &who, sb->id, "[]"), 0);
	assert_int_equal(set_egress(f, &who, sb->id, "[\"192.0.2.1\"]"), -EPERM);
	assert_int_equal(set_egress(f, &f->admin, sb->id, "null"), 0);
}

/* What a key that may not be root starts, and what it may speak to, is told by ids. */
static void commands_of_those_who_may_not_be_root(void **state)
{
	struct fixture *f = *state;
	_cleanup_who_ struct principal who = narrowed(f, "{\"root\": false}");
	const struct core_exec_request req = { .command = "id", .command_len = 2 };
	struct exec_start own, full;
	struct err err = ERR_INIT;

	assert_int_equal(exec_check(f->core, &who, &req, &own, NULL), 0);
	assert_int_equal(exec_check(f->core, &f->admin, &req, &full, NULL), 0);
	assert_true(own.confined);
	assert_false(full.confined);
	assert_true(exec_id_valid(own.exec_id));
	assert_int_equal(exec_authorize(&who, own.exec_id, NULL), 0);
	assert_int_equal(exec_authorize(&who, full.exec_id, &err), -EPERM);
	assert_string_equal(err_code_of(&err), "scope_denied");
	assert_int_equal(exec_authorize(&f->admin, own.exec_id, NULL), 0);
	assert_int_equal(exec_authorize(&f->admin, full.exec_id, NULL), 0);
	assert_int_equal(exec_authorize(&who, "term_0123456789abcde", NULL), 0);
	assert_int_equal(exec_authorize(&who, "term_0123456789abcdef", NULL), -EPERM);
	exec_start_clear(&own);
	exec_start_clear(&full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(lists_show_what_is_there),
		RIG_TEST(a_look_at_another_reads_like_none),
		RIG_TEST(events_tell_of_what_is_there),
		RIG_TEST(members_are_those_that_are_there),
		RIG_TEST(creations_are_within_the_scope),
		RIG_TEST(egress_is_only_tightened),
		RIG_TEST(commands_of_those_who_may_not_be_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
