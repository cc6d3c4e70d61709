/* Checking what a create request asks for. Every refusal names the field, the value and the bounds.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "core/internal.h"

unsigned int shape_vcpus(const struct shape *shape)
{
	return (shape->milli_vcpus + 999) / 1000;
}

static int unknown_size(const struct core_limits *limits, const char *size, struct err *err)
{
	_cleanup_buf_ struct buf names = BUF_INIT;

	for (size_t i = 0; i < limits->n_sizes; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", limits->sizes[i].name);
	err_set(err, -EINVAL, "size '%.32s' is none there is", size);
	err_hint(err, "use one of %s, or vcpus, memory_mb and disk_gb", buf_str(&names));
	return -EINVAL;
}

static int check_range(const char *field, int64_t value, int64_t min, int64_t max, struct err *err)
{
	if (value >= min && value <= max)
		return 0;
	return err_set(err, -EINVAL, "%s %lld is not from %lld to %lld", field, (long long)value,
		       (long long)min, (long long)max);
}

static int custom_shape(const struct core_limits *limits, const struct core_create_request *req,
			struct shape *ret, struct err *err)
{
	struct shape shape = {
		.size = "custom",
		.milli_vcpus = req->milli_vcpus,
		.memory_mb = req->memory_mb,
		.disk_gb = req->disk_gb,
	};

	if (req->size)
		return err_set(err, -EINVAL,
			       "size cannot be given together with vcpus, memory_mb or "
			       "disk_gb");
	if (!req->milli_vcpus || !req->memory_mb || !req->disk_gb)
		return err_set(err, -EINVAL, "vcpus, memory_mb and disk_gb must be given together");
	if (shape.milli_vcpus < limits->vcpus_min_milli ||
	    shape.milli_vcpus > limits->vcpus_max_milli)
		return err_set(err, -EINVAL, "vcpus %g is not from %g to %g",
			       shape.milli_vcpus / 1000.0, (double)limits->vcpus_min_milli / 1000.0,
			       (double)limits->vcpus_max_milli / 1000.0);
	if (check_range("memory_mb", shape.memory_mb, limits->memory_mb_min, limits->memory_mb_max,
			err) < 0 ||
	    check_range("disk_gb", shape.disk_gb, limits->disk_gb_min, limits->disk_gb_max, err) <
		    0)
		return -EINVAL;
	*ret = shape;
	return 0;
}

int shape_resolve(const struct core_limits *limits, const struct core_create_request *req,
		  struct shape *ret, struct err *err)
{
	const char *name = req->size ? req->size : limits->default_size;
	const struct core_size *size;

	if (req->milli_vcpus || req->memory_mb || req->disk_gb)
		return custom_shape(limits, req, ret, err);
	size = core_limits_size(limits, name);
	if (!size)
		return unknown_size(limits, name, err);
	*ret = (struct shape){
		.milli_vcpus = size->milli_vcpus,
		.memory_mb = size->memory_mb,
		.disk_gb = size->disk_gb,
	};
	str_copy(ret->size, sizeof(ret->size), size->name);
	return 0;
}

/* A name is also the guest's hostname: letters, digits and hyphens, as in RFC 1123. */
int check_name(const char *name, struct err *err)
{
	size_t len = strlen(name);

	if (len >= 1 && len <= SANDBOX_NAME_MAX && name[0] != '-' && name[len - 1] != '-' &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len)
		return 0;
	err_set(err, -EINVAL, "name '%.64s' is not a valid name", name);
	err_hint(err, "use 1 to %d of a-z, 0-9 and '-', not at either end", SANDBOX_NAME_MAX);
	return -EINVAL;
}

int check_labels(const struct core_limits *limits, json_t *labels, struct err *err)
{
	const char *name;
	json_t *value;

	if (!json_is_object(labels))
		return err_set(err, -EINVAL, "labels is not an object of strings");
	if ((int64_t)json_object_size(labels) > limits->labels_max)
		return err_set(err, -EINVAL, "labels has %zu entries, the limit is %lld",
			       json_object_size(labels), (long long)limits->labels_max);
	json_object_foreach(labels, name, value) {
		size_t len = strlen(name);

		if (len == 0 || (int64_t)len > limits->label_bytes_max || strchr(name, '='))
			return err_set(err, -EINVAL,
				       "labels: the key '%.64s' is not 1 to %lld bytes without '='",
				       name, (long long)limits->label_bytes_max);
		if (!json_is_string(value))
			return err_set(err, -EINVAL, "labels: the value of '%.64s' is not a string",
				       name);
		len = json_string_length(value);
		if ((int64_t)len > limits->label_bytes_max ||
		    strlen(json_string_value(value)) != len)
			return err_set(err, -EINVAL,
				       "labels: the value of '%.64s' is longer than %lld bytes or "
				       "has a NUL",
				       name, (long long)limits->label_bytes_max);
	}
	return 0;
}

int check_create_request(const struct core_limits *limits, const struct core_create_request *req,
			 struct err *err)
{
	if (req->timeout_minutes && check_range("timeout_minutes", req->timeout_minutes, 1,
						limits->timeout_minutes_max, err) < 0)
		return -EINVAL;
	if (req->snapshot &&
	    (req->size || req->image || req->milli_vcpus || req->memory_mb || req->disk_gb)) {
		err_set(err, -EINVAL, "snapshot '%.64s' has an image and a size of its own",
			req->snapshot);
		err_hint(err, "leave out size, vcpus, memory_mb, disk_gb and image");
		return -EINVAL;
	}
	if (req->idle_pause_minutes && check_range("idle_pause_minutes", req->idle_pause_minutes, 1,
						   limits->timeout_minutes_max, err) < 0)
		return -EINVAL;
	if (req->name && check_name(req->name, err) < 0)
		return -EINVAL;
	if (req->labels && check_labels(limits, req->labels, err) < 0)
		return -EINVAL;
	if (req->networks && check_networks(req->networks, err) < 0)
		return -EINVAL;
	if (req->idempotency_key) {
		size_t len = strlen(req->idempotency_key);

		if (len < 1 || len > 255)
			return err_set(err, -EINVAL,
				       "idempotency key has %zu bytes, allowed are 1 to 255", len);
		if (!req->request_hash)
			return err_set(err, -EINVAL, "an idempotency key needs the request's hash");
	}
	return 0;
}
