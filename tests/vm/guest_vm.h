/*
 * A real guest under QEMU's emulation, straight from its command line and without the layers above:
 * for tests of the guest's agent and of the host's channel to it.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>

#include "agent/agent.h"
#include "base/buf.h"
#include "base/clock.h"
#include "loop/loop.h"
#include "loop/spawn.h"

struct vm {
	char dir[64];
	char socket_path[96];
	struct loop *loop;
	struct child qemu;
	struct agent *agent;
	struct agent_info info;
	int64_t boot_ms; /* from QEMU's start to the agent's answer */
};

/* Boots; every failure ends the test. */
void vm_start(struct vm *vm);
void vm_stop(struct vm *vm);
/* Opens the channel (again). */
void vm_connect(struct vm *vm, bool with_identity);
void vm_connect_as(struct vm *vm, const struct agent_identity *identity);
void vm_disconnect(struct vm *vm);

void vm_sleep_ms(int ms);

/* ---- a command as a test sees it ---- */

struct command {
	struct vm *vm;
	struct agent_exec *exec;
	char id[PROTO_EXEC_ID_MAX + 1];
	pthread_mutex_t lock; /* guards what follows; cond tells of every change */
	pthread_cond_t cond;
	bool started, has_state, exited, failed, lost;
	bool eof[2];
	uint32_t pid;
	struct agent_exec_state state;
	struct agent_exit exit;
	struct err err;
	uint64_t window;      /* input may be sent up to here */
	struct buf output[2]; /* first KEEP_MAX bytes */
	uint64_t next[2];     /* offset behind the last byte or gap */
	uint64_t received[2]; /* bytes that came */
	uint64_t gap_from[2], gap_to[2];
	uint64_t hash[2];    /* FNV-1a of every byte that came */
	uint64_t hold_at[2]; /* no more credit is given from this many bytes on; 0: no limit */
};

#define KEEP_MAX  (1024 * 1024)
#define FNV_START 0xcbf29ce484222325u
#define CREDIT	  (256u * 1024u)
uint64_t fnv_add(uint64_t hash, const void *data, size_t len);

void command_init(struct command *c, struct vm *vm);
/* Starts under an id of its own (which begins with that of spec), with credit where spec gives
 * none. Does not wait. */
void command_start(struct command *c, const struct agent_exec_spec *spec);
void command_attach(struct command *c, const char *id);
void command_follow(struct command *c, int stream, uint64_t offset, bool backpressure);
void command_credit(struct command *c, int stream, uint64_t bytes);
void command_input(struct command *c, uint64_t offset, const void *data, size_t len);
void command_input_close(struct command *c);
void command_signal(struct command *c, int signal);
/* Waits until pred holds; false after timeout_ms. */
bool command_wait(struct command *c, bool (*pred)(const struct command *), int timeout_ms);
void command_free(struct command *c);

bool has_started(const struct command *c);
bool has_exited(const struct command *c);
bool has_ended(const struct command *c); /* exit and both ends of output, or a failure */
bool has_failed(const struct command *c);

/* Initialises and runs to the end, and checks that it came within three minutes (the machine may be
 * busy). The caller frees c. */
void run(struct command *c, struct vm *vm, const struct agent_exec_spec *spec);
/* Runs a shell command as the given user (NULL: sandbox), expects exit code 0 and returns what it
 * printed, without the last newline. The caller frees. */
char *shell(struct vm *vm, const char *user, const char *command);
