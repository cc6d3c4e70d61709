/*
 * Checksums of saved state: XXH3-128, which runs at memory speed. They find damage (torn writes,
 * bit flips, files mixed up); they are no proof against somebody who can write to the state
 * directory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_SIZE      16
#define HASH_TEXT_SIZE 48

void hash_bytes(const void *data, size_t len, uint8_t out[HASH_SIZE]);
/* "<scheme>:<32 hex digits>"; scheme has at most 14 characters and says what was hashed. */
void hash_text(const char *scheme, const uint8_t hash[HASH_SIZE], char out[HASH_TEXT_SIZE]);
/* True for texts that hash_text can have made, whatever the scheme. */
bool hash_text_valid(const char *text);

/* A hash over a stream of pieces; the same as hash_bytes of them all. */
struct hash_stream;
struct hash_stream *hash_stream_new(void);
void hash_stream_add(struct hash_stream *stream, const void *data, size_t len);
void hash_stream_end(const struct hash_stream *stream, uint8_t out[HASH_SIZE]);
void hash_stream_free(struct hash_stream *stream); /* NULL is fine */

/* Hashes the whole file from its start, without moving fd's offset; 0 or -errno. */
int hash_file(int fd, uint8_t out[HASH_SIZE]);
