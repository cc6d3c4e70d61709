/*
 * Checking arguments against the table. Every refusal names the argument, what was given (never of
 * secret arguments) and what is allowed; nothing is changed by a call that is refused here.
 */
#include "api/ops_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

#define SHOWN_VALUE_BYTES 64
#define SHOWN_LIST_BYTES  400

struct check {
	const struct op *op;
	const struct op_arg *args; /* the operation's, or the fields of one of them */
	size_t n_args;
	const struct op_arg *within; /* that one; NULL */
	enum op_surface surface;
	const struct core_limits *limits;
	struct err *err;
};

/* ---- words ---- */

static void show_value(const struct op_arg *arg, const json_t *value, struct buf *out)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	size_t len;

	if (arg->flags & ARG_SECRET) {
		if (json_is_string(value))
			buf_printf(out, "%zu bytes", json_string_length(value));
		else
			buf_append_str(out, "another type");
		return;
	}
	json_write(value, &text);
	len = text.len;
	if (len > SHOWN_VALUE_BYTES)
		len = utf8_whole_prefix(text.data, SHOWN_VALUE_BYTES);
	buf_append(out, text.data, len);
	if (len < text.len)
		buf_printf(out, "… (%zu bytes)", text.len);
}

/* "argument "x" must be WANT, got VALUE"; value NULL: without what was given. */
static int refuse(const struct check *check, const struct op_arg *arg, const json_t *value,
		  const char *want)
{
	_cleanup_buf_ struct buf got = BUF_INIT, name = BUF_INIT;

	if (check->within)
		buf_printf(&name, "%s.", ops_arg_name(check->within, check->surface));
	buf_append_str(&name, ops_arg_name(arg, check->surface));
	if (!value)
		return err_code(check->err, -EINVAL, "invalid_argument", "argument \"%s\" %s",
				buf_str(&name), want);
	show_value(arg, value, &got);
	return err_code(check->err, -EINVAL, "invalid_argument", "argument \"%s\" %s, got %s",
			buf_str(&name), want, buf_str(&got));
}

static void append_choice(void *out, const char *choice)
{
	struct buf *text = out;

	buf_printf(text, "%s%s", text->len ? ", " : "", choice);
}

/* ---- names ---- */

static const struct op_arg *find_arg(const struct check *check, const char *name)
{
	for (size_t i = 0; i < check->n_args; i++) {
		const struct op_arg *arg = &check->args[i];

		if (ops_arg_on(arg, check->surface) &&
		    str_eq(ops_arg_name(arg, check->surface), name))
			return arg;
	}
	return NULL;
}

/* Levenshtein's distance, for words of up to 31 bytes; 99 for others. */
static unsigned int edit_distance(const char *a, const char *b)
{
	unsigned int row[32];
	size_t a_len = strlen(a), b_len = strlen(b);

	if (a_len >= ARRAY_SIZE(row) || b_len >= ARRAY_SIZE(row))
		return 99;
	for (unsigned int j = 0; j <= b_len; j++)
		row[j] = j;
	for (unsigned int i = 1; i <= a_len; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned int substitute = diagonal + (a[i - 1] != b[j - 1]);
			unsigned int insert = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = substitute < insert ? substitute : insert;
		}
	}
	return row[b_len];
}

static int refuse_unknown(const struct check *check, const char *given)
{
	_cleanup_buf_ struct buf known = BUF_INIT;
	_cleanup_json_ json_t *shown = json_string(given);
	const struct op_arg as_argument = { .name = "" };
	_cleanup_buf_ struct buf given_text = BUF_INIT;
	const char *closest = NULL;
	unsigned int best = 3; /* farther words are no help */

	for (size_t i = 0; i < check->n_args; i++) {
		const struct op_arg *arg = &check->args[i];
		const char *name = ops_arg_name(arg, check->surface);
		unsigned int distance = edit_distance(given, name);

		if (!ops_arg_on(arg, check->surface))
			continue;
		if (known.len < SHOWN_LIST_BYTES)
			append_choice(&known, name);
		if (distance < best) {
			best = distance;
			closest = name;
		}
	}
	if (shown)
		show_value(&as_argument, shown, &given_text);
	err_code(check->err, -EINVAL, "invalid_argument", "unknown argument %s: %s takes %s",
		 buf_str(&given_text), check->within ? check->within->name : check->op->name,
		 known.len ? buf_str(&known) : "none");
	if (closest)
		err_hint(check->err, "did you mean \"%s\"?", closest);
	return -EINVAL;
}

/* ---- values ---- */

static bool has_nul(const json_t *string)
{
	return memchr(json_string_value(string), '\0', json_string_length(string)) != NULL;
}

struct choice_search {
	const char *value;
	bool found;
};

static void match_choice(void *arg, const char *choice)
{
	struct choice_search *search = arg;

	search->found |= str_eq(search->value, choice);
}

