/* Ids and names for completion scripts. See complete_words.h. */
#include "cli/complete_words.h"

#include <stdio.h>

#include "base/str.h"
#include "cli/session.h"
#include "cli/table.h"

#define ANSWER_MS 2000

static const struct words {
	enum cli_complete complete;
	const char *what;
	const char *path;
	const char *members[2]; /* of each item */
	const char *after;	/* each word */
} sources[] = {
	{ CLI_COMPLETE_SANDBOX, "sandboxes", "/v1/sandboxes?limit=200", { "id", "name" }, "" },
	{ CLI_COMPLETE_COPY, "copies", "/v1/sandboxes?limit=200", { "id", "name" }, ":" },
	{ CLI_COMPLETE_IMAGE, "images", "/v1/images", { "name", NULL }, "" },
	{ CLI_COMPLETE_SNAPSHOT, "snapshots", "/v1/snapshots", { "name", NULL }, "" },
	{ CLI_COMPLETE_NETWORK, "networks", "/v1/networks", { "name", NULL }, "" },
	{ CLI_COMPLETE_KEY, "keys", "/v1/keys?limit=200", { "id", NULL }, "" },
	{ CLI_COMPLETE_ACCOUNT, "accounts", "/v1/accounts?limit=200", { "id", NULL }, "" },
};

const char *complete_words_of(enum cli_complete complete)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (sources[i].complete == complete)
			return sources[i].what;
	return NULL;
}

static const struct words *find(const char *what)
{
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (str_eq(sources[i].what, what))
			return &sources[i];
	return NULL;
}

static void append_words(const struct words *words, const json_t *items, struct buf *out)
{
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item) {
		for (size_t k = 0; k < ARRAY_SIZE(words->members) && words->members[k]; k++) {
			const char *word = json_get_str(item, words->members[k], NULL);

			if (!word || !*word)
				continue;
			text_append_safe(out, word);
			buf_printf(out, "%s\n", words->after);
		}
	}
}

int complete_words(const char *what)
{
	const struct words *words = find(what);
	const struct cli_args args = { 0 };
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct client_spec spec = { .method = "GET", .timeout_ms = ANSWER_MS };
	struct cli cli = { .quiet = true };

	if (!words || session_open(&cli, &args) != CLI_OK)
		return CLI_FAILED;
	spec.path = words->path;
	if (client_call(cli.client, &spec, NULL, NULL, &response, NULL) == 0 &&
	    response.status == 200 &&
	    json_parse(buf_str(&response.body), response.body.len, &answer, NULL) == 0)
		append_words(words, json_object_get(answer, "items"), &out);
	session_close(&cli);
	return out.len > 0 ? output_write(out.data, out.len) : CLI_OK;
}
