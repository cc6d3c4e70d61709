/* Images as the core offers them: with their templates, and protected while sandboxes use them. */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "image/source.h"

int core_image_list(struct core *core, struct image_info **ret, size_t *ret_n, struct err *err)
{
	return image_list(core->images, ret, ret_n, err);
}

static int check_admin(const struct principal *who, struct err *err)
{
	if (who->admin)
		return 0;
	err_code(err, -EACCES, "forbidden", "images are changed with an admin key only");
	err_hint(err, "use the key in admin.key of the server's state directory");
	return -EACCES;
}

/* Building the image is the first 80 of 100, its template the rest. */
struct part {
	core_progress_fn progress;
	void *arg;
	int from, to;
};

static void on_part(void *arg, int percent, const char *what)
{
	const struct part *part = arg;

	if (part->progress)
		part->progress(part->arg, part->from + (part->to - part->from) * percent / 100,
			       what);
}

static int prepare_template(struct core *core, const struct image_info *image, struct part *part,
			    struct err *err)
{
	const struct core_create_request req = { 0 };
	struct template *template;
	struct shape shape;
	int r = shape_resolve(&core->limits, &req, &shape, err);

	if (r == 0)
		r = template_use(core, image, &shape, on_part, part, NULL, NULL, &template, err);
	if (r == 0)
		template_release(core, template);
	return r;
}

/* What is made of an image from now on is made of this one. before: the one of its name until now;
 * NULL: there was none. */
static int take_into_use(struct core *core, const struct image_info *before,
			 const struct image_info *image, struct part *part, struct err *err)
{
	if (before && !str_eq(before->digest, image->digest))
		templates_drop_image(core, before->digest);
	return prepare_template(core, image, part, err);
}

int core_image_build(struct core *core, const struct principal *who, const char *name, bool rebuild,
		     core_progress_fn progress, void *arg, struct image_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct part build = { progress, arg, 0, 80 }, template = { progress, arg, 80, 100 };
	struct image_info before, image;
	bool was_there;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = check_admin(who, err);
	if (r < 0)
		return r;
	was_there = image_get(core->images, name, &before, NULL) == 0;
	r = image_build(core->images, name, rebuild,
			clock_boottime_ms() + core->limits.image_build_deadline_ms, on_part, &build,
			&image, err);
	if (r < 0)
		return r;
	r = take_into_use(core, was_there ? &before : NULL, &image, &template, err);
	if (r < 0)
		return r;
	log_info("image built", "image=%s digest=%s", image.name, image.digest);
	*ret = image;
	return 0;
}

/* The name that was asked for, or one that the source suggests. */
static int name_import(const struct core_image_import *req, char name[IMAGE_NAME_MAX + 1],
		       struct err *err)
{
	struct image_source source;
	int r = image_source_parse(req->source, &source, err);

	if (r < 0 || !req->name)
		return r < 0 ? r : image_source_name(&source, name, err);
	if (!str_copy(name, IMAGE_NAME_MAX + 1, req->name) || !image_name_valid(name))
		return err_set(err, -EINVAL, "'%.*s' is no name of an image", IMAGE_NAME_MAX,
			       req->name);
	return 0;
}

static int import(struct core *core, const struct core_image_import *req, const char *name,
		  struct part *part, struct image_info *ret, struct err *err)
{
	const struct core_limits *limits = &core->limits;
	const struct image_import import = {
		.store = core->images,
		.source = req->source,
		.name = name,
		.replace = req->replace,
		.any_certificate = req->any_certificate,
		.bytes_max = (uint64_t)limits->image_mb_max << 20,
		.entries_max = (uint64_t)limits->image_entries_max,
		.keep_free_bytes = (uint64_t)limits->host_free_disk_mb_min << 20,
		/* The users behind those of the sandboxes are nobody else's. */
		.uid_base = (uint64_t)(limits->sandbox_uid_base + limits->sandbox_uid_count),
		.deadline_boottime_ms = clock_boottime_ms() + limits->image_build_deadline_ms,
		.progress = on_part,
		.arg = part,
	};

	return image_import(&import, ret, err);
}

/* An image that no sandbox starts from is of no use, and would only be found out later. */
static int give_up_import(struct core *core, const char *name, bool was_there, int r,
			  struct err *err)
{
	if (!was_there)
		image_remove(core->images, name, NULL);
	err_wrap(err, r, "no sandbox starts from the image '%s'", name);
	if (!was_there)
		err_hint(err, "it is not kept");
	return r;
}

int core_image_import(struct core *core, const struct principal *who,
		      const struct core_image_import *req, core_progress_fn progress, void *arg,
		      struct image_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct part made = { progress, arg, 0, 80 }, template = { progress, arg, 80, 100 };
	struct image_info before, image;
	char name[IMAGE_NAME_MAX + 1];
	bool was_there;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = check_admin(who, err);
	if (r == 0)
		r = name_import(req, name, err);
	if (r < 0)
		return r;
	was_there = image_get(core->images, name, &before, NULL) == 0;
	r = import(core, req, name, &made, &image, err);
	if (r < 0)
		return r;
	r = take_into_use(core, was_there ? &before : NULL, &image, &template, err);
	if (r < 0)
		return give_up_import(core, name, was_there, r, err);
	log_info("image imported", "image=%s digest=%s source=%s source_digest=%s", image.name,
		 image.digest, image.source, image.source_digest);
	*ret = image;
	return 0;
}

static int check_unused(struct core *core, const char *name, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n = 0, n_snapshots = 0;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = sandboxes_count_image(&txn, name, &n, err);
	if (r == 0)
		r = snapshots_count_image(&txn, name, &n_snapshots, err);
	if (r < 0 || n + n_snapshots == 0)
		return r;
	err_code(err, -EBUSY, "image_in_use",
		 "image '%s' has %lld living sandboxes and %lld named snapshots", name,
		 (long long)n, (long long)n_snapshots);
	err_hint(err, "destroy and remove them first: skerry ls, skerry snapshot ls");
	return -EBUSY;
}

int core_image_remove(struct core *core, const struct principal *who, const char *name,
		      struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct image_info image;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = check_admin(who, err);
	if (r < 0)
		return r;
	pthread_rwlock_wrlock(&core->images_lock);
	r = check_unused(core, name, err);
	if (r == 0 && image_get(core->images, name, &image, NULL) == 0)
		templates_drop_image(core, image.digest);
	if (r == 0)
		r = image_remove(core->images, name, err);
	pthread_rwlock_unlock(&core->images_lock);
	return r;
}
