/*
 * Connections into sandboxes, and the links that allow them.
 *
 * A connection goes from the gateway address of the host's network to the sandbox's unique address;
 * its mark is what the egress program lets in (net/slot.h). It is on the sandbox's list, on the
 * loop's thread, while it is open: the list is what keeps a sandbox from being idle, what the limit
 * counts, and what is ended when the sandbox is paused or ends. A pause ends connections because
 * the sandbox may be at another unique address when it goes on.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/preview.h"
#include "net/preview_token.h"
#include "net/slot.h"

static_assert(PREVIEW_KEY_SIZE == CORE_PREVIEW_KEY_SIZE, "the core keeps a whole key");
static_assert(PREVIEW_TOKEN_SIZE == CORE_PREVIEW_TOKEN_SIZE, "a token fits what the surface has");
static_assert(PREVIEW_SANDBOX_MAX >= SANDBOX_ID_SIZE, "every id can be signed");

#define KEY_NAME      "preview_key"
#define KEY_HEX_SIZE  (2 * PREVIEW_KEY_SIZE + 1)
#define OPEN_TRIES    3 /* a pause can come in between */
#define KEEP_IDLE_S   60
#define KEEP_EVERY_S  15
#define KEEP_PROBES   4
#define UNANSWERED_MS 60000 /* what was sent, by a guest that hangs */
#define MINUTE_MS     60000LL

struct core_preview {
	struct core_preview *next, *prev; /* of the sandbox's list */
	struct sandbox *sandbox;
	bool listed;
	core_preview_over_fn over;
	void *arg;
};

/* ---- the key ---- */

static int key_parse(const char *hex, uint8_t key[PREVIEW_KEY_SIZE], struct err *err)
{
	bool fits = strlen(hex) == KEY_HEX_SIZE - 1;

	for (size_t i = 0; i < PREVIEW_KEY_SIZE && fits; i++) {
		const char digits[] = { hex[2 * i], hex[2 * i + 1], '\0' };
		char *end;

		key[i] = (uint8_t)strtoul(digits, &end, 16);
		fits = *end == '\0';
	}
	return fits ? 0
		    : err_set(err, -EBADMSG, "the key of preview links in the database is damaged");
}

/* Made at the first start. */
int preview_key_init(struct core *core, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	char hex[KEY_HEX_SIZE];
	int r = db_begin_write(core->db, &txn, err);

	if (r < 0)
		return r;
	r = meta_get(&txn, KEY_NAME, hex, sizeof(hex), err);
	if (r == -ENOENT) {
		rand_hex(hex, sizeof(hex) - 1);
		r = meta_set(&txn, KEY_NAME, hex, err);
		if (r == 0)
			r = db_commit(&txn, err);
	}
	if (r == 0)
		r = key_parse(hex, core->preview_key, err);
	explicit_bzero(hex, sizeof(hex));
	return r;
}

/* ---- links ---- */

static int check_alive(const struct sandbox_info *info, struct err *err)
{
	if (!sandbox_status_ended(info->status))
		return 0;
	err_code(err, -ESHUTDOWN, "sandbox_ended", "sandbox '%s' has ended (%s): %s", info->id,
		 info->reason, info->reason_text);
	err_hint(err, "create a new sandbox");
	return -ESHUTDOWN;
}

int core_preview_sign(struct core *core, const struct principal *who, const char *id, uint16_t port,
		      uint32_t ttl_minutes, char ret_token[CORE_PREVIEW_TOKEN_SIZE],
		      int64_t *ret_expires_unix_ms, struct err *err)
{
	const struct core_limits *limits = &core->limits;
	int64_t minutes = ttl_minutes ? ttl_minutes : limits->preview_ttl_minutes_default;
	_cleanup_(sandbox_info_clear) struct sandbox_info info = { 0 };
	int64_t expires_s;
	int r;

	if (port == 0)
		return err_code(err, -EINVAL, "invalid_argument", "port must be from 1 to 65535");
	if (minutes > limits->preview_ttl_minutes_max)
		return err_code(err, -EINVAL, "invalid_argument",
				"ttl_minutes must be from 1 to %lld, got %lld",
				(long long)limits->preview_ttl_minutes_max, (long long)minutes);
	r = core_get(core, who, id, &info, err);
	if (r == 0)
		r = check_alive(&info, err);
	if (r == 0)
		r = core_net_require(core, err);
	if (r < 0)
		return r;
	expires_s = clock_unix_ms() / 1000 + minutes * 60;
	preview_token_make(core->preview_key, id, port, expires_s, ret_token);
	*ret_expires_unix_ms = expires_s * 1000;
	return 0;
}

int core_preview_check(struct core *core, const char *id, uint16_t port, const char *token,
		       size_t len, int64_t *ret_expires_unix_ms, struct err *err)
{
	int64_t expires_s;
	int r = preview_token_check(core->preview_key, id, port, clock_unix_ms() / 1000, token, len,
				    &expires_s);

	if (r == -ETIME) {
		err_code(err, -EACCES, "preview_expired", "the link to this preview has expired");
		err_hint(err, "expose the port again for a new one");
		return -EACCES;
	}
	if (r < 0) {
		err_code(err, -EACCES, "preview_denied",
			 "the link is not valid for port %u of this sandbox", port);
		err_hint(err, "expose the port again for a new one");
		return -EACCES;
	}
	*ret_expires_unix_ms = expires_s * 1000;
	return 0;
}

/* ---- the list of a sandbox; loop's thread ---- */

