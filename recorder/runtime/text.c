#include <errno.h>

#include "syscall.h"
#include "text.h"

/* Makes room for n more bytes. */
static int room(struct xr_text *t, uint64_t n)
{
	if (!t->cut && n <= t->cap - t->n)
		return 1;
	if (t->cut || t->fixed || n > UINT32_MAX) {
		t->cut = 1;
		return 0;
	}
	uint64_t cap = t->cap ? t->cap : 16384;
	while (n > cap - t->n)
		cap *= 2;
	uint8_t *p = xr_map(cap);
	if (!p) {
		t->cut = 1;
		return 0;
	}
	xr_copy(p, t->p, t->n);
	if (t->p)
		xr_unmap(t->p, t->cap);
	t->p = p;
	t->cap = cap;
	return 1;
}

void xr_text_free(struct xr_text *t)
{
	if (t->p && !t->fixed)
		xr_unmap(t->p, t->cap);
	*t = (struct xr_text){0};
}

void xr_put(struct xr_text *t, const void *p, uint64_t n)
{
	if (!room(t, n))
		return;
	xr_copy(t->p + t->n, p, n);
	t->n += n;
}

void xr_put_text(struct xr_text *t, const char *s)
{
	xr_put(t, s, xr_strlen(s));
}

void xr_put_number(struct xr_text *t, uint64_t v)
{
	char digits[20];
	int i = sizeof digits;
	do {
		digits[--i] = '0' + v % 10;
		v /= 10;
	} while (v);
	xr_put(t, digits + i, sizeof digits - i);
}

static const char hex[] = "0123456789abcdef";

void xr_put_hex(struct xr_text *t, const uint8_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		char pair[2] = {hex[p[i] >> 4], hex[p[i] & 15]};
		xr_put(t, pair, 2);
	}
}

void xr_put_address(struct xr_text *t, uint64_t v)
{
	char digits[16];
	int i = sizeof digits;
	do {
		digits[--i] = hex[v & 15];
		v >>= 4;
	} while (v);
	xr_put_text(t, "\"0x");
	xr_put(t, digits + i, sizeof digits - i);
	xr_put_text(t, "\"");
}

void xr_put_string(struct xr_text *t, const char *s, uint64_t n)
{
	xr_put(t, "\"", 1);
	for (uint64_t i = 0; i < n; i++) {
		uint8_t c = s[i];
		if (c == '"' || c == '\\') {
			char pair[2] = {'\\', c};
			xr_put(t, pair, 2);
		} else if (c < 0x20) {
			xr_put(t, "\\u00", 4);
			xr_put_hex(t, &c, 1);
		} else {
			xr_put(t, &c, 1);
		}
	}
	xr_put(t, "\"", 1);
}

void xr_put_comma(struct xr_text *t)
{
	if (!t->n)
		return;
	uint8_t last = t->p[t->n - 1];
	if (last != '{' && last != '[')
		xr_put(t, ",", 1);
}

void xr_put_key(struct xr_text *t, const char *key)
{
	xr_put_comma(t);
	xr_put_string(t, key, xr_strlen(key));
	xr_put(t, ":", 1);
}

void xr_put_field(struct xr_text *t, const char *key, uint64_t v)
{
	xr_put_key(t, key);
	xr_put_number(t, v);
}

void xr_put_field_text(struct xr_text *t, const char *key, const char *s)
{
	xr_put_key(t, key);
	xr_put_string(t, s, xr_strlen(s));
}

void xr_put_field_bool(struct xr_text *t, const char *key, int v)
{
	xr_put_key(t, key);
	xr_put_text(t, v ? "true" : "false");
}

void xr_put_field_address(struct xr_text *t, const char *key, uint64_t v)
{
	xr_put_key(t, key);
	xr_put_address(t, v);
}

int xr_equal(const char *a, const char *b)
{
	return xr_strncmp(a, b, UINT64_MAX) == 0;
}

int xr_parse_number(const char *s, uint64_t *v)
{
	uint64_t n = 0;
	if (!*s)
		return 0;
	for (; *s; s++) {
		if (*s < '0' || *s > '9' || n > (UINT64_MAX - 9) / 10)
			return 0;
		n = n * 10 + *s - '0';
	}
	*v = n;
	return 1;
}

/* Returns the value of a hexadecimal digit, or -1. */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *xr_decode(char *s)
{
	const char *from = s;
	for (; *from; from++, s++) {
		*s = *from;
		if (*from != '%')
			continue;
		if (digit(from[1]) < 0 || digit(from[2]) < 0)
			return from;
		*s = digit(from[1]) << 4 | digit(from[2]);
		from += 2;
	}
	*s = 0;
	return NULL;
}

const char *xr_errno_text(int64_t err)
{
	switch (-err) {
	case ENOTSUP: return "not a regular file";
	case EBADF: return "not open for writing";
	case EBUSY: return "a stream is already being written";
	case ENOSPC: return "no space on the device";
	case EDQUOT: return "disk quota exceeded";
	case EFBIG: return "the file would be too large";
	case ENOMEM: return "out of memory";
	case EACCES: case EPERM: return "permission denied";
	case ENOENT: return "no such file or directory";
	case ENOTDIR: return "not a directory";
	case EEXIST: return "the file exists";
	case ECONNREFUSED: return "nothing listens there in this network namespace";
	case EAGAIN: return "no answer";
	case EPROTO: return "incompatible version";
	case ELOOP: return "symbolic links are not followed";
	}
	return "input/output error";
}
