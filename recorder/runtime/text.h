/* Text and JSON put together without libc: for metadata, answers and messages. */
#ifndef XRAY_RECORDER_TEXT_H
#define XRAY_RECORDER_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* What has been written so far. A text grows in memory of its own from the
 * kernel, or, when fixed, stays within what it was given; what does not fit sets
 * cut and is left out. */
struct xr_text {
	uint8_t *p;
	uint64_t n, cap;
	int fixed, cut;
};

/* A text in the given memory; it needs no xr_text_free. */
static inline struct xr_text xr_text_in(void *p, uint64_t size)
{
	return (struct xr_text){.p = p, .cap = size, .fixed = 1};
}

void xr_text_free(struct xr_text *t);

void xr_put(struct xr_text *t, const void *p, uint64_t n);
void xr_put_text(struct xr_text *t, const char *s);
void xr_put_number(struct xr_text *t, uint64_t v);
void xr_put_hex(struct xr_text *t, const uint8_t *p, uint64_t n);
/* A number as JSON string "0x...": as a number it could be too large for others. */
void xr_put_address(struct xr_text *t, uint64_t v);
/* A JSON string of the n bytes; bytes that are not ASCII stay as they are. */
void xr_put_string(struct xr_text *t, const char *s, uint64_t n);

/* "key":value, with a comma before it where one is needed. */
void xr_put_key(struct xr_text *t, const char *key);
void xr_put_field(struct xr_text *t, const char *key, uint64_t v);
void xr_put_field_text(struct xr_text *t, const char *key, const char *s);
void xr_put_field_bool(struct xr_text *t, const char *key, int v);
void xr_put_field_address(struct xr_text *t, const char *key, uint64_t v);
/* A comma, unless an array or object has just begun. */
void xr_put_comma(struct xr_text *t);

/* The reverse. All but the last return 0 if the text is invalid. */
int xr_equal(const char *a, const char *b);
/* A decimal number without sign. */
int xr_parse_number(const char *s, uint64_t *v);
/* Replaces %XX, two hexadecimal digits, by the byte, in place. Returns null, or where there
 * is a % without them. */
const char *xr_decode(char *s);

#endif
