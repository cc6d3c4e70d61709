/*
 * What is still needed: pure functions over the manifests there are and the roots that the caller's
 * records name. What is not needed may be removed; nothing is removed here.
 *
 * A root is a snapshot that something outside speaks of: a paused sandbox, a name, a fork under
 * way. A snapshot is used when it is a root, or when a used one needs it as its parent. Bases and
 * images are used by used snapshots; running machines use them too, which the caller adds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "snapshot/manifest.h"

/* Sets used[i] for each of n manifests (ids are unique). Returns how many roots and needed parents
 * are not among them: with any, records and disk disagree, and it is better to remove nothing. */
size_t refs_mark(const struct manifest *const *manifests, size_t n, const char *const *roots,
		 size_t n_roots, bool *used);

bool refs_base_used(const struct manifest *const *manifests, size_t n, const bool *used,
		    const char *base_key);
bool refs_image_used(const struct manifest *const *manifests, size_t n, const bool *used,
		     const char *image_digest);
