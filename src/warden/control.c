#include "warden/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

int control_open(struct control *control, const char *path, struct err *err)
{
	int r;

	control->listen_fd = -1;
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		control->peers[i].fd = -1;
	r = unix_listen(path, 0600);
	if (r < 0)
		return err_set(err, r, "cannot listen on '%s': %s", path, strerrordesc_np(-r));
	control->listen_fd = r;
	fd_set_nonblock(r, true);
	return 0;
}

static void drop(struct control_peer *peer)
{
	cleanup_closep(&peer->fd);
	peer->fd = -1;
	peer->len = 0;
}

void control_close(struct control *control)
{
	cleanup_closep(&control->listen_fd);
	control->listen_fd = -1;
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		drop(&control->peers[i]);
}

void control_poll(const struct control *control, struct pollfd *polls)
{
	polls[0] = (struct pollfd){ .fd = control->listen_fd, .events = POLLIN };
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		polls[i + 1] = (struct pollfd){ .fd = control->peers[i].fd, .events = POLLIN };
}

/* The longest answer, a full console, must go out at once or not at all. */
static void accept_peer(struct control *control)
{
	const int send_buffer = 256 * 1024;
	int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(send_buffer));
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++) {
		if (control->peers[i].fd < 0) {
			control->peers[i] = (struct control_peer){ .fd = fd };
			return;
		}
	}
	close(fd);
}

static void answer(struct control_peer *peer, control_handler handler, void *arg)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	handler(arg, peer->line, &out);
	if (send(peer->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)out.len)
		drop(peer);
}

static void read_peer(struct control_peer *peer, control_handler handler, void *arg)
{
	ssize_t n = recv(peer->fd, peer->line + peer->len, sizeof(peer->line) - peer->len,
			 MSG_DONTWAIT);
	char *newline;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop(peer);
		return;
	}
	peer->len += (size_t)n;
	while (peer->fd >= 0 && (newline = memchr(peer->line, '\n', peer->len))) {
		size_t used = (size_t)(newline - peer->line) + 1;

		*newline = '\0';
		answer(peer, handler, arg);
		if (peer->fd < 0)
			return;
		peer->len -= used;
		memmove(peer->line, peer->line + used, peer->len);
	}
	if (peer->len == sizeof(peer->line))
		drop(peer);
}

void control_dispatch(struct control *control, const struct pollfd *polls, control_handler handler,
		      void *arg)
{
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		if (polls[i + 1].fd >= 0 && polls[i + 1].revents)
			read_peer(&control->peers[i], handler, arg);
	if (polls[0].revents)
		accept_peer(control);
}
