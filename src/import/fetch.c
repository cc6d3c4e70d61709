/* See fetch.h. */
#include "import/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "loop/spawn.h"

#define TICK_MS	      500
#define OUTPUT_MAX    4096u /* of what it says, the end is kept */
#define END_MS	      10000
#define POLICY	      "/etc/containers/policy.json"
#define ARGUMENTS_MAX 24

/* A proxy between here and the registry is the server's business. */
static const char *const passed_on[] = {
	"HTTP_PROXY",  "HTTPS_PROXY", "NO_PROXY",      "http_proxy",
	"https_proxy", "no_proxy",    "SSL_CERT_FILE", "SSL_CERT_DIR",
};

static void make_env(const struct fetch *fetch, char **env)
{
	size_t n = 0;

	env[n++] = xstrdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
	env[n++] = xasprintf("HOME=%s", fetch->tmp);
	env[n++] = xasprintf("TMPDIR=%s", fetch->tmp);
	env[n++] = xasprintf("XDG_RUNTIME_DIR=%s", fetch->tmp);
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++) {
		const char *value = getenv(passed_on[i]);

		if (value)
			env[n++] = xasprintf("%s=%s", passed_on[i], value);
	}
	env[n] = NULL;
}

static void make_argv(const struct fetch *fetch, const char *to, const char **argv)
{
	size_t n = 0;

	argv[n++] = "skopeo";
	/* Signatures are asked for by the server's policy, where it has one. */
	if (access(POLICY, R_OK) < 0)
		argv[n++] = "--insecure-policy";
	argv[n++] = "--tmpdir";
	argv[n++] = fetch->tmp;
	argv[n++] = "--override-os";
	argv[n++] = "linux";
	argv[n++] = "--override-arch";
	argv[n++] = "amd64";
	argv[n++] = "copy";
	argv[n++] = "--remove-signatures";
	if (fetch->any_certificate)
		argv[n++] = "--src-tls-verify=false";
	if (fetch->auth) {
		argv[n++] = "--src-authfile";
		argv[n++] = fetch->auth;
	}
	argv[n++] = fetch->source;
	argv[n++] = to;
	argv[n] = NULL;
}

/* What it says at the end, made fit for a line on a terminal: names in it are the source's. */
static void say_why(struct buf *output, struct err *err)
{
	const char *msg = NULL;
	char text[512] = "";
	size_t n = 0;

	for (const char *at = buf_str(output); (at = strstr(at, "msg=\"")); at++)
		msg = at + 5;
	for (const char *c = msg ? msg : buf_str(output); *c && n < sizeof(text) - 1; c++) {
		if (msg && *c == '"')
			break;
		if (msg && *c == '\\' && c[1])
			c++;
		text[n++] = (char)((unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c);
	}
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
	if (strstr(text, "no space left on device")) {
		err_code(err, -EFBIG, "image_too_large", "the image is too large to be copied");
		return;
	}
	err_code(err, -EIO, "image_source_failed", "skopeo cannot read the image: %s",
		 n > 0 ? text : "it does not say why");
}

static void keep_end(struct buf *output, const char *data, size_t len)
{
	buf_append(output, data, len);
	if (output->len > 2 * OUTPUT_MAX)
		buf_drop_front(output, output->len - OUTPUT_MAX);
}

/* Until it has closed its output, which it does by ending. */
static int follow(int fd, struct buf *output, fetch_progress_fn progress, void *arg)
{
	int64_t next = clock_boottime_ms();
	char chunk[4096];
	ssize_t n;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (clock_boottime_ms() >= next) {
			progress(arg);
			next = clock_boottime_ms() + TICK_MS;
		}
		if (poll(&p, 1, TICK_MS) <= 0)
			continue;
		n = read(fd, chunk, sizeof(chunk));
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			keep_end(output, chunk, (size_t)n);
	}
}

static void free_env(char **env)
{
	for (; *env; env++)
		free(*env);
}

int fetch_run(const struct fetch *fetch, fetch_progress_fn progress, void *arg, struct err *err)
{
	_cleanup_free_ char *to = xasprintf("dir:%s", fetch->to);
	_cleanup_buf_ struct buf output = BUF_INIT;
	_cleanup_(child_kill) struct child child = { .pid = -1, .pidfd = -1 };
	_cleanup_close_ int read_fd = -1, write_fd = -1;
	const char *argv[ARGUMENTS_MAX];
	char *env[ARGUMENTS_MAX];
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	int ends[2], status = 0, r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make a pipe: %s", strerrordesc_np(errno));
	read_fd = ends[0];
	write_fd = ends[1];
	make_argv(fetch, to, argv);
	make_env(fetch, env);
	spec.argv = argv;
	spec.envp = (const char *const *)env;
	spec.stdout_fd = write_fd;
	spec.stderr_fd = write_fd;
	r = spawn(&spec, &child, err);
	free_env(env);
	if (r < 0)
		return r;
	close(STEAL_FD(write_fd));
	r = follow(read_fd, &output, progress, arg);
	if (r == 0)
		r = child_wait(&child, clock_boottime_ms() + END_MS, &status);
	if (r < 0)
		return err_set(err, r, "skopeo: %s", strerrordesc_np(-r));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ)
		return err_code(err, -EFBIG, "image_too_large",
				"the image has a file that is too large to be copied");
	say_why(&output, err);
	return -EIO;
}
