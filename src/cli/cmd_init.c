/*
 * skerry init: makes this machine ready, step by step (init_steps.h). It needs root. A further step
 * is a row in the table.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/init_steps.h"
#include "cli/session.h"
#include "cli/table.h"

#define SIZE_GB_MAX 65536

static const struct init_step steps[] = {
	{ "state directory", init_state_dir },
	{ "file system", init_file_system },
	{ "service", init_service },
	{ "image", init_images },
};

static const char *const reflink_choices[] = { "auto", "yes", "no", NULL };
static const char *const boot_choices[] = { "auto", "systemd", "fstab", "none", NULL };
static const char *const outcome_names[] = {
	[INIT_DONE] = "done",
	[INIT_ALREADY] = "already",
	[INIT_SKIPPED] = "skipped",
};

static const struct cli_option options[] = {
	{ .name = "state-dir",
	  .type = CLI_TEXT,
	  .metavar = "DIR",
	  .complete = CLI_COMPLETE_DIRECTORY,
	  .help = "where skerryd keeps its state (default: " CLI_STATE_DIR ")" },
	{ .name = "reflink",
	  .type = CLI_TEXT,
	  .metavar = "WHEN",
	  .choices = reflink_choices,
	  .help = "mount a file system with reflink there: yes, no, or auto (default): asks on a "
		  "terminal" },
	{ .name = "size-gb",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = SIZE_GB_MAX,
	  .help = "how large that file system may grow (default: three quarters of the room)" },
	{ .name = "boot",
	  .type = CLI_TEXT,
	  .metavar = "HOW",
	  .choices = boot_choices,
	  .help = "how it is mounted at boot: systemd (a mount unit), fstab, none, or auto "
		  "(default); the daemon is a service with systemd alone" },
	{ .name = "yes",
	  .letter = 'y',
	  .type = CLI_FLAG,
	  .help = "say yes to every question, and ask none" },
};

static const struct cli_example examples[] = {
	{ "make this machine ready; asks what it cannot know", "sudo skerry init" },
	{ "without questions", "sudo skerry init --yes --size-gb 200" },
	{ "the directory and the service, and no file system",
	  "sudo skerry init --yes --reflink=no" },
};

static bool ask(const char *question)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	fprintf(stderr, "%s [Y/n] ", question);
	fflush(stderr);
	if (getline(&line, &size, stdin) < 0)
		return false;
	return line[0] == '\n' || line[0] == 'y' || line[0] == 'Y';
}

bool init_wants(const struct init *init, const char *question)
{
	return init->yes || (init->ask && init->ask(question));
}

static size_t choice(const char *const *choices, const char *text)
{
	size_t i = 0;

	while (choices[i] && !str_eq(choices[i], text))
		i++;
	return i;
}

/* Absolute and without trailing slashes, as its name is made part of others. */
static char *clean_path(const char *path)
{
	_cleanup_free_ char *cwd = *path == '/' ? NULL : get_current_dir_name();
	char *clean = cwd ? xasprintf("%s/%s", cwd, path) : xstrdup(path);

	for (size_t len = strlen(clean); len > 1 && clean[len - 1] == '/'; len--)
		clean[len - 1] = '\0';
	return clean;
}

/* ---- showing ---- */

static void show(const struct init_step *step, const struct init_result *result)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	bool skipped = result->outcome == INIT_SKIPPED;

	text_append_safe(&line, buf_str(&result->detail));
	printf("%s%-8s%s %-16s %s\n", style_on(stdout, skipped ? STYLE_YELLOW : STYLE_GREEN),
	       outcome_names[result->outcome], style_off(stdout), step->name, buf_str(&line));
	if (result->undo.len > 0 && result->outcome == INIT_DONE) {
		buf_reset(&line);
		for (const char *p = buf_str(&result->undo); *p; p++)
			buf_append_str(&line, *p == '\n' ? "\n          " : (char[]){ *p, '\0' });
		while (line.len > 0 && strchr(" \n", line.data[line.len - 1]))
			line.data[--line.len] = '\0';
		printf("         to undo it:\n          %s\n", buf_str(&line));
	}
}

static void add_json(json_t *all, const struct init_step *step, const struct init_result *result)
{
	json_t *one = json_object();

	json_put_str(one, "name", step->name);
	json_put_str(one, "outcome", outcome_names[result->outcome]);
	json_put_str(one, "detail", buf_str(&result->detail));
	json_put_str(one, "undo", buf_str(&result->undo));
	json_array_append_new(all, one);
}

static int print_json(json_t *all)
{
	_cleanup_json_ json_t *answer = json_object();
	_cleanup_buf_ struct buf text = BUF_INIT;

	json_put(answer, "steps", json_incref(all));
	json_write(answer, &text);
	buf_append_char(&text, '\n');
	return output_write(text.data, text.len);
}

/* ---- running ---- */

static int check_root(void)
{
	struct err err = ERR_INIT;

	if (geteuid() == 0)
		return CLI_OK;
	err_set(&err, -EPERM, "init changes this machine and needs root");
	err_hint(&err, "run `sudo skerry init`");
	report_err(&err);
	return CLI_DENIED;
}

static int run_steps(const struct cli *cli, const struct init *init, json_t *all)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct init_result result = { .detail = BUF_INIT, .undo = BUF_INIT };
		struct err err = ERR_INIT;
		int r = steps[i].run(init, &result, &err);

		if (r == 0 && cli->json)
			add_json(all, &steps[i], &result);
		else if (r == 0 && !cli->quiet)
			show(&steps[i], &result);
		buf_clear(&result.detail);
		buf_clear(&result.undo);
		if (r < 0)
			return report_err(&err);
	}
	return CLI_OK;
}

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_free_ char *dir = clean_path(cli_args_text(args, "state-dir", CLI_STATE_DIR));
	_cleanup_json_ json_t *all = json_array();
	bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	const struct init init = {
		.state_dir = dir,
		.reflink = (enum init_reflink)choice(reflink_choices,
						     cli_args_text(args, "reflink", "auto")),
		.boot = (enum init_boot)choice(boot_choices, cli_args_text(args, "boot", "auto")),
		.size_gb = cli_args_number(args, "size-gb", 0),
		.yes = cli_args_has(args, "yes"),
		.args = args,
		.ask = terminal && !cli->json && !cli->quiet ? ask : NULL,
	};
	int code = check_root();

	if (code == CLI_OK)
		code = run_steps(cli, &init, all);
	return code == CLI_OK && cli->json ? print_json(all) : code;
}

const struct cli_command cli_command_init = {
	.name = "init",
	.summary = "make this machine ready for skerryd",
	.detail = "Makes the state directory, starts the daemon as a service and builds the "
		  "default image. Where its file system cannot share blocks between "
		  "files (reflink), forks and snapshots have to copy disks; init offers an XFS "
		  "image that can, DIR.xfs beside it, mounted on it now and at every boot. The "
		  "image is sparse: it takes the room of what is stored.\n\n"
		  "What is as it should be is left alone, so init can be run again. State that is "
		  "there already is never hidden by a mount. What it did can be undone with the "
		  "commands that it prints. Without a terminal nothing is done that has to be "
		  "asked for: --yes says it beforehand.",
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run,
};
