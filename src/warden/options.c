#include "warden/options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>

#include "base/str.h"
#include "warden/cgroup.h"

enum {
	OPT_NAME = 256,
	OPT_RUN_DIR,
	OPT_CGROUP,
	OPT_UID,
	OPT_EXPIRES,
	OPT_CPU,
	OPT_MEMORY,
	OPT_PIDS,
	OPT_FILE_SIZE,
	OPT_HUGE_PAGES,
	OPT_FREEZE,
	OPT_STATUS_FD,
	OPT_CONSOLE_FD,
	OPT_BIND,
	OPT_KEEP_FD,
	OPT_SETENV,
	OPT_HELP,
};

static const struct option long_options[] = {
	{ "name", required_argument, NULL, OPT_NAME },
	{ "run-dir", required_argument, NULL, OPT_RUN_DIR },
	{ "cgroup", required_argument, NULL, OPT_CGROUP },
	{ "uid", required_argument, NULL, OPT_UID },
	{ "expires-boottime-ms", required_argument, NULL, OPT_EXPIRES },
	{ "cpu-quota-percent", required_argument, NULL, OPT_CPU },
	{ "memory-max", required_argument, NULL, OPT_MEMORY },
	{ "pids-max", required_argument, NULL, OPT_PIDS },
	{ "file-size-max", required_argument, NULL, OPT_FILE_SIZE },
	{ "huge-pages", no_argument, NULL, OPT_HUGE_PAGES },
	{ "freeze-by-qmp", required_argument, NULL, OPT_FREEZE },
	{ "status-fd", required_argument, NULL, OPT_STATUS_FD },
	{ "console-fd", required_argument, NULL, OPT_CONSOLE_FD },
	{ "bind", required_argument, NULL, OPT_BIND },
	{ "keep-fd", required_argument, NULL, OPT_KEEP_FD },
	{ "setenv", required_argument, NULL, OPT_SETENV },
	{ "help", no_argument, NULL, OPT_HELP },
	{ 0 },
};

const char *options_usage(void)
{
	return "usage: skerry-warden OPTION... -- COMMAND [ARGUMENT...]\n"
	       "\n"
	       "Runs COMMAND, a virtual machine monitor, in a jail until its deadline. skerryd "
	       "starts\n"
	       "this program; see ARCHITECTURE.md.\n"
	       "\n"
	       "  --name NAME               names the control group and the processes\n"
	       "  --run-dir DIR             record, control socket and console.log go here\n"
	       "  --cgroup PARENT           control group that holds those of all VMs\n"
	       "  --uid N                   user and group of COMMAND\n"
	       "  --expires-boottime-ms T   deadline on CLOCK_BOOTTIME\n"
	       "  --cpu-quota-percent N     of one CPU, from sealing on; 0: no limit\n"
	       "  --memory-max BYTES        memory of COMMAND\n"
	       "  --pids-max N              its processes and threads\n"
	       "  --file-size-max BYTES     largest file it may write\n"
	       "  --huge-pages              let it have transparent huge pages\n"
	       "  --freeze-by-qmp SOCKET    at the deadline stop COMMAND, a QEMU, and do not kill "
	       "it;\n"
	       "                            SOCKET is its control socket\n"
	       "  --bind PATH               show PATH in the jail, read-only, until sealed; a "
	       "symbolic\n"
	       "                            link is copied\n"
	       "  --keep-fd N               descriptor that COMMAND inherits\n"
	       "  --setenv NAME=VALUE       COMMAND's whole environment\n"
	       "  --console-fd N            read end of the pipe that COMMAND's output goes to; "
	       "the\n"
	       "                            write end is the warden's own stdout and stderr\n"
	       "  --status-fd N             gets \"ok\" once COMMAND was executed, else the "
	       "reason\n";
}

static int parse_number(const char *option, const char *text, int64_t min, int64_t max,
			int64_t *ret, struct err *err)
{
	int64_t n;

	if (str_to_i64(text, &n) < 0 || n < min || n > max)
		return err_set(err, -EINVAL, "--%s '%s' is not a number from %lld to %lld", option,
			       text, (long long)min, (long long)max);
	*ret = n;
	return 0;
}

static int parse_u64(const char *option, const char *text, uint64_t *ret, struct err *err)
{
	int64_t n = 0;
	int r = parse_number(option, text, 1, INT64_MAX, &n, err);

	if (r == 0)
		*ret = (uint64_t)n;
	return r;
}

static int parse_fd(const char *option, const char *text, int *ret, struct err *err)
{
	int64_t n = 0;
	int r = parse_number(option, text, 3, 65535, &n, err);

	if (r < 0)
		return r;
	if (fcntl((int)n, F_GETFD) < 0)
		return err_set(err, -EBADF, "--%s %s is not open", option, text);
	*ret = (int)n;
	return 0;
}

