/*
 * A file's new content, written aside: it takes its place in one step, or never. Until then nothing
 * of it can be seen where the file system has nameless files; elsewhere it has a name that begins
 * with ".skerry-".
 */
#pragma once

#include <stdbool.h>

#define ASIDE_NAME_SIZE 32

struct aside {
	int dir_fd; /* borrowed */
	int fd;	    /* to be written to; -1: none */
	bool named;
	char name[ASIDE_NAME_SIZE];
};

#define ASIDE_INIT ((struct aside){ .dir_fd = -1, .fd = -1 })

/* With mode 0600. 0 or -errno. */
int aside_open(struct aside *a, int dir_fd);
/* Gives it its name in the directory. replace: what has the name (no directory) is replaced, else
 * -EEXIST. durable: content and name are on the disk when this returns. After a failure it is still
 * to be discarded. */
int aside_commit(struct aside *a, const char *name, bool replace, bool durable);
/* Closes it, and removes what was not committed; fine when it is not open. */
void aside_discard(struct aside *a);
/* A name that is not in use but by accident: for what is then renamed. */
void aside_name(char out[ASIDE_NAME_SIZE]);
