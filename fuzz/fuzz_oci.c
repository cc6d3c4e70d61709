/* Manifest and configuration of an image: the text up to the first NUL byte, and after it. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "import/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct oci_image *image)
{
	assert(image->user[0] && strlen(image->user) <= OCI_USER_MAX);
	assert(image->workdir[0] == '/' && strlen(image->workdir) <= OCI_PATH_MAX);
	assert(json_is_object(image->env) && json_object_size(image->env) <= OCI_ENV_MAX);
	assert(json_array_size(image->warnings) <= OCI_WARNINGS_MAX);
	assert(image->n_layers > 0 && image->n_layers <= OCI_LAYERS_MAX);
	for (size_t i = 0; i < image->n_layers; i++) {
		assert(str_starts(image->layers[i].digest, "sha256:"));
		assert(strlen(image->layers[i].digest) == OCI_DIGEST_SIZE - 1);
		/* They become names of files. */
		assert(!strchr(image->layers[i].digest, '/'));
		assert(strlen(image->layers[i].diff_id) == OCI_DIGEST_SIZE - 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	const char *nul = memchr(text, '\0', size);
	size_t len = nul ? (size_t)(nul - text) : size;
	struct oci_image image = OCI_IMAGE_INIT;

	if (oci_manifest_parse(text, len, &image, NULL) == 0 && nul &&
	    oci_config_parse(nul + 1, size - len - 1, &image, NULL) == 0)
		check(&image);
	oci_image_clear(&image);
	return 0;
}
