/* Command lines: what is understood, what is refused and how, and that the table is whole. */
#include "unit.h"

#include <string.h>

#include "base/str.h"
#include "cli/args.h"
#include "cli/client.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/suggest.h"

#define WORDS_MAX 16

/* Splits a command line at blanks; "~" stands for an empty word. */
static int parse(const char *line, struct cli_args *args, struct err *err)
{
	static char text[512];
	static const char *argv[WORDS_MAX];
	int argc = 0;

	*err = ERR_INIT;
	str_copy(text, sizeof(text), line);
	for (char *word = text; *word && argc < WORDS_MAX;) {
		size_t len = strcspn(word, " ");
		bool last = !word[len];

		word[len] = '\0';
		argv[argc++] = str_eq(word, "~") ? "" : word;
		word += last ? len : len + 1;
	}
	return cli_args_parse(argc, argv, args, err);
}

static void options_and_operands(void **state)
{
	struct cli_args args;
	struct err err;

	(void)state;
	assert_int_equal(
		parse("skerry create --size=large -t 2h --label a=1 -l b=2=3 --vcpus 0.5 -q", &args,
		      &err),
		0);
	assert_string_equal(args.command->name, "create");
	assert_string_equal(cli_args_text(&args, "size", ""), "large");
	assert_int_equal(cli_args_number(&args, "timeout", 0), 120);
	assert_string_equal(cli_args_text(&args, "label", ""), "b=2=3");
	assert_true(cli_args_has(&args, "quiet"));
	assert_false(cli_args_has(&args, "json"));
	assert_string_equal(cli_args_text(&args, "name", "none"), "none");
	cli_args_clear(&args);

	assert_int_equal(parse("skerry --json ls -aq --limit 7", &args, &err), 0);
	assert_true(cli_args_has(&args, "json") && cli_args_has(&args, "all"));
	assert_int_equal(cli_args_number(&args, "limit", 0), 7);
	cli_args_clear(&args);

	assert_int_equal(parse("skerry rm a b --yes c", &args, &err), 0);
	assert_int_equal(args.n_operands, 3);
	assert_string_equal(args.operands[2], "c");
	cli_args_clear(&args);

	assert_int_equal(parse("skerry image build base --rebuild", &args, &err), 0);
	assert_string_equal(args.command->name, "image build");
	assert_string_equal(args.operands[0], "base");
	cli_args_clear(&args);
}

static void the_rest_is_not_ours(void **state)
{
	static const char *const lines[] = {
		"skerry exec sbx_1 -u root -- ls --json -h",
		"skerry exec -u root sbx_1 ls --json -h",
		"skerry exec sbx_1 --user=root ls --json -h",
	};
	struct cli_args args;
	struct err err;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(parse(lines[i], &args, &err), 0);
		assert_int_equal(args.n_operands, 1);
		assert_int_equal(args.n_rest, 3);
		assert_string_equal(args.rest[0], "ls");
		assert_string_equal(args.rest[2], "-h");
		assert_false(cli_args_has(&args, "json") || cli_args_has(&args, "help"));
		assert_string_equal(cli_args_text(&args, "user", ""), "root");
		cli_args_clear(&args);
	}
	assert_int_equal(parse("skerry exec sbx_1 -- -- x", &args, &err), 0);
	assert_int_equal(args.n_rest, 2);
	cli_args_clear(&args);
}

