/* /etc/passwd and /etc/group of a guest, up to the first NUL byte and after it. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "guest/users.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *nul = memchr(text, '\0', size);
	size_t passwd_len = nul ? (size_t)(nul - text) : size;
	gid_t groups[4];
	struct user u;

	if (user_resolve(text, passwd_len, nul ? nul + 1 : NULL, nul ? size - passwd_len - 1 : 0,
			 "7:me", &u) == 0) {
		assert(u.home[0] == '/' && u.shell[0] == '/');
		assert(u.uid == 7 && u.gid != (gid_t)-1);
	}
	if (user_find(text, passwd_len, "me", &u) < 0)
		return 0;
	assert(strcmp(u.name, "me") == 0);
	assert(u.home[0] == '/' && u.shell[0] == '/');
	assert(u.uid != (uid_t)-1 && u.gid != (gid_t)-1);
	if (nul) {
		size_t n = user_groups(nul + 1, size - passwd_len - 1, &u, groups, 4);

		assert(n >= 1 && n <= 4);
	}
	return 0;
}
