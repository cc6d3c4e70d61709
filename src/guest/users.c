/* Parsers of passwd and group. See users.h. */
#include "guest/users.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define FIELDS_MAX 7

struct field {
	const char *data;
	size_t len;
};

/* Cuts a line at its colons; returns the number of fields, FIELDS_MAX at most. */
static size_t split(const char *line, size_t len, struct field fields[FIELDS_MAX])
{
	size_t n = 0;

	while (n < FIELDS_MAX) {
		const char *colon = memchr(line, ':', len);
		size_t part = colon ? (size_t)(colon - line) : len;

		fields[n++] = (struct field){ line, part };
		if (!colon)
			break;
		line += part + 1;
		len -= part + 1;
	}
	return n;
}

static bool field_is(struct field f, const char *s)
{
	return f.len == strlen(s) && memcmp(f.data, s, f.len) == 0;
}

static bool field_copy(struct field f, char *out, size_t out_size)
{
	if (f.len >= out_size || memchr(f.data, '\0', f.len))
		return false;
	memcpy(out, f.data, f.len);
	out[f.len] = '\0';
	return true;
}

/* A user or group number; (uid_t)-1 means "leave as it is" to the kernel and is refused. */
static bool field_id(struct field f, uint32_t *ret)
{
	char text[16];
	int64_t value;

	if (!field_copy(f, text, sizeof(text)) || str_to_i64(text, &value) < 0)
		return false;
	if (value < 0 || value >= UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

static bool field_path(struct field f, char *out, size_t out_size, const char *fallback)
{
	if (f.len == 0 || f.data[0] != '/')
		return str_copy(out, out_size, fallback);
	return field_copy(f, out, out_size);
}

/* The next line of text, without its newline; false at the end. */
static bool next_line(const char **text, size_t *left, struct field *ret)
{
	const char *newline;

	if (*left == 0)
		return false;
	newline = memchr(*text, '\n', *left);
	*ret = (struct field){ *text, newline ? (size_t)(newline - *text) : *left };
	*text += ret->len + (newline ? 1 : 0);
	*left -= ret->len + (newline ? 1 : 0);
	return true;
}

/* The user of a line of passwd; false when it makes no sense. */
static bool take_user(const struct field f[FIELDS_MAX], struct user *ret)
{
	struct user u;

	if (!field_copy(f[0], u.name, sizeof(u.name)) || !field_id(f[2], &u.uid) ||
	    !field_id(f[3], &u.gid) || !field_path(f[5], u.home, sizeof(u.home), "/") ||
	    !field_path(f[6], u.shell, sizeof(u.shell), "/bin/sh"))
		return false;
	*ret = u;
	return true;
}

int user_find(const char *passwd, size_t len, const char *name, struct user *ret)
{
	struct field line, f[FIELDS_MAX];

	while (next_line(&passwd, &len, &line)) {
		if (split(line.data, line.len, f) < 7 || f[0].len == 0 || !field_is(f[0], name))
			continue;
		if (take_user(f, ret))
			return 0;
	}
	return -ENOENT;
}

static int user_find_number(const char *passwd, size_t len, uint32_t uid, struct user *ret)
{
	struct field line, f[FIELDS_MAX];
	struct user u;

	while (next_line(&passwd, &len, &line)) {
		if (split(line.data, line.len, f) < 7 || f[0].len == 0 || !take_user(f, &u) ||
		    u.uid != uid)
			continue;
		*ret = u;
		return 0;
	}
	return -ENOENT;
}

static int group_find(const char *group, size_t len, struct field name, gid_t *ret)
{
	struct field line, f[FIELDS_MAX];
	char text[USER_NAME_MAX];

	if (name.len == 0 || !field_copy(name, text, sizeof(text)))
		return -ESRCH;
	while (next_line(&group, &len, &line)) {
		if (split(line.data, line.len, f) >= 3 && field_is(f[0], text) &&
		    field_id(f[2], ret))
			return 0;
	}
	return field_id(name, ret) ? 0 : -ESRCH;
}

/* Of nobody's line: a number that the image uses, or the root that every system has. */
static int user_without_line(const char *name, struct user *ret)
{
	struct field f = { name, strlen(name) };
	struct user u = { 0 };
	bool root = str_eq(name, "root");
	uint32_t uid = 0;

	if ((!root && !field_id(f, &uid)) || !str_copy(u.name, sizeof(u.name), name))
		return -ENOENT;
	u.uid = uid;
	str_copy(u.home, sizeof(u.home), root ? "/root" : "/");
	str_copy(u.shell, sizeof(u.shell), "/bin/sh");
	*ret = u;
	return 0;
}

int user_resolve(const char *passwd, size_t passwd_len, const char *group, size_t group_len,
		 const char *spec, struct user *ret)
{
	const char *colon = strchr(spec, ':');
	size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
	char name[USER_NAME_MAX];
	struct user u;
	uint32_t uid;
	int r;

	if (len == 0 || !field_copy((struct field){ spec, len }, name, sizeof(name)))
		return -ENOENT;
	r = user_find(passwd, passwd_len, name, &u);
	if (r < 0 && field_id((struct field){ spec, len }, &uid))
		r = user_find_number(passwd, passwd_len, uid, &u);
	if (r < 0)
		r = user_without_line(name, &u);
	if (r == 0 && colon)
		r = group_find(group, group_len, (struct field){ colon + 1, strlen(colon + 1) },
			       &u.gid);
	if (r == 0)
		*ret = u;
	return r;
}

static bool lists_member(struct field members, const char *name)
{
	while (members.len > 0) {
		const char *comma = memchr(members.data, ',', members.len);
		size_t part = comma ? (size_t)(comma - members.data) : members.len;

		if (field_is((struct field){ members.data, part }, name))
			return true;
		if (!comma)
			return false;
		members.data += part + 1;
		members.len -= part + 1;
	}
	return false;
}

static bool has_group(const gid_t *groups, size_t n, gid_t gid)
{
	for (size_t i = 0; i < n; i++)
		if (groups[i] == gid)
			return true;
	return false;
}

size_t user_groups(const char *group, size_t len, const struct user *user, gid_t *out, size_t max)
{
	struct field line, f[FIELDS_MAX];
	size_t n = 0;
	gid_t gid;

	out[n++] = user->gid;
	while (n < max && next_line(&group, &len, &line)) {
		if (split(line.data, line.len, f) < 4 || !field_id(f[2], &gid))
			continue;
		if (lists_member(f[3], user->name) && !has_group(out, n, gid))
			out[n++] = gid;
	}
	return n;
}

void owner_name(const char *text, size_t len, unsigned int id, char *out, size_t out_size)
{
	struct field line, f[FIELDS_MAX];
	uint32_t found;

	while (next_line(&text, &len, &line)) {
		if (split(line.data, line.len, f) >= 3 && field_id(f[2], &found) && found == id &&
		    f[0].len > 0 && field_copy(f[0], out, out_size))
			return;
	}
	*out = '\0';
}
