/*
 * The scope of a key, as JSON. What is taken is written and taken again, to the same; it is within
 * itself and within the scope that narrows nothing, and the questions that are asked of it have
 * answers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/scope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void ask(const struct key_scope *scope, const json_t *labels)
{
	const char *const *ids = key_scope_sandboxes(scope);

	REQUIRE(!ids || !ids[0] || key_scope_sees(scope, ids[0], key_scope_labels(scope)));
	REQUIRE(key_scope_narrows_sandboxes(scope) || key_scope_sees(scope, "sbx_1", labels));
	REQUIRE(key_scope_lifetime_minutes_max(scope) >= 0);
	REQUIRE(key_scope_spend_credits_max(scope) >= -1);
	key_scope_allows(scope, "exec", "exec_wait");
	key_scope_allows_size(scope, "tiny");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_json_ json_t *json = NULL, *written = NULL, *again_written = NULL;
	_cleanup_key_scope_ struct key_scope *scope = NULL, *again = NULL;
	struct err err = ERR_INIT;

	if (json_parse((const char *)data, size, &json, NULL) < 0)
		return 0;
	if (key_scope_parse(json, &scope, &err) < 0) {
		REQUIRE(str_eq(err_code_of(&err), "invalid_argument"));
		REQUIRE(utf8_valid(err.message, strlen(err.message)));
		return 0;
	}
	written = key_scope_json(scope);
	REQUIRE(key_scope_parse(written, &again, NULL) == 0);
	again_written = key_scope_json(again);
	REQUIRE(json_equal(written, again_written));
	REQUIRE(key_scope_within(scope, again, NULL, NULL));
	REQUIRE(key_scope_within(scope, NULL, NULL, NULL));
	ask(scope, json);
	return 0;
}
