#include "warden/pauser.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* The answer to the second command is known by its id, another one for each of the two. Counting
 * answers would not do: QEMU 7.2 sends one to a question of an earlier connection, dropped while it
 * was being obeyed, to the present one; and who hangs up then takes its own question back. The
 * driver, which gives no ids, knows by them what is not for it. */
#define ASK(command)                                                                               \
	"{\"execute\":\"qmp_capabilities\",\"id\":\"greeting\"}"                                   \
	"{\"execute\":\"" command "\",\"id\":\"" command "\"}\n"
#define ANSWER_TO(command) "\"id\": \"" command "\""
/* Sent when the CPUs stand still, before the disk is flushed, which may take long. */
#define STOPPED "\"STOP\""

static int ask(struct pauser *pauser, const char *socket_path, const char *words, bool stopping)
{
	size_t len = strlen(words);

	pauser_drop(pauser);
	pauser->fd = unix_connect(socket_path, true);
	if (pauser->fd < 0)
		return pauser->fd;
	pauser->stopping = stopping;
	pauser->len = 0;
	if (send(pauser->fd, words, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len) {
		pauser_drop(pauser);
		return -EAGAIN;
	}
	return 0;
}

int pauser_ask_stop(struct pauser *pauser, const char *socket_path)
{
	return ask(pauser, socket_path, ASK("stop"), true);
}

int pauser_ask_continue(struct pauser *pauser, const char *socket_path)
{
	return ask(pauser, socket_path, ASK("cont"), false);
}

static bool has(const struct pauser *pauser, const char *word)
{
	return memmem(pauser->text, pauser->len, word, strlen(word));
}

/* A QEMU that says more than fits is not one to listen to. */
bool pauser_read(struct pauser *pauser)
{
	ssize_t n = recv(pauser->fd, pauser->text + pauser->len, sizeof(pauser->text) - pauser->len,
			 MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0)
		return true;
	pauser->len += (size_t)n;
	if (pauser->len == sizeof(pauser->text))
		return true;
	return pauser->stopping ? has(pauser, STOPPED) || has(pauser, ANSWER_TO("stop"))
				: has(pauser, ANSWER_TO("cont"));
}

void pauser_drop(struct pauser *pauser)
{
	cleanup_closep(&pauser->fd);
	pauser->fd = -1;
}
