/* The head of a server's answer to a WebSocket handshake. Pure; the server is not trusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WS_ANSWER_HEAD_MAX (16u * 1024)

struct ws_answer {
	unsigned int status;
	bool upgrades; /* to a WebSocket */
	char accept[64];
	char content_type[64];
	int64_t content_length; /* -1: not said */
};

/* The length of the head; 0: more must come; -EBADMSG: it is none. */
ssize_t ws_answer_parse(const char *data, size_t len, struct ws_answer *ret);
