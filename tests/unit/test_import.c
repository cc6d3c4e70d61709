/* What an import reads before it unpacks: sources, manifests, configurations, compressed streams;
 * and what a tree is made fit for. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/str.h"
#include "image/image.h"
#include "image/source.h"
#include "import/inflate.h"
#include "import/oci.h"
#include "import/tree.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void sources(void **state)
{
	const struct {
		const char *text, *path, *reference, *name;
	} good[] = {
		{ "docker-archive:/srv/App.tar", "/srv/App.tar", "", "app" },
		{ "docker-archive:/srv/a.docker.tar.gz:app:v1", "/srv/a.docker.tar.gz", "app:v1",
		  "a" },
		{ "oci-archive:/x/my image.oci.tar", "/x/my image.oci.tar", "", "my-image" },
		{ "oci:/x/layout/:latest", "/x/layout/", "latest", "layout" },
		{ "docker://alpine", "", "alpine", "alpine" },
		{ "docker://127.0.0.1:5000/team/web:v1", "", "127.0.0.1:5000/team/web:v1", "web" },
		{ "docker://a/b@sha256:" A, "", "a/b@sha256:" A, "b" },
	};
	const char *const bad[] = {
		"",
		"alpine",
		"dir:/etc",
		"containers-storage:x",
		"oci:x",
		"oci:",
		"oci:/x:",
		"oci:/x:a b",
		"docker://",
		"docker://-x",
		"docker://a b",
		"docker-archive:/a\nb",
		"docker:///x",
		"oci:/x:-t",
		"docker-daemon:x:y",
		"docker://a;b",
	};
	struct image_source source;
	struct err err = ERR_INIT;
	char name[IMAGE_NAME_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_free_ char *again = NULL;

		assert_int_equal(image_source_parse(good[i].text, &source, &err), 0);
		assert_string_equal(source.path, good[i].path);
		assert_string_equal(source.reference, good[i].reference);
		assert_int_equal(image_source_name(&source, name, &err), 0);
		assert_string_equal(name, good[i].name);
		again = image_source_text(&source, source.path);
		assert_string_equal(again, good[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(image_source_parse(bad[i], &source, &err), -EINVAL);
	assert_int_equal(image_source_parse("oci:/", &source, &err), 0);
	assert_int_equal(image_source_name(&source, name, &err), -EINVAL);
}

static const char manifest[] = "{\"config\":{\"digest\":\"sha256:" B "\"},"
			       "\"layers\":[{\"digest\":\"sha256:" A "\",\"size\":1}]}";

static int parse(const char *config, struct oci_image *image, struct err *err)
{
	assert_int_equal(oci_manifest_parse(manifest, strlen(manifest), image, err), 0);
	return oci_config_parse(config, strlen(config), image, err);
}

#define CONFIG(rest) "{\"rootfs\":{\"diff_ids\":[\"sha256:" B "\"]}," rest "}"

static void what_an_image_wants(void **state)
{
	_cleanup_(oci_image_clear) struct oci_image image = OCI_IMAGE_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(parse(CONFIG("\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":{"
				      "\"User\":\"app:staff\",\"WorkingDir\":\"/srv\","
				      "\"Env\":[\"A=1\",\"B=x=y\",\"A=2\"]}"),
			       &image, &err),
			 0);
	assert_string_equal(image.config_digest, "sha256:" B);
	assert_string_equal(image.layers[0].digest, "sha256:" A);
	assert_string_equal(image.layers[0].diff_id, "sha256:" B);
	assert_string_equal(image.user, "app:staff");
	assert_string_equal(image.workdir, "/srv");
	assert_int_equal(json_object_size(image.env), 2);
	assert_string_equal(json_string_value(json_object_get(image.env, "A")), "2");
	assert_string_equal(json_string_value(json_object_get(image.env, "B")), "x=y");
	assert_null(image.warnings);
}

static void what_cannot_be_is_left_out_with_a_warning(void **state)
{
	_cleanup_(oci_image_clear) struct oci_image image = OCI_IMAGE_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(parse(CONFIG("\"config\":{\"User\":\"a\\nb\",\"WorkingDir\":\"relative\","
				      "\"Env\":[\"=x\",\"plain\",7,\"N=a\\u0000b\"]}"),
			       &image, &err),
			 0);
	assert_string_equal(image.user, "root");
	assert_string_equal(image.workdir, "/");
	assert_int_equal(json_object_size(image.env), 0);
	assert_int_equal(json_array_size(image.warnings), 6);
}

static void what_is_no_image(void **state)
{
	const char *const manifests[] = {
		"",
		"[]",
		"{}",
		"{\"config\":{\"digest\":\"sha256:" A "\"},\"layers\":[]}",
		"{\"config\":{\"digest\":\"sha256:../../../etc/passwd\"},\"layers\":[]}",
		"{\"config\":{\"digest\":\"sha256:" A "\"},\"layers\":[{\"digest\":\"md5:x\"}]}",
	};
	const char *const configs[] = {
		"",
		"7",
		"{}",
		CONFIG("\"architecture\":\"arm64\""),
		CONFIG("\"os\":\"windows\""),
		"{\"rootfs\":{\"diff_ids\":[]}}",
		"{\"rootfs\":{\"diff_ids\":[\"sha256:" A "\",\"sha256:" B "\"]}}",
	};
	struct err err = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(manifests); i++) {
		_cleanup_(oci_image_clear) struct oci_image image = OCI_IMAGE_INIT;

		assert_int_equal(
			oci_manifest_parse(manifests[i], strlen(manifests[i]), &image, &err),
			-EBADMSG);
	}
	for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
		_cleanup_(oci_image_clear) struct oci_image image = OCI_IMAGE_INIT;

		assert_int_equal(parse(configs[i], &image, &err), -EBADMSG);
	}
}

/* ---- streams ---- */

