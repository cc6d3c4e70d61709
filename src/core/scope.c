/* Scopes of keys: parsing, asking, comparing. The JSON is kept and asked: lists are short. */
#include "core/scope.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define LABELS_MAX	  1024
#define LIFETIME_MAX	  525600
#define SPEND_CREDITS_MAX 1000000000LL

struct name_list {
	bool given;
	size_t n;
	const char **names; /* NULL-terminated; borrowed from the JSON */
};

struct key_scope {
	atomic_uint refs;
	json_t *json; /* canonical: only fields that narrow */
	struct name_list operations, sandboxes, sizes;
	const json_t *labels; /* NULL: none */
	int64_t lifetime_minutes_max, spend_credits_max;
	bool egress_loosen, root;
};

/* ---- parsing ---- */

static int refuse(struct err *err, const char *field, const char *want)
{
	return err_code(err, -EINVAL, "invalid_argument", "scopes: \"%s\" must be %s", field, want);
}

static bool is_name(const json_t *value)
{
	const size_t len = json_string_length(value);

	return json_is_string(value) && len >= 1 && len <= SCOPE_NAME_MAX &&
	       strlen(json_string_value(value)) == len;
}

static int take_list(const json_t *value, const char *field, size_t max, struct name_list *list,
		     struct err *err)
{
	size_t n = json_array_size(value);

	if (!json_is_array(value) || n > max)
		return refuse(err, field, "a list of names, not longer than the limit");
	free(list->names);
	*list = (struct name_list){ .given = true, .n = n };
	list->names = xcalloc(n + 1, sizeof(*list->names));
	for (size_t i = 0; i < n; i++) {
		const json_t *name = json_array_get(value, i);

		if (!is_name(name))
			return refuse(err, field, "a list of names of 1 to 64 bytes");
		list->names[i] = json_string_value(name);
	}
	return 0;
}

/* An empty object would read as "nothing" to one and as "everything" to another. */
static int take_labels(const json_t *value, struct key_scope *scope, struct err *err)
{
	const char *key;
	const json_t *label;

	if (!json_is_object(value) || json_object_size(value) < 1 ||
	    json_object_size(value) > LABELS_MAX)
		return refuse(err, "labels", "an object of at least one label");
	json_object_foreach((json_t *)(uintptr_t)value, key, label) {
		if (!*key || strchr(key, '=') || !json_is_string(label) ||
		    strlen(json_string_value(label)) != json_string_length(label))
			return refuse(err, "labels", "an object of strings");
	}
	scope->labels = value;
	return 0;
}

static int take_number(const json_t *value, const char *field, int64_t min, int64_t max,
		       int64_t *ret, struct err *err)
{
	char want[96];

	if (json_is_integer(value) && json_integer_value(value) >= min &&
	    json_integer_value(value) <= max) {
		*ret = json_integer_value(value);
		return 0;
	}
	snprintf(want, sizeof(want), "a whole number from %lld to %lld", (long long)min,
		 (long long)max);
	return refuse(err, field, want);
}

static int take_flag(const json_t *value, const char *field, bool *ret, struct err *err)
{
	if (!json_is_boolean(value))
		return refuse(err, field, "true or false");
	*ret = json_is_true(value);
	return 0;
}

static int take_field(struct key_scope *scope, const char *key, const json_t *value,
		      struct err *err)
{
	if (str_eq(key, "operations"))
		return take_list(value, key, SCOPE_OPERATIONS_MAX, &scope->operations, err);
	if (str_eq(key, "sandboxes"))
		return take_list(value, key, SCOPE_SANDBOXES_MAX, &scope->sandboxes, err);
	if (str_eq(key, "sizes"))
		return take_list(value, key, SCOPE_OPERATIONS_MAX, &scope->sizes, err);
	if (str_eq(key, "labels"))
		return take_labels(value, scope, err);
	if (str_eq(key, "lifetime_minutes_max"))
		return take_number(value, key, 1, LIFETIME_MAX, &scope->lifetime_minutes_max, err);
	if (str_eq(key, "spend_credits_max"))
		return take_number(value, key, 0, SPEND_CREDITS_MAX, &scope->spend_credits_max,
				   err);
	if (str_eq(key, "egress_loosen"))
		return take_flag(value, key, &scope->egress_loosen, err);
	if (str_eq(key, "root"))
		return take_flag(value, key, &scope->root, err);
	return err_code(err, -EINVAL, "invalid_argument",
			"scopes: there is no field \"%.*s\", but operations, sandboxes, labels, "
			"sizes, lifetime_minutes_max, egress_loosen, root and spend_credits_max",
			(int)utf8_whole_prefix(key, strnlen(key, SCOPE_NAME_MAX)), key);
}

/* What says nothing is left out. */
static bool narrows(const char *key, const json_t *value)
{
	if (json_is_null(value))
		return false;
	return !(json_is_true(value) && (str_eq(key, "egress_loosen") || str_eq(key, "root")));
}

