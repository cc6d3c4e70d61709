/*
 * The default image, without which no sandbox starts. Images are the server's, so that this step
 * needs one that answers; making the image is `skerry image build`, run as it would be by hand.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/init_steps.h"
#include "cli/session.h"

#define ANSWER_MS     10000
#define DEFAULT_IMAGE "base"

/* Parsed, or NULL with why in words. */
static json_t *ask_server(struct cli *cli, const char *path, struct buf *why)
{
	const struct client_spec spec = {
		.method = "GET",
		.path = path,
		.timeout_ms = ANSWER_MS,
	};
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_json_ json_t *body = NULL;
	struct err err = ERR_INIT;

	if (client_call(cli->client, &spec, NULL, NULL, &response, &err) < 0) {
		buf_append_str(why, err.message);
		return NULL;
	}
	(void)json_parse(buf_str(&response.body), response.body.len, &body, NULL);
	if (response.status == 200 && body)
		return STEAL(body);
	buf_append_str(why,
		       json_get_str(body, "detail", "the server's answer is none of skerryd's"));
	return NULL;
}

static bool has_image(const json_t *images, const char *name)
{
	const json_t *image;
	size_t i;

	json_array_foreach(json_object_get(images, "items"), i, image) {
		if (str_eq(json_get_str(image, "name", ""), name))
			return true;
	}
	return false;
}

/* Progress and failures are its own, on stderr. */
static int build(const char *url, const char *name, struct err *err)
{
	const char *const argv[] = { "skerry", "image", "build", name, "--url", url, NULL };
	posix_spawn_file_actions_t actions;
	int status = 0, r;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return err_set(err, -r, "run skerry image build: %s", strerror(r));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	err_set(err, -EIO, "the image '%s' was not built", name);
	err_hint(err, "what is above says why; `skerry image build %s` does it again", name);
	return -EIO;
}

static int skip(struct init_result *ret, const char *why, const char *name)
{
	ret->outcome = INIT_SKIPPED;
	buf_printf(&ret->detail, "%s: `skerry image build %s` makes the default image", why, name);
	return 0;
}

static int look_and_build(const struct init *init, struct cli *cli, struct init_result *ret,
			  struct err *err)
{
	_cleanup_json_ json_t *limits = NULL, *images = NULL;
	_cleanup_buf_ struct buf why = BUF_INIT, question = BUF_INIT;
	const char *name;
	int r;

	limits = ask_server(cli, "/v1/limits", &why);
	name = json_get_str(limits, "default_image", DEFAULT_IMAGE);
	images = limits ? ask_server(cli, "/v1/images", &why) : NULL;
	if (!images)
		return skip(ret, buf_str(&why), name);
	if (has_image(images, name)) {
		ret->outcome = INIT_ALREADY;
		buf_printf(&ret->detail, "'%s', the default one, is there", name);
		return 0;
	}
	buf_printf(&question,
		   "Sandboxes start from the image '%s', which is not there. Build it, out of\n"
		   "packages of Debian that are downloaded?",
		   name);
	if (!init_wants(init, buf_str(&question)))
		return skip(ret, "not built", name);
	r = build(cli->url, name, err);
	if (r < 0)
		return r;
	ret->outcome = INIT_DONE;
	buf_printf(&ret->detail, "'%s', the default one, was built", name);
	buf_printf(&ret->undo, "skerry image rm %s\n", name);
	return 0;
}

int init_images(const struct init *init, struct init_result *ret, struct err *err)
{
	struct cli cli = { .quiet = true };
	int r;

	/* Anew: a daemon that was just started has just made its key. */
	if (session_open(&cli, init->args) != CLI_OK)
		return err_set(err, -EINVAL, "the server's address is not understood");
	r = look_and_build(init, &cli, ret, err);
	session_close(&cli);
	return r;
}
