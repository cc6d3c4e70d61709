/*
 * What fixtures ask of their client. A modern one gets its questions as the result of the call, and
 * calls again with the answers and, where there is one, with a state that only we can have made:
 * the number of the round, signed. A legacy one gets a request on the stream of the call, and
 * answers by a POST of its own.
 */
#include "fixtures.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/json.h"
#include "base/str.h"

#define ANSWER_WITHIN_S 10
#define STATE_SIZE	80

/* ---- rounds ---- */

static void sign_state(const struct mcp_extra *extra, size_t round, char out[STATE_SIZE])
{
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned int n_mac = 0;
	char text[24];
	int n = snprintf(text, sizeof(text), "%zu", round);

	HMAC(EVP_sha256(), extra->secret, sizeof(extra->secret), (const unsigned char *)text,
	     (size_t)n, mac, &n_mac);
	n = snprintf(out, STATE_SIZE, "%s.", text);
	hex_encode(mac, 32, out + n);
}

/* Which round the client's answers are for. False: the state is not ours. */
static bool read_state(const struct run *run, size_t n_rounds, size_t *ret_round)
{
	const json_t *state = json_object_get(run->m->params, "requestState");
	char ours[STATE_SIZE];

	*ret_round = 0;
	if (!state)
		return true;
	for (; *ret_round < n_rounds; (*ret_round)++) {
		sign_state(run->extra, *ret_round, ours);
		if (json_is_string(state) && str_eq(json_string_value(state), ours))
			return true;
	}
	return false;
}

static const char *capability_of(const char *method)
{
	static const char *const capabilities[] = { "elicitation", "sampling", "roots" };

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		if (str_starts(method, capabilities[i]))
			return capabilities[i];
	}
	return "";
}

/* The round's requests that the client can answer, as it said. */
static json_t *possible_requests(const struct run *run, json_t *round)
{
	const json_t *can = json_object_get(json_object_get(run->m->params, "_meta"),
					    "io.modelcontextprotocol/clientCapabilities");
	json_t *possible = json_object(), *request;
	const char *key;

	json_object_foreach(round, key, request) {
		const char *capability = capability_of(json_get_str(request, "method", ""));

		if (json_object_get(can, capability))
			json_object_set(possible, key, request);
	}
	return possible;
}

static void ask_round(const struct run *run, json_t *requests, size_t round)
{
	json_t *result =
		json_pack("{s:s, s:O}", "resultType", "input_required", "inputRequests", requests);
	char state[STATE_SIZE];

	if (json_is_true(json_object_get(run->fixture, "state"))) {
		sign_state(run->extra, round, state);
		json_put_str(result, "requestState", state);
	}
	if (json_is_true(json_object_get(run->fixture, "streams")))
		mcp_exchange_stream(run->exchange);
	run_answer(run, result);
}

static bool has_all(const json_t *responses, json_t *requests)
{
	const char *key;
	const json_t *request;

	json_object_foreach(requests, key, request) {
		if (!json_is_object(json_object_get(responses, key)))
			return false;
	}
	return true;
}

bool rounds_done(const struct run *run)
{
	const json_t *responses = json_object_get(run->m->params, "inputResponses");
	const json_t *rounds = json_object_get(run->fixture, "rounds");
	size_t n = json_array_size(rounds), round;
	_cleanup_json_ json_t *requests = NULL;

	if (n == 0)
		return true;
	if ((responses && !json_is_object(responses)) || !read_state(run, n, &round)) {
		run_refuse(run, 200, MCP_INVALID_PARAMS,
			   "inputResponses or requestState are not what was asked for", NULL);
		return false;
	}
	requests = possible_requests(run, json_array_get(rounds, round));
	if (json_object_size(requests) == 0) {
		run_refuse(run, 400, MCP_MISSING_CAPABILITY, "the client cannot be asked",
			   json_pack("{s:{s:{}}}", "requiredCapabilities", "elicitation"));
		return false;
	}
	if (responses && has_all(responses, requests)) {
		if (++round == n)
			return true;
		json_decref(requests);
		requests = possible_requests(run, json_array_get(rounds, round));
	}
	ask_round(run, requests, round);
	return false;
}

/* ---- questions ---- */

struct question {
	LIST_ENTRY(question) link;
	char id[32];
	json_t *result; /* owned; NULL until there is an answer */
	bool over;
};

json_t *question_ask(const struct run *run, const json_t *request)
{
	struct mcp_extra *extra = run->extra;
	struct question question = { 0 };
	json_t *message = json_copy((json_t *)request);
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ANSWER_WITHIN_S;
	pthread_mutex_lock(&extra->lock);
	snprintf(question.id, sizeof(question.id), "question-%llu",
		 (unsigned long long)++extra->asked);
	LIST_INSERT_HEAD(&extra->questions, &question, link);
	json_put_str(message, "jsonrpc", "2.0");
	json_put_str(message, "id", question.id);
	mcp_exchange_notify(run->exchange, message);
	while (!question.over && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&extra->answered, &extra->lock, &until);
	LIST_REMOVE(&question, link);
	pthread_mutex_unlock(&extra->lock);
	return question.result;
}

void question_answered(struct mcp_extra *extra, const json_t *response)
{
	struct question *question;

	pthread_mutex_lock(&extra->lock);
	LIST_FOREACH(question, &extra->questions, link) {
		if (question->over || !str_eq(question->id, json_get_str(response, "id", "")))
			continue;
		question->result = json_incref(json_object_get(response, "result"));
		question->over = true;
	}
	pthread_cond_broadcast(&extra->answered);
	pthread_mutex_unlock(&extra->lock);
}
