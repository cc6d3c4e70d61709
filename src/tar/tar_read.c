/*
 * The reader of archives: a machine of five states over pieces of any size. See tar_format.h.
 *
 * Memory: one header, or one meta entry of at most TAR_META_MAX, is held; data passes through.
 */
#include "tar/tar_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PART_MAX 255u

void tar_reader_init(struct tar_reader *r)
{
	*r = (struct tar_reader){ 0 };
}

static void forget_next(struct tar_reader *r)
{
	buf_clear(&r->next.path);
	buf_clear(&r->next.link);
	memset(&r->next, 0, sizeof(r->next));
}

void tar_reader_clear(struct tar_reader *r)
{
	forget_next(r);
	buf_clear(&r->entry.path);
	buf_clear(&r->entry.link);
	buf_clear(&r->held);
	buf_clear(&r->error);
}

static int bad(struct tar_reader *r, const char *reason)
{
	snprintf(r->reason, sizeof(r->reason), "%s", reason);
	return -EBADMSG;
}

/* ---- fields ---- */

/* Octal digits between blanks, or base 256 with its first bit set. */
static bool number_field(const char *field, size_t width, uint64_t *ret)
{
	const unsigned char *at = (const unsigned char *)field;
	uint64_t n = 0;
	size_t i = 0;

	if (at[0] & 0x80) {
		n = at[0] & 0x7f;
		for (i = 1; i < width; i++) {
			if (n >> 55)
				return false;
			n = n << 8 | at[i];
		}
		*ret = n;
		return true;
	}
	while (i < width && (at[i] == ' ' || at[i] == '\0'))
		i++;
	for (; i < width && at[i] >= '0' && at[i] <= '7'; i++) {
		if (n >> 60)
			return false;
		n = n << 3 | (uint64_t)(at[i] - '0');
	}
	for (; i < width; i++)
		if (at[i] != ' ' && at[i] != '\0')
			return false;
	*ret = n;
	return true;
}

static bool checksum_fits(const char *block)
{
	uint64_t said;
	unsigned int sum = 0;
	int signed_sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		char c = i >= 148 && i < 156 ? ' ' : block[i];

		sum += (unsigned char)c;
		signed_sum += (signed char)c; /* as old programs made it */
	}
	return number_field(block + 148, 8, &said) &&
	       (said == sum || (signed_sum >= 0 && said == (uint64_t)signed_sum));
}

static void text_field(struct buf *out, const char *field, size_t width)
{
	buf_append(out, field, strnlen(field, width));
}

/* ---- meta entries ---- */

static bool decimal(const char *text, size_t len, uint64_t *ret)
{
	uint64_t n = 0;

	if (len == 0 || len > 19)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(text[i] - '0');
	}
	*ret = n;
	return n <= INT64_MAX;
}

/* "-12.5": whole seconds below, and what is left. */
static bool decimal_time(const char *text, size_t len, int64_t *ret_s, uint32_t *ret_ns)
{
	bool negative = len > 0 && text[0] == '-';
	const char *dot = memchr(text, '.', len);
	size_t whole = dot ? (size_t)(dot - text) : len;
	uint32_t ns = 0, digit = 100000000;
	uint64_t s;

	if (!decimal(text + negative, whole - (negative ? 1 : 0), &s))
		return false;
	for (size_t i = whole + 1; i < len; i++, digit /= 10) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		ns += digit * (uint32_t)(text[i] - '0');
	}
	*ret_s = negative ? -(int64_t)s - (ns > 0) : (int64_t)s;
	*ret_ns = negative && ns > 0 ? 1000000000 - ns : ns;
	return true;
}

static bool key_is(const char *key, size_t len, const char *name)
{
	return len == strlen(name) && memcmp(key, name, len) == 0;
}

static void replace(struct buf *out, const char *value, size_t len)
{
	buf_reset(out);
	buf_append(out, value, len);
}

static int take_global(struct tar_reader *r, const char *key, size_t key_len, const char *value,
		       size_t len)
{
	if (key_is(key, key_len, TAR_ERROR_KEY))
		replace(&r->error, value, len);
	return 0; /* what else it says of all entries is not about what is used here */
}

static int take_record(struct tar_reader *r, const char *key, size_t key_len, const char *value,
		       size_t len)
{
	uint64_t n;

	if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
		return bad(r, "sparse files are not understood; make the archive without them");
	if (key_is(key, key_len, "path")) {
		replace(&r->next.path, value, len);
		r->next.has_path = true;
	} else if (key_is(key, key_len, "linkpath")) {
		replace(&r->next.link, value, len);
		r->next.has_link = true;
	} else if (key_is(key, key_len, "size")) {
		if (!decimal(value, len, &r->next.size))
			return bad(r, "a pax header has a size that is no number");
		r->next.has_size = true;
	} else if (key_is(key, key_len, "mtime")) {
		if (!decimal_time(value, len, &r->next.mtime_s, &r->next.mtime_ns))
			return bad(r, "a pax header has a time that is no number");
		r->next.has_mtime = true;
	} else if (key_is(key, key_len, "uid") || key_is(key, key_len, "gid")) {
		if (!decimal(value, len, &n) || n >= UINT32_MAX)
			return bad(r, "a pax header has an owner that is no number");
		if (key[0] == 'u') {
			r->next.uid = (uint32_t)n;
			r->next.has_uid = true;
		} else {
			r->next.gid = (uint32_t)n;
			r->next.has_gid = true;
		}
	}
	return 0;
}