static int check_string(const struct check *check, const struct op_arg *arg, const json_t *value)
{
	_cleanup_buf_ struct buf want = BUF_INIT, choices = BUF_INIT;
	struct choice_search search;
	int64_t min, max;
	size_t len;

	ops_arg_bounds(arg, check->limits, &min, &max);
	if (ops_arg_choices(arg, check->limits, append_choice, &choices))
		buf_printf(&want, "must be one of %s", buf_str(&choices));
	else
		buf_printf(&want, "must be a string of %lld to %lld bytes", (long long)min,
			   (long long)max);
	if (!json_is_string(value))
		return refuse(check, arg, value, buf_str(&want));
	len = json_string_length(value);
	if (!(arg->flags & ARG_ALLOW_NUL) && has_nul(value))
		return refuse(check, arg, value, "must not contain a NUL character");
	if (choices.len) {
		search = (struct choice_search){ .value = json_string_value(value) };
		ops_arg_choices(arg, check->limits, match_choice, &search);
		return search.found ? 0 : refuse(check, arg, value, buf_str(&want));
	}
	if ((int64_t)len < min || (int64_t)len > max)
		return refuse(check, arg, value, buf_str(&want));
	if (arg->matches && !arg->matches(json_string_value(value), len)) {
		buf_printf(&want, " that matches %s", arg->pattern);
		return refuse(check, arg, value, buf_str(&want));
	}
	return 0;
}

/* 15, 15.0 and 1.5e1 are the same whole number. */
static bool whole_number(const json_t *value, int64_t *ret)
{
	double real;

	if (json_is_integer(value)) {
		*ret = json_integer_value(value);
		return true;
	}
	real = json_is_real(value) ? json_real_value(value) : NAN;
	if (!(real >= -9.2e18 && real <= 9.2e18) || real != floor(real))
		return false;
	*ret = (int64_t)real;
	return true;
}

static int check_integer(const struct check *check, const struct op_arg *arg, const json_t *value,
			 json_t **ret)
{
	char want[96];
	int64_t min, max, number;

	ops_arg_bounds(arg, check->limits, &min, &max);
	snprintf(want, sizeof(want), "must be a whole number from %lld to %lld", (long long)min,
		 (long long)max);
	if (!whole_number(value, &number) || number < min || number > max)
		return refuse(check, arg, value, want);
	*ret = json_integer(number);
	return 0;
}

static int check_number(const struct check *check, const struct op_arg *arg, const json_t *value,
			json_t **ret)
{
	char want[96];
	int64_t min, max;
	double number;

	ops_arg_bounds(arg, check->limits, &min, &max);
	snprintf(want, sizeof(want), "must be a number from %g to %g", (double)min / 1000,
		 (double)max / 1000);
	number = json_is_number(value) ? json_number_value(value) : NAN;
	if (!(number * 1000 >= (double)min && number * 1000 <= (double)max))
		return refuse(check, arg, value, want);
	*ret = json_real(number);
	return 0;
}

static int check_map(const struct check *check, const struct op_arg *arg, const json_t *value)
{
	const int64_t key_max = ops_arg_key_max(arg, check->limits);
	const int64_t value_max = ops_arg_value_max(arg, check->limits);
	const struct op_arg key_arg = { .name = arg->name }; /* keys are no secrets */
	char want[160];
	int64_t min, max;
	const char *key;
	const json_t *item;

	ops_arg_bounds(arg, check->limits, &min, &max);
	snprintf(want, sizeof(want), "must be an object of at most %lld strings", (long long)max);
	if (!json_is_object(value))
		return refuse(check, arg, value, want);
	if ((int64_t)json_object_size(value) > max) {
		snprintf(want + strlen(want), sizeof(want) - strlen(want), ", got %zu",
			 json_object_size(value));
		return refuse(check, arg, NULL, want);
	}
	json_object_foreach((json_t *)(uintptr_t)value, key, item) {
		_cleanup_json_ json_t *name = json_string(key);
		size_t len = strlen(key);

		if (len < 1 || (int64_t)len > key_max ||
		    (arg->key_matches && !arg->key_matches(key, len))) {
			snprintf(want, sizeof(want), "must have names of 1 to %lld bytes%s",
				 (long long)key_max,
				 arg->key_matches ? " of letters, digits and _" : "");
			return refuse(check, &key_arg, name, want);
		}
		if (!json_is_string(item) || (int64_t)json_string_length(item) > value_max ||
		    has_nul(item)) {
			snprintf(want, sizeof(want),
				 "must have values that are strings of at most %lld bytes without "
				 "NUL; "
				 "that of \"%.40s\" is not",
				 (long long)value_max, key);
			return refuse(check, arg, item, want);
		}
	}
	return 0;
}

