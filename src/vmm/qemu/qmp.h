/*
 * QEMU's control protocol (QMP): a client that sends one command and waits for its answer, until a
 * deadline. Events are skipped but for RESUME. A QEMU that a guest has taken over is hostile: lines
 * are capped, JSON is parsed strictly, nothing it says is trusted further than the answer to a
 * question.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct qmp {
	int fd;
	struct buf in;
	bool resumed; /* the event RESUME has come since the start */
};
#define QMP_INIT ((struct qmp){ .fd = -1 })

/* Connects (also while QEMU is still starting: its socket listens already) and negotiates. */
int qmp_open(struct qmp *qmp, const char *path, int64_t deadline_boottime_ms, struct err *err);
void qmp_close(struct qmp *qmp);
/* The same in two parts, for a QEMU that is stopped (SIGSTOP): what is sent between them waits in
 * the socket and is the first thing it does when it goes on. qmp_begin connects and sends the
 * negotiation, qmp_greet takes the answers to it. qmp_close after both, also when they failed. */
int qmp_begin(struct qmp *qmp, const char *path, int64_t deadline_boottime_ms, struct err *err);
int qmp_greet(struct qmp *qmp, int64_t deadline_boottime_ms, struct err *err);

/* Runs a command. arguments (may be NULL) is consumed. pass_fd goes along with the command, -1:
 * none. ret (may be NULL) gets a new reference to the value of "return". An answer of "error" is
 * -EIO. */
int qmp_run(struct qmp *qmp, const char *command, json_t *arguments, int pass_fd,
	    int64_t deadline_boottime_ms, json_t **ret, struct err *err);

/* Its two halves. Answers come in the order of the commands. */
int qmp_send(struct qmp *qmp, const char *command, json_t *arguments, int pass_fd,
	     int64_t deadline_boottime_ms, struct err *err);
int qmp_receive(struct qmp *qmp, const char *command, int64_t deadline_boottime_ms, json_t **ret,
		struct err *err);

/* Waits until the guest's processors run. */
int qmp_wait_resumed(struct qmp *qmp, int64_t deadline_boottime_ms, struct err *err);
