/*
 * Where an image is imported from, as its text says: pure, no file is looked at. The notation is
 * skopeo's, cut down to what is offered:
 *
 *   docker-archive:PATH[:NAME:TAG]   a tar of "docker save"
 *   oci-archive:PATH[:TAG]           a tar of an OCI layout
 *   oci:DIRECTORY[:TAG]              an OCI layout
 *   docker://[HOST/]NAME[:TAG][@DIGEST]   a registry
 */
#pragma once

#include "base/err.h"

#define IMAGE_SOURCE_MAX 4096

enum image_source_kind {
	IMAGE_SOURCE_DOCKER_ARCHIVE,
	IMAGE_SOURCE_OCI_ARCHIVE,
	IMAGE_SOURCE_OCI,
	IMAGE_SOURCE_REGISTRY,
};

struct image_source {
	enum image_source_kind kind;
	char path[IMAGE_SOURCE_MAX + 1]; /* absolute; "" of a registry */
	char reference[IMAGE_SOURCE_MAX +
		       1]; /* what follows the path, or the registry's; "": none */
};

/* -EINVAL ("invalid_argument") with what would be right. */
int image_source_parse(const char *text, struct image_source *ret, struct err *err);

/* For whoever starts skopeo: the same source with its path at another place. malloc'ed. */
char *image_source_text(const struct image_source *source, const char *path);

/* A name for the image: the last part of the path or of the reference, without its ending or tag,
 * made valid. out has IMAGE_NAME_MAX + 1 bytes. -EINVAL when nothing is left of it. */
int image_source_name(const struct image_source *source, char *out, struct err *err);
