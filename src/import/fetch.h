/*
 * Copies an image to a directory, by skopeo: manifest.json, and a file for each blob, named by the
 * hex digits of its digest. Nothing is unpacked or changed, so that the manifest's digest is the
 * one that a registry knows.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct fetch {
	const char *source; /* as skopeo has it */
	const char *to;	    /* a directory; made */
	const char *tmp;    /* for what is held meanwhile */
	const char *auth;   /* a file with credentials; NULL: none */
	bool any_certificate;
};

/* what: a line for people. Called twice a second. */
typedef void (*fetch_progress_fn)(void *arg);

/* -EIO ("image_source_failed") with what skopeo says. */
int fetch_run(const struct fetch *fetch, fetch_progress_fn progress, void *arg, struct err *err);
