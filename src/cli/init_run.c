/* Programs that init runs. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/init_steps.h"

#define OUTPUT_MAX 65536

static int start(const char *const *argv, int output_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
	r = posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* All of it is read, so that the program can end; what is past the cap is dropped. */
static void read_output(int fd, struct buf *out)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)) {
		if (n > 0 && out->len + (size_t)n <= OUTPUT_MAX)
			buf_append(out, chunk, (size_t)n);
	}
	while (out->len > 0 && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
}

int init_run(const char *const *argv, struct buf *output, struct err *err)
{
	_cleanup_close_ int read_fd = -1;
	_cleanup_buf_ struct buf text = BUF_INIT;
	int fds[2], status = 0, r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot run '%s': %s", argv[0], strerror(errno));
	read_fd = fds[0];
	r = start(argv, fds[1], &pid);
	close(fds[1]);
	if (r < 0)
		return err_set(err, r, "cannot run '%s': %s", argv[0], strerror(-r));
	read_output(read_fd, &text);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (output)
		buf_append(output, buf_str(&text), text.len);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, -EIO, "'%s' failed: %s", argv[0],
		       text.len ? buf_str(&text) : "it says nothing");
}