static void mistakes(void **state)
{
	static const struct {
		const char *line, *message, *hint;
	} cases[] = {
		{ "skerry lss", "no command 'lss'", "skerry ls" },
		{ "skerry image biuld x", "no command 'image biuld'", "skerry image build" },
		{ "skerry image", "needs a command: build, import", "help image" },
		{ "skerry image list", "no command 'image list'", "skerry image ls" },
		{ "skerry delete sbx_1", "no command 'delete'", "skerry rm" },
		{ "skerry ssh sbx_1", "no command 'ssh'", "skerry shell" },
		{ "skerry qqqqqq", "no command 'qqqqqq'", "skerry help" },
		{ "skerry create --timout 5m", "no option '--timout'", "--timeout" },
		{ "skerry create -Z", "no option '-Z'", "--help" },
		{ "skerry create --size", "--size needs a value", "SIZE" },
		{ "skerry create --size a --size b", "given twice", "" },
		{ "skerry create --timeout 30", "'30', not a duration", "15m" },
		{ "skerry create --timeout 90s", "whole number of minutes", "" },
		{ "skerry create --label x", "not KEY=VALUE", "" },
		{ "skerry create --label =x", "not KEY=VALUE", "" },
		{ "skerry create --vcpus many", "not a number", "" },
		{ "skerry create --vcpus 1x", "not a number", "" },
		{ "skerry create --memory 0", "from 1 to", "" },
		{ "skerry create --memory 1e9", "whole number", "" },
		{ "skerry create extra", "does not take 'extra'", "--help" },
		{ "skerry ls --all=yes", "takes no value", "" },
		{ "skerry ls --status dead", "cannot be 'dead'", "running" },
		{ "skerry ls --status runing", "cannot be 'runing'", "did you mean 'running'?" },
		{ "skerry ls --color maybe", "cannot be 'maybe'", "auto, always, never" },
		{ "skerry get", "needs SANDBOX", "id" },
		{ "skerry extend sbx_1", "needs TIME", "15m" },
		{ "skerry exec x --timeout-ms 99999999999999999999 y", "whole number", "" },
		{ "skerry completion tcsh", "cannot be 'tcsh'", "bash, zsh, fish" },
		{ "skerry mcp config --client emacs", "cannot be 'emacs'", "claude-code" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cli_args args;
		struct err err;
		int r = parse(cases[i].line, &args, &err);

		if (r >= 0 || !str_eq(err.code, "usage") ||
		    !strstr(err.message, cases[i].message) || !strstr(err.hint, cases[i].hint))
			fail_msg("%s: '%s' / '%s'", cases[i].line, err.message, err.hint);
		cli_args_clear(&args);
	}
}

static void help_needs_no_operands(void **state)
{
	struct cli_args args;
	struct err err;

	(void)state;
	assert_int_equal(parse("skerry extend --help", &args, &err), 0);
	assert_true(cli_args_has(&args, "help"));
	cli_args_clear(&args);
	/* A group has no help of its own, but its commands have. */
	assert_int_equal(parse("skerry image --help", &args, &err), 0);
	assert_string_equal(args.command->name, "help");
	assert_string_equal(args.operands[0], "image");
	cli_args_clear(&args);
	assert_int_equal(parse("skerry -h", &args, &err), 0);
	assert_null(args.command);
	cli_args_clear(&args);
	assert_int_equal(parse("skerry", &args, &err), 0);
	assert_null(args.command);
	cli_args_clear(&args);
}

/* ---- the table itself ---- */

static void check_options(const struct cli_command *command)
{
	const struct cli_option *common;
	size_t n;

	common = cli_common_options(&n);
	for (size_t i = 0; i < command->n_options; i++) {
		const struct cli_option *a = &command->options[i];

		assert_true(a->help && *a->help);
		assert_true((a->type == CLI_FLAG) == (a->metavar == NULL));
		for (size_t j = 0; j < command->n_options; j++) {
			const struct cli_option *b = &command->options[j];

			if (i != j &&
			    (str_eq(a->name, b->name) || (a->letter && a->letter == b->letter)))
				fail_msg("%s: --%s twice", command->name, a->name);
		}
		for (size_t j = 0; j < n; j++)
			if (str_eq(a->name, common[j].name) ||
			    (a->letter && a->letter == common[j].letter))
				fail_msg("%s: --%s hides a common one", command->name, a->name);
	}
}

/* Every command has what help promises, and its examples are command lines that parse. */
static void the_table_is_whole(void **state)
{
	const struct cli_command *const *commands;
	size_t n;

	(void)state;
	commands = cli_commands(&n);
	assert_true(n >= 14);
	for (size_t i = 0; i < n; i++) {
		assert_true(commands[i]->summary && commands[i]->run);
		assert_true(commands[i]->n_examples > 0);
		check_options(commands[i]);
		for (size_t j = 0; j < commands[i]->n_examples; j++)
			assert_non_null(
				strstr(commands[i]->examples[j].command, commands[i]->name));
	}
}

static void help_tells_everything(void **state)
{
	const struct help_style plain = { "", "" };
	const struct cli_command *const *commands;
	struct buf all = BUF_INIT, troff = BUF_INIT;
	size_t n;

	(void)state;
	commands = cli_commands(&n);
	help_overview(&plain, &all);
	help_troff(&troff);
	for (size_t i = 0; i < n; i++) {
		struct buf one = BUF_INIT;

		help_command(commands[i], &plain, &one);
		assert_non_null(strstr(buf_str(&all), commands[i]->summary));
		assert_non_null(strstr(buf_str(&one), commands[i]->summary));
		for (size_t j = 0; j < commands[i]->n_options; j++) {
			char option[64];

			snprintf(option, sizeof(option), "--%s", commands[i]->options[j].name);
			assert_non_null(strstr(buf_str(&one), option));
		}
		for (const char *line = buf_str(&one); *line; line += strcspn(line, "\n") + 1)
			assert_true(strcspn(line, "\n") <= 100);
		buf_clear(&one);
	}
	assert_non_null(strstr(buf_str(&troff), "\\fB\\-e, \\-\\-env\\fR \\fIKEY=VALUE\\fR"));
	assert_null(strstr(buf_str(&troff), "\n'"));
	buf_clear(&all);
	buf_clear(&troff);
}

/* What agents read: the same table as JSON. */
static void help_as_json(void **state)
{
	json_t *all = help_json(""), *group = help_json("image"), *one = help_json("exec");
	const json_t *exec;
	size_t n;

	(void)state;
	(void)cli_commands(&n);
	assert_int_equal(json_array_size(json_object_get(all, "commands")), n);
	assert_true(json_array_size(json_object_get(group, "commands")) >= 3);
	assert_int_equal(json_array_size(json_object_get(one, "commands")), 1);
	exec = json_array_get(json_object_get(one, "commands"), 0);
	assert_string_equal(json_string_value(json_object_get(exec, "synopsis")),
			    "skerry exec [OPTIONS] SANDBOX [--] COMMAND…");
	assert_true(json_array_size(json_object_get(exec, "options")) > 5);
	assert_null(help_json("exe"));
	json_decref(all);
	json_decref(group);
	json_decref(one);
}

static void nearest_words(void **state)
{
	struct suggestion nearest = suggest_begin("biuld");

	(void)state;
	suggest_consider(&nearest, "wheel");
	assert_null(nearest.word);
	suggest_consider(&nearest, "builder");
	suggest_consider(&nearest, "build");
	suggest_consider(&nearest, "");
	assert_string_equal(nearest.word, "build");
	nearest = suggest_begin("x");
	suggest_consider(&nearest, "y");
	assert_null(nearest.word);
}

static void completion_knows_every_option(void **state)
{
	static const char *const shells[] = { "bash", "zsh", "fish" };
	const struct cli_command *const *commands;
	size_t n;

	(void)state;
	commands = cli_commands(&n);
	for (size_t s = 0; s < 3; s++) {
		struct buf script = BUF_INIT;

		assert_int_equal(completion_script(shells[s], &script), 0);
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < commands[i]->n_options; j++)
				assert_non_null(
					strstr(buf_str(&script), commands[i]->options[j].name));
		buf_clear(&script);
	}
	assert_true(completion_script("tcsh", &(struct buf){ 0 }) < 0);
}

