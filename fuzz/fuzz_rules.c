/*
 * A set of egress rules, one a line. What is accepted is printed and parsed again, to the same; it
 * is within itself, and within the open set.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "net/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 64

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void check_rule(const struct rule *rule)
{
	char text[RULE_PRINT_SIZE], again[RULE_PRINT_SIZE];
	struct rule_fault why;
	struct rule parsed;

	rule_print(rule, text);
	REQUIRE(strlen(text) < RULE_PRINT_SIZE - 1);
	REQUIRE(rule_parse(text, strlen(text), &parsed, &why) == 0);
	REQUIRE(str_eq(rule_print(&parsed, again), text));
	if (rule->kind != RULE_PREFIX) {
		char host[HOSTNAME_MAX + 1];

		REQUIRE(hostname_canon(rule->host, strlen(rule->host), host, NULL) == 0);
		REQUIRE(str_eq(rule->host, host));
	}
	rule_clear(&parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct rule_text texts[LINES_MAX];
	struct ruleset *set, *open;
	struct err err;
	size_t n = 0;

	while (n < LINES_MAX && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;

		texts[n++] = (struct rule_text){ at, (size_t)(stop - at) };
		at = stop + 1;
	}
	if (ruleset_parse(texts, n, LINES_MAX, &set, &err) < 0) {
		REQUIRE(utf8_valid(err.message, strlen(err.message)));
		return 0;
	}
	for (size_t i = 0; i < set->n; i++)
		check_rule(&set->rules[i]);
	open = ruleset_new(POLICY_OPEN);
	REQUIRE(ruleset_within(set, set, NULL));
	REQUIRE(ruleset_within(set, open, NULL));
	REQUIRE(!ruleset_within(open, set, NULL));
	ruleset_unref(open);
	ruleset_unref(set);
	return 0;
}
