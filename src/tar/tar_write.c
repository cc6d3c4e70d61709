/* Headers of archives. See tar_format.h. */
#include "tar/tar_format.h"

#include <stdio.h>
#include <string.h>

#define OCTAL_SIZE_MAX 077777777777ull
#define OCTAL_ID_MAX   07777777u
#define NAME_SIZE      100
#define PREFIX_SIZE    155

/* Positions in a ustar header. */
enum {
	AT_NAME = 0,
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_CHECKSUM = 148,
	AT_TYPE = 156,
	AT_LINK = 157,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
};

static void put_octal(char *at, size_t width, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*llo", (int)width - 1, (unsigned long long)value);
	memcpy(at, text, width - 1); /* value has no more digits than fit */
	at[width - 1] = '\0';
}

static void finish_header(char block[TAR_BLOCK])
{
	unsigned int sum = 0;

	memcpy(block + AT_MAGIC, "ustar\00000", 8);
	memset(block + AT_CHECKSUM, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)block[i];
	put_octal(block + AT_CHECKSUM, 7, sum);
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static void put_record(struct buf *out, const char *key, const char *value, size_t value_len)
{
	size_t rest = strlen(key) + value_len + 3, len = rest + 1;
	char digits[24];

	while (len != rest + (size_t)snprintf(digits, sizeof(digits), "%zu", len))
		len = rest + strlen(digits);
	buf_printf(out, "%zu %s=", len, key);
	buf_append(out, value, value_len);
	buf_append_char(out, '\n');
}

static void put_number(struct buf *out, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put_record(out, key, text, strlen(text));
}

static void put_time(struct buf *out, const struct tar_entry *e)
{
	bool negative = e->mtime_s < 0;
	uint32_t ns = negative && e->mtime_ns ? 1000000000 - e->mtime_ns : e->mtime_ns;
	/* Toward zero, as the fraction is written: -1.5 s is 2 s less and half a second more. */
	uint64_t s = negative ? (uint64_t) - (e->mtime_s + 1) + (e->mtime_ns ? 0 : 1)
			      : (uint64_t)e->mtime_s;
	char text[48];

	snprintf(text, sizeof(text), "%s%llu", negative ? "-" : "", (unsigned long long)s);
	if (ns)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), ".%09u", ns);
	put_record(out, "mtime", text, strlen(text));
}

static void put_meta(struct buf *out, char type, const struct buf *records)
{
	char block[TAR_BLOCK] = "skerry-pax-header";

	put_octal(block + AT_MODE, 8, 0644);
	put_octal(block + AT_UID, 8, 0);
	put_octal(block + AT_GID, 8, 0);
	put_octal(block + AT_SIZE, 12, records->len);
	put_octal(block + AT_MTIME, 12, 0);
	block[AT_TYPE] = type;
	finish_header(block);
	buf_append(out, block, sizeof(block));
	buf_append(out, records->data, records->len);
	tar_put_padding(out, records->len);
}

/* Into name, or prefix and name; false when it does not fit. */
static bool put_path(char block[TAR_BLOCK], const struct buf *path)
{
	size_t cut;

	if (path->len <= NAME_SIZE) {
		memcpy(block + AT_NAME, path->data, path->len);
		return true;
	}
	for (cut = path->len - 1 < PREFIX_SIZE ? path->len - 1 : PREFIX_SIZE; cut > 0; cut--) {
		size_t rest = path->len - cut - 1;

		if (path->data[cut] != '/' || rest == 0)
			continue;
		if (rest > NAME_SIZE)
			break;
		memcpy(block + AT_PREFIX, path->data, cut);
		memcpy(block + AT_NAME, path->data + cut + 1, rest);
		return true;
	}
	memcpy(block + AT_NAME, path->data, NAME_SIZE);
	return false;
}

static bool is_ascii(const struct buf *text)
{
	for (size_t i = 0; i < text->len; i++)
		if ((unsigned char)text->data[i] >= 0x80)
			return false;
	return true;
}

void tar_put_header(struct buf *out, const struct tar_entry *e)
{
	static const char types[] = {
		[TAR_FILE] = '0', [TAR_HARD_LINK] = '1', [TAR_SYMLINK] = '2', [TAR_DIRECTORY] = '5'
	};
	_cleanup_buf_ struct buf records = BUF_INIT;
	char block[TAR_BLOCK] = { 0 };
	bool plain_time =
		e->mtime_ns == 0 && e->mtime_s >= 0 && (uint64_t)e->mtime_s <= OCTAL_SIZE_MAX;

	if (!put_path(block, &e->path) || !is_ascii(&e->path))
		put_record(&records, "path", e->path.data, e->path.len);
	if (e->link.len > NAME_SIZE || !is_ascii(&e->link))
		put_record(&records, "linkpath", e->link.data, e->link.len);
	if (e->link.len > 0)
		memcpy(block + AT_LINK, e->link.data,
		       e->link.len < NAME_SIZE ? e->link.len : NAME_SIZE);
	if (e->size > OCTAL_SIZE_MAX)
		put_number(&records, "size", e->size);
	if (e->uid > OCTAL_ID_MAX)
		put_number(&records, "uid", e->uid);
	if (e->gid > OCTAL_ID_MAX)
		put_number(&records, "gid", e->gid);
	if (!plain_time)
		put_time(&records, e);
	if (records.len > 0)
		put_meta(out, 'x', &records);
	put_octal(block + AT_MODE, 8, e->mode);
	put_octal(block + AT_UID, 8, e->uid > OCTAL_ID_MAX ? 0 : e->uid);
	put_octal(block + AT_GID, 8, e->gid > OCTAL_ID_MAX ? 0 : e->gid);
	put_octal(block + AT_SIZE, 12, e->size > OCTAL_SIZE_MAX ? 0 : e->size);
	put_octal(block + AT_MTIME, 12,
		  e->mtime_s < 0 || (uint64_t)e->mtime_s > OCTAL_SIZE_MAX ? 0
									  : (uint64_t)e->mtime_s);
	block[AT_TYPE] = types[e->type];
	finish_header(block);
	buf_append(out, block, sizeof(block));
}

void tar_put_padding(struct buf *out, uint64_t size)
{
	static const char zeros[TAR_BLOCK];
	size_t rest = (size_t)(size % TAR_BLOCK);

	if (rest > 0)
		buf_append(out, zeros, TAR_BLOCK - rest);
}

void tar_put_end(struct buf *out)
{
	static const char zeros[2 * TAR_BLOCK];

	buf_append(out, zeros, sizeof(zeros));
}

void tar_put_error(struct buf *out, const char *message)
{
	_cleanup_buf_ struct buf records = BUF_INIT;

	put_record(&records, TAR_ERROR_KEY, message, strlen(message));
	put_meta(out, 'g', &records);
}
