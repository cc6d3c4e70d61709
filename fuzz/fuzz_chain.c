/* Lines of an export of the audit, as a stranger hands them in: whatever they are, they are refused
 * or belong to a chain. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct chain chain = { 0 };
	struct err err = ERR_INIT;

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const size_t len = (size_t)((newline ? newline : end) - at);
		const struct chain before = chain;

		if (chain_take(&chain, at, len, &err) < 0) {
			if (memcmp(&before, &chain, sizeof(chain)) != 0)
				abort();
			return 0;
		}
		if (chain.n != before.n + 1 || chain.last - chain.first + 1 != chain.n)
			abort();
		at += len + 1;
	}
	return 0;
}
