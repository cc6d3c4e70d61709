/*
 * skerry-import: makes an image of what was built elsewhere.
 *
 *   skerry-import --source SOURCE --out FILE.erofs --bytes-max N … > progress
 *
 * The daemon starts it as it starts images/build-root, and it answers alike: "progress PERCENT
 * WHAT" lines, and last "digest sha256:HEX" or "error {…}". FILE.erofs.json says what the image
 * wants its commands to start with, and where it came from. FILE.erofs.work is its working
 * directory.
 *
 * Theory of operation. Whatever looks at a byte of the source does so in a jail (jail.h): skopeo
 * copies manifest and blobs into it, our own code puts the layers over one another (layers.h), and
 * mkfs.erofs packs the tree into the one file that is shown from outside. Outside, as the daemon's
 * user, nothing is done but to make the jail, and to hash the file that came of it. The result is
 * never mounted on the host either: only a sandbox's kernel reads it.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "image/source.h"
#include "import/fetch.h"
#include "import/jail.h"
#include "import/layers.h"
#include "import/oci.h"
#include "import/tree.h"
#include "loop/spawn.h"

#define BLOBS	      JAIL_WORK "/blobs"
#define TMP	      JAIL_WORK "/tmp"
#define TREE	      JAIL_WORK "/tree"
#define RESULT_MAX    (256u * 1024u)
#define CONFIG_MAX    8000u /* of what goes into an image's record */
#define HASH_CHUNK    (1u << 20)
#define SCRATCH_LEAST (64ull << 20)
#define PACK_DAYS_MS  (24ll * 3600 * 1000) /* the daemon's deadline comes before */

/* Parts of 100. */
#define AT_UNPACK 40
#define AT_PACK	  85
#define AT_DIGEST 95

struct import {
	const char *source_text, *out, *auth;
	struct image_source source;
	struct layers_limits limits;
	uint64_t keep_free_bytes;
	uid_t uid_base;
	bool any_certificate;
};

