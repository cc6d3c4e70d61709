/* The epoll set. See poller.h. */
#include "guest/poller.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

int poller_init(struct poller *p)
{
	*p = (struct poller){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
	return p->epoll_fd < 0 ? -errno : 0;
}

void poller_resume(struct poller *p, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };

	if (epoll_ctl(p->epoll_fd, w->in_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &e) < 0) {
		log_error("cannot watch a descriptor", "fd=%d errno=%d", w->fd, errno);
		abort();
	}
	w->in_set = true;
}

void poller_add(struct poller *p, struct watch *w, int fd, uint32_t events, watch_fn fn,
		void *owner)
{
	*w = (struct watch){ .fd = fd, .fn = fn, .owner = owner };
	poller_resume(p, w, events);
}

void poller_pause(struct poller *p, struct watch *w)
{
	if (!w->in_set)
		return;
	epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->in_set = false;
	for (int i = 0; i < p->n_batch; i++)
		if (p->batch[i].data.ptr == w)
			p->batch[i].data.ptr = NULL;
}

void poller_close(struct poller *p, struct watch *w)
{
	if (w->fd < 0)
		return;
	poller_pause(p, w);
	close(w->fd);
	w->fd = -1;
}

void poller_round(struct poller *p, int timeout_ms)
{
	p->n_batch = epoll_wait(p->epoll_fd, p->batch, POLLER_BATCH, timeout_ms);
	for (int i = 0; i < p->n_batch; i++) {
		struct watch *w = p->batch[i].data.ptr;

		if (w)
			w->fn(w, p->batch[i].events);
	}
	p->n_batch = 0;
}
