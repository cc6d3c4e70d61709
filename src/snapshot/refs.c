/* Reachability over snapshots. Each has at most one parent, so that marking is walking chains. */
#include "snapshot/refs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"

struct entry {
	const char *id;
	size_t index;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->id, ((const struct entry *)b)->id);
}

size_t refs_mark(const struct manifest *const *manifests, size_t n, const char *const *roots,
		 size_t n_roots, bool *used)
{
	_cleanup_free_ struct entry *entries = xcalloc(n + 1, sizeof(*entries));
	size_t missing = 0;

	for (size_t i = 0; i < n; i++) {
		entries[i] = (struct entry){ manifests[i]->id, i };
		used[i] = false;
	}
	qsort(entries, n, sizeof(*entries), by_id);
	for (size_t i = 0; i < n_roots; i++) {
		struct entry wanted = { .id = roots[i] };

		while (wanted.id) {
			const struct entry *found =
				bsearch(&wanted, entries, n, sizeof(*entries), by_id);

			if (!found)
				missing++;
			if (!found ||
			    used[found->index]) /* or walked before, which also ends cycles */
				break;
			used[found->index] = true;
			wanted.id = manifests[found->index]->needs_parent
					    ? manifests[found->index]->parent
					    : NULL;
		}
	}
	return missing;
}

bool refs_base_used(const struct manifest *const *manifests, size_t n, const bool *used,
		    const char *base_key)
{
	for (size_t i = 0; i < n; i++)
		if (used[i] && str_eq(manifests[i]->base.key, base_key))
			return true;
	return false;
}

bool refs_image_used(const struct manifest *const *manifests, size_t n, const bool *used,
		     const char *image_digest)
{
	for (size_t i = 0; i < n; i++)
		if (used[i] && str_eq(manifests[i]->image_digest, image_digest))
			return true;
	return false;
}
