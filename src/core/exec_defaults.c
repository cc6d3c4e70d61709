/* See exec_defaults.h. */
#include "core/exec_defaults.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

static char *text_of(const json_t *config, const char *name)
{
	const char *text = json_get_str(config, name, "");

	return *text ? xstrdup(text) : NULL;
}

/* Where a login would begin anyway, but without a failure when it is gone. */
static bool is_home(const struct exec_defaults *defaults)
{
	_cleanup_free_ char *home = NULL;

	if (!defaults->user || !defaults->workdir)
		return false;
	home = str_eq(defaults->user, "root") ? xstrdup("/root")
					      : xasprintf("/home/%s", defaults->user);
	return str_eq(defaults->workdir, home);
}

static void read_env(struct exec_defaults *defaults, const json_t *env)
{
	size_t n = 0;
	const char *name;
	json_t *value;

	defaults->env = xcalloc(json_object_size(env) + 1, sizeof(*defaults->env));
	json_object_foreach((json_t *)(uintptr_t)env, name, value) {
		if (*name && !strchr(name, '=') && json_is_string(value))
			defaults->env[n++] = xasprintf("%s=%s", name, json_string_value(value));
	}
}

void exec_defaults_init(struct exec_defaults *defaults, const char *config)
{
	_cleanup_json_ json_t *json = NULL;

	*defaults = (struct exec_defaults){ 0 };
	if (!config || json_parse(config, strlen(config), &json, NULL) < 0)
		return;
	defaults->user = text_of(json, "user");
	defaults->workdir = text_of(json, "workdir");
	if (is_home(defaults))
		free(STEAL(defaults->workdir));
	read_env(defaults, json_object_get(json, "env"));
}

void exec_defaults_clear(struct exec_defaults *defaults)
{
	free(defaults->user);
	free(defaults->workdir);
	for (char **one = defaults->env; one && *one; one++)
		free(*one);
	free(defaults->env);
	*defaults = (struct exec_defaults){ 0 };
}

static bool has_name_of(const char *const *env, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (; env && *env; env++) {
		if (strncmp(*env, entry, len) == 0)
			return true;
	}
	return false;
}

const char **exec_defaults_env(const struct exec_defaults *defaults, const char *const *env)
{
	size_t n_env = 0, n = 0;
	const char **all;

	if (!defaults->env || !defaults->env[0])
		return NULL;
	while (env && env[n_env])
		n_env++;
	while (defaults->env[n])
		n++;
	all = xcalloc(n_env + n + 1, sizeof(*all));
	for (size_t i = 0; i < n_env; i++)
		all[i] = env[i];
	for (char **one = defaults->env; *one; one++) {
		if (!has_name_of(env, *one))
			all[n_env++] = *one;
	}
	return all;
}