int key_scope_parse(const json_t *json, struct key_scope **ret, struct err *err)
{
	_cleanup_key_scope_ struct key_scope *scope = NULL;
	const char *key;
	json_t *value;
	int r;

	if (!json || json_is_null(json)) {
		*ret = NULL;
		return 0;
	}
	if (!json_is_object(json))
		return err_code(err, -EINVAL, "invalid_argument", "scopes must be a JSON object");
	scope = xcalloc(1, sizeof(*scope));
	atomic_init(&scope->refs, 1);
	scope->json = json_object();
	scope->egress_loosen = scope->root = true;
	scope->spend_credits_max = -1;
	json_object_foreach((json_t *)(uintptr_t)json, key, value) {
		json_t *copy;

		if (!narrows(key, value))
			continue;
		copy = json_deep_copy(value);
		json_put(scope->json, key, copy);
		r = take_field(scope, key, copy, err);
		if (r < 0)
			return r;
	}
	*ret = json_object_size(scope->json) ? STEAL(scope) : NULL;
	return 0;
}

json_t *key_scope_json(const struct key_scope *scope)
{
	return scope ? json_deep_copy(scope->json) : json_object();
}

struct key_scope *key_scope_ref(struct key_scope *scope)
{
	if (scope)
		atomic_fetch_add(&scope->refs, 1);
	return scope;
}

void key_scope_unref(struct key_scope *scope)
{
	if (!scope || atomic_fetch_sub(&scope->refs, 1) != 1)
		return;
	free(scope->operations.names);
	free(scope->sandboxes.names);
	free(scope->sizes.names);
	json_decref(scope->json);
	free(scope);
}

/* ---- asking ---- */

static bool has(const struct name_list *list, const char *name)
{
	for (size_t i = 0; name && i < list->n; i++) {
		if (str_eq(list->names[i], name))
			return true;
	}
	return false;
}

bool key_scope_allows(const struct key_scope *scope, const char *operation_scope, const char *name)
{
	return !scope || !scope->operations.given || has(&scope->operations, operation_scope) ||
	       has(&scope->operations, name);
}

bool key_scope_narrows_sandboxes(const struct key_scope *scope)
{
	return scope && (scope->sandboxes.given || scope->labels);
}

static bool has_labels(const json_t *labels, const json_t *wanted)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)wanted, key, value) {
		if (!json_equal(json_object_get(labels, key), value))
			return false;
	}
	return true;
}

bool key_scope_sees(const struct key_scope *scope, const char *sandbox_id, const json_t *labels)
{
	if (!scope)
		return true;
	if (scope->sandboxes.given && !has(&scope->sandboxes, sandbox_id))
		return false;
	return has_labels(labels, scope->labels);
}

bool key_scope_has_labels(const struct key_scope *scope)
{
	return scope && scope->labels;
}

const char *const *key_scope_sandboxes(const struct key_scope *scope)
{
	return scope && scope->sandboxes.given ? scope->sandboxes.names : NULL;
}

const json_t *key_scope_labels(const struct key_scope *scope)
{
	return scope ? scope->labels : NULL;
}

bool key_scope_allows_size(const struct key_scope *scope, const char *size)
{
	return !scope || !scope->sizes.given || has(&scope->sizes, size);
}

int64_t key_scope_lifetime_minutes_max(const struct key_scope *scope)
{
	return scope ? scope->lifetime_minutes_max : 0;
}

bool key_scope_may_loosen_egress(const struct key_scope *scope)
{
	return !scope || scope->egress_loosen;
}

bool key_scope_may_be_root(const struct key_scope *scope)
{
	return !scope || scope->root;
}

int64_t key_scope_spend_credits_max(const struct key_scope *scope)
{
	return scope ? scope->spend_credits_max : -1;
}

/* ---- comparing ---- */

static bool list_within(const struct name_list *inner, const struct name_list *outer,
			operation_scope_fn scope_of)
{
	if (!outer->given)
		return true;
	if (!inner->given)
		return false;
	for (size_t i = 0; i < inner->n; i++) {
		const char *name = inner->names[i];

		if (!has(outer, name) && !(scope_of && has(outer, scope_of(name))))
			return false;
	}
	return true;
}

static bool number_within(int64_t inner, int64_t outer, int64_t unbounded)
{
	return outer == unbounded || (inner != unbounded && inner <= outer);
}

bool key_scope_within(const struct key_scope *inner, const struct key_scope *outer,
		      operation_scope_fn scope_of, const char **ret_field)
{
	static const struct key_scope everything = { .egress_loosen = true,
						     .root = true,
						     .spend_credits_max = -1 };
	const char *field = NULL;

	if (!outer)
		return true;
	if (!inner)
		inner = &everything;
	if (!list_within(&inner->operations, &outer->operations, scope_of))
		field = "operations";
	else if (!list_within(&inner->sandboxes, &outer->sandboxes, NULL))
		field = "sandboxes";
	else if (!has_labels(inner->labels, outer->labels))
		field = "labels";
	else if (!list_within(&inner->sizes, &outer->sizes, NULL))
		field = "sizes";
	else if (!number_within(inner->lifetime_minutes_max, outer->lifetime_minutes_max, 0))
		field = "lifetime_minutes_max";
	else if (inner->egress_loosen && !outer->egress_loosen)
		field = "egress_loosen";
	else if (inner->root && !outer->root)
		field = "root";
	else if (!number_within(inner->spend_credits_max, outer->spend_credits_max, -1))
		field = "spend_credits_max";
	if (field && ret_field)
		*ret_field = field;
	return !field;
}
