/*
 * Mounting the image now and at every boot: by a mount unit where systemd runs the machine, else by
 * a line in /etc/fstab. The unit is required by skerryd.service, so that the daemon never starts on
 * the empty directory below.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/init_steps.h"

#define UNIT_DIR      "/etc/systemd/system"
#define FSTAB	      "/etc/fstab"
#define FSTAB_MAX     (1u << 20)
#define MOUNT_OPTIONS "loop,noatime"

/* ---- systemd ---- */

void init_unit_name(const char *dir, struct buf *out)
{
	const char *p = dir + strspn(dir, "/");

	for (const char *begin = p; *p; p++) {
		bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			     (*p >= '0' && *p <= '9') || *p == ':' || *p == '_' ||
			     (*p == '.' && p != begin);

		if (*p == '/')
			buf_append_char(out, '-');
		else if (plain)
			buf_append_char(out, *p);
		else
			buf_printf(out, "\\x%02x", (unsigned int)(unsigned char)*p);
	}
	buf_append_str(out, ".mount");
}

/* In unit files '%' begins a specifier. */
static void append_unit_path(const char *path, struct buf *out)
{
	for (; *path; path++)
		buf_append_str(out, *path == '%' ? "%%" : (char[]){ *path, '\0' });
}

void init_unit_text(const char *image, const char *dir, struct buf *out)
{
	buf_append_str(out, "# Made by skerry init.\n"
			    "[Unit]\n"
			    "Description=State of Skerry, on a file system that can share blocks\n"
			    "Documentation=man:skerry(1)\n"
			    "Before=skerryd.service\n"
			    "\n"
			    "[Mount]\n"
			    "What=");
	append_unit_path(image, out);
	buf_append_str(out, "\nWhere=");
	append_unit_path(dir, out);
	buf_append_str(out, "\nType=xfs\nOptions=" MOUNT_OPTIONS "\n"
			    "\n"
			    "[Install]\n"
			    "WantedBy=multi-user.target\n"
			    "RequiredBy=skerryd.service\n");
}

static int mount_by_unit(const char *image, const char *dir, struct buf *undo, struct err *err)
{
	_cleanup_buf_ struct buf name = BUF_INIT, text = BUF_INIT;
	_cleanup_free_ char *path = NULL;
	int r;

	init_unit_name(dir, &name);
	init_unit_text(image, dir, &text);
	path = xasprintf(UNIT_DIR "/%s", buf_str(&name));
	r = file_write_durable(path, text.data, text.len, 0644);
	if (r < 0)
		return err_set(err, r, "write '%s': %s", path, strerror(-r));
	buf_printf(undo, "systemctl disable --now '%s'\nrm '%s'\nsystemctl daemon-reload\n",
		   buf_str(&name), path);
	r = init_run((const char *const[]){ "systemctl", "daemon-reload", NULL }, NULL, err);
	if (r == 0)
		r = init_run((const char *const[]){ "systemctl", "enable", "--now", buf_str(&name),
						    NULL },
			     NULL, err);
	return r;
}

/* ---- fstab ---- */

/* Blanks and backslashes as octal, as fstab(5) wants them. */
static void append_fstab_path(const char *path, struct buf *out)
{
	for (; *path; path++) {
		if (strchr(" \t\n\\#", *path))
			buf_printf(out, "\\%03o", (unsigned int)(unsigned char)*path);
		else
			buf_append_char(out, *path);
	}
}

void init_fstab_line(const char *image, const char *dir, struct buf *out)
{
	append_fstab_path(image, out);
	buf_append_char(out, ' ');
	append_fstab_path(dir, out);
	buf_append_str(out, " xfs " MOUNT_OPTIONS " 0 0 # skerry init\n");
}

bool init_fstab_has(const char *table, const char *dir)
{
	_cleanup_buf_ struct buf wanted = BUF_INIT;

	append_fstab_path(dir, &wanted);
	while (*table) {
		const char *end = strchrnul(table, '\n');
		const char *at = table + strspn(table, " \t");

		if (*at != '#' && at < end) {
			at += strcspn(at, " \t\n");
			at += strspn(at, " \t");
			if (wanted.len > 0 && strcspn(at, " \t\n") == wanted.len &&
			    strncmp(at, buf_str(&wanted), wanted.len) == 0)
				return true;
		}
		table = *end ? end + 1 : end;
	}
	return false;
}

static int add_to_fstab(const char *image, const char *dir, struct err *err)
{
	_cleanup_buf_ struct buf table = BUF_INIT;
	int r = file_read(FSTAB, FSTAB_MAX, &table);

	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "read '" FSTAB "': %s", strerror(-r));
	if (init_fstab_has(buf_str(&table), dir))
		return 0;
	if (table.len > 0 && table.data[table.len - 1] != '\n')
		buf_append_char(&table, '\n');
	init_fstab_line(image, dir, &table);
	r = file_write_durable(FSTAB, table.data, table.len, 0644);
	return r < 0 ? err_set(err, r, "write '" FSTAB "': %s", strerror(-r)) : 0;
}

/* ---- either ---- */

static int mount_now(const char *image, const char *dir, struct buf *undo, struct err *err)
{
	const char *const argv[] = { "mount", "-t",  "xfs", "-o", MOUNT_OPTIONS,
				     "--",    image, dir,   NULL };
	int r = init_run(argv, NULL, err);

	if (r == 0)
		buf_printf(undo, "umount '%s'\n", dir);
	return r;
}

int init_mount(const char *image, const char *dir, enum init_boot boot, struct buf *undo,
	       struct err *err)
{
	int r;

	if (boot == INIT_BOOT_AUTO)
		boot = access(INIT_SYSTEMD_RUNS, F_OK) == 0 ? INIT_BOOT_SYSTEMD : INIT_BOOT_FSTAB;
	if (boot == INIT_BOOT_SYSTEMD)
		return mount_by_unit(image, dir, undo, err);
	r = mount_now(image, dir, undo, err);
	if (r < 0 || boot == INIT_BOOT_NONE)
		return r;
	buf_printf(undo, "remove the line of '%s' from " FSTAB "\n", dir);
	return add_to_fstab(image, dir, err);
}
