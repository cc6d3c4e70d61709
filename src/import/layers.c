/* Layers into a tree. See layers.h. */
#include "import/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "import/inflate.h"
#include "tar/tar_tree.h"

#define CHUNK_SIZE    (256u * 1024u)
#define HEADERS_BYTES 4096u /* an entry's share of an archive beside its data, generously */
#define ARCHIVE_TAIL  (1u << 20)
#define DIGEST_PREFIX 7u /* "sha256:" */

DEFINE_CLEANUP(struct tar_unpack *, tar_unpack_freep, tar_unpack_free);
DEFINE_CLEANUP(struct inflate *, inflate_freep, inflate_free);
DEFINE_CLEANUP(EVP_MD_CTX *, md_freep, EVP_MD_CTX_free);

struct unpacking {
	int blobs_fd, tree_fd;
	const struct oci_image *image;
	struct layers_limits left;
	layers_progress_fn progress;
	void *arg;
	size_t layer; /* 0 … */
	int said_percent;
	char *chunk;
};

static void say(struct unpacking *u, int fd, off_t size)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	int percent = size > 0 && at > 0 ? (int)(at * 100 / size) : 0;

	if (percent == u->said_percent)
		return;
	u->said_percent = percent;
	u->progress(u->arg, u->layer + 1, percent);
}

static int check_digest(EVP_MD_CTX *md, const char *wanted, struct err *err)
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	char text[2 * EVP_MAX_MD_SIZE + 1];
	unsigned int n = 0;

	if (EVP_DigestFinal_ex(md, hash, &n) != 1)
		return err_set(err, -EIO, "cannot compute a digest");
	hex_encode(hash, n, text);
	if (str_eq(text, wanted + DIGEST_PREFIX))
		return 0;
	return err_set(err, -EBADMSG, "its content is sha256:%s, and the image wants %s", text,
		       wanted);
}

/* Everything of the stream goes to the unpacker and into the digest. */
static int pump(struct unpacking *u, int fd, struct inflate *in, struct tar_unpack *unpack,
		EVP_MD_CTX *md, struct err *err)
{
	uint64_t stream_max =
		u->left.bytes_max + HEADERS_BYTES * u->left.entries_max + ARCHIVE_TAIL;
	uint64_t seen = 0;
	struct stat st = { 0 };
	ssize_t n;

	(void)fstat(fd, &st);
	while ((n = inflate_read(in, u->chunk, CHUNK_SIZE, err)) > 0) {
		int r;

		seen += (uint64_t)n;
		if (seen > stream_max)
			return err_set(err, -EFBIG, "it unpacks to more than the image may hold");
		if (EVP_DigestUpdate(md, u->chunk, (size_t)n) != 1)
			return err_set(err, -EIO, "cannot compute a digest");
		r = tar_unpack_feed(unpack, u->chunk, (size_t)n, err);
		if (r < 0)
			return r;
		say(u, fd, st.st_size);
	}
	return (int)n;
}

static int one_pass(struct unpacking *u, enum tar_layer what, struct err *err)
{
	const struct oci_layer *layer = &u->image->layers[u->layer];
	const struct tar_unpack_options options = {
		.owners = true,
		.layer = what,
		.entries_max = u->left.entries_max,
		.bytes_max = u->left.bytes_max,
	};
	_cleanup_(tar_unpack_freep) struct tar_unpack *unpack = NULL;
	_cleanup_(inflate_freep) struct inflate *in = NULL;
	_cleanup_(md_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	_cleanup_close_ int fd = openat(u->blobs_fd, layer->digest + DIGEST_PREFIX,
					O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct tar_unpacked done = { 0 };
	int r;

	if (fd < 0)
		return err_set(err, -errno, "cannot open it: %s", strerrordesc_np(errno));
	if (!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
		return err_set(err, -ENOMEM, "cannot compute a digest");
	u->said_percent = -1;
	in = inflate_new(fd);
	unpack = tar_unpack_new(u->tree_fd, &options);
	r = pump(u, fd, in, unpack, md, err);
	if (r == 0)
		r = tar_unpack_finish(unpack, &done, err);
	if (r == 0)
		r = check_digest(md, layer->diff_id, err);
	if (r < 0 || what == TAR_LAYER_REMOVALS)
		return r;
	/* Nothing left would be understood as "no limit". */
	u->left.entries_max -=
		done.entries < u->left.entries_max ? done.entries : u->left.entries_max - 1;
	u->left.bytes_max -= done.bytes < u->left.bytes_max ? done.bytes : u->left.bytes_max - 1;
	return 0;
}

int layers_unpack(int blobs_fd, int tree_fd, const struct oci_image *image,
		  const struct layers_limits *limits, layers_progress_fn progress, void *arg,
		  struct err *err)
{
	_cleanup_free_ char *chunk = xmalloc(CHUNK_SIZE);
	struct unpacking u = {
		.blobs_fd = blobs_fd,
		.tree_fd = tree_fd,
		.image = image,
		.left = *limits,
		.progress = progress,
		.arg = arg,
		.chunk = chunk,
	};

	umask(022);
	for (u.layer = 0; u.layer < image->n_layers; u.layer++) {
		int r = u.layer > 0 ? one_pass(&u, TAR_LAYER_REMOVALS, err) : 0;

		if (r == 0)
			r = one_pass(&u, TAR_LAYER_CONTENT, err);
		if (r < 0)
			return err_wrap(err, r, "layer %zu of %zu", u.layer + 1, image->n_layers);
		/* The room is wanted by the layers that follow. The same blob may be two layers. */
		for (size_t i = u.layer + 1; i <= image->n_layers; i++) {
			if (i == image->n_layers)
				unlinkat(blobs_fd, image->layers[u.layer].digest + DIGEST_PREFIX,
					 0);
			else if (str_eq(image->layers[i].digest, image->layers[u.layer].digest))
				break;
		}
	}
	return 0;
}
