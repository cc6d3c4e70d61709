/* The guest that tests of its agent share. See guest_rig.h. */
#include "guest_rig.h"

#include <string.h>

#include "base/alloc.h"

struct vm vm;

int guest_boot(void **state)
{
	(void)state;
	vm_start(&vm);
	print_message("boot to the agent's answer: %lld ms\n", (long long)vm.boot_ms);
	return 0;
}

int guest_halt(void **state)
{
	(void)state;
	vm_stop(&vm);
	return 0;
}

void expect_shell(const char *user, const char *command, const char *expected)
{
	_cleanup_free_ char *text = shell(&vm, user, command);

	assert_string_equal(text, expected);
}

void assert_alive(void)
{
	expect_shell(NULL, "echo alive", "alive");
}

uint64_t seq_hash(unsigned int n, uint64_t *ret_len)
{
	uint64_t hash = FNV_START;
	char line[16];

	*ret_len = 0;
	for (unsigned int i = 1; i <= n; i++) {
		int len = snprintf(line, sizeof(line), "%u\n", i);

		hash = fnv_add(hash, line, (size_t)len);
		*ret_len += (uint64_t)len;
	}
	return hash;
}
