/*
 * The log of one output stream of one exec: a file with absolute offsets, capped in size.
 *
 * The file keeps every byte at its own offset. When more than the cap is kept, the middle is
 * dropped: the head (half of the cap) and the newest bytes stay, and the hole is punched out of the
 * file, so that the disk is given back while offsets stay true. There is at most one gap,
 * [gap_from, gap_to).
 *
 * When the disk is full, the new bytes and what was kept behind the head are given up instead (the
 * gap grows up to the end), so that a command never blocks on its log.
 */
#pragma once

#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

struct capture {
	int fd; /* -1: not open */
	uint64_t cap;
	uint64_t total;		   /* bytes ever appended */
	uint64_t gap_from, gap_to; /* equal: no gap */
};

/* Creates the file in a directory, readable by everybody. cap is brought within bounds. 0 or
 * -errno. */
int capture_open(struct capture *c, int dir_fd, const char *name, uint64_t cap);
void capture_close(struct capture *c);
void capture_append(struct capture *c, const void *data, size_t len);
/* Bytes that can be appended before the byte at `offset` or a later one is dropped by the cap. */
uint64_t capture_room(const struct capture *c, uint64_t offset);
/* Reads at offset, never across the gap or the end; 0 when there is nothing. -errno when the disk
 * fails. */
ssize_t capture_read(const struct capture *c, uint64_t offset, void *out, size_t len);
uint64_t capture_kept(const struct capture *c);
