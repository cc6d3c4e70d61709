/*
 * The conversation with one connected host: greeting, requests, handles, and the fair distribution
 * of the port among those who follow output. It ends with the connection; the commands do not.
 *
 * What has to be sent to a handle is not queued but derived from its state and its exec's state
 * when the port has room (session_pump): memory does not grow, and every handle gets one frame a
 * turn.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame.h"

struct guest;
struct exec;
struct output;

struct follow {
	bool active; /* until its EOF is sent */
	bool backpressure;
	unsigned int answers_due; /* FOLLOWINGs to be sent; the host counts them */
	uint64_t offset;	  /* of the next byte to send */
	uint64_t credit;
};

struct handle {
	struct handle *next, *prev;
	uint32_t id;
	struct exec *exec;
	bool attached; /* by ATTACH: wants STATE, not STARTED */
	bool answered; /* STARTED or STATE was sent */
	bool exit_sent;
	uint64_t window_sent;
	struct follow follows[2];
};

struct session {
	struct guest *guest;
	bool begun;   /* a marker was seen */
	bool greeted; /* HELLO was answered */
	struct handle *first, *turn;
	unsigned int n_handles;
};

/* A marker: forgets the session before and answers with the marker. */
void session_begin(struct session *s, const uint8_t nonce[PROTO_NONCE_LEN]);
/* The host is gone. */
void session_end(struct session *s);
/* The stream made no sense: says so to the host, if there is a session, and ends it. */
void session_lost(struct session *s);
/* Handles one frame; false when it is not acceptable. */
bool session_handle(struct session *s, const struct proto_header *header,
		    struct frame_reader *payload);
/* Queues what can be sent; false when there was nothing. */
bool session_pump(struct session *s);
/* The smallest offset that a follower with back-pressure still needs; UINT64_MAX: there is none. */
uint64_t session_slowest(const struct session *s, const struct output *o);
