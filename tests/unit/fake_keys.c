/* Keys and accounts of the fake core: what is asked for is what is answered, and nothing is kept.
 * There are the key "key_1" and the account "acc_1". */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/str.h"
#include "core/keys.h"

static void fill(struct core_key_info *info, const char *id, const char *label)
{
	*info = (struct core_key_info){ .account_id = "acc_1",
					.prefix = "sk_aaaa",
					.created_unix_ms = 1000 };
	str_copy(info->id, sizeof(info->id), id);
	str_copy(info->label, sizeof(info->label), label);
	info->scopes = json_object();
}

static int check_key(const char *id, struct err *err)
{
	return str_eq(id, "key_1") ? 0 : err_code(err, -ENOENT, "key_not_found", "no key");
}

void core_key_info_clear(struct core_key_info *info)
{
	json_decref(info->scopes);
	info->scopes = NULL;
}

void core_key_infos_free(struct core_key_info *infos, size_t n)
{
	for (size_t i = 0; i < n; i++)
		core_key_info_clear(&infos[i]);
	free(infos);
}

int core_key_create(struct core *core, const struct principal *who,
		    const struct core_key_request *req, char ret_text[CORE_KEY_TEXT_SIZE],
		    struct core_key_info *ret, struct err *err)
{
	fill(ret, "key_2", req->label);
	ret->admin = req->admin;
	if (req->scopes)
		json_object_update(ret->scopes, (json_t *)(uintptr_t)req->scopes);
	str_copy(ret_text, CORE_KEY_TEXT_SIZE, "sk_aaaabbbb");
	return 0;
}

int core_key_list(struct core *core, const struct principal *who,
		  const struct core_key_list_request *req, struct core_key_info **ret,
		  size_t *ret_n, char **ret_next_cursor, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	fill(&(*ret)[0], "key_1", "admin");
	*ret_n = 1;
	*ret_next_cursor = NULL;
	return 0;
}

int core_key_rotate(struct core *core, const struct principal *who, const char *account_id,
		    const char *id, int64_t overlap_seconds, char ret_text[CORE_KEY_TEXT_SIZE],
		    struct core_key_info *ret, struct err *err)
{
	if (check_key(id, err) < 0)
		return -ENOENT;
	fill(ret, id, "admin");
	str_copy(ret_text, CORE_KEY_TEXT_SIZE, "sk_aaaacccc");
	return 0;
}

int core_key_revoke(struct core *core, const struct principal *who, const char *account_id,
		    const char *id, struct core_key_info *ret, struct err *err)
{
	if (check_key(id, err) < 0)
		return -ENOENT;
	fill(ret, id, "admin");
	ret->revoked_unix_ms = 2000;
	return 0;
}

int core_account_create(struct core *core, const struct principal *who, const char *name,
			bool admin, struct core_account_info *ret,
			char ret_text[CORE_KEY_TEXT_SIZE], struct core_key_info *ret_key,
			struct err *err)
{
	*ret = (struct core_account_info){ .id = "acc_2", .admin = admin, .created_unix_ms = 1000 };
	str_copy(ret->name, sizeof(ret->name), name);
	fill(ret_key, "key_2", "first");
	str_copy(ret_text, CORE_KEY_TEXT_SIZE, "sk_aaaadddd");
	return 0;
}

int core_account_list(struct core *core, const struct principal *who, const char *cursor,
		      uint32_t limit, struct core_account_info **ret, size_t *ret_n,
		      char **ret_next_cursor, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	**ret = (struct core_account_info){ .id = "acc_1", .name = "admin", .admin = true };
	*ret_n = 1;
	*ret_next_cursor = NULL;
	return 0;
}