static void progress(int percent, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void progress(int percent, const char *fmt, ...)
{
	va_list ap;

	printf("progress %d ", percent);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

/* ---- in the jail ---- */

static void on_fetched(void *arg)
{
	struct statvfs fs;

	(void)arg;
	if (statvfs(JAIL_WORK, &fs) == 0)
		progress(2, "copying: %" PRIu64 " MB",
			 (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize >> 20);
}

static void on_unpacked(void *arg, size_t layer, int percent)
{
	const struct oci_image *image = arg;
	int all = (int)((layer - 1) * 100 + (size_t)percent) / (int)image->n_layers;

	progress(AT_UNPACK + (AT_PACK - AT_UNPACK) * all / 100, "unpacking layer %zu of %zu", layer,
		 image->n_layers);
}

static int fetch(const struct import *import, struct err *err)
{
	_cleanup_free_ char *source = image_source_text(&import->source, JAIL_SOURCE);
	const struct fetch fetch = {
		.source = source,
		.to = BLOBS,
		.tmp = TMP,
		.auth = import->auth ? JAIL_AUTH : NULL,
		.any_certificate = import->any_certificate,
	};
	int r;

	if (mkdir(TMP, 0700) < 0 || mkdir(TREE, 0755) < 0)
		return err_set(err, -errno, "prepare the import: %s", strerrordesc_np(errno));
	progress(1, "copying");
	r = fetch_run(&fetch, on_fetched, NULL, err);
	if (r == 0 && import->source.kind == IMAGE_SOURCE_REGISTRY)
		r = jail_drop_network(err);
	/* What it held meanwhile, the archive's content among it, is in the way. */
	tree_remove(TMP);
	return r;
}

static int sha256_of(const void *data, size_t len, char out[65])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	if (EVP_Digest(data, len, hash, &n, EVP_sha256(), NULL) != 1 || n != 32)
		return -EIO;
	hex_encode(hash, n, out);
	return 0;
}

static int read_image(struct oci_image *image, char source_digest[OCI_DIGEST_SIZE], struct err *err)
{
	_cleanup_buf_ struct buf manifest = BUF_INIT, config = BUF_INIT;
	_cleanup_free_ char *path = NULL;
	int r = file_read(BLOBS "/manifest.json", OCI_JSON_MAX, &manifest);

	if (r < 0)
		return err_set(err, -EBADMSG, "read the image's manifest: %s", strerrordesc_np(-r));
	memcpy(source_digest, "sha256:", 7);
	if (sha256_of(manifest.data, manifest.len, source_digest + 7) < 0)
		return err_set(err, -EIO, "cannot compute a digest");
	r = oci_manifest_parse(manifest.data, manifest.len, image, err);
	if (r < 0)
		return r;
	path = xasprintf(BLOBS "/%s", image->config_digest + 7);
	r = file_read(path, OCI_JSON_MAX, &config);
	if (r < 0)
		return err_set(err, -EBADMSG, "read the image's configuration: %s",
			       strerrordesc_np(-r));
	return oci_config_parse(config.data, config.len, image, err);
}

static int unpack(const struct import *import, struct oci_image *image, struct err *err)
{
	_cleanup_close_ int blobs = open(BLOBS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int tree = open(TREE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (blobs < 0 || tree < 0)
		return err_set(err, -errno, "open the import's directories: %s",
			       strerrordesc_np(errno));
	r = layers_unpack(blobs, tree, image, &import->limits, on_unpacked, image, err);
	return r < 0 ? r : tree_finish(tree, image, err);
}

static int pack(struct err *err)
{
	static const char tree[] = TREE;
	const char *const argv[] = { "mkfs.erofs", "--quiet", JAIL_OUT, tree, NULL };
	const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;

	progress(AT_PACK, "packing");
	spec.argv = argv;
	spec.envp = env;
	return spawn_run(&spec, clock_boottime_ms() + PACK_DAYS_MS, NULL, 0, NULL, NULL, err);
}

static json_t *result_of(const struct oci_image *image, const char *source_digest)
{
	json_t *result = json_object(), *config = json_object();

	json_put_str(config, "user", image->user);
	json_put_str(config, "workdir", image->workdir);
	json_put(config, "env", json_incref(image->env));
	json_put(result, "config", config);
	json_put_str(result, "source_digest", source_digest);
	json_put(result, "warnings", image->warnings ? json_incref(image->warnings) : json_array());
	return result;
}

static int check_config(const json_t *result, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	json_write(json_object_get(result, "config"), &text);
	if (text.len <= CONFIG_MAX)
		return 0;
	return err_set(err, -EFBIG,
		       "the image's USER, WORKDIR and ENV take %zu bytes, the limit is %u",
		       text.len, CONFIG_MAX);
}

static int work(const struct import *import, json_t **ret, struct err *err)
{
	_cleanup_(oci_image_clear) struct oci_image image = OCI_IMAGE_INIT;
	_cleanup_json_ json_t *result = NULL;
	char source_digest[OCI_DIGEST_SIZE];
	int r = fetch(import, err);

	if (r == 0)
		r = read_image(&image, source_digest, err);
	if (r == 0)
		r = unpack(import, &image, err);
	if (r < 0)
		return r;
	result = result_of(&image, source_digest);
	r = check_config(result, err);
	if (r == 0)
		r = pack(err);
	if (r == 0)
		*ret = STEAL(result);
	return r;
}

/* By what went wrong, unless that is known better already. */
static void give_code(const struct import *import, struct err *err)
{
	uint64_t mib = import->limits.bytes_max >> 20;

	if (!err->code && (err->num == -EFBIG || err->num == -ENOSPC))
		err->code = "image_too_large";
	if (!err->code && err->num == -EINVAL)
		err_hint(err, "owners of files are taken from 0 to %u", JAIL_USERS - 1);
	/* What the kernel says of a name or a link is the archive's fault; this is not. */
	if (!err->code && err->num != -EIO && err->num != -ENOMEM)
		err->code = "image_refused";
	if (str_eq(err->code, "image_too_large") && !err->hint[0])
		err_hint(err,
			 "image_mb_max is %" PRIu64 " and image_entries_max %" PRIu64
			 "; the server's disk must have room for it unpacked and packed",
			 mib, import->limits.entries_max);
}

static json_t *error_of(const struct err *err)
{
	json_t *error = json_object();

	json_put_str(error, "code", err_code_of(err));
	json_put(error, "message", json_from_bytes(err->message, strlen(err->message)));
	json_put(error, "hint", json_from_bytes(err->hint, strlen(err->hint)));
	return error;
}

static int in_jail(void *arg, int result_fd)
{
	const struct import *import = arg;
	_cleanup_json_ json_t *answer = json_object();
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct err err = ERR_INIT;
	json_t *result = NULL;

	if (work(import, &result, &err) < 0) {
		give_code(import, &err);
		json_put(answer, "error", error_of(&err));
	} else {
		json_put(answer, "result", result);
	}
	json_write(answer, &text);
	return fd_write_all(result_fd, text.data, text.len) < 0;
}

/* ---- outside ---- */

static int check_programs(struct err *err)
{
	static const char *const programs[][2] = {
		{ "skopeo", "skopeo" },
		{ "mkfs.erofs", "erofs-utils" },
		{ "mkfs.ext4", "e2fsprogs" },
	};
	static const char *const dirs[] = { "/usr/bin", "/usr/sbin", "/bin", "/sbin" };

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		bool found = false;

		for (size_t d = 0; d < ARRAY_SIZE(dirs) && !found; d++) {
			_cleanup_free_ char *path = xasprintf("%s/%s", dirs[d], programs[i][0]);

			found = access(path, X_OK) == 0;
		}
		if (found)
			continue;
		err_code(err, -ENOENT, "program_missing", "%s is not installed on the server",
			 programs[i][0]);
		err_hint(err, "install it: apt-get install %s", programs[i][1]);
		return -ENOENT;
	}
	return 0;
}

/* Blobs, an archive's content meanwhile, and the tree: three times the image. */
static int size_scratch(const struct import *import, const char *dir, uint64_t *ret,
			struct err *err)
{
	uint64_t wanted = 3 * import->limits.bytes_max + 8192 * import->limits.entries_max;
	struct statvfs fs;
	uint64_t free_bytes;

	if (statvfs(dir, &fs) < 0)
		return err_set(err, -errno, "look at '%s': %s", dir, strerrordesc_np(errno));
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	free_bytes -= free_bytes < import->keep_free_bytes ? free_bytes : import->keep_free_bytes;
	if (free_bytes < SCRATCH_LEAST)
		return err_code(err, -ENOSPC, "disk_full",
				"the server's disk has no room to unpack an image");
	*ret = wanted < free_bytes ? wanted : free_bytes;
	return 0;
}

static int make_out(const struct import *import, struct err *err)
{
	_cleanup_close_ int fd = open(import->out, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || fchown(fd, import->uid_base, import->uid_base) < 0)
		return err_set(err, -errno, "make '%s': %s", import->out, strerrordesc_np(errno));
	return 0;
}

/* What the jail made is nobody's but root's from here on. */
static int take_out(const struct import *import, char digest[65], struct err *err)
{
	_cleanup_close_ int fd = open(import->out, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_free_ char *chunk = xmalloc(HASH_CHUNK);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned int n_hash = 0;
	ssize_t n = -1;
	bool ok;

	ok = fd >= 0 && fchown(fd, 0, 0) == 0 && md &&
	     EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;
	while (ok && (n = read(fd, chunk, HASH_CHUNK)) > 0)
		ok = EVP_DigestUpdate(md, chunk, (size_t)n) == 1;
	ok = ok && n == 0 && EVP_DigestFinal_ex(md, hash, &n_hash) == 1 && fsync(fd) == 0;
	EVP_MD_CTX_free(md);
	if (!ok)
		return err_set(err, -EIO, "compute the digest of '%s': %s", import->out,
			       strerrordesc_np(errno));
	hex_encode(hash, n_hash, digest);
	return 0;
}

/* The codes that are passed on: an err's is of static storage. */
static const char *known_code(const char *code)
{
	static const char *const known[] = { "image_refused", "image_too_large",
					     "image_source_failed", "disk_full" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(code, known[i]))
			return known[i];
	return NULL;
}

/* What the jail says is as hostile as what it looked at. */
static int take_answer(const struct buf *text, json_t **ret, struct err *err)
{
	_cleanup_json_ json_t *answer = NULL;
	const json_t *error;
	json_t *result;
	int r = json_parse(text->data, text->len, &answer, err);

	if (r < 0)
		return err_wrap(err, r, "the import's answer");
	error = json_object_get(answer, "error");
	if (error) {
		r = err_code(err, -EIO, known_code(json_get_str(error, "code", "")), "%s",
			     json_get_str(error, "message", "the import failed"));
		err_hint(err, "%s", json_get_str(error, "hint", ""));
		return r;
	}
	result = json_object_get(answer, "result");
	if (!json_is_object(result))
		return err_set(err, -EIO, "the import's answer has no result");
	*ret = json_incref(result);
	return 0;
}

static int write_record(const struct import *import, const json_t *result, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s.json", import->out);
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r;

	json_write(result, &text);
	r = file_write_durable(path, text.data, text.len, 0600);
	return r < 0 ? err_set(err, r, "write '%s': %s", path, strerrordesc_np(-r)) : 0;
}

static int import_into(const struct import *import, const char *work_dir, char digest[65],
		       struct err *err)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;
	_cleanup_json_ json_t *result = NULL;
	struct jail_spec spec = {
		.work_dir = work_dir,
		.source_path = import->source.path[0] ? import->source.path : NULL,
		.out_path = import->out,
		.auth_path = import->auth,
		.scratch_inodes = 2 * import->limits.entries_max + 4096,
		.file_bytes_max = import->limits.bytes_max + 8192 * import->limits.entries_max,
		.uid_base = import->uid_base,
		.network = import->source.kind == IMAGE_SOURCE_REGISTRY,
	};
	int r = size_scratch(import, work_dir, &spec.scratch_bytes, err);

	if (r == 0)
		r = make_out(import, err);
	if (r == 0)
		r = jail_run(&spec, in_jail, (void *)(uintptr_t)import, &answer, RESULT_MAX, err);
	if (r == 0)
		r = take_answer(&answer, &result, err);
	if (r < 0)
		return r;
	progress(AT_DIGEST, "computing the digest");
	r = take_out(import, digest, err);
	return r < 0 ? r : write_record(import, result, err);
}

static int check_source(const struct import *import, struct err *err)
{
	const char *path = import->source.path;
	struct stat st;
	bool wants_dir = import->source.kind == IMAGE_SOURCE_OCI;

	if (!*path)
		return 0;
	if (stat(path, &st) == 0 && (wants_dir ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode)))
		return 0;
	if (errno && stat(path, &st) < 0)
		err_code(err, -ENOENT, "image_source_failed", "the server cannot see '%s': %s",
			 path, strerrordesc_np(errno));
	else
		err_code(err, -EINVAL, "image_source_failed", "'%s' is no %s", path,
			 wants_dir ? "directory" : "file");
	err_hint(err, "paths are the server's; its unit hides /home and /root from it");
	return -EINVAL;
}

static int run(struct import *import, char digest[65], struct err *err)
{
	_cleanup_free_ char *work_dir = xasprintf("%s.work", import->out);
	int r = image_source_parse(import->source_text, &import->source, err);

	if (r == 0)
		r = check_programs(err);
	if (r == 0)
		r = check_source(import, err);
	if (r < 0)
		return r;
	if (mkdir(work_dir, 0700) < 0)
		return err_set(err, -errno, "make '%s': %s", work_dir, strerrordesc_np(errno));
	r = import_into(import, work_dir, digest, err);
	tree_remove(work_dir);
	if (r < 0)
		unlink(import->out);
	return r;
}

/* ---- options ---- */

static int take_number(const char *text, uint64_t *ret)
{
	int64_t n;

	if (str_to_i64(text, &n) < 0 || n < 0)
		return -EINVAL;
	*ret = (uint64_t)n;
	return 0;
}

static int parse_options(int argc, char **argv, struct import *import)
{
	static const struct option options[] = {
		{ "source", required_argument, NULL, 's' },
		{ "out", required_argument, NULL, 'o' },
		{ "bytes-max", required_argument, NULL, 'b' },
		{ "entries-max", required_argument, NULL, 'e' },
		{ "keep-free-bytes", required_argument, NULL, 'f' },
		{ "uid-base", required_argument, NULL, 'u' },
		{ "auth", required_argument, NULL, 'a' },
		{ "any-certificate", no_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t uid_base = 0;
	int option, r = 0;

	while (r == 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			import->source_text = optarg;
			break;
		case 'o':
			import->out = optarg;
			break;
		case 'b':
			r = take_number(optarg, &import->limits.bytes_max);
			break;
		case 'e':
			r = take_number(optarg, &import->limits.entries_max);
			break;
		case 'f':
			r = take_number(optarg, &import->keep_free_bytes);
			break;
		case 'u':
			r = take_number(optarg, &uid_base);
			break;
		case 'a':
			import->auth = optarg;
			break;
		case 'c':
			import->any_certificate = true;
			break;
		default:
			r = -EINVAL;
		}
	}
	import->uid_base = (uid_t)uid_base;
	if (optind != argc || !import->source_text || !import->out || uid_base < JAIL_USERS ||
	    uid_base > UINT32_MAX - JAIL_USERS || import->limits.bytes_max == 0 ||
	    import->limits.entries_max == 0)
		r = -EINVAL;
	return r;
}

int main(int argc, char **argv)
{
	struct import import = { 0 };
	struct err err = ERR_INIT;
	char digest[65];

	umask(077);
	if (parse_options(argc, argv, &import) < 0) {
		fprintf(stderr, "skerry-import is started by skerryd\n");
		return 2;
	}
	if (run(&import, digest, &err) < 0) {
		_cleanup_json_ json_t *error = error_of(&err);
		_cleanup_buf_ struct buf text = BUF_INIT;

		json_write(error, &text);
		printf("error %s\n", text.data);
		return 1;
	}
	progress(100, "done");
	printf("digest sha256:%s\n", digest);
	return 0;
}
