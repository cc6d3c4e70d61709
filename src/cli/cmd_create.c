/* skerry create: makes a sandbox and prints its id. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/units.h"

/* A first sandbox of an image and size boots its template before, which takes minutes where the
 * machine is emulated. */
#define CREATE_TIMEOUT_MS (15 * 60 * 1000)

static const char *const timeout_choices[] = { "destroy", "pause", NULL };

static const struct cli_option options[] = {
	{ .name = "size",
	  .letter = 's',
	  .type = CLI_TEXT,
	  .metavar = "SIZE",
	  .help = "tiny, small (default), medium, large, xlarge, or what the server has" },
	{ .name = "image",
	  .letter = 'i',
	  .type = CLI_TEXT,
	  .metavar = "IMAGE",
	  .complete = CLI_COMPLETE_IMAGE,
	  .help = "what it starts from (default: base)" },
	{ .name = "timeout",
	  .letter = 't',
	  .type = CLI_MINUTES,
	  .metavar = "TIME",
	  .help = "destroy it after this time: 15m (default), 2h; at most a day" },
	{ .name = "name",
	  .letter = 'n',
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .help = "a name that the other commands take in place of the id" },
	{ .name = "label",
	  .letter = 'l',
	  .type = CLI_PAIR,
	  .metavar = "KEY=VALUE",
	  .repeat = true,
	  .help = "a label, for `skerry ls --label`; may be repeated" },
	{ .name = "vcpus",
	  .type = CLI_NUMBER,
	  .metavar = "N",
	  .help = "virtual CPUs, with --memory and --disk in place of --size" },
	{ .name = "memory",
	  .type = CLI_INTEGER,
	  .metavar = "MIB",
	  .min = 1,
	  .max = 1 << 24,
	  .help = "memory in MiB" },
	{ .name = "disk",
	  .type = CLI_INTEGER,
	  .metavar = "GIB",
	  .min = 1,
	  .max = 1 << 16,
	  .help = "disk in GiB" },
	{ .name = "snapshot",
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .complete = CLI_COMPLETE_SNAPSHOT,
	  .help = "start from this snapshot, in place of --image and --size" },
	{ .name = "egress",
	  .letter = 'e',
	  .type = CLI_TEXT,
	  .metavar = "RULE",
	  .repeat = true,
	  .help = "what it may reach: open (default), none, or a rule such as pypi.org:443; may be "
		  "repeated" },
	{ .name = "network",
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .repeat = true,
	  .complete = CLI_COMPLETE_NETWORK,
	  .help = "a private network to join; may be repeated" },
	{ .name = "on-timeout",
	  .type = CLI_TEXT,
	  .metavar = "WHAT",
	  .choices = timeout_choices,
	  .help = "what happens when its time is over: destroy (default) or pause" },
	{ .name = "idle-pause",
	  .type = CLI_MINUTES,
	  .metavar = "TIME",
	  .help = "pause it after this time without a command or a call" },
	{ .name = "idempotency-key",
	  .type = CLI_TEXT,
	  .metavar = "KEY",
	  .help = "repeating the call with the same key gives the same sandbox" },
};

static const struct cli_example examples[] = {
	{ "a sandbox with the defaults; its id is printed", "skerry create" },
	{ "bigger, for two hours, with tools to build software",
	  "skerry create --size medium --timeout 2h --image dev --name build" },
	{ "keep the id in a script", "id=$(skerry create --quiet --label job=42)" },
	{ "any shape", "skerry create --vcpus 2 --memory 3072 --disk 20" },
	{ "one that reaches two sites and nothing else",
	  "skerry create --egress pypi.org:443 --egress '*.pythonhosted.org:443'" },
};

json_t *cli_labels(const struct cli_args *args)
{
	json_t *labels = json_object();

	for (size_t i = 0; i < args->n_given; i++) {
		const struct cli_given *given = &args->given[i];
		_cleanup_free_ char *key = NULL;
		const char *equals;

		if (!str_eq(given->option->name, "label"))
			continue;
		equals = strchr(given->text, '=');
		key = strndup(given->text, (size_t)(equals - given->text));
		if (key)
			json_put_str(labels, key, equals + 1);
	}
	return labels;
}

/* All values of an option that may be repeated; the caller frees the array. */
static const char **texts_of(const struct cli_args *args, const char *option, size_t *ret_n)
{
	const char **texts = xcalloc(args->n_given + 1, sizeof(*texts));
	size_t n = 0;

	for (size_t i = 0; i < args->n_given; i++) {
		if (str_eq(args->given[i].option->name, option))
			texts[n++] = args->given[i].text;
	}
	*ret_n = n;
	return texts;
}

