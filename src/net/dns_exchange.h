/*
 * One question to one upstream server: by UDP, and by TCP when the answer was truncated. A socket
 * for each question, connected to the server, so that the port is the kernel's random choice and
 * nobody but the server's address is heard; the id is random; an answer must repeat the question.
 * On the loop's thread.
 */
#pragma once

#include "loop/loop.h"
#include "net/dns_message.h"
#include "net/dns_resolv_conf.h"

#define DNS_STRAYS_MAX                                                                             \
	16 /* datagrams that are no answer to the question; then the try has failed */

struct dns_exchange;

/* Called once, unless the exchange is cancelled before; the answer is borrowed, NULL: none came.
 * The exchange is gone when it is called. */
typedef void (*dns_exchange_fn)(void *arg, struct dns_answer *answer);

/* NULL with errno when it could not even be begun; fn is not called then, nor within this call. */
struct dns_exchange *dns_exchange_start(struct loop *loop, const union dns_server_address *server,
					const struct dns_name *name, uint16_t type,
					int64_t deadline_boottime_ms, dns_exchange_fn fn,
					void *arg);
void dns_exchange_cancel(struct dns_exchange *exchange); /* NULL is fine */
