/*
 * Images from a Dockerfile, by buildah, on this machine and with the rights of whoever runs the
 * command: what a Dockerfile runs is not the server's business, only what comes of it.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct buildah {
	const char *directory; /* the context */
	const char *file;      /* NULL: Dockerfile or Containerfile in it */
	const char *archive;   /* written: an OCI archive */
	bool quiet;	       /* what it says is shown only if it fails */
};

/* -ENOENT ("program_missing"): buildah is not installed here. */
int buildah_run(const struct buildah *build, struct err *err);
