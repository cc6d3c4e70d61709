/*
 * One booted guest that serves all tests of a program about the agent in it: what a command gets
 * and how it ends (test_guest.c), its output and input (test_guest_output.c), and that nothing a
 * command does takes the agent away (test_guest_limits.c).
 */
#pragma once

#include "guest_vm.h"

#define SLOW_MS 180000 /* for much work in an emulated guest on a busy machine */

extern struct vm vm;

int guest_boot(void **state);
int guest_halt(void **state);

/* Of an array of tests; the program's first argument is a pattern of their names. */
#define guest_run_tests(tests, argc, argv)                                                         \
	((argc) > 1 ? cmocka_set_test_filter((argv)[1]) : (void)0,                                 \
	 cmocka_run_group_tests(tests, guest_boot, guest_halt))

void expect_shell(const char *user, const char *command, const char *expected);
void assert_alive(void);

/* What `seq 1 n` prints: its hash and its length. */
uint64_t seq_hash(unsigned int n, uint64_t *ret_len);
