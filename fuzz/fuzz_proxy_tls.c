/* A TLS hello. What was read must be a canonical name that stands in the input (in some case), and
 * more bytes behind a whole hello must not change it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "net/proxy_tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

/* The last byte divides: the server's first words, then the client's. However they are cut, the
 * same passes, and of what is a hello only one of the right name. */
static void fuzz_watch(const uint8_t *data, size_t size)
{
	size_t server = size > 1 ? (size_t)data[size - 1] % size : 0, used = 0, again = 0;
	_cleanup_buf_ struct buf whole = BUF_INIT;
	_cleanup_buf_ struct buf cut = BUF_INIT;
	struct tls_watch one, two;
	int r, s = 0;

	tls_watch_init(&one, "a.test");
	tls_watch_init(&two, "a.test");
	tls_watch_server(&one, data, server);
	for (size_t i = 0; i < server; i++)
		tls_watch_server(&two, data + i, 1);
	REQUIRE(one.state == two.state);
	r = tls_watch_client(&one, data + server, size - server, &used, &whole);
	for (size_t i = server; i < size && s == 0; i++)
		s = tls_watch_client(&two, data + i, 1, &again, &cut);
	REQUIRE(r == s && one.fault == two.fault && one.state == two.state);
	REQUIRE(whole.len == cut.len);
	REQUIRE(whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0);
	tls_watch_clear(&one);
	tls_watch_clear(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[HOSTNAME_MAX + 1], again[HOSTNAME_MAX + 1];
	_cleanup_free_ uint8_t *longer = NULL;
	enum tls_fault fault;

	fuzz_watch(data, size);
	if (tls_hello_name(data, size, name, NULL, &fault) < 0) {
		(void)tls_fault_text(fault);
		return 0;
	}
	REQUIRE(fault == TLS_OK);
	REQUIRE(hostname_canon(name, strlen(name), again, NULL) == 0 && str_eq(name, again));
	longer = xmalloc(size + 5);
	memcpy(longer, data, size);
	memcpy(longer + size, "\x16\x03\x01\x00\x01", 5);
	REQUIRE(tls_hello_name(longer, size + 5, again, NULL, &fault) == 0 && str_eq(name, again));
	return 0;
}