static int take_pax(struct tar_reader *r, bool global)
{
	const char *at = buf_str(&r->held);
	size_t left = r->held.len;

	while (left > 0) {
		size_t digits = 0, len, key_len;
		uint64_t said;
		const char *key, *equals;
		int result;

		while (digits < left && digits < 8 && at[digits] >= '0' && at[digits] <= '9')
			digits++;
		if (digits == left || at[digits] != ' ' || !decimal(at, digits, &said) ||
		    said > left || said < digits + 3 || at[said - 1] != '\n')
			return bad(r, "a pax header is malformed");
		len = (size_t)said;
		key = at + digits + 1;
		equals = memchr(key, '=', len - digits - 2);
		if (!equals)
			return bad(r, "a pax header is malformed");
		key_len = (size_t)(equals - key);
		result = (global ? take_global : take_record)(r, key, key_len, equals + 1,
							      len - digits - 1 - key_len - 2);
		if (result < 0)
			return result;
		at += len;
		left -= len;
	}
	return 0;
}

static int take_meta(struct tar_reader *r)
{
	size_t len = strnlen(buf_str(&r->held), r->held.len);
	int result = 0;

	if (r->meta_type == 'L') {
		replace(&r->next.path, buf_str(&r->held), len);
		r->next.has_path = true;
	} else if (r->meta_type == 'K') {
		replace(&r->next.link, buf_str(&r->held), len);
		r->next.has_link = true;
	} else {
		result = take_pax(r, r->meta_type == 'g');
	}
	buf_clear(&r->held);
	return result;
}

/* ---- headers ---- */

static enum tar_type type_of(char flag, const struct buf *path)
{
	switch (flag) {
	case '\0': /* of old archives, where a slash at the end made the difference */
		return path->len > 0 && path->data[path->len - 1] == '/' ? TAR_DIRECTORY : TAR_FILE;
	case '0':
	case '7':
		return TAR_FILE;
	case '1':
		return TAR_HARD_LINK;
	case '2':
		return TAR_SYMLINK;
	case '5':
		return TAR_DIRECTORY;
	default:
		return TAR_OTHER;
	}
}

static void take_names(struct tar_reader *r, const char *block)
{
	struct tar_entry *e = &r->entry;
	bool posix = memcmp(block + 257, "ustar\0", 6) == 0;

	buf_reset(&e->path);
	buf_reset(&e->link);
	if (r->next.has_path) {
		buf_append(&e->path, buf_str(&r->next.path), r->next.path.len);
	} else {
		if (posix && block[345]) {
			text_field(&e->path, block + 345, 155);
			buf_append_char(&e->path, '/');
		}
		text_field(&e->path, block, 100);
	}
	if (r->next.has_link)
		buf_append(&e->link, buf_str(&r->next.link), r->next.link.len);
	else
		text_field(&e->link, block + 157, 100);
}

