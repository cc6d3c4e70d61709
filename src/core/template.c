/*
 * Templates: which there are, who uses them, one maker at a time.
 *
 * A template is a directory STATE/templates/<key> of four files (memory, state, disk,
 * manifest.json) that is put in place by a rename when it is complete. The key is the hash of all
 * that a saved state depends on: the image's content, the shape, and the driver's fingerprint. What
 * this process has checked or made is in core->templates; a file system that lost a part of it
 * shows at the check.
 */
#include <dirent.h>
#include <errno.h>
#include <openssl/sha.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"

#define WAIT_SLICE_MS 200

DEFINE_CLEANUP(DIR *, closedirp, closedir);

void template_key(const struct core *core, const char *image_digest, const struct shape *shape,
		  char out[33])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char hex[2 * SHA256_DIGEST_LENGTH + 1];
	char guest_address[NET_ADDRESS_SIZE];

	/* The guest sets its network up when it boots, which is when its template is made. */
	core_net_guest_address(core, guest_address);
	buf_printf(&text, "%s\n%u\n%u\n%u\n%s\n%s\n", image_digest, shape_vcpus(shape),
		   shape->memory_mb, shape->disk_gb, vmm_driver_fingerprint(core->driver),
		   guest_address);
	SHA256((const unsigned char *)text.data, text.len, digest);
	hex_encode(digest, sizeof(digest), hex);
	str_copy(out, 33, hex);
}

static struct template *template_new(const struct core *core, const char *key, const char *digest)
{
	struct template *t = xcalloc(1, sizeof(*t));

	str_copy(t->key, sizeof(t->key), key);
	str_copy(t->image_digest, sizeof(t->image_digest), digest);
	t->dir = xasprintf("%s/templates/%s", core->state_dir, key);
	t->memory_path = xasprintf("%s/memory", t->dir);
	t->state_path = xasprintf("%s/state", t->dir);
	t->disk_path = xasprintf("%s/disk", t->dir);
	t->root_path = xasprintf("%s/root", t->dir);
	return t;
}

static void template_free(struct template *t)
{
	free(t->dir);
	free(t->memory_path);
	free(t->state_path);
	free(t->disk_path);
	free(t->root_path);
	free(t);
}

/* ---- the list; the caller holds templates_lock ---- */

static struct template *find(struct core *core, const char *key)
{
	struct template *t = core->templates;

	while (t && !str_eq(t->key, key))
		t = t->next;
	return t;
}

static void unlink_template(struct core *core, struct template *t)
{
	struct template **p = &core->templates;

	while (*p && *p != t)
		p = &(*p)->next;
	if (*p)
		*p = t->next;
}

static void wait_slice(struct core *core)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += WAIT_SLICE_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_cond_timedwait(&core->templates_changed, &core->templates_lock, &until);
}

/* The last user of a failed or dropped one takes it off the list; true: the caller removes and
 * frees. */
static bool leave(struct core *core, struct template *t)
{
	t->users--;
	if (t->users > 0 || (t->state == TEMPLATE_READY && !t->doomed))
		return false;
	unlink_template(core, t);
	return true;
}

void template_release(struct core *core, struct template *t)
{
	bool gone;

	pthread_mutex_lock(&core->templates_lock);
	gone = leave(core, t);
	pthread_mutex_unlock(&core->templates_lock);
	if (!gone)
		return;
	if (t->doomed)
		tree_remove(t->dir);
	template_free(t);
}

/* ---- using ---- */

/* Takes over what an earlier process left, or makes it. */
static int provide(struct core *core, struct template *t, const struct image_info *image,
		   const struct shape *shape, core_progress_fn progress, void *arg, struct err *err)
{
	struct err why = ERR_INIT;
	int r = template_check(t->dir, vmm_driver_fingerprint(core->driver), true, NULL, &why);

	if (r == 0)
		return template_keep_root(t->root_path, image, err);
	if (r != -ENOENT)
		log_warn("template cannot be used and is made anew", "template=%s error=\"%s\"",
			 t->key, why.message);
	r = tree_remove(t->dir);
	if (r < 0)
		return err_set(err, r, "remove '%s': %s", t->dir, strerror(-r));
	return template_make(core, t, image, shape, progress, arg, err);
}

static int wait_for_maker(struct core *core, struct template *t, core_progress_fn progress,
			  void *arg, cancelled_fn cancelled, void *cancelled_arg, struct err *err)
{
	bool said = false;

	while (t->state == TEMPLATE_MAKING) {
		if (progress && !said) {
			pthread_mutex_unlock(&core->templates_lock);
			progress(arg, 10, "waiting for the template that is being made");
			pthread_mutex_lock(&core->templates_lock);
			said = true;
			continue;
		}
		if (cancelled && cancelled(cancelled_arg))
			return err_code(err, -ECANCELED, "sandbox_ended",
					"destroyed while waiting for the template");
		wait_slice(core);
	}
	if (t->state == TEMPLATE_READY)
		return 0;
	if (err)
		*err = t->err;
	return t->err.num;
}

