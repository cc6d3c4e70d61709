/*
 * One call of a command on the server: where the server and the key are, a request with its
 * failures reported, and sandboxes named by people.
 */
#pragma once

#include "base/json.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/output.h"

/* Finds URL and key (options, environment, and for a loopback URL the key file of a local server)
 * and makes the client. CLI_OK or an exit code, reported. */
int session_open(struct cli *cli, const struct cli_args *args);
void session_close(struct cli *cli);

/* One request. CLI_OK with *ret (caller clears) for a 2xx answer, else an exit code, reported.
 * progress may be NULL. */
int session_call(struct cli *cli, const struct client_spec *spec, struct progress *progress,
		 struct client_response *ret);
/* The same, with the answer parsed. raw (may be NULL) gets the text of it. */
int session_json(struct cli *cli, const struct client_spec *spec, struct progress *progress,
		 json_t **ret, struct buf *raw);

/* Up to max items of a list, page after page, appended to items (an array). path has a parameter
 * already ("/v1/sandboxes?limit=200"). CLI_OK or an exit code, reported. */
int session_pages(struct cli *cli, const char *path, size_t max, json_t *items);

/* With --json: prints the server's answer as it came. */
int session_print_raw(const struct buf *raw);

/* Deletes what each operand names below the path of a collection ("/v1/networks/"), and prints the
 * names, or with --json the answers. All are tried; the exit code is that of the first failure. */
int session_delete_each(struct cli *cli, const struct cli_args *args, const char *collection);

/* Sandboxes are named by id, or by the name they were created with. Appends "/v1/sandboxes/<id>" to
 * path. CLI_OK or an exit code, reported. */
int session_sandbox_path(struct cli *cli, const char *id_or_name, struct buf *path);

struct session_call_spec {
	const char *method;
	const char *part;     /* what follows the sandbox's path: "/egress", "" */
	json_t *body;	      /* taken; NULL: none */
	int64_t timeout_ms;   /* as in client_spec */
	const char *progress; /* what is shown while it lasts; NULL: nothing */
};
/* One request about a sandbox. With --json the answer is printed as it came, and *ret is NULL; else
 * it is the caller's. CLI_OK or an exit code, reported. */
int session_ask_for(struct cli *cli, const char *id_or_name, const struct session_call_spec *call,
		    json_t **ret);
/* The same of what is quick. */
int session_ask(struct cli *cli, const char *id_or_name, const char *method, const char *part,
		json_t *body, json_t **ret);
