/*
 * What an image's manifest and configuration say, as far as it is used. Pure parsers of hostile
 * text; nothing is looked at but the bytes that are given.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/err.h"

#define OCI_JSON_MAX	 (4u << 20) /* bytes of a manifest or a configuration */
#define OCI_LAYERS_MAX	 512u
#define OCI_DIGEST_SIZE	 72 /* "sha256:<64 hex>" */
#define OCI_USER_MAX	 32u
#define OCI_PATH_MAX	 255u
#define OCI_ENV_MAX	 256u
#define OCI_WARNINGS_MAX 8u

struct oci_layer {
	char digest[OCI_DIGEST_SIZE];  /* of the blob */
	char diff_id[OCI_DIGEST_SIZE]; /* of the archive in it, unpacked */
};

struct oci_image {
	char config_digest[OCI_DIGEST_SIZE];
	struct oci_layer *layers; /* the lowest first */
	size_t n_layers;
	char user[OCI_USER_MAX + 1];	/* as the image has it: NAME, UID, each with :GROUP; "" */
	char workdir[OCI_PATH_MAX + 1]; /* absolute */
	json_t *env;			/* {"NAME": "value"} */
	json_t *warnings;		/* ["…"]: what is not as the image wants it */
};

#define OCI_IMAGE_INIT ((struct oci_image){ 0 })

void oci_image_clear(struct oci_image *image);

/* The layers and the name of the configuration. -EBADMSG: it is no manifest, or not of an image. */
int oci_manifest_parse(const char *text, size_t len, struct oci_image *image, struct err *err);
/* The rest, after the manifest. -EBADMSG as well for an image of another architecture. */
int oci_config_parse(const char *text, size_t len, struct oci_image *image, struct err *err);

void oci_warn(struct oci_image *image, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
