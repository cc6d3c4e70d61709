/* The port to the host. See channel.h. */
#include "guest/channel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/guest.h"

#define PORTS_DIR	  "/sys/class/virtio-ports"
#define PATH_SIZE	  320
#define OUT_ROOM	  (96u * 1024u) /* output is queued up to here */
#define READ_SIZE	  (32u * 1024u)
#define READS_PER_ROUND	  64 /* virtio_console gives 4 KiB a read at most */
#define WRITE_SIZE	  (32u * 1024u)
#define WRITE_SIZE_SCARCE 2048u /* when the kernel has no contiguous memory for a larger buffer */

static bool port_has_our_name(const char *port)
{
	char path[PATH_SIZE];
	_cleanup_buf_ struct buf name = BUF_INIT;

	snprintf(path, sizeof(path), PORTS_DIR "/%s/name", port);
	return file_read(path, 256, &name) == 0 &&
	       strcmp(buf_str(&name), PROTO_PORT_NAME "\n") == 0;
}

static int find_port(void)
{
	DIR *dir = opendir(PORTS_DIR);
	const struct dirent *entry;
	int fd = -ENOENT;

	if (!dir)
		return -errno;
	while (fd == -ENOENT && (entry = readdir(dir))) {
		char path[PATH_SIZE];

		if (entry->d_name[0] == '.' || !port_has_our_name(entry->d_name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	closedir(dir);
	return fd;
}

static void on_port(struct watch *w, uint32_t events)
{
	struct channel *c = w->owner;

	c->readable = true;
}

int channel_open(struct channel *c, struct guest *guest, int64_t deadline_boottime_ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd;

	/* The host announces the ports some time after the device: no event of ours to wait for. */
	while ((fd = find_port()) < 0) {
		if (clock_remaining_ms(deadline_boottime_ms) == 0)
			return fd;
		nanosleep(&pause, NULL);
	}
	*c = (struct channel){ .guest = guest, .out = BUF_INIT };
	frame_decoder_init(&c->in, PROTO_TO_GUEST_MAX);
	poller_add(&guest->poller, &c->port, fd, EPOLLIN | EPOLLOUT | EPOLLET, on_port, c);
	return 0;
}

bool channel_has_room(const struct channel *c)
{
	return c->out.len - c->sent < OUT_ROOM;
}

void channel_drop_queue(struct channel *c)
{
	buf_reset(&c->out);
	c->sent = 0;
}

static void handle_events(struct channel *c)
{
	enum frame_event event;

	while ((event = frame_next(&c->in)) != FRAME_NEED_MORE) {
		if (event == FRAME_MARKER)
			session_begin(&c->guest->session, c->in.nonce);
		else if (event == FRAME_LOST)
			session_lost(&c->guest->session);
		else if (!session_handle(&c->guest->session, &c->in.header, &c->in.payload)) {
			frame_decoder_search(&c->in);
			session_lost(&c->guest->session);
		}
	}
}

/* A read of 0 bytes: the host is not connected. Or it is, and its first bytes have overtaken the
 * kernel's word of it, which goes by a worker thread that we do not let run: then the session that
 * they began stays, until the port changes once more. */
static void on_no_host(struct channel *c)
{
	bool early = c->early;

	c->host_seen = c->early = false;
	if (early)
		return;
	frame_decoder_reset(&c->in);
	session_end(&c->guest->session);
}

void channel_read(struct channel *c)
{
	for (int i = 0; i < READS_PER_ROUND && c->readable && channel_has_room(c); i++) {
		ssize_t n = read(c->port.fd, c->guest->chunk, READ_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			c->readable = c->early = false;
			c->host_seen = errno == EAGAIN;
		} else if (n == 0) {
			c->readable = false;
			on_no_host(c);
		} else {
			c->early = !c->host_seen;
			frame_feed(&c->in, c->guest->chunk, (size_t)n);
			handle_events(c);
		}
	}
}

void channel_flush(struct channel *c)
{
	size_t max = WRITE_SIZE;

	while (c->sent < c->out.len) {
		size_t len = c->out.len - c->sent;
		ssize_t n = write(c->port.fd, c->out.data + c->sent, len < max ? len : max);

		if (n > 0)
			c->sent += (size_t)n;
		else if (n < 0 && errno == ENOMEM && max > WRITE_SIZE_SCARCE)
			max = WRITE_SIZE_SCARCE;
		else if (!(n < 0 && errno == EINTR))
			return; /* full, or hung up: the next edge */
	}
	channel_drop_queue(c);
}
