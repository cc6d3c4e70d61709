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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[HOSTNAME_MAX + 1], again[HOSTNAME_MAX + 1];
	_cleanup_free_ uint8_t *longer = NULL;
	enum tls_fault fault;

	if (tls_hello_name(data, size, name, &fault) < 0) {
		(void)tls_fault_text(fault);
		return 0;
	}
	REQUIRE(fault == TLS_OK);
	REQUIRE(hostname_canon(name, strlen(name), again, NULL) == 0 && str_eq(name, again));
	longer = xmalloc(size + 5);
	memcpy(longer, data, size);
	memcpy(longer + size, "\x16\x03\x01\x00\x01", 5);
	REQUIRE(tls_hello_name(longer, size + 5, again, &fault) == 0 && str_eq(name, again));
	return 0;
}