static void distances(void **state)
{
	(void)state;
	assert_int_equal(suggest_distance("ls", "ls"), 0);
	assert_int_equal(suggest_distance("", "abc"), 3);
	assert_int_equal(suggest_distance("biuld", "build"), 1);
	assert_int_equal(suggest_distance("timout", "timeout"), 1);
	assert_int_equal(suggest_distance("kitten", "sitting"), 3);
}

/* ---- addresses ---- */

static void loopback_only(void **state)
{
	static const char *const here[] = { "http://127.0.0.1:7171", "http://localhost",
					    "https://127.1.2.3/x", "http://[::1]:7171",
					    "http://LOCALHOST:1" };
	static const char *const elsewhere[] = {
		"http://example.com",
		"http://127.0.0.1.example.com",
		"http://localhost.example.com",
		"http://127.example.com",
		"http://0.0.0.0:7171",
		"http://10.0.0.1",
		"http://[2001:db8::1]:7171",
		"http://127.0.0.1@example.com",
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		if (!client_url_is_loopback(here[i]))
			fail_msg("%s", here[i]);
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (client_url_is_loopback(elsewhere[i]))
			fail_msg("%s", elsewhere[i]);
}

static void paths_are_encoded(void **state)
{
	struct buf out = BUF_INIT;

	(void)state;
	client_escape(&out, "a/b ?#%\xc3\xbc..~_-");
	assert_string_equal(buf_str(&out), "a%2Fb%20%3F%23%25%C3%BC..~_-");
	buf_clear(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_and_operands),
		cmocka_unit_test(the_rest_is_not_ours),
		cmocka_unit_test(mistakes),
		cmocka_unit_test(help_needs_no_operands),
		cmocka_unit_test(the_table_is_whole),
		cmocka_unit_test(help_tells_everything),
		cmocka_unit_test(help_as_json),
		cmocka_unit_test(nearest_words),
		cmocka_unit_test(completion_knows_every_option),
		cmocka_unit_test(distances),
		cmocka_unit_test(loopback_only),
		cmocka_unit_test(paths_are_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
