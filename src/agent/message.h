/*
 * What a guest may say, parsed: one tagged union out of one frame. Pure and fuzzed; nothing here
 * knows of channels, handles or credit (agent.c checks those).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame.h"

struct agent_message {
	uint8_t type; /* enum proto_type: says which member is set */
	uint32_t handle;
	union {
		struct {
			uint32_t version, applied;
			uint64_t epoch, guest_boottime_ms, mem_total_kib;
			struct frame_slice agent_version, kernel_release, os_name;
		} hello_ack;
		uint64_t pong_token;
		struct {
			uint64_t token;
			bool frozen, synced;
		} freezer;
		struct {
			uint64_t token, quiet_ms;
			uint32_t running;
		} activity;
		struct {
			uint64_t token;
			uint32_t n;
			struct frame_slice entries; /* agent_message_terminal */
		} terminals;
		struct {
			uint64_t token;
			uint32_t n;
			struct frame_slice entries; /* agent_message_exec */
		} execs;
		uint32_t started_pid;
		struct {
			uint32_t reason; /* enum proto_failure, or a number this side does not know
					  */
			struct frame_slice message;
		} failed;
		struct {
			bool running;
			uint64_t stdout_total, stderr_total, input_offset, duration_ms;
		} state;
		struct {
			int stream;
			uint64_t offset;
			struct frame_slice bytes;
		} data;
		struct {
			int stream;
			uint64_t from, to;
		} gap;
		struct {
			int stream;
			uint64_t offset; /* EOF: the total */
		} position;		 /* EOF and FOLLOWING */
		struct {
			int32_t exit_code;
			uint32_t signal, bits;
			uint64_t duration_ms, stdout_total, stderr_total;
		} exit;
		uint64_t input_window;
	};
};

struct agent_terminal;
/* The next of TERMINALS' entries, which are well-formed. */
void agent_message_terminal(struct frame_reader *r, struct agent_terminal *ret);

struct agent_exec_info;
/* The same of EXECS'. */
void agent_message_exec(struct frame_reader *r, struct agent_exec_info *ret);

/* 0, or -EBADMSG for an unknown type, a wrong length, or a value out of its range. Slices are
 * borrowed from the payload. */
int agent_message_parse(const struct proto_header *header, struct frame_reader payload,
			struct agent_message *ret);
