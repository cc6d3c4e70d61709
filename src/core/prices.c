/* Prices by shape. See prices.h. */
#include "core/prices.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/limits.h"

#define HOUR_S 3600

void core_prices_init(struct core_prices *prices)
{
	/* About one credit an hour for the default size. */
	*prices = (struct core_prices){ .vcpu = 200, .memory_gb = 80, .disk_gb = 0 };
}

static struct core_price *price_of(struct core_prices *prices, const char *size)
{
	for (size_t i = 0; i < prices->n_sizes; i++) {
		if (str_eq(prices->sizes[i].size, size))
			return &prices->sizes[i];
	}
	return NULL;
}

static int set_size(struct core_prices *prices, const char *size, int64_t rate, struct err *err)
{
	struct core_price *price = price_of(prices, size);

	if (!*size || strlen(size) >= sizeof(price->size))
		return err_set(err, -EINVAL, "price 'size.%s': no size has such a name", size);
	if (!price && prices->n_sizes == CORE_PRICES_SIZES)
		return err_set(err, -EINVAL, "price 'size.%s': %d sizes can have their own price",
			       size, CORE_PRICES_SIZES);
	if (!price)
		price = &prices->sizes[prices->n_sizes++];
	str_copy(price->size, sizeof(price->size), size);
	price->rate = rate;
	return 0;
}

int core_prices_set(struct core_prices *prices, const char *name, const char *value,
		    struct err *err)
{
	int64_t *part = str_eq(name, "vcpu")	    ? &prices->vcpu
			: str_eq(name, "memory_gb") ? &prices->memory_gb
			: str_eq(name, "disk_gb")   ? &prices->disk_gb
						    : NULL;
	const bool of_size = str_starts(name, "size.");
	int64_t n;

	if (!of_size && !part)
		return err_set(err, -ENOENT, "no price '%s'", name);
	if (str_to_i64(value, &n) < 0 || n < 0 || n > CORE_PRICE_MAX)
		return err_set(err, -EINVAL,
			       "price '%s': '%s' is not a whole number of micro-credits a second "
			       "from 0 to %lld",
			       name, value, (long long)CORE_PRICE_MAX);
	if (of_size)
		return set_size(prices, name + strlen("size."), n, err);
	*part = n;
	return 0;
}

int core_prices_check(const struct core_limits *limits, struct err *err)
{
	const struct core_prices *prices = &limits->prices;

	for (size_t i = 0; i < prices->n_sizes; i++) {
		if (!core_limits_size(limits, prices->sizes[i].size))
			return err_set(err, -EINVAL, "price 'size.%s': there is no size '%s'",
				       prices->sizes[i].size, prices->sizes[i].size);
	}
	return 0;
}

int64_t core_price(const struct core_prices *prices, const char *size, uint32_t milli_vcpus,
		   uint32_t memory_mb, uint32_t disk_gb)
{
	for (size_t i = 0; i < prices->n_sizes; i++) {
		if (str_eq(prices->sizes[i].size, size))
			return prices->sizes[i].rate;
	}
	/* vCPUs are in thousandths, memory is in MiB. */
	return (prices->vcpu * milli_vcpus + 500) / 1000 +
	       (prices->memory_gb * memory_mb + 512) / 1024 + prices->disk_gb * disk_gb;
}

static json_t *size_json(const struct core_limits *limits, const struct core_size *size)
{
	int64_t rate = core_price(&limits->prices, size->name, size->milli_vcpus, size->memory_mb,
				  size->disk_gb);
	json_t *json = json_object();

	json_put_str(json, "name", size->name);
	json_put(json, "vcpus", json_real(size->milli_vcpus / 1000.0));
	json_put_int(json, "memory_mb", size->memory_mb);
	json_put_int(json, "disk_gb", size->disk_gb);
	json_put_int(json, "microcredits_per_second", rate);
	json_put(json, "credits_per_hour",
		 json_real((double)(rate * HOUR_S) / (double)MICROCREDITS));
	return json;
}

json_t *core_prices_json(const struct core_limits *limits)
{
	const struct core_prices *prices = &limits->prices;
	json_t *json = json_object(), *sizes = json_array();

	for (size_t i = 0; i < limits->n_sizes; i++)
		json_array_append_new(sizes, size_json(limits, &limits->sizes[i]));
	json_put_int(json, "microcredits_per_credit", MICROCREDITS);
	json_put_int(json, "vcpu_microcredits_per_second", prices->vcpu);
	json_put_int(json, "memory_gb_microcredits_per_second", prices->memory_gb);
	json_put_int(json, "disk_gb_microcredits_per_second", prices->disk_gb);
	json_put(json, "sizes", sizes);
	json_put_int(json, "hold_seconds", limits->credit_hold_seconds);
	json_put_int(json, "starting_credits", limits->starting_credits);
	return json;
}
