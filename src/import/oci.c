/* Manifest and configuration of an image. See oci.h. */
#include "import/oci.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"

#define ARCHITECTURE "amd64"

void oci_image_clear(struct oci_image *image)
{
	free(image->layers);
	json_decref(image->env);
	json_decref(image->warnings);
	*image = OCI_IMAGE_INIT;
}

void oci_warn(struct oci_image *image, const char *fmt, ...)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	va_list ap;

	if (!image->warnings)
		image->warnings = json_array();
	if (json_array_size(image->warnings) >= OCI_WARNINGS_MAX)
		return;
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	json_array_append_new(image->warnings, json_from_bytes(buf_str(&text), text.len));
}

/* "sha256:" and 64 hex digits: other algorithms are allowed by the standard and used by nobody. */
static bool digest_copy(const json_t *from, char out[OCI_DIGEST_SIZE])
{
	const char *text = json_string_value(from);

	if (!text || strlen(text) != OCI_DIGEST_SIZE - 1 || !str_starts(text, "sha256:") ||
	    strspn(text + 7, "0123456789abcdef") != 64)
		return false;
	memcpy(out, text, OCI_DIGEST_SIZE);
	return true;
}

static int parse_object(const char *what, const char *text, size_t len, json_t **ret,
			struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	struct err why = ERR_INIT;

	if (len > OCI_JSON_MAX)
		return err_set(err, -EBADMSG, "the image's %s is larger than %u bytes", what,
			       OCI_JSON_MAX);
	if (json_parse(text, len, &json, &why) < 0)
		return err_set(err, -EBADMSG, "the image's %s: %s", what, why.message);
	if (!json_is_object(json))
		return err_set(err, -EBADMSG, "the image's %s is no object", what);
	*ret = STEAL(json);
	return 0;
}

int oci_manifest_parse(const char *text, size_t len, struct oci_image *image, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	const json_t *layers;
	size_t n;
	int r = parse_object("manifest", text, len, &json, err);

	if (r < 0)
		return r;
	layers = json_object_get(json, "layers");
	n = json_array_size(layers);
	if (!digest_copy(json_object_get(json_object_get(json, "config"), "digest"),
			 image->config_digest) ||
	    !json_is_array(layers))
		return err_set(err, -EBADMSG, "the manifest names no configuration and layers");
	if (n == 0 || n > OCI_LAYERS_MAX)
		return err_set(err, -EBADMSG, "the image has %zu layers; 1 to %u are taken", n,
			       OCI_LAYERS_MAX);
	free(image->layers);
	image->layers = xcalloc(n, sizeof(*image->layers));
	image->n_layers = n;
	for (size_t i = 0; i < n; i++) {
		if (!digest_copy(json_object_get(json_array_get(layers, i), "digest"),
				 image->layers[i].digest))
			return err_set(err, -EBADMSG, "layer %zu of the manifest has no digest",
				       i + 1);
	}
	return 0;
}

static int take_platform(const json_t *json, struct err *err)
{
	const char *os = json_get_str(json, "os", "linux");
	const char *architecture = json_get_str(json, "architecture", ARCHITECTURE);

	if (str_eq(os, "linux") && str_eq(architecture, ARCHITECTURE))
		return 0;
	return err_set(err, -EBADMSG, "the image is for %.40s on %.40s; sandboxes are Linux on %s",
		       os, architecture, ARCHITECTURE);
}

static int take_diff_ids(const json_t *json, struct oci_image *image, struct err *err)
{
	const json_t *ids = json_object_get(json_object_get(json, "rootfs"), "diff_ids");

	if (json_array_size(ids) != image->n_layers)
		return err_set(err, -EBADMSG,
			       "the configuration is of %zu layers, the manifest of %zu",
			       json_array_size(ids), image->n_layers);
	for (size_t i = 0; i < image->n_layers; i++) {
		if (!digest_copy(json_array_get(ids, i), image->layers[i].diff_id))
			return err_set(err, -EBADMSG,
				       "layer %zu of the configuration has no digest", i + 1);
	}
	return 0;
}

static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return true;
}

/* What cannot be used is left out, and said. */
static void take_text(struct oci_image *image, const json_t *from, const char *what,
		      const char *fallback, char *out, size_t out_size)
{
	const char *text = json_string_value(from);
	size_t len = json_string_length(from);

	if (text && len > 0 && len < out_size && is_plain(text, len)) {
		str_copy(out, out_size, text);
		return;
	}
	if (text && len > 0)
		oci_warn(image, "the image's %s cannot be used, '%s' is taken", what, fallback);
	str_copy(out, out_size, fallback);
}

static void take_workdir(struct oci_image *image, const json_t *from)
{
	take_text(image, from, "WORKDIR", "/", image->workdir, sizeof(image->workdir));
	if (image->workdir[0] != '/') {
		oci_warn(image, "the image's WORKDIR is relative, '/' is taken");
		str_copy(image->workdir, sizeof(image->workdir), "/");
	}
}

static void take_env(struct oci_image *image, const json_t *list)
{
	const json_t *one;
	size_t i;

	json_decref(image->env);
	image->env = json_object();
	json_array_foreach(list, i, one) {
		const char *entry = json_string_value(one);
		const char *equals = entry ? strchr(entry, '=') : NULL;
		_cleanup_free_ char *name = NULL;

		if (!equals || equals == entry || strlen(entry) != json_string_length(one) ||
		    json_object_size(image->env) >= OCI_ENV_MAX) {
			oci_warn(image, "an ENV of the image cannot be used and is left out");
			continue;
		}
		name = xstrndup(entry, (size_t)(equals - entry));
		json_put_str(image->env, name, equals + 1);
	}
}

int oci_config_parse(const char *text, size_t len, struct oci_image *image, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	const json_t *config;
	int r = parse_object("configuration", text, len, &json, err);

	if (r == 0)
		r = take_platform(json, err);
	if (r == 0)
		r = take_diff_ids(json, image, err);
	if (r < 0)
		return r;
	config = json_object_get(json, "config");
	take_text(image, json_object_get(config, "User"), "USER", "root", image->user,
		  sizeof(image->user));
	take_workdir(image, json_object_get(config, "WorkingDir"));
	take_env(image, json_object_get(config, "Env"));
	return 0;
}