static int check_list(const struct check *check, const struct op_arg *arg, const json_t *value)
{
	const int64_t value_max = ops_arg_value_max(arg, check->limits);
	char want[160];
	int64_t min, max;
	const json_t *item;
	size_t i;

	ops_arg_bounds(arg, check->limits, &min, &max);
	snprintf(want, sizeof(want), "must be %sa list of at most %lld strings",
		 arg->type == ARG_RULES ? "null or " : "", (long long)max);
	if (!json_is_array(value))
		return refuse(check, arg, value, want);
	if ((int64_t)json_array_size(value) > max) {
		snprintf(want + strlen(want), sizeof(want) - strlen(want), ", got %zu",
			 json_array_size(value));
		return refuse(check, arg, NULL, want);
	}
	json_array_foreach(value, i, item) {
		size_t len = json_string_length(item);

		snprintf(want, sizeof(want),
			 "must have strings of 1 to %lld bytes%s%s; that at index %zu is not",
			 (long long)value_max, arg->pattern ? " that match " : "",
			 arg->pattern ? arg->pattern : "", i);
		if (!json_is_string(item) || len < 1 || (int64_t)len > value_max || has_nul(item) ||
		    (arg->matches && !arg->matches(json_string_value(item), len)))
			return refuse(check, arg, item, want);
	}
	return 0;
}

static int check_args(const struct check *check, const json_t *raw, json_t *args);

static int check_object(const struct check *check, const struct op_arg *arg, const json_t *value,
			json_t **ret)
{
	_cleanup_json_ json_t *fields = json_object();
	struct check inner = *check;
	int rc;

	if (!json_is_object(value))
		return refuse(check, arg, value, "must be an object");
	inner.args = arg->fields;
	inner.n_args = arg->n_fields;
	inner.within = arg;
	rc = check_args(&inner, value, fields);
	if (rc == 0)
		*ret = STEAL(fields);
	return rc;
}

static int check_value(const struct check *check, const struct op_arg *arg, json_t *value,
		       json_t **ret)
{
	int rc = 0;

	switch (arg->type) {
	case ARG_INTEGER:
		return check_integer(check, arg, value, ret);
	case ARG_NUMBER:
		return check_number(check, arg, value, ret);
	case ARG_OBJECT:
		return check_object(check, arg, value, ret);
	case ARG_STRING:
		rc = check_string(check, arg, value);
		break;
	case ARG_STRING_MAP:
		rc = check_map(check, arg, value);
		break;
	case ARG_STRING_LIST:
	case ARG_RULES:
		rc = json_is_null(value) ? 0 : check_list(check, arg, value);
		break;
	case ARG_BOOLEAN:
		if (!json_is_boolean(value))
			rc = refuse(check, arg, value, "must be true or false");
		break;
	}
	if (rc == 0)
		*ret = json_incref(value);
	return rc;
}

/* ---- the whole ---- */

static int complete(const struct check *check, json_t *args)
{
	for (size_t i = 0; i < check->n_args; i++) {
		const struct op_arg *arg = &check->args[i];

		if (!ops_arg_on(arg, check->surface) || json_object_get(args, arg->name))
			continue;
		if (arg->flags & ARG_REQUIRED)
			return refuse(check, arg, NULL, "is required");
		if (arg->default_json) {
			json_t *value = json_loads(arg->default_json, JSON_DECODE_ANY, NULL);

			if (!value)
				abort(); /* the table's own text */
			json_put(args, arg->name, value);
		}
	}
	return 0;
}

static int check_args(const struct check *check, const json_t *raw, json_t *args)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)raw, key, value) {
		const struct op_arg *arg = find_arg(check, key);
		json_t *checked = NULL;
		int rc;

		if (!arg)
			return refuse_unknown(check, key);
		if (json_is_null(value) && arg->type != ARG_RULES)
			continue;
		rc = check_value(check, arg, value, &checked);
		if (rc < 0)
			return rc;
		json_put(args, arg->name, checked);
	}
	return complete(check, args);
}

int ops_validate(const struct op *op, enum op_surface surface, const struct core_limits *limits,
		 const json_t *raw, json_t **ret, struct err *err)
{
	const struct check check = {
		.op = op,
		.args = op->args,
		.n_args = op->n_args,
		.surface = surface,
		.limits = limits,
		.err = err,
	};
	_cleanup_json_ json_t *args = json_object();
	int rc;

	if (!json_is_object(raw))
		return err_code(err, -EINVAL, "invalid_argument",
				"the arguments of %s must be a JSON object", op->name);
	rc = check_args(&check, raw, args);
	if (rc < 0)
		return rc;
	*ret = STEAL(args);
	return 0;
}

int ops_parse_json(const char *text, size_t len, json_t **ret, struct err *err)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
	json_error_t reason;
	json_t *value = json_loadb(text, len, flags, &reason);

	if (!value && json_error_code(&reason) == json_error_numeric_overflow)
		value = json_loadb(text, len, flags | JSON_DECODE_INT_AS_REAL, &reason);
	if (!value)
		return err_code(err, -EINVAL, "malformed_json",
				"the body is not valid JSON at line %d, column %d: %s", reason.line,
				reason.column, reason.text);
	*ret = value;
	return 0;
}
