/* See fake_preview.h. The connections are few, so that one list under one lock will do. */
#include "fake_preview.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "net/preview_token.h"

struct core_preview {
	LIST_ENTRY(core_preview) link;
	core_preview_over_fn over;
	void *arg;
};

static const uint8_t key[PREVIEW_KEY_SIZE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, core_preview) open_previews;

int core_preview_sign(struct core *core, const struct principal *who, const char *id, uint16_t port,
		      uint32_t ttl_minutes, char ret_token[CORE_PREVIEW_TOKEN_SIZE],
		      int64_t *ret_expires_unix_ms, struct err *err)
{
	int64_t minutes =
		ttl_minutes ? ttl_minutes : core_limits(core)->preview_ttl_minutes_default;
	int64_t expires_s = clock_unix_ms() / 1000 + minutes * 60;

	if (!str_eq(id, "sbx_aa"))
		return err_code(err, -ENOENT, "not_found", "no sandbox '%.64s'", id);
	preview_token_make(key, id, port, expires_s, ret_token);
	*ret_expires_unix_ms = expires_s * 1000;
	return 0;
}

int core_preview_check(struct core *core, const char *id, uint16_t port, const char *token,
		       size_t len, int64_t *ret_expires_unix_ms, struct err *err)
{
	int64_t expires_s;
	int rc = preview_token_check(key, id, port, clock_unix_ms() / 1000, token, len, &expires_s);

	if (rc < 0)
		return err_code(err, -EACCES, rc == -ETIME ? "preview_expired" : "preview_denied",
				"the link is not valid");
	*ret_expires_unix_ms = expires_s * 1000;
	return 0;
}

int core_preview_open(struct core *core, const struct principal *who, const char *id, uint16_t port,
		      core_preview_over_fn over, void *arg, struct core_preview **ret, int *ret_fd,
		      struct err *err)
{
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons(port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	_cleanup_close_ int fd = -1;
	struct core_preview *preview;

	if (!str_eq(id, "sbx_aa"))
		return err_code(err, -ENOENT, "not_found", "no sandbox '%.64s'", id);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
	    errno != EINPROGRESS)
		return core_preview_connect_error(id, port, -errno, err);
	preview = xcalloc(1, sizeof(*preview));
	preview->over = over;
	preview->arg = arg;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&open_previews, preview, link);
	pthread_mutex_unlock(&lock);
	*ret = preview;
	*ret_fd = STEAL_FD(fd);
	return 0;
}

void core_preview_close(struct core_preview *preview)
{
	pthread_mutex_lock(&lock);
	LIST_REMOVE(preview, link);
	pthread_mutex_unlock(&lock);
	free(preview);
}

void fake_previews_end(void)
{
	struct err err = ERR_INIT;
	struct core_preview *preview;

	err_code(&err, -ESHUTDOWN, "sandbox_ended", "sandbox 'sbx_aa' has ended");
	for (;;) {
		pthread_mutex_lock(&lock);
		preview = LIST_FIRST(&open_previews);
		pthread_mutex_unlock(&lock);
		if (!preview)
			return;
		preview->over(preview->arg, &err); /* closes it */
	}
}

int fake_previews_open(void)
{
	struct core_preview *preview;
	int n = 0;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(preview, &open_previews, link)
		n++;
	pthread_mutex_unlock(&lock);
	return n;
}
