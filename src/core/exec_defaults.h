/*
 * What the commands of a sandbox start with where their request says nothing: the user, the working
 * directory and the environment of its image. Immutable once made.
 */
#pragma once

#include <stddef.h>

struct exec_defaults {
	char *user;    /* NULL: the guest's */
	char *workdir; /* of commands that name no user; NULL: the user's home */
	char **env;    /* "NAME=VALUE", NULL-terminated */
};

/* From the configuration of an image as its row has it: a JSON object. What is not understood is
 * left out. */
void exec_defaults_init(struct exec_defaults *defaults, const char *config);
void exec_defaults_clear(struct exec_defaults *defaults);

/* The environment of a request with what it lacks of the image's; either may be NULL. The caller
 * frees the array, not its entries; NULL when there is nothing to add. */
const char **exec_defaults_env(const struct exec_defaults *defaults, const char *const *env);
