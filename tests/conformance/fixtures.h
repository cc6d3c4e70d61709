/*
 * The parts of the fixtures that the conformance suite calls. fixtures.c decides what a message is
 * for; a run is one call of a tool or a prompt; rounds are asked of modern clients, in the result;
 * questions are asked of legacy clients, on the stream; subscriptions are streams that stay open.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <jansson.h>

#include "api/mcp_extra.h"

#define FIXTURE_SECRET_SIZE 32

struct question;
struct subscription;

struct mcp_extra {
	json_t *fixtures;			   /* fixtures.json */
	unsigned char secret[FIXTURE_SECRET_SIZE]; /* signs the states that clients carry */

	pthread_mutex_t lock;
	pthread_cond_t answered;
	uint64_t asked;
	LIST_HEAD(, question) questions;
	LIST_HEAD(, subscription) subscriptions;
};

/* One call; all is borrowed. */
struct run {
	struct mcp_extra *extra;
	struct http_request *req;
	struct mcp_exchange *exchange;
	const struct mcp_message *m;
	const json_t *fixture;
	const json_t *values; /* arguments of the call, or parts of a URI; may be NULL */
};

/* Answer and end a run. result and data are stolen; data may be NULL. */
void run_answer(const struct run *run, json_t *result);
void run_refuse(const struct run *run, unsigned int status, enum mcp_error_code code,
		const char *message, json_t *data);
void run_notify(const struct run *run, const char *method, json_t *params);

/* A copy of template in which "{key}" in any string is the value of key. Owned. */
json_t *fixture_fill(const json_t *template, const json_t *values);

/* Asks for what the fixture's rounds want. True when all of it is there; false: answered. */
bool rounds_done(const struct run *run);

/* Sends a request on the run's stream and waits for the response: its "result", owned by the
 * caller, or NULL when there was none in time. */
json_t *question_ask(const struct run *run, const json_t *request);
/* A response of a client: whoever asked gets it. */
void question_answered(struct mcp_extra *extra, const json_t *response);

/* subscriptions/listen, and the changes that it tells of ("tools", "prompts"). */
void subscription_open(const struct run *run);
void subscriptions_tell(struct mcp_extra *extra, const char *changed);