int template_use(struct core *core, const struct image_info *image, const struct shape *shape,
		 core_progress_fn progress, void *progress_arg, cancelled_fn cancelled,
		 void *cancelled_arg, struct template **ret, struct err *err)
{
	struct template *t;
	char key[33];
	int r;

	template_key(core, image->digest, shape, key);
	pthread_mutex_lock(&core->templates_lock);
	t = find(core, key);
	if (t) {
		t->users++;
		r = wait_for_maker(core, t, progress, progress_arg, cancelled, cancelled_arg, err);
		pthread_mutex_unlock(&core->templates_lock);
	} else {
		t = template_new(core, key, image->digest);
		t->users = 1;
		t->next = core->templates;
		core->templates = t;
		pthread_mutex_unlock(&core->templates_lock);
		r = provide(core, t, image, shape, progress, progress_arg, &t->err);
		pthread_mutex_lock(&core->templates_lock);
		t->state = r < 0 ? TEMPLATE_FAILED : TEMPLATE_READY;
		if (r < 0 && err)
			*err = t->err;
		pthread_cond_broadcast(&core->templates_changed);
		pthread_mutex_unlock(&core->templates_lock);
	}
	if (r < 0) {
		template_release(core, t);
		return err_wrap(err, r, "template of image '%s'", image->name);
	}
	*ret = t;
	return 0;
}

/* ---- dropping ---- */

/* What is needed by a sandbox that lives or is paused, or by a snapshot, stays. */
static bool is_needed(struct core *core, const char *key)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n = 0;
	int r = db_begin_read(core->db, &txn, NULL);

	if (r == 0)
		r = templates_count_users(&txn, key, &n, NULL);
	return r < 0 || n > 0;
}

static void remove_dir(struct core *core, const char *key, const char *why)
{
	_cleanup_free_ char *path = xasprintf("%s/templates/%s", core->state_dir, key);
	int r = tree_remove(path);

	log_info("template removed", "template=%s because=\"%s\" result=%d", key, why, r);
}

/* One that this process uses goes when its last user does; true: it is not in use, remove it. */
static bool doom(struct core *core, const char *key)
{
	struct template *t;
	bool idle;

	pthread_mutex_lock(&core->templates_lock);
	t = find(core, key);
	if (t)
		t->doomed = true;
	idle = !t || t->users == 0;
	if (t && idle) {
		unlink_template(core, t);
		template_free(t);
	}
	pthread_mutex_unlock(&core->templates_lock);
	return idle;
}

static bool key_valid(const char *name)
{
	return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

void templates_drop_image(struct core *core, const char *image_digest)
{
	_cleanup_free_ char *path = xasprintf("%s/templates", core->state_dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = xasprintf("%s/%s", path, entry->d_name);
		char digest[72] = "";

		if (!key_valid(entry->d_name))
			continue;
		if (template_check(one, NULL, false, digest, NULL) == 0 &&
		    str_eq(digest, image_digest) && !is_needed(core, entry->d_name) &&
		    doom(core, entry->d_name))
			remove_dir(core, entry->d_name, "its image was removed");
	}
}

static bool image_exists(const struct image_info *images, size_t n, const char *digest)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(images[i].digest, digest))
			return true;
	}
	return false;
}

void templates_collect_under(struct core *core, const char *fingerprint)
{
	_cleanup_free_ char *path = xasprintf("%s/templates", core->state_dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	_cleanup_free_ struct image_info *images = NULL;
	const struct dirent *entry;
	size_t n_images = 0;
	bool know_images = image_list(core->images, &images, &n_images, NULL) == 0;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = xasprintf("%s/%s", path, entry->d_name);
		const char *why = NULL;
		struct err err = ERR_INIT;
		char digest[72] = "";

		if (!key_valid(entry->d_name))
			continue;
		if (template_check(one, fingerprint, false, digest, &err) < 0)
			why = err.message;
		else if (know_images && !image_exists(images, n_images, digest))
			why = "its image is gone";
		if (why && !is_needed(core, entry->d_name) && doom(core, entry->d_name))
			remove_dir(core, entry->d_name, why);
	}
}

void templates_collect(struct core *core)
{
	templates_collect_under(core, vmm_driver_fingerprint(core->driver));
}

void templates_recover(struct core *core)
{
	template_sweep_making(core);
	templates_collect(core);
}

void templates_free(struct core *core)
{
	while (core->templates) {
		struct template *t = core->templates;

		core->templates = t->next;
		template_free(t);
	}
}
