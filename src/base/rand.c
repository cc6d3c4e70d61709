/* Randomness from getrandom(2), which blocks only until the kernel's pool is first seeded. */
#include "base/rand.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"

void rand_bytes(void *out, size_t len)
{
	uint8_t *p = out;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			log_error("kernel gives no random bytes", "errno=%s",
				  strerrorname_np(errno));
			abort();
		}
		p += n;
		len -= (size_t)n;
	}
}

void rand_hex(char *out, size_t n)
{
	uint8_t pool[32];

	for (size_t i = 0; i < n; i++) {
		size_t at = i % (2 * sizeof(pool));

		if (at == 0)
			rand_bytes(pool, n - i < 2 * sizeof(pool) ? (n - i + 1) / 2 : sizeof(pool));
		out[i] = "0123456789abcdef"[at % 2 ? pool[at / 2] >> 4 : pool[at / 2] & 0xf];
	}
	out[n] = '\0';
}

void rand_alnum(char *out, size_t n)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	const unsigned count = sizeof(alphabet) - 1;
	const unsigned limit =
		256 / count * count; /* bytes at or above would favour the first letters */
	uint8_t pool[64];
	size_t left = 0;

	for (size_t i = 0; i < n;) {
		if (left == 0) {
			rand_bytes(pool, sizeof(pool));
			left = sizeof(pool);
		}
		left--;
		if (pool[left] < limit)
			out[i++] = alphabet[pool[left] % count];
	}
	out[n] = '\0';
	explicit_bzero(pool, sizeof(pool)); /* tokens are made here */
}
