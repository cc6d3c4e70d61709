/*
 * The events of one running command, turned into bytes: checks offsets, so that nothing is written
 * twice or out of order when a connection was lost and the events come again. No I/O of its own.
 *
 *   started {"exec_id"}    stdout|stderr {"offset", "data" or "data_base64"}
 *   gap {"stream", "from", "to"}    exit {result}    error {problem details}
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

#define EXEC_ID_MAX 63

enum exec_stream { EXEC_STDOUT, EXEC_STDERR };

struct exec_output {
	uint64_t next[2];	       /* offset of the next byte of each stream */
	char exec_id[EXEC_ID_MAX + 1]; /* "" until started */
	json_t *result;		       /* of "exit"; NULL before */
	json_t *problem;	       /* of "error"; NULL when there was none */

	/* Bytes in order. A negative return ends the feeding. */
	int (*write)(void *arg, enum exec_stream stream, const void *data, size_t len);
	/* Bytes that the server no longer has. */
	void (*gap)(void *arg, enum exec_stream stream, uint64_t missing);
	void *arg;
};

/* Ids as the server makes them: they stand in paths. */
bool exec_id_valid(const char *id);

void exec_output_clear(struct exec_output *output);
/* One event. 0, -EBADMSG when it is not what it should be, or what write returned. */
int exec_output_event(struct exec_output *output, const char *name, const char *data, size_t len);
