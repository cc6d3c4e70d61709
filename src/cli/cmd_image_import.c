/*
 * skerry image import, and skerry image build of a directory: images that were built elsewhere. The
 * server reads archives and directories itself, so that a path is made absolute here and must be
 * one that it can see.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/buildah.h"
#include "cli/image_make.h"

#define IMPORT_PATH "/v1/images/import"

static void put_name(json_t *body, const struct cli_args *args)
{
	const char *name = cli_args_text(args, "name", NULL);

	if (name)
		json_put_str(body, "name", name);
}

/* ---- import ---- */

static const struct cli_operand import_operands[] = {
	{ .name = "SOURCE",
	  .help = "docker-archive:PATH, oci-archive:PATH, oci:DIRECTORY, "
		  "docker://[HOST/]NAME[:TAG]" },
};

static const struct cli_option import_options[] = {
	{ .name = "name",
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .help = "how the image is called here (default: the last part of the source)" },
	{ .name = "replace", .type = CLI_FLAG, .help = "also when there is an image of that name" },
	{ .name = "no-tls-verify",
	  .type = CLI_FLAG,
	  .help = "a registry without TLS, or with any certificate" },
};

static const struct cli_example import_examples[] = {
	{ "from a registry", "skerry image import docker://docker.io/library/alpine:3.20" },
	{ "what `docker save` wrote", "skerry image import docker-archive:app.tar --name app" },
};

/* The path in a source, relative to here, as the server needs it. NULL with a reason. */
static char *absolute_source(const char *source, struct err *err)
{
	static const char *const local[] = { "docker-archive:", "oci-archive:", "oci:" };

	for (size_t i = 0; i < ARRAY_SIZE(local); i++) {
		size_t len = strlen(local[i]);
		_cleanup_free_ char *path = NULL;
		char real[PATH_MAX];
		size_t path_len;

		if (!str_starts(source, local[i]))
			continue;
		path_len = strcspn(source + len, ":");
		path = xstrndup(source + len, path_len);
		/* What is not here may be on the server, if it is written so that it can be. */
		if (path[0] == '/')
			break;
		if (!realpath(path, real)) {
			err_set(err, -errno, "cannot find '%s': %s", path, strerror(errno));
			return NULL;
		}
		return xasprintf("%s%s%s", local[i], real, source + len + path_len);
	}
	return xstrdup(source);
}

static int run_import(struct cli *cli, const struct cli_args *args)
{
	struct err err = ERR_INIT;
	_cleanup_free_ char *source = absolute_source(args->operands[0], &err);
	json_t *body;

	if (!source)
		return report_err(&err);
	body = json_object();
	json_put_str(body, "source", source);
	put_name(body, args);
	if (cli_args_has(args, "replace"))
		json_put(body, "replace", json_true());
	if (cli_args_has(args, "no-tls-verify"))
		json_put(body, "tls_verify", json_false());
	return image_make(cli, IMPORT_PATH, body, "importing");
}

/* ---- build of a directory ---- */

bool image_is_directory(const char *operand)
{
	return strchr(operand, '/') || str_eq(operand, ".") || str_eq(operand, "..");
}

/* Its name: the directory's own, unless one was given. */
static void put_directory_name(json_t *body, const char *directory)
{
	char real[PATH_MAX], *slash;

	if (json_object_get(body, "name") || !realpath(directory, real))
		return;
	slash = strrchr(real, '/');
	for (char *c = slash + 1; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	if (slash[1])
		json_put_str(body, "name", slash + 1);
}

static int build_into(struct cli *cli, const struct cli_args *args, const char *archive)
{
	const struct buildah build = {
		.directory = args->operands[0],
		.file = cli_args_text(args, "file", NULL),
		.archive = archive,
		.quiet = cli->quiet || cli->json,
	};
	_cleanup_free_ char *source = xasprintf("oci-archive:%s", archive);
	struct err err = ERR_INIT;
	json_t *body;

	if (buildah_run(&build, &err) < 0)
		return report_err(&err);
	body = json_object();
	json_put_str(body, "source", source);
	put_name(body, args);
	put_directory_name(body, args->operands[0]);
	if (cli_args_has(args, "rebuild"))
		json_put(body, "replace", json_true());
	return image_make(cli, IMPORT_PATH, body, "importing");
}

int image_build_directory(struct cli *cli, const struct cli_args *args)
{
	const char *tmp = getenv("TMPDIR");
	_cleanup_free_ char *dir =
		xasprintf("%s/skerry-build-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/var/tmp");
	_cleanup_free_ char *archive = NULL;
	struct stat st;
	struct err err = ERR_INIT;
	int code;

	if (stat(args->operands[0], &st) < 0 || !S_ISDIR(st.st_mode)) {
		err_set(&err, -ENOENT, "'%s' is no directory", args->operands[0]);
		err_hint(&err,
			 "a recipe of the server is named without a slash: skerry image build "
			 "base");
		return report_err(&err);
	}
	if (!mkdtemp(dir)) {
		err_set(&err, -errno, "cannot make '%s': %s", dir, strerror(errno));
		return report_err(&err);
	}
	archive = xasprintf("%s/image.tar", dir);
	code = build_into(cli, args, archive);
	tree_remove(dir);
	return code;
}

const struct cli_command cli_command_image_import = {
	.name = "image import",
	.summary = "make an image of one that was built elsewhere",
	.detail = "Archives and directories are read by the server: their paths are its own. USER, "
		  "WORKDIR and ENV of the image hold for the commands of its sandboxes; ENTRYPOINT "
		  "and "
		  "CMD are not run. Needs an admin key, and skopeo on the server.",
	.operands = import_operands,
	.n_operands = ARRAY_SIZE(import_operands),
	.options = import_options,
	.n_options = ARRAY_SIZE(import_options),
	.examples = import_examples,
	.n_examples = ARRAY_SIZE(import_examples),
	.run = run_import,
};
