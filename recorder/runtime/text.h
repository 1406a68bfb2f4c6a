/* Builds text and JSON without libc, for metadata, answers and messages. */
#ifndef XRAY_RECORDER_TEXT_H
#define XRAY_RECORDER_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The text written so far. A growing text allocates memory from the kernel. A fixed text stays
 * within the memory it was given. What does not fit is dropped, and cut is set. */
struct xr_text {
	uint8_t *p;
	uint64_t n, cap;
	int fixed, cut;
};

/* Returns a text in the given memory. It needs no xr_text_free. */
static inline struct xr_text xr_text_in(void *p, uint64_t size)
{
	return (struct xr_text){.p = p, .cap = size, .fixed = 1};
}

void xr_text_free(struct xr_text *t);

void xr_put(struct xr_text *t, const void *p, uint64_t n);
void xr_put_text(struct xr_text *t, const char *s);
void xr_put_number(struct xr_text *t, uint64_t v);
void xr_put_hex(struct xr_text *t, const uint8_t *p, uint64_t n);
/* Puts a number as the JSON string "0x...". A JSON number that large might not be exact for
 * other readers. */
void xr_put_address(struct xr_text *t, uint64_t v);
/* Puts the n bytes as a JSON string. Non-ASCII bytes stay unchanged. */
void xr_put_string(struct xr_text *t, const char *s, uint64_t n);

/* "key":value, after a comma if necessary. */
void xr_put_key(struct xr_text *t, const char *key);
void xr_put_field(struct xr_text *t, const char *key, uint64_t v);
void xr_put_field_text(struct xr_text *t, const char *key, const char *s);
void xr_put_field_bool(struct xr_text *t, const char *key, int v);
void xr_put_field_address(struct xr_text *t, const char *key, uint64_t v);
/* Puts a comma, unless an array or object has just begun. */
void xr_put_comma(struct xr_text *t);

/* Parsing. All functions but the last return 0 if the text is invalid. */
int xr_equal(const char *a, const char *b);
/* Parses an unsigned decimal number. */
int xr_parse_number(const char *s, uint64_t *v);
/* Replaces each %XX, two hexadecimal digits, by its byte, in place. Returns null, or the
 * position of an invalid %. */
const char *xr_decode(char *s);

/* Returns the text for -errno. */
const char *xr_errno_text(int64_t err);

#endif