static int put_network(const struct cli_args *args, json_t *body)
{
	_cleanup_free_ const char **rules = NULL, **networks = NULL;
	json_t *egress = NULL, *names = json_array();
	size_t n_rules, n_networks;
	int code = CLI_OK;

	rules = texts_of(args, "egress", &n_rules);
	networks = texts_of(args, "network", &n_networks);
	for (size_t i = 0; i < n_networks; i++)
		json_array_append_new(names, json_string(networks[i]));
	if (n_networks > 0)
		json_put(body, "networks", json_incref(names));
	json_decref(names);
	if (n_rules > 0)
		code = cli_rules(rules, n_rules, &egress);
	if (egress)
		json_put(body, "egress", egress);
	return code;
}

static json_t *request_of(const struct cli_args *args)
{
	static const char *const texts[] = { "size", "image", "name", "snapshot" };
	json_t *body = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (cli_args_has(args, texts[i]))
			json_put_str(body, texts[i], cli_args_text(args, texts[i], NULL));
	if (cli_args_has(args, "timeout"))
		json_put_int(body, "timeout_minutes", cli_args_number(args, "timeout", 0));
	if (cli_args_has(args, "on-timeout"))
		json_put_str(body, "on_timeout", cli_args_text(args, "on-timeout", NULL));
	if (cli_args_has(args, "idle-pause"))
		json_put_int(body, "idle_pause_minutes", cli_args_number(args, "idle-pause", 0));
	if (cli_args_has(args, "vcpus"))
		json_put(body, "vcpus", json_real(strtod(cli_args_text(args, "vcpus", "0"), NULL)));
	if (cli_args_has(args, "memory"))
		json_put_int(body, "memory_mb", cli_args_number(args, "memory", 0));
	if (cli_args_has(args, "disk"))
		json_put_int(body, "disk_gb", cli_args_number(args, "disk", 0));
	if (cli_args_has(args, "label"))
		json_put(body, "labels", cli_labels(args));
	return body;
}

static void describe(const json_t *sandbox)
{
	char left[UNITS_TEXT_SIZE], line[512];
	_cleanup_buf_ struct buf safe = BUF_INIT;
	int64_t expires_ms = 0;

	(void)time_parse(json_get_str(sandbox, "expires_at", ""), &expires_ms);
	snprintf(line, sizeof(line), "%s: %s (%g vCPU, %lld MiB, %lld GiB) from %s, %s, for %s",
		 json_get_str(sandbox, "status", "?"), json_get_str(sandbox, "size", "?"),
		 json_number_value(json_object_get(sandbox, "vcpus")),
		 (long long)json_get_int(sandbox, "memory_mb", 0),
		 (long long)json_get_int(sandbox, "disk_gb", 0),
		 json_get_str(sandbox, "image", "?"), json_get_str(sandbox, "isolation", "?"),
		 duration_text(expires_ms - clock_unix_ms() + 500, left));
	text_append_safe(&safe, line);
	fprintf(stderr, "%s%s%s\n", style_on(stderr, STYLE_DIM), buf_str(&safe), style_off(stderr));
}

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = request_of(args), *sandbox = NULL;
	_cleanup_buf_ struct buf raw = BUF_INIT;
	struct client_spec spec = { .method = "POST",
				    .path = "/v1/sandboxes",
				    .body = body,
				    .timeout_ms = CREATE_TIMEOUT_MS };
	struct progress progress;
	char key[33];
	int code = put_network(args, body);

	if (code != CLI_OK)
		return code;
	/* A lost answer is asked for again with the same key, so that it never makes a second one.
	 */
	rand_hex(key, 32);
	spec.idempotency_key = cli_args_text(args, "idempotency-key", key);
	progress_begin(&progress, "creating; a first sandbox of its image and size takes longer",
		       cli->quiet);
	code = session_json(cli, &spec, &progress, &sandbox, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	if (!cli->quiet)
		describe(sandbox);
	printf("%s\n", json_get_str(sandbox, "id", ""));
	return CLI_OK;
}

const struct cli_command cli_command_create = {
	.name = "create",
	.summary = "make a sandbox and print its id",
	.detail = "The sandbox is a microVM with its own kernel, disk and address. It is ready "
		  "when the "
		  "command returns, and is destroyed by itself when its time is over.",
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run,
};
