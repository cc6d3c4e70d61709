/* Sites for the proxy's tests: a thread a site and one a connection, which runs what the test gives
 * it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct site;

/* fd is closed behind it. */
typedef void (*site_fn)(struct site *site, int fd);

struct site *site_new(uint32_t address, uint16_t port, site_fn fn);
/* Ends the site's connections first. */
void site_free(struct site *site);
size_t site_connections(struct site *site); /* so far */
uint32_t site_address(const struct site *site);

/* What sites do. */
void site_echo(struct site *site, int fd); /* until the end, which it echoes too */
void site_http(struct site *site, int fd); /* answers each head with "site <n>: <request head>" */
void site_tls(struct site *site, int fd);  /* OpenSSL; echoes what it decrypts */
void site_upgrades(struct site *site, int fd);	 /* 101 to the first head, then an echo */
void site_asks_again(struct site *site, int fd); /* for a second TLS hello, then an echo */
void site_answers_at_end(struct site *site,
			 int fd); /* counts bytes, tells their number at the end */
