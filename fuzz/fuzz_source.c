/* What somebody says an image is to be imported from: what is understood is said again the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "image/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct image_source source;
	char *text = malloc(size + 1), name[IMAGE_NAME_MAX + 1];

	assert(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (image_source_parse(text, &source, NULL) == 0) {
		char *again = image_source_text(&source, source.path);

		assert(strcmp(again, text) == 0);
		assert(source.path[0] == (source.kind == IMAGE_SOURCE_REGISTRY ? '\0' : '/'));
		assert(source.reference[0] != '-');
		if (image_source_name(&source, name, NULL) == 0)
			assert(image_name_valid(name));
		free(again);
	}
	free(text);
	return 0;
}