static void list_remove(struct core_preview *preview)
{
	struct sandbox *sb = preview->sandbox;

	if (!preview->listed)
		return;
	preview->listed = false;
	if (preview->prev)
		preview->prev->next = preview->next;
	else
		sb->previews = preview->next;
	if (preview->next)
		preview->next->prev = preview->prev;
	sb->n_previews--;
}

struct listing {
	struct core_preview *preview;
	struct err *err;
	int result;
};

static int too_many(const struct sandbox *sb, struct err *err)
{
	err_code(err, -EAGAIN, "preview_limit",
		 "sandbox '%s' has %zu connections to previews open, and may have %lld", sb->id,
		 sb->n_previews, (long long)sb->core->limits.preview_connections_per_sandbox);
	err_hint(err, "close some, or raise the limit preview_connections_per_sandbox");
	return -EAGAIN;
}

static void list_on_loop(void *arg)
{
	struct listing *listing = arg;
	struct core_preview *preview = listing->preview;
	struct sandbox *sb = preview->sandbox;

	if (sb->over || sandbox_status(sb) != SANDBOX_RUNNING) {
		listing->result = -ESTALE; /* since it was found running */
		return;
	}
	if ((int64_t)sb->n_previews >= sb->core->limits.preview_connections_per_sandbox) {
		listing->result = too_many(sb, listing->err);
		return;
	}
	preview->next = sb->previews;
	if (preview->next)
		preview->next->prev = preview;
	sb->previews = preview;
	sb->n_previews++;
	preview->listed = true;
	listing->result = 0;
}

void previews_end(struct sandbox *sb, const struct err *why)
{
	struct core_preview *preview;

	while ((preview = sb->previews)) {
		list_remove(preview);
		preview->over(preview->arg, why); /* which closes it */
	}
}

void previews_pause(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	err_code(&err, -EBUSY, "sandbox_not_running", "sandbox '%s' is being paused", sb->id);
	err_hint(&err, "ask again: that resumes it");
	previews_end(sb, &err);
}

static void close_on_loop(void *arg)
{
	struct core_preview *preview = arg;

	list_remove(preview);
	sandbox_touch(preview->sandbox);
	sandbox_unref(preview->sandbox);
	free(preview);
}

void core_preview_close(struct core_preview *preview)
{
	close_on_loop(preview);
}

/* ---- connecting ---- */

static void set_option(int fd, int level, int name, int value)
{
	setsockopt(fd, level, name, &value, sizeof(value));
}

static int connect_begin(struct sandbox *sb, uint16_t port, int *ret_fd, struct err *err)
{
	struct slots *slots = sb->core->net->slots;
	const int mark = (int)slots_preview_mark();
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(slots_gateway(slots)) };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	pthread_mutex_lock(&sb->core->net_lock);
	to.sin_addr.s_addr = htonl(sb->net.address);
	pthread_mutex_unlock(&sb->core->net_lock);
	if (to.sin_addr.s_addr == 0)
		return err_code(err, -ENETUNREACH, "network_unavailable",
				"sandbox '%s' has no network", sb->id);
	if (fd < 0)
		return core_preview_connect_error(sb->id, port, -errno, err);
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES);
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS);
	set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	if (setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0 ||
	    bind(fd, (const struct sockaddr *)&from, sizeof(from)) < 0)
		return core_preview_connect_error(sb->id, port, -errno, err);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return core_preview_connect_error(sb->id, port, -errno, err);
	*ret_fd = STEAL_FD(fd);
	return 0;
}

/* Whoever has a link is served as the sandbox's owner. */
static int find_owner(struct core *core, const char *id, struct principal *ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, id, NULL);
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r;

	*ret = (struct principal){ 0 };
	if (sb) {
		str_copy(ret->account_id, sizeof(ret->account_id), sb->account_id);
		return 0;
	}
	r = db_begin_read(core->db, &txn, err);
	if (r == 0)
		r = sandboxes_get(&txn, id, NULL, &row, err);
	if (r == 0)
		str_copy(ret->account_id, sizeof(ret->account_id), row.account_id);
	return r;
}

/* The running sandbox with the connection on its list. */
static int enlist(struct core *core, const struct principal *who, const char *id,
		  struct core_preview *preview, struct err *err)
{
	struct listing listing = { .preview = preview, .err = err, .result = -ESTALE };

	for (int i = 0; i < OPEN_TRIES && listing.result == -ESTALE; i++) {
		int r;

		sandbox_unref(STEAL(preview->sandbox));
		r = sandbox_find_running(core, who, id, &preview->sandbox, err);
		if (r < 0)
			return r;
		loop_call(core->loop, list_on_loop, &listing);
	}
	if (listing.result == -ESTALE)
		return err_code(err, -EBUSY, "sandbox_not_running",
				"sandbox '%s' is paused or ended again and again", id);
	return listing.result;
}

int core_preview_open(struct core *core, const struct principal *who, const char *id, uint16_t port,
		      core_preview_over_fn over, void *arg, struct core_preview **ret, int *ret_fd,
		      struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct core_preview *preview;
	struct principal owner;
	int r = work ? core_net_require(core, err) : -ESHUTDOWN;

	if (r == 0 && !who)
		r = find_owner(core, id, &owner, err);
	if (r < 0)
		return r;
	preview = xcalloc(1, sizeof(*preview));
	preview->over = over;
	preview->arg = arg;
	r = enlist(core, who ? who : &owner, id, preview, err);
	if (r == 0)
		r = connect_begin(preview->sandbox, port, ret_fd, err);
	if (r == 0) {
		*ret = preview;
		return 0;
	}
	if (preview->sandbox)
		loop_call(core->loop, close_on_loop, preview);
	else
		free(preview);
	return r;
}