static int take_entry(struct tar_reader *r, const char *block, uint64_t size)
{
	struct tar_entry *e = &r->entry;
	uint64_t mode, uid, gid, mtime;

	if (!number_field(block + 100, 8, &mode) || !number_field(block + 108, 8, &uid) ||
	    !number_field(block + 116, 8, &gid) || !number_field(block + 136, 12, &mtime))
		return bad(r, "a header has a field that is no number");
	if (uid >= UINT32_MAX ||
	    gid >= UINT32_MAX) /* the last one means "as it is" to the kernel */
		return bad(r, "a header has an owner that cannot be");
	take_names(r, block);
	e->type = type_of(block[156], &e->path);
	if (r->next.has_size)
		size = r->next.size;
	if (size > INT64_MAX)
		return bad(r, "a header has a size that cannot be");
	if (e->type == TAR_HARD_LINK && size > 0)
		return bad(r, "a hard link has data");
	if (e->type == TAR_SYMLINK || e->type == TAR_DIRECTORY)
		size = 0;
	e->mode = (uint32_t)mode & 07777;
	e->uid = r->next.has_uid ? r->next.uid : (uint32_t)uid;
	e->gid = r->next.has_gid ? r->next.gid : (uint32_t)gid;
	e->mtime_s = r->next.has_mtime ? r->next.mtime_s : (int64_t)(mtime & INT64_MAX);
	e->mtime_ns = r->next.has_mtime ? r->next.mtime_ns : 0;
	e->size = size;
	forget_next(r);
	r->left = size;
	r->padding = (uint32_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
	r->state = TAR_IN_DATA;
	r->entry_open = true;
	return 0;
}

static bool is_zero(const char *block)
{
	for (size_t i = 0; i < TAR_BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

static bool is_meta(char type)
{
	return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

/* A whole block of a header is held; *ret_event tells what it came to. */
static int take_header(struct tar_reader *r, enum tar_event *ret_event)
{
	const char *block = r->held.data;
	uint64_t size;
	int result;

	if (is_zero(block)) {
		if (r->zero_block)
			r->state = TAR_IN_END;
		*ret_event = r->zero_block ? TAR_END : TAR_NEED_MORE;
		r->zero_block = true;
		buf_reset(&r->held);
		return 0;
	}
	r->zero_block = false;
	if (!checksum_fits(block))
		return bad(r, "this is not a tar archive, or it is damaged");
	if (!number_field(block + 124, 12, &size))
		return bad(r, "a header has a size that is no number");
	if (is_meta(block[156])) {
		if (size > TAR_META_MAX)
			return bad(r, "a header is larger than 64 KiB");
		r->meta_type = block[156];
		r->left = size;
		r->padding = (uint32_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
		r->state = TAR_IN_META;
		buf_reset(&r->held);
		return 0;
	}
	result = take_entry(r, block, size);
	buf_reset(&r->held);
	if (result == 0)
		*ret_event = TAR_ENTRY;
	return result;
}

/* ---- the stream ---- */

/* Moves up to a whole header, or meta entry, into held; how much of data that took. */
static size_t hold(struct tar_reader *r, const char *data, size_t len, size_t whole)
{
	size_t n = whole - r->held.len < len ? whole - r->held.len : len;

	buf_append(&r->held, data, n);
	return n;
}

/* One step; returns what it used. An event, or nothing used and nothing to say, ends the round. */
static ssize_t step(struct tar_reader *r, const char *data, size_t len, enum tar_event *ret_event,
		    const char **ret_data, size_t *ret_len)
{
	size_t n;
	int result = 0;

	switch (r->state) {
	case TAR_IN_HEADER:
		n = hold(r, data, len, TAR_BLOCK);
		if (r->held.len == TAR_BLOCK)
			result = take_header(r, ret_event);
		return result < 0 ? result : (ssize_t)n;
	case TAR_IN_META:
		n = hold(r, data, len, (size_t)r->left);
		if (r->held.len == r->left) {
			result = take_meta(r);
			r->state = TAR_IN_PADDING;
		}
		return result < 0 ? result : (ssize_t)n;
	case TAR_IN_DATA:
		n = r->left < len ? (size_t)r->left : len;
		r->left -= n;
		if (n > 0) {
			*ret_event = TAR_DATA;
			*ret_data = data;
			*ret_len = n;
		} else if (r->left == 0) {
			r->state = TAR_IN_PADDING;
			r->entry_open = false;
			*ret_event = TAR_ENTRY_END;
		}
		return (ssize_t)n;
	case TAR_IN_PADDING:
		n = r->padding < len ? r->padding : len;
		r->padding -= (uint32_t)n;
		if (r->padding == 0)
			r->state = TAR_IN_HEADER;
		return (ssize_t)n;
	case TAR_IN_END:
		break;
	}
	return (ssize_t)len;
}

/* Something can be done without a further byte. */
static bool is_due(const struct tar_reader *r)
{
	return (r->state == TAR_IN_DATA && r->left == 0) ||
	       (r->state == TAR_IN_PADDING && r->padding == 0) ||
	       (r->state == TAR_IN_META && r->held.len == r->left);
}

ssize_t tar_read(struct tar_reader *r, const void *data, size_t len, enum tar_event *ret_event,
		 const char **ret_data, size_t *ret_len)
{
	const char *at = data;
	size_t used = 0;

	*ret_event = TAR_NEED_MORE;
	*ret_data = at;
	*ret_len = 0;
	while (*ret_event == TAR_NEED_MORE && (used < len || is_due(r))) {
		ssize_t n = step(r, at + used, len - used, ret_event, ret_data, ret_len);

		if (n < 0)
			return n;
		used += (size_t)n;
	}
	return (ssize_t)used;
}

bool tar_may_end(const struct tar_reader *r)
{
	return r->state == TAR_IN_END ||
	       (r->state == TAR_IN_HEADER && r->zero_block && r->held.len == 0);
}

/* ---- names ---- */

int tar_path_clean(const char *path, size_t len, struct buf *out)
{
	if (memchr(path, '\0', len) || (len > 0 && path[0] == '/'))
		return -EBADMSG;
	while (len > 0) {
		const char *slash = memchr(path, '/', len);
		size_t part = slash ? (size_t)(slash - path) : len;

		if (part == 2 && memcmp(path, "..", 2) == 0)
			return -EBADMSG;
		if (part > PART_MAX)
			return -EBADMSG;
		if (part > 0 && !(part == 1 && path[0] == '.')) {
			if (out->len > 0)
				buf_append_char(out, '/');
			buf_append(out, path, part);
		}
		if (out->len > TAR_PATH_MAX)
			return -EBADMSG;
		path += part + (slash ? 1 : 0);
		len -= part + (slash ? 1 : 0);
	}
	return 0;
}
