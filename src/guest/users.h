/*
 * /etc/passwd and /etc/group of the guest: pure parsers over their text. The files belong to
 * whoever is root in the guest: lines that make no sense are skipped, and nothing is trusted to be
 * short. No NSS: a static program has none, and a directory service has no business in PID 1.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define USERS_FILE_MAX	(1024u * 1024u)
#define USER_NAME_MAX	256
#define USER_PATH_MAX	4096
#define USER_GROUPS_MAX 256

struct user {
	char name[USER_NAME_MAX];
	uid_t uid;
	gid_t gid;
	char home[USER_PATH_MAX];  /* absolute */
	char shell[USER_PATH_MAX]; /* absolute */
};

/* The first line of that name; 0 or -ENOENT. */
int user_find(const char *passwd, size_t len, const char *name, struct user *ret);
/* Who "NAME", "UID" or either with ":GROUP" is, as container images say it: a name of passwd, else
 * a number, which need not be in it (its group is 0 then, its home "/"); GROUP is a name of group
 * or a number, and takes the place of the user's own. root is there also when passwd does not say
 * so. -ENOENT: no such user; -ESRCH: no such group. */
int user_resolve(const char *passwd, size_t passwd_len, const char *group, size_t group_len,
		 const char *spec, struct user *ret);
/* The primary group and every group that names the user, without repetition; at most max (>= 1),
 * the rest is left out. Returns how many. */
size_t user_groups(const char *group, size_t len, const struct user *user, gid_t *out, size_t max);
/* The name of a user or group number in the text of passwd or group; "" when there is none that
 * fits.
 */
void owner_name(const char *text, size_t len, unsigned int id, char *out, size_t out_size);
