/* Sources of imports. See source.h. */
#include "image/source.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "image/image.h"

#define REFERENCE_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@"

static const struct {
	const char *prefix;
	enum image_source_kind kind;
} kinds[] = {
	{ "docker-archive:", IMAGE_SOURCE_DOCKER_ARCHIVE },
	{ "oci-archive:", IMAGE_SOURCE_OCI_ARCHIVE },
	{ "oci:", IMAGE_SOURCE_OCI },
	{ "docker://", IMAGE_SOURCE_REGISTRY },
};

static int refuse(struct err *err, const char *text, const char *why)
{
	err_set(err, -EINVAL, "source '%.200s' %s", text, why);
	err_hint(err, "a source is docker-archive:PATH, oci-archive:PATH, oci:DIRECTORY or "
		      "docker://[HOST/]NAME[:TAG]");
	return -EINVAL;
}

/* A reference goes to a program as part of an argument: nothing but what one is made of. */
static bool is_reference(const char *text)
{
	return strchr("-/:@.", *text) == NULL && text[strspn(text, REFERENCE_CHARS)] == '\0';
}

static bool is_path(const char *text)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return false;
	return text[0] == '/';
}

int image_source_parse(const char *text, struct image_source *ret, struct err *err)
{
	struct image_source source = { 0 };
	const char *rest = NULL;
	char *colon;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && !rest; i++) {
		if (!str_starts(text, kinds[i].prefix))
			continue;
		rest = text + strlen(kinds[i].prefix);
		source.kind = kinds[i].kind;
	}
	if (!rest)
		return refuse(err, text, "is of no kind that can be imported");
	if (source.kind == IMAGE_SOURCE_REGISTRY) {
		if (!*rest || !is_reference(rest) ||
		    !str_copy(source.reference, sizeof(source.reference), rest))
			return refuse(err, text, "names no image of a registry");
		*ret = source;
		return 0;
	}
	if (!str_copy(source.path, sizeof(source.path), rest))
		return refuse(err, text, "has a path that is too long");
	colon = strchr(source.path, ':');
	if (colon) {
		*colon = '\0';
		str_copy(source.reference, sizeof(source.reference), colon + 1);
		if (!source.reference[0] || !is_reference(source.reference))
			return refuse(err, text, "names no image after its path");
	}
	if (!is_path(source.path))
		return refuse(err, text, "has no absolute path");
	*ret = source;
	return 0;
}

char *image_source_text(const struct image_source *source, const char *path)
{
	const char *prefix = kinds[source->kind].prefix;

	if (source->kind == IMAGE_SOURCE_REGISTRY)
		return xasprintf("%s%s", prefix, source->reference);
	return xasprintf("%s%s%s%s", prefix, path, source->reference[0] ? ":" : "",
			 source->reference);
}

/* Without what a file of images ends in: "alpine.oci.tar" is alpine. */
static size_t without_endings(const char *name, size_t len)
{
	static const char *const endings[] = { ".tar", ".tgz", ".gz", ".oci", ".docker" };
	bool cut;

	do {
		cut = false;
		for (size_t i = 0; i < ARRAY_SIZE(endings); i++) {
			size_t n = strlen(endings[i]);

			if (len > n && memcmp(name + len - n, endings[i], n) == 0) {
				len -= n;
				cut = true;
			}
		}
	} while (cut);
	return len;
}

int image_source_name(const struct image_source *source, char *out, struct err *err)
{
	bool registry = source->kind == IMAGE_SOURCE_REGISTRY;
	const char *text = registry ? source->reference : source->path;
	size_t whole = registry ? strcspn(text, "@") : strlen(text), start, len, n = 0;

	while (whole > 0 && text[whole - 1] == '/')
		whole--;
	for (start = whole; start > 0 && text[start - 1] != '/'; start--)
		;
	len = registry ? strcspn(text + start, ":@") : whole - start;
	if (!registry)
		len = without_endings(text + start, len);
	for (size_t i = 0; i < len && n < IMAGE_NAME_MAX; i++) {
		char c = text[start + i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		if (c >= 'A' && c <= 'Z')
			out[n++] = (char)(c - 'A' + 'a');
		else if (alnum || (n > 0 && strchr("._-", c)))
			out[n++] = c;
		else if (n > 0)
			out[n++] = '-';
	}
	out[n] = '\0';
	if (image_name_valid(out))
		return 0;
	err_set(err, -EINVAL, "nothing of the source '%.200s' can be the image's name", text);
	err_hint(err, "give it one");
	return -EINVAL;
}
