/* The ends of a copy. See cp_names.h. */
#include "cli/cp_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

void cp_end_clear(struct cp_end *end)
{
	free(end->sandbox);
	free(end->path);
	*end = (struct cp_end){ 0 };
}

void cp_end_parse(const char *text, struct cp_end *ret)
{
	size_t len = strcspn(text, ":/");

	*ret = (struct cp_end){ 0 };
	if (text[len] == ':' && len > 0)
		ret->sandbox = xstrndup(text, len);
	ret->path = xstrdup(ret->sandbox ? text + len + 1 : text);
}

int cp_ends_check(const struct cp_end *from, const struct cp_end *to, struct err *err)
{
	if (!from->sandbox == !to->sandbox) {
		err_code(err, -EINVAL, "usage",
			 from->sandbox ? "both ends are in sandboxes" : "no end is in a sandbox");
		err_hint(err, from->sandbox ? "copy to this machine first, or through a pipe: "
					      "skerry cp A:file - | skerry cp - B:file"
					    : "write the one that is as SANDBOX:PATH");
		return -EINVAL;
	}
	if (!*from->path || !*to->path) {
		if ((from->sandbox && !*from->path) || (to->sandbox && !*to->path))
			return 0;
		return err_code(err, -EINVAL, "usage", "a path is empty");
	}
	return 0;
}

void cp_base_name(const char *path, struct buf *out)
{
	size_t len = strlen(path), begin;

	while (len > 0 && path[len - 1] == '/')
		len--;
	for (begin = len; begin > 0 && path[begin - 1] != '/';)
		begin--;
	if ((len - begin == 1 && path[begin] == '.') ||
	    (len - begin == 2 && memcmp(path + begin, "..", 2) == 0))
		return;
	buf_append(out, path + begin, len - begin);
}

void cp_join(const char *path, const char *name, struct buf *out)
{
	size_t len = strlen(path);

	buf_append(out, path, len);
	if (len > 0 && path[len - 1] != '/')
		buf_append_char(out, '/');
	buf_append_str(out, name);
}