static ssize_t inflate_all(const void *data, size_t len, struct buf *out)
{
	int fd = memfd_create("layer", MFD_CLOEXEC);
	struct inflate *in;
	char chunk[7];
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, len), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	in = inflate_new(fd);
	while ((n = inflate_read(in, chunk, sizeof(chunk), NULL)) > 0)
		buf_append(out, chunk, (size_t)n);
	inflate_free(in);
	close(fd);
	return n;
}

static size_t gzip(const char *text, unsigned char *out, size_t size)
{
	z_stream z = { 0 };

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)text;
	z.avail_in = (unsigned int)strlen(text);
	z.next_out = out;
	z.avail_out = (unsigned int)size;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return size - z.avail_out;
}

static void streams(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT, two = BUF_INIT;
	unsigned char packed[256];
	size_t n = gzip("the first of them, ", packed, sizeof(packed));

	assert_int_equal(inflate_all("as it is", 8, &out), 0);
	assert_string_equal(buf_str(&out), "as it is");
	buf_append(&two, packed, n);
	n = gzip("and the second", packed, sizeof(packed));
	buf_append(&two, packed, n);
	buf_reset(&out);
	assert_int_equal(inflate_all(two.data, two.len, &out), 0);
	assert_string_equal(buf_str(&out), "the first of them, and the second");
	for (size_t cut = 7; cut < two.len - n; cut++) /* in the first */
		assert_int_equal(inflate_all(two.data, cut, &out), -EBADMSG);
	two.data[12] ^= 0x55;
	assert_int_equal(inflate_all(two.data, two.len, &out), -EBADMSG);
	assert_int_equal(inflate_all("\xfd"
				     "7zXZ\0",
				     6, &out),
			 -EBADMSG);
	assert_int_equal(inflate_all("BZh91AY", 7, &out), -EBADMSG);
	buf_reset(&out);
	assert_int_equal(inflate_all("", 0, &out), 0);
	assert_int_equal(out.len, 0);
}

/* ---- trees ---- */

static void a_tree_is_made_fit(void **state)
{
	_cleanup_(oci_image_clear) struct oci_image image = OCI_IMAGE_INIT;
	char dir[SCRATCH_SIZE];
	struct err err = ERR_INIT;
	struct stat st;
	int fd, file;

	scratch_make(dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(symlinkat("/etc", fd, "run"), 0);
	assert_int_equal(symlinkat("/", fd, "top"), 0);
	assert_int_equal(mkdirat(fd, "etc", 0755), 0);
	file = openat(fd, "etc/passwd", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(file >= 0);
	assert_int_equal(fd_write_all(file, "app:x:5:5::/:/bin/sh\n", 21), 0);
	close(file);
	assert_int_equal(parse(CONFIG("\"config\":{\"User\":\"app\",\"WorkingDir\":\"/top/a/b\"}"),
			       &image, &err),
			 0);
	assert_int_equal(tree_finish(fd, &image, &err), 0);
	assert_null(image.warnings);
	assert_string_equal(image.user, "app");
	assert_int_equal(fstatat(fd, "a/b", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(fstatat(fd, "run", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(fstatat(fd, "tmp", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, 01777);
	str_copy(image.user, sizeof(image.user), "nobody-here");
	assert_int_equal(tree_finish(fd, &image, &err), 0);
	assert_string_equal(image.user, "root");
	assert_int_equal(json_array_size(image.warnings), 1);
	close(fd);
	scratch_remove(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sources),
		cmocka_unit_test(what_an_image_wants),
		cmocka_unit_test(what_cannot_be_is_left_out_with_a_warning),
		cmocka_unit_test(what_is_no_image),
		cmocka_unit_test(streams),
		cmocka_unit_test(a_tree_is_made_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