static int parse_limit(struct options *options, int id, const char *name, const char *arg,
		       struct err *err)
{
	int64_t n = 0;
	int r;

	switch (id) {
	case OPT_MEMORY:
		return parse_u64(name, arg, &options->memory_max, err);
	case OPT_PIDS:
		return parse_u64(name, arg, &options->pids_max, err);
	case OPT_FILE_SIZE:
		return parse_u64(name, arg, &options->file_size_max, err);
	case OPT_UID:
		/* 0 would be root, the last two mean "no user" and "overflow" to the kernel. */
		r = parse_number(name, arg, 1, UINT32_MAX - 2, &n, err);
		options->uid = (uid_t)n;
		return r;
	case OPT_EXPIRES:
		return parse_number(name, arg, 1, INT64_MAX / 1000000,
				    &options->expires_boottime_ms, err);
	default:
		r = parse_number(name, arg, 0, 100 * 1024, &n, err);
		options->cpu_quota_percent = (unsigned int)n;
		return r;
	}
}

static int parse_list(struct options *options, int id, const char *name, const char *arg,
		      struct err *err)
{
	int r;

	switch (id) {
	case OPT_BIND:
		if (options->n_binds == OPTIONS_BINDS_MAX)
			return err_set(err, -E2BIG, "more than %d --bind", OPTIONS_BINDS_MAX);
		if (arg[0] != '/' || strstr(arg, "/../"))
			return err_set(err, -EINVAL, "--bind '%s' is not an absolute path", arg);
		options->binds[options->n_binds++] = arg;
		return 0;
	case OPT_SETENV:
		if (options->n_env == OPTIONS_ENV_MAX)
			return err_set(err, -E2BIG, "more than %d --setenv", OPTIONS_ENV_MAX);
		options->env[options->n_env++] = arg;
		return 0;
	default:
		if (options->n_keep_fds == OPTIONS_KEEP_MAX)
			return err_set(err, -E2BIG, "more than %d --keep-fd", OPTIONS_KEEP_MAX);
		r = parse_fd(name, arg, &options->keep_fds[options->n_keep_fds], err);
		options->n_keep_fds += r == 0;
		return r;
	}
}

static int parse_one(struct options *options, int id, const char *name, const char *arg,
		     struct err *err)
{
	switch (id) {
	case OPT_NAME:
		if (!cgroup_name_valid(arg))
			return err_set(err, -EINVAL, "--name '%s' cannot name a control group",
				       arg);
		options->name = arg;
		return 0;
	case OPT_RUN_DIR:
		options->run_dir = arg;
		return 0;
	case OPT_CGROUP:
		options->cgroup_parent = arg;
		return 0;
	case OPT_HUGE_PAGES:
		options->huge_pages = true;
		return 0;
	case OPT_FREEZE:
		options->freeze_by_qmp = arg;
		return 0;
	case OPT_STATUS_FD:
		return parse_fd(name, arg, &options->status_fd, err);
	case OPT_CONSOLE_FD:
		return parse_fd(name, arg, &options->console_fd, err);
	case OPT_BIND:
	case OPT_SETENV:
	case OPT_KEEP_FD:
		return parse_list(options, id, name, arg, err);
	default:
		return parse_limit(options, id, name, arg, err);
	}
}

static int check_complete(const struct options *options, struct err *err)
{
	const struct {
		const char *name;
		bool given;
	} needed[] = {
		{ "name", options->name },
		{ "run-dir", options->run_dir },
		{ "cgroup", options->cgroup_parent },
		{ "uid", options->uid },
		{ "expires-boottime-ms", options->expires_boottime_ms },
		{ "memory-max", options->memory_max },
		{ "pids-max", options->pids_max },
		{ "file-size-max", options->file_size_max },
		{ "status-fd", options->status_fd >= 0 },
		{ "console-fd", options->console_fd >= 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!needed[i].given)
			return err_set(err, -EINVAL, "--%s is missing", needed[i].name);
	if (!options->command[0] || options->command[0][0] != '/')
		return err_set(err, -EINVAL, "the command must be given by an absolute path");
	return 0;
}

int options_parse(int argc, char *argv[], struct options *ret, struct err *err)
{
	struct options options = { .status_fd = -1, .console_fd = -1 };
	int id, index = 0, r = 0;

	while (r == 0 && (id = getopt_long(argc, argv, "+", long_options, &index)) != -1) {
		if (id == OPT_HELP || id == '?')
			return err_set(err, -EINVAL, "see --help");
		r = parse_one(&options, id, long_options[index].name, optarg, err);
	}
	if (r < 0)
		return r;
	options.command = argv + optind;
	r = check_complete(&options, err);
	if (r == 0)
		*ret = options;
	return r;
}
