/*
 * A process that has mapped a memory file privately, as a VMM does, and has written to it: for
 * tests and benchmarks of src/snapshot. It stays until it is ended.
 */
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	pid_t pid;
	uint8_t *memory; /* its address in the child; not mapped here */
	size_t bytes;
};

/* write runs in the child on its mapping of the file. */
static inline struct child child_start(const char *path, size_t bytes,
				       void (*write_memory)(uint8_t *memory, void *arg), void *arg)
{
	struct child child = { .bytes = bytes };
	int fd = open(path, O_RDWR | O_CLOEXEC), ready[2];
	char byte;

	if (fd < 0 || pipe(ready) < 0)
		abort();
	child.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (child.memory == MAP_FAILED)
		abort();
	fflush(NULL);
	child.pid = fork();
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write_memory)
			write_memory(child.memory, arg);
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (child.pid < 0 || read(ready[0], &byte, 1) != 1)
		abort();
	close(ready[0]);
	munmap(child.memory, bytes);
	close(fd);
	return child;
}

static inline void child_end(struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	child->pid = 0;
}
