/* Standard input. See input.h. */
#include "guest/input.h"

#include <errno.h>
#include <unistd.h>

#include "skerry/guest_proto.h"

static void drop(struct input *in)
{
	poller_close(in->poller, &in->pipe);
	in->consumed += in->pending.len;
	buf_clear(&in->pending);
}

static void write_on(struct input *in)
{
	while (in->pending.len > 0) {
		ssize_t n = write(in->pipe.fd, in->pending.data, in->pending.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			poller_resume(in->poller, &in->pipe, EPOLLOUT);
			return;
		}
		if (n < 0) {
			drop(in);
			return;
		}
		buf_drop_front(&in->pending, (size_t)n);
		in->consumed += (uint64_t)n;
	}
	poller_pause(in->poller, &in->pipe);
	if (in->close_asked)
		drop(in);
}

static void on_pipe(struct watch *w, uint32_t events)
{
	write_on(w->owner);
}

void input_begin(struct input *in, struct poller *poller, int pipe_fd)
{
	*in = (struct input){
		.poller = poller,
		.pipe = { .fd = pipe_fd, .fn = on_pipe, .owner = in },
		.pending = BUF_INIT,
	};
}

uint64_t input_window(const struct input *in)
{
	return in->consumed + PROTO_INPUT_WINDOW;
}

bool input_take(struct input *in, uint64_t offset, const void *data, size_t len)
{
	if (offset != in->received || len > input_window(in) - offset)
		return false;
	in->received += len;
	if (in->pipe.fd < 0 || in->close_asked) {
		in->consumed += len;
		return true;
	}
	buf_append(&in->pending, data, len);
	write_on(in);
	return true;
}

void input_close(struct input *in)
{
	in->close_asked = true;
	if (in->pending.len == 0)
		drop(in);
}

void input_end(struct input *in)
{
	drop(in);
}
