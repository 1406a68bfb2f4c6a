/* Converts chunks to blocks of an FDR log, version 5.
 *
 * A trace is a header, a metadata block, blocks of threads, and a last metadata block. It is
 * either streamed, one chunk at a time by the thread that filled it, or it is a snapshot of all
 * rings. The output differs from the input in two ways: timestamps become differences, and each
 * 8- or 16-byte record becomes its counterpart of equal size. So one pass over a chunk is
 * enough.
 *
 * Nothing here calls libc or uses vector registers, because a thread may stream in the middle
 * of any of its functions. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "arena.h"
#include "clock.h"
#include "later.h"
#include "layout.h"
#include "locks.h"
#include "metadata.h"
#include "offcpu.h"
#include "output.h"
#include "ring.h"
#include "syscall.h"
#include "text.h"
#include "window.h"
#include "writer.h"

/* The first bytes of FDR's metadata records. */
enum {
	NEW_BUFFER = 0x01, NEW_CPU = 0x05, TSC_WRAP = 0x07, WALL_CLOCK = 0x09, CUSTOM_EVENT = 0x0b,
	CALL_ARGUMENT = 0x0d, BUFFER_EXTENTS = 0x0f, TYPED_EVENT = 0x11, PID = 0x13,
};

static inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}

static inline void store32(uint8_t *p, uint32_t v) { __builtin_memcpy(p, &v, sizeof v); }
static inline void store64(uint8_t *p, uint64_t v) { __builtin_memcpy(p, &v, sizeof v); }

/* Writes a 16-byte record: its first byte, and a 64-bit value after it. */
static inline uint8_t *put_record(uint8_t *out, uint8_t first, uint64_t value)
{
	store64(out, first | value << 8);
	store64(out + 8, value >> 56);
	return out + 16;
}

uint8_t *xr_cpu_record(uint8_t *out, uint16_t cpu, uint64_t tsc)
{
	store64(out, NEW_CPU | (uint64_t)cpu << 8 | tsc << 24);
	store64(out + 8, tsc >> 40);
	return out + 16;
}

uint8_t *xr_block_head(uint8_t *out, uint64_t extent, uint32_t pid, uint32_t tid, struct xr_order order)
{
	out = put_record(out, BUFFER_EXTENTS, extent);
	out = put_record(out, NEW_BUFFER, tid);
	put_record(out, WALL_CLOCK, order.major);
	store32(out + 9, order.minor);
	out += 16;
	return put_record(out, PID, pid);
}

static uint32_t crc32c_in_software(uint32_t sum, const uint8_t *p, uint64_t n)
{
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	while (n--) {
		sum ^= *p++;
		sum = sum >> 4 ^ table[sum & 15];
		sum = sum >> 4 ^ table[sum & 15];
	}
	return sum;
}

static int has_crc32(void)
{
	static uint8_t known;
	enum { YES = 1, NO };
	if (!known) { /* asked once, because in a virtual machine cpuid takes tens of microseconds */
		uint32_t a, b, c = 0, d;
		known = __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_2 ? YES : NO;
	}
	return known == YES;
}

/* Continues a CRC-32C. The instruction uses no vector registers. */
static inline uint64_t crc32c_word(uint64_t sum, uint64_t word)
{
	__asm__("crc32q %1, %0" : "+r"(sum) : "r"(word));
	return sum;
}

static uint64_t crc32c(uint64_t sum, const uint8_t *p, uint64_t n)
{
	if (!has_crc32())
		return crc32c_in_software(sum, p, n);
	for (; n >= 8; p += 8, n -= 8)
		sum = crc32c_word(sum, load64(p));
	uint32_t narrow = sum;
	for (; n; p++, n--)
		__asm__("crc32b %1, %0" : "+r"(narrow) : "m"(*p));
	return narrow;
}

/* sum is the one of the body. The head comes after it, because it is written last. */
static void seal(uint8_t *block, const uint8_t *end, uint64_t sum)
{
	uint32_t at = XR_BLOCK_HEAD + XR_CPU_RECORD;
	struct {
		char magic[4];
		uint16_t schema, kind;
		uint32_t sum, before, after, zero;
	} event = {{'X', 'R', 'Y', 'M'}, 1, XR_META_CHECKSUM, .before = at, .after = end - (block + XR_BLOCK_START)};
	event.sum = ~crc32c(sum, block, at);
	store64(block + at, CUSTOM_EVENT | sizeof event << 8);
	store64(block + at + 8, 0);
	xr_copy(block + at + 16, &event, sizeof event);
}

void xr_seal(uint8_t *block, const uint8_t *end)
{
	const uint8_t *body = block + XR_BLOCK_START;
	seal(block, end, crc32c(~0u, body, end - body));
}

/* The wall clocks of blocks order the blocks of a thread. llvm-xray considers two blocks
 * ordered only if both seconds and microseconds grow. So the seconds are the block's time
 * in units of 2^15 ticks. The microseconds must stay below a million: they are the number
 * of the chunk in its thread. The metadata has the actual time. */
static struct xr_order block_order(const struct xr_trace *trace, const struct xr_chunk *c, uint64_t tsc)
{
	uint64_t number = c->seq / 2;
	return (struct xr_order){
		.major = ((tsc - trace->since) >> 15) + trace->cut, /* the calls that are open at a cut come first */
		.minor = number < 999999 ? number : 999999,
	};
}

/* A position in a chunk, and the clock state at that position. */
struct cursor {
	const uint8_t *p, *end;
	uint64_t tsc;
	uint16_t cpu;
};

static inline int is_function(uint32_t word) { return !(word & 1); }

/* Returns the size of the record at p, which is not a function record. Returns 0 if no such
 * record ends before end. */
static uint64_t record_size(const uint8_t *p, const uint8_t *end)
{
	uint64_t left = end - p, size;
	switch (*p >> 1) {
	case XR_REC_STAMP:
	case XR_REC_ARG:
	case XR_REC_RESULT:
		size = 16;
		break;
	case XR_REC_CUSTOM:
	case XR_REC_TYPED:
		if (left < 24 || load32(p + 4) > XR_MAX_PAYLOAD)
			return 0;
		size = 24 + (((uint64_t)load32(p + 4) + 7) & ~7ull);
		break;
	default:
		return 0;
	}
	return size <= left ? size : 0;
}

/* Returns whether the record of this size at p is complete. Its first and last words are odd
 * once they are written. */
static int written(const uint8_t *p, uint64_t size)
{
	return p[8] & p[size - 8] & 1;
}

static inline uint64_t function_tsc(uint64_t base, uint64_t record)
{
	return (base & ~(uint64_t)UINT32_MAX) | record >> 32;
}

uint64_t xr_count_records(const struct xr_chunk *c)
{
	const uint8_t *p = (const uint8_t *)c + XR_CHUNK_HEADER, *end = (const uint8_t *)c + XR_CHUNK_SIZE;
	uint64_t n = 0;
	while (p < end) {
		uint32_t word = load32(p);
		uint64_t size = is_function(word) ? 8 : record_size(p, end);
		if (!size)
			break;
		n += is_function(word) ? word != 0 : *p >> 1 >= XR_REC_CUSTOM;
		p += size;
	}
	return n;
}

/* Moves c to the first function record or event at or after both since and from, or to the result of that record.
 * It applies the timestamps on the way. Returns 0 if there is none. */
static int skip(struct cursor *c, const uint8_t *from, uint64_t since)
{
	const uint8_t *result = NULL;
	while (c->p < c->end) {
		uint64_t record = load64(c->p), tsc, size = 8;
		if (is_function(record)) {
			tsc = function_tsc(c->tsc, record);
			if ((uint32_t)record && c->p >= from && tsc >= since) {
				c->tsc = tsc;
				c->p = result ? result : c->p;
				return 1;
			}
			result = NULL;
		} else {
			size = record_size(c->p, c->end);
			if (!size)
				return 0;
			tsc = load64(c->p + 8) >> 1;
			if (*c->p >> 1 != XR_REC_STAMP)
				result = *c->p >> 1 == XR_REC_RESULT && written(c->p, size) && c->p >= from ? c->p : NULL;
			switch (*c->p >> 1) {
			case XR_REC_STAMP:
				if (written(c->p, size)) {
					c->tsc = tsc;
					c->cpu = record >> 16;
				}
				break;
			case XR_REC_CUSTOM:
			case XR_REC_TYPED:
				if (written(c->p, size) && c->p >= from && tsc >= since) {
					c->tsc = tsc;
					return 1;
				}
			}
		}
		c->p += size;
	}
	return 0;
}

/* The result of converting a chunk. */
struct block {
	uint8_t *end;
	uint64_t records, last; /* TSC of the last record */
	uint64_t unwritten, damaged;
	uint64_t sum; /* CRC-32C so far */
};

static uint8_t *put_event(uint8_t *out, const uint8_t *p, uint64_t tsc, uint64_t *last)
{
	uint64_t delta = tsc - *last;
	if (delta > INT32_MAX) {
		out = put_record(out, TSC_WRAP, tsc);
		delta = 0;
	}
	*last = tsc;
	int typed = *p >> 1 == XR_REC_TYPED;
	uint32_t n = load32(p + 4);
	/* llvm-xray refuses a file with an empty payload, so a zero byte stands for it. */
	uint32_t size = n ? n : 1;
	store64(out, (typed ? TYPED_EVENT : CUSTOM_EVENT) | (uint64_t)size << 8 | delta << 40);
	store64(out + 8, delta >> 24);
	if (typed)
		store32(out + 9, load32(p) >> 16);
	out += 16;
	out[0] = 0;
	for (uint32_t i = 0; i < n; i += 8) /* records in chunks are padded, so reading beyond n is safe */
		store64(out + i, load64(p + 16 + i));
	return out + size;
}

/* Writes a metadata event at the time of the previous record. */
static uint8_t *put_metadata_event(uint8_t *out, uint16_t kind, const void *body, uint64_t n)
{
	const uint16_t schema = 1;
	store64(out, CUSTOM_EVENT | (8 + n) << 8);
	store64(out + 8, 0);
	out += 16;
	xr_copy(out, "XRYM", 4);
	xr_copy(out + 4, &schema, sizeof schema);
	xr_copy(out + 6, &kind, sizeof kind);
	xr_copy(out + 8, body, n);
	return out + 8 + n;
}

/* A result becomes an event at the time of the previous record. */
static uint8_t *put_result(uint8_t *out, uint64_t value)
{
	return put_metadata_event(out, XR_META_RESULT, &value, sizeof value);
}

/* Writes the records from c on to out, which must have room for them. The reader's clock is at
 * c->tsc. is_exact means that the chunk ends where the thread was when it handed the chunk
 * over; otherwise it ends later. */
static struct block encode(struct cursor c, uint8_t *out, int is_exact)
{
	struct block b = {.sum = ~0u};
	const uint8_t *p = c.p, *end = c.end, *more = NULL; /* more: where another argument may follow */
	uint8_t *summed = out; /* the sum has what is before */
	int by_word = has_crc32();
	uint64_t epoch = c.tsc & ~(uint64_t)UINT32_MAX, last = c.tsc;

	while (p < end) {
		uint64_t record = load64(p);
		if (__builtin_expect(is_function(record), 1)) {
			p += 8;
			if (!(uint32_t)record) {
				b.unwritten++;
				continue;
			}
			uint64_t tsc = epoch | record >> 32, delta = tsc - last;
			if (__builtin_expect(delta > UINT32_MAX, 0)) {
				out = put_record(out, TSC_WRAP, tsc);
				delta = 0;
			}
			uint64_t word = (uint32_t)record | delta << 32;
			store64(out, word);
			if (__builtin_expect(by_word && summed == out, 1)) {
				b.sum = crc32c_word(b.sum, word);
				summed += 8;
			}
			out += 8;
			last = tsc;
			b.records++;
			continue;
		}
		uint64_t size = record_size(p, end);
		if (!size) {
			b.damaged = (end - p) / 8;
			break;
		}
		uint64_t value = load64(p + 8) >> 1;
		if (!written(p, size)) {
			b.unwritten++;
		} else if (*p >> 1 == XR_REC_STAMP) {
			out = xr_cpu_record(out, record >> 16, value);
			last = value;
			epoch = value & ~(uint64_t)UINT32_MAX;
		} else if (*p >> 1 == XR_REC_ARG) {
			/* FDR allows an argument only after its function record. A signal may have
			 * prevented that record from being written. */
			uint32_t entry = p > c.p ? load32(p - 8) : 0;
			if ((entry && is_function(entry)) || p == more) {
				out = put_record(out, CALL_ARGUMENT, value | (record >> 8 & 1) << 63);
				more = p + size;
			} else {
				b.unwritten++;
			}
		} else if (*p >> 1 == XR_REC_RESULT) {
			out = put_result(out, value | (record >> 8 & 1) << 63);
			b.records++;
		} else {
			out = put_event(out, p, value, &last);
			b.records++;
		}
		p += size;
		b.sum = crc32c(b.sum, summed, out - summed);
		summed = out;
	}
	b.sum = crc32c(b.sum, summed, out - summed);
	b.last = last;
	/* Unused space is not a loss. */
	for (const uint8_t *q = end; !is_exact && b.unwritten && !b.damaged && q > c.p && !load64(q - 8); q -= 8)
		b.unwritten--;
	b.end = out;
	return b;
}

/* The maximum size of a converted chunk: 8 bytes more than three times its size, if time
 * went backwards at each record. */
#define SCRATCH (256 << 10)
_Static_assert(SCRATCH >= XR_BLOCK_START + 3 * XR_CHUNK_SIZE, "a block fits");

/* Writes the block of the chunk's records in [from, end), offsets, to out. chunk may be
 * a copy. A block without records has no bytes. */
static struct block encode_chunk(const struct xr_trace *trace, const struct xr_chunk *chunk,
				 uint64_t from, uint64_t end, uint8_t *out)
{
	const uint8_t *base = (const uint8_t *)chunk;
	struct cursor c = {.p = base + XR_CHUNK_HEADER, .end = base + end, .tsc = chunk->first};
	struct block b = {.end = out};

	if (!skip(&c, base + from, trace->since))
		return b;
	b = encode(c, out + XR_BLOCK_START, chunk->used == end);
	xr_block_head(out, b.end - out - 16, chunk->pid, chunk->tid, block_order(trace, chunk, c.tsc));
	xr_cpu_record(out + XR_BLOCK_HEAD, c.cpu, c.tsc);
	seal(out, b.end, b.sum);
	return b;
}

/* Memory for encoding. Threads that stream at the same time each need one. A few buffers
 * that stay in the cache serve many threads. */
static struct scratch {
	uint32_t taken;
	uint8_t *p;
} scratches[16];

static uint8_t *take_scratch(struct scratch **from)
{
	for (struct scratch *s = scratches; s < scratches + sizeof scratches / sizeof *scratches; s++) {
		if (__atomic_exchange_n(&s->taken, 1, __ATOMIC_ACQUIRE))
			continue;
		if (!s->p)
			s->p = xr_map(SCRATCH);
		if (s->p) {
			*from = s;
			return s->p;
		}
		__atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
		break;
	}
	*from = NULL;
	return xr_map(SCRATCH);
}

static void give_scratch(struct scratch *s, uint8_t *p)
{
	if (s)
		__atomic_store_n(&s->taken, 0, __ATOMIC_RELEASE);
	else
		xr_unmap(p, SCRATCH);
}

/* Appends all n bytes or none. The caller blocks signals. Returns 0 or -errno. */
static int append(struct xr_trace *trace, const uint8_t *p, uint64_t n)
{
	uint64_t done = 0;
	while (done < n) {
		int64_t k = xr_write(trace->fd, p + done, n - done);
		if (k == -EINTR)
			continue;
		if (k <= 0) {
			if (k == -EFBIG)
				xr_forget_file_size_signal();
			int64_t end = xr_sys3(SYS_lseek, trace->fd, 0, SEEK_CUR);
			if (done && end >= (int64_t)done) {
				xr_sys2(SYS_ftruncate, trace->fd, end - done);
				xr_sys3(SYS_lseek, trace->fd, end - done, SEEK_SET);
			}
			return k ? k : -EIO;
		}
		done += k;
	}
	trace->bytes += n;
	return 0;
}

/* The file header. llvm-xray ignores its last 8 bytes, which mark the file as having xray
 * metadata. */
static void put_header(uint8_t h[32])
{
	store64(h, 5 | 1 << 16 | (xr_invariant_tsc() ? 3ull << 32 : 0));
	store64(h + 8, xr_root.frequency);
	store64(h + 16, XR_CHUNK_SIZE);
	xr_copy(h + 24, "XRYMFDR1", 8);
}

static int append_metadata(struct xr_trace *trace, int complete)
{
	struct xr_text t = {0};
	xr_put_metadata(&t, trace, complete);
	int err = t.cut ? -ENOMEM : append(trace, t.p, t.n);
	xr_text_free(&t);
	return err;
}

static int append_first(struct xr_trace *trace)
{
	struct xr_text t = {0};
	uint8_t h[32] = {0};
	xr_put(&t, h, sizeof h);
	xr_put_metadata(&t, trace, 0);
	if (!t.cut)
		put_header(t.p); /* last, because reading the metadata's clock has improved the frequency */
	int err = t.cut ? -ENOMEM : append(trace, t.p, t.n);
	xr_text_free(&t);
	return err;
}

int xr_file_refusal(int fd)
{
	struct stat st;
	if (xr_sys2(SYS_fstat, fd, (long)&st) < 0)
		return -EBADF;
	/* Writing to anything other than a file could block forever. */
	if (!S_ISREG(st.st_mode))
		return -ENOTSUP;
	int64_t flags = xr_sys3(SYS_fcntl, fd, F_GETFL, 0);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || flags & (O_PATH | O_DIRECT))
		return -EBADF;
	return 0;
}

/* Returns the end of the records in a chunk of t, as an offset in the chunk. */
static uint64_t chunk_end(const struct xr_thread *t, const struct xr_chunk *c)
{
	if (c->used >= XR_CHUNK_HEADER && c->used <= XR_CHUNK_SIZE)
		return c->used;
	uint64_t at = __atomic_load_n(&t->cursor, __ATOMIC_RELAXED) - (uint64_t)(uintptr_t)c;
	return at >= XR_CHUNK_HEADER && at <= XR_CHUNK_SIZE ? at : XR_CHUNK_SIZE;
}

/* Returns the chunk of t with this number, counted from 1. */
static struct xr_chunk *chunk_of(const struct xr_thread *t, uint64_t number)
{
	return (struct xr_chunk *)(t->ring + (number - 1) % t->nchunks * XR_CHUNK_SIZE);
}

static uint64_t nthreads(void) { return __atomic_load_n(&xr_root.nthreads, __ATOMIC_ACQUIRE); }
static struct xr_thread *thread_at(uint64_t i) { return __atomic_load_n(&xr_root.threads, __ATOMIC_ACQUIRE)[i]; }

/* Streaming. */

/* The streamed trace. Appending requires XR_LOCK_STREAM: an append that fails halfway is
 * undone, which must not overlap with another one. */
static struct xr_trace stream = {.fd = -1};

/* Appends the n bytes of a block, or counts its records as lost. */
static void stream_block(struct xr_thread *t, const uint8_t *p, const struct block *b)
{
	uint64_t n = b->end - p;
	xr_lock(XR_LOCK_STREAM);
	stream.lost[XR_LOST_UNWRITTEN] += b->unwritten;
	stream.lost[XR_LOST_DAMAGED] += b->damaged;
	if (b->records && xr_root.stream) {
		enum xr_loss cause = XR_LOSSES;
		stream.fd = xr_output_fd();
		if (xr_root.stream_limit && stream.bytes + n > xr_root.stream_limit)
			cause = XR_LOST_LIMIT;
		else if (append(&stream, p, n))
			cause = XR_LOST_WRITE;
		if (cause == XR_LOSSES) {
			t->streamed += n;
		} else {
			stream.lost[cause] += b->records;
			t->dropped += b->records;
		}
	}
	t->dropped += b->unwritten + b->damaged;
	xr_root.streamed = stream.bytes;
	xr_unlock(XR_LOCK_STREAM);
}

/* Streams the records in [from, end) of a chunk or of a copy of it. Returns 0 if it should
 * wait for a record that is being written, and may wait. */
static int stream_records(struct xr_thread *t, const struct xr_chunk *c, uint64_t from, uint64_t end, int may_wait)
{
	struct scratch *owner;
	uint8_t *p = take_scratch(&owner);
	if (!p) {
		uint64_t n = (end - from) / 8;
		t->dropped += n;
		__atomic_fetch_add(&stream.lost[XR_LOST_MEMORY], n, __ATOMIC_RELAXED);
		return 1;
	}
	struct block b = encode_chunk(&stream, c, from, end, p);
	int now = !may_wait || !b.unwritten;
	if (now)
		stream_block(t, p, &b);
	give_scratch(owner, p);
	return now;
}

static uint64_t streamed_end(const struct xr_chunk *c)
{
	return c->streamed > XR_CHUNK_HEADER ? c->streamed : XR_CHUNK_HEADER;
}

static void stream_chunk(struct xr_thread *t, uint64_t number, int may_wait)
{
	struct xr_chunk *c = chunk_of(t, number);
	uint64_t from = streamed_end(c), end = chunk_end(t, c);
	if (!xr_root.stream || from >= end)
		return;
	if (stream_records(t, c, from, end, may_wait))
		c->streamed = end;
	else
		t->late = number;
}

/* Streams the chunk that was held back, if any. */
static void stream_late(struct xr_thread *t)
{
	uint64_t number = t->late;
	t->late = 0;
	if (number && chunk_of(t, number)->seq == 2 * number)
		stream_chunk(t, number, 0);
}

void xr_stream(struct xr_thread *t, int last)
{
	stream_late(t);
	stream_chunk(t, t->taken, !last);
}

/* Copies the first end bytes of a chunk that its thread may be writing to. It reads the
 * chunk twice to see what changed in between. Everything before the first change was there
 * at one moment, exactly as in the copy. Returns the end of that part. */
static uint64_t copy_chunk(struct xr_chunk *to, const struct xr_chunk *from, uint64_t end)
{
	const volatile uint64_t *src = (const volatile uint64_t *)from;
	uint64_t *dst = (uint64_t *)to;
	uint64_t n = end / 8, same = XR_CHUNK_HEADER / 8;
	for (uint64_t i = 0; i < n; i++)
		dst[i] = src[i];
	while (same < n && dst[same] == src[same])
		same++;
	return same * 8;
}

/* Streams the rest of the current chunk of a thread that may be running. */
static void flush(struct xr_thread *t, struct xr_chunk *copy)
{
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	if (t->ring && t->taken && t->state != XR_THREAD_FREE) {
		stream_late(t);
		struct xr_chunk *c = chunk_of(t, t->taken);
		uint64_t from = streamed_end(c), end = copy_chunk(copy, c, chunk_end(t, c));
		if (from < end && copy->magic == XR_CHUNK_MAGIC) {
			stream_records(t, copy, from, end, 0);
			c->streamed = end;
		}
	}
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
}

static int stream_from(int fd, uint64_t since)
{
	int err = xr_file_refusal(fd);
	if (err)
		return err;
	if (xr_root.stream)
		return -EBUSY;
	int64_t flags = xr_sys3(SYS_fcntl, fd, F_GETFL, 0);
	xr_sys3(SYS_fcntl, fd, F_SETFL, flags | O_APPEND);
	xr_calibrated();

	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_STREAM);
	stream = (struct xr_trace){.fd = fd, .since = since, .stream = 1};
	xr_root.stream_fd = fd;
	err = append_first(&stream);
	xr_root.streamed = stream.bytes;
	stream.fd = xr_root.stream_fd = -1;
	if (!err) {
		xr_output_hold(fd);
		xr_root.stream_fd = stream.fd = xr_output_fd();
		__atomic_store_n(&xr_root.stream, 1, __ATOMIC_RELEASE);
	}
	xr_unlock(XR_LOCK_STREAM);
	xr_restore_signals(signals);
	return err;
}

/* Returns the time before which no ring holds wanted records. */
static uint64_t oldest(uint64_t since, uint64_t until);

/* Streams the chunks of a thread that its observer has not written. */
static void stream_rest(struct xr_thread *t)
{
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	if (t->slot && t->ring && t->taken && t->state != XR_THREAD_FREE) {
		int unsure;
		uint64_t number = xr_arena_written(t, &unsure);
		if (unsure) {
			uint64_t n = xr_count_records(chunk_of(t, number));
			__atomic_fetch_add(&stream.lost[XR_LOST_OBSERVER], n, __ATOMIC_RELAXED);
		}
		if (number >= t->taken)
			chunk_of(t, t->taken)->streamed = XR_CHUNK_SIZE;
		if (number + 1 < xr_oldest_chunk(t))
			number = xr_oldest_chunk(t) - 1;
		while (++number < t->taken + (t->state == XR_THREAD_DEAD))
			if (chunk_of(t, number)->seq == 2 * number)
				stream_chunk(t, number, 0);
	}
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
}

int xr_stream_rest(int fd)
{
	int err = stream_from(fd, oldest(0, UINT64_MAX));
	uint64_t signals = xr_block_signals();
	for (uint64_t i = 0, n = nthreads(); !err && i < n; i++)
		stream_rest(thread_at(i));
	xr_restore_signals(signals);
	return err;
}

int xr_stream_begin(int fd) { return stream_from(fd, xr_rdtsc()); }

int xr_stream_metadata(void)
{
	uint64_t signals = xr_block_signals();
	xr_lock(XR_LOCK_STREAM);
	stream.fd = xr_root.stream ? xr_output_fd() : -1;
	int err = stream.fd >= 0 ? append_metadata(&stream, 0) : 0;
	xr_unlock(XR_LOCK_STREAM);
	xr_restore_signals(signals);
	return err;
}

/* Writes what is left in the chunks. */
static int flush_all(void)
{
	struct xr_chunk *copy = xr_map(XR_CHUNK_SIZE);
	for (uint64_t i = 0, n = nthreads(); copy && i < n; i++)
		flush(thread_at(i), copy);
	if (copy)
		xr_unmap(copy, XR_CHUNK_SIZE);
	return copy != NULL;
}

void xr_stream_windows(int records)
{
	if (!xr_root.stream)
		return;
	uint64_t signals = xr_block_signals();
	struct xr_text t = {0};
	if (records)
		flush_all();
	xr_lock(XR_LOCK_STREAM);
	stream.fd = xr_root.stream ? xr_output_fd() : -1;
	xr_put_window_block(&t, &stream);
	if (stream.fd >= 0 && !t.cut)
		append(&stream, t.p, t.n);
	xr_unlock(XR_LOCK_STREAM);
	xr_text_free(&t);
	xr_restore_signals(signals);
}

/* Writes the now known frequency into the header. A descriptor that appends cannot write
 * anywhere else, so this clears O_APPEND for the write. */
static void correct_header(int fd)
{
	uint8_t h[32];
	int64_t flags = xr_sys3(SYS_fcntl, fd, F_GETFL, 0);
	put_header(h);
	if (flags < 0 || xr_sys3(SYS_fcntl, fd, F_SETFL, flags & ~O_APPEND) < 0)
		return;
	xr_sys4(SYS_pwrite64, fd, (long)h, sizeof h, 0);
	xr_sys3(SYS_fcntl, fd, F_SETFL, flags);
}

int xr_stream_end(void)
{
	if (!xr_root.stream)
		return 0;
	uint64_t signals = xr_block_signals();
	int flushed = flush_all();
	xr_lock(XR_LOCK_STREAM);
	__atomic_store_n(&xr_root.stream, 0, __ATOMIC_RELEASE);
	stream.fd = xr_output_fd();
	int err = flushed ? append_metadata(&stream, 1) : -ENOMEM;
	correct_header(stream.fd);
	xr_output_release();
	xr_text_free(&stream.gone);
	stream.fd = xr_root.stream_fd = -1;
	xr_unlock(XR_LOCK_STREAM);
	xr_restore_signals(signals);
	return err;
}

/* Maximum bytes of table rows for ended threads: about 30,000 threads. */
enum { MAX_GONE = 4 << 20 };

/* The same for snapshots that are kept. It only has fd -1. */
static struct xr_trace kept_gone = {.fd = -1};

static void list_gone(struct xr_trace *trace, struct xr_thread *t)
{
	if (trace->gone.n < MAX_GONE)
		xr_put_thread(&trace->gone, t, 0);
	else
		trace->unlisted++;
}

void xr_thread_gone(struct xr_thread *t)
{
	xr_lock(XR_LOCK_STREAM);
	if (xr_root.stream && t->taken)
		list_gone(&stream, t);
	if (t->taken && t->first <= __atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST))
		list_gone(&kept_gone, t);
	xr_unlock(XR_LOCK_STREAM);
}

void xr_writer_forked(void)
{
	kept_gone.gone = (struct xr_text){0};
	xr_root.stream = 0;
	xr_output_forked();
	stream = (struct xr_trace){.fd = -1};
	xr_root.stream_fd = -1;
	xr_root.streamed = 0;
}

/* Snapshots. */

/* Chunks of one thread, newest first, and where their records end. */
struct copies {
	uint8_t *chunks;
	uint64_t n, cap;
};

static struct xr_chunk *copy_at(const struct copies *s, uint64_t i)
{
	return (struct xr_chunk *)(s->chunks + i * XR_CHUNK_SIZE);
}

/* Returns the chunk of t with this number, as it was when the trace ends, or null if it is gone. The caller holds
 * the thread's lock. */
static const struct xr_chunk *chunk_then(const struct xr_trace *trace, const struct xr_thread *t, uint64_t number)
{
	if (t->ring && t->taken >= number && number > t->gone && t->state != XR_THREAD_FREE) {
		const struct xr_chunk *c = chunk_of(t, number);
		if (__atomic_load_n(&c->seq, __ATOMIC_ACQUIRE) == 2 * number && c->magic == XR_CHUNK_MAGIC && c->first <= trace->until)
			return c;
	}
	return trace->until < UINT64_MAX ? xr_later_chunk(t, trace->until, number) : NULL;
}

/* Returns the number of the latest chunk of t when the trace ends, or 0. */
static uint64_t newest(const struct xr_trace *trace, struct xr_thread *t)
{
	if (trace->until == UINT64_MAX)
		return __atomic_load_n(&t->taken, __ATOMIC_ACQUIRE);
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	const struct xr_chunk *c = xr_later_chunk(t, trace->until, 0);
	uint64_t number = t->taken, least = c ? c->seq / 2 : number > t->nchunks ? number - t->nchunks : 0;
	while (number > least && !chunk_then(trace, t, number))
		number--;
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
	return c && number < least ? least : number;
}

/* Returns where the records of a chunk end that are not later than until. */
static uint64_t end_at(const struct xr_chunk *c, uint64_t end, uint64_t until)
{
	const uint8_t *from = (const uint8_t *)c, *p = from + XR_CHUNK_HEADER, *stop = from + end, *last = p;
	uint64_t epoch = c->first, size;
	if (until == UINT64_MAX || (c->last && c->last <= until))
		return end;
	for (; p < stop; p += size) {
		uint64_t record = load64(p), tsc = 0;
		size = 8;
		if (is_function(record)) {
			tsc = (uint32_t)record ? function_tsc(epoch, record) : 0;
		} else {
			size = record_size(p, stop);
			if (!size)
				return end;
			if (!written(p, size))
				tsc = 0;
			else if (*p >> 1 == XR_REC_STAMP)
				epoch = load64(p + 8) >> 1;
			else if (*p >> 1 >= XR_REC_CUSTOM && *p >> 1 != XR_REC_RESULT)
				tsc = load64(p + 8) >> 1;
		}
		if (tsc > until)
			return last - from;
		if (is_function(record) || (*p >> 1 != XR_REC_STAMP && *p >> 1 != XR_REC_RESULT)) /* these belong to what follows */
			last = p + size;
	}
	return end;
}

/* Copies the chunk with this number, if it is still there and has records at or after the start of the trace.
 * Stores the end of its records in streamed in the copy. Returns 1; 0 if this chunk and earlier ones are not
 * wanted; or -1 if the chunk is gone. */
static int copy_number(const struct xr_trace *trace, struct xr_thread *t, uint64_t number, struct xr_chunk *to)
{
	int result = -1;
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	const struct xr_chunk *c = chunk_then(trace, t, number);
	if (c) {
		uint64_t seq = __atomic_load_n(&c->seq, __ATOMIC_ACQUIRE);
		uint64_t last = __atomic_load_n(&c->last, __ATOMIC_RELAXED);
		if (last && last < trace->since) {
			result = 0;
		} else {
			uint64_t end = copy_chunk(to, c, chunk_end(t, c));
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			if (__atomic_load_n(&c->seq, __ATOMIC_RELAXED) == seq) {
				to->streamed = end_at(to, end, trace->until);
				result = 1;
			}
		}
	}
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
	return result;
}

/* Copies the wanted chunks of a thread, newest first. If the thread keeps running and
 * overwrites some, the oldest are lost. */
static int copy_thread(struct xr_trace *trace, struct xr_thread *t, struct copies *s)
{
	uint64_t latest = newest(trace, t), nchunks = t->nchunks;

	s->n = 0;
	if (!latest)
		return 0;
	if (nchunks > s->cap) {
		if (s->chunks)
			xr_unmap(s->chunks, s->cap * XR_CHUNK_SIZE);
		s->cap = 0;
		s->chunks = xr_map(nchunks * XR_CHUNK_SIZE);
		if (!s->chunks)
			return -ENOMEM;
		s->cap = nchunks;
	}
	for (uint64_t number = latest; number && number + nchunks > latest; number--) {
		int got = copy_number(trace, t, number, copy_at(s, s->n));
		if (got > 0 && s->n && copy_at(s, s->n)->tid != copy_at(s, 0)->tid)
			got = -1; /* another thread has the ring now */
		/* What was overwritten before a kept snapshot ended is no loss, and what was afterwards is counted. */
		if (got < 0 && trace->until == UINT64_MAX && number > t->gone)
			trace->torn += 1;
		if (got <= 0)
			break;
		s->n++;
	}
	return 0;
}

/* Returns the time before which no ring holds wanted records. */
static uint64_t oldest(uint64_t since, uint64_t until)
{
	uint64_t min = until < UINT64_MAX ? xr_later_first(until) : UINT64_MAX;
	for (uint64_t i = 0, n = nthreads(); i < n; i++) {
		struct xr_thread *t = thread_at(i);
		xr_lock_one(XR_LOCK_THREAD, &t->lock);
		uint64_t taken = t->taken;
		for (uint64_t k = 0; t->ring && t->state != XR_THREAD_FREE && taken - k >= xr_oldest_chunk(t) && k < taken; k++) {
			const struct xr_chunk *c = chunk_of(t, taken - k);
			if (c->magic == XR_CHUNK_MAGIC && c->first < min)
				min = c->first;
		}
		xr_unlock_one(XR_LOCK_THREAD, &t->lock);
	}
	if (min == UINT64_MAX)
		min = xr_rdtsc();
	return min > since ? min : since;
}

/* The calls of a thread that are open at a moment, the outermost first. A call whose tail exit has been
 * recorded may go on in the call that is entered next. */
enum { CALL_GONE = 1u << 31, MOST_OUTER = 255, MOST_ARGS = 16, MOST_GONE = 64, SEARCHED = 1 << 16 };
struct opens {
	struct open_call {
		uint32_t fn;  /* with CALL_GONE, after its tail exit */
		uint32_t arg; /* of its first argument */
	} *calls;
	uint64_t *args;
	uint64_t n, nargs, room; /* in calls and args */
	uint64_t last;           /* TSC of the last record */
	uint16_t cpu;
	uint8_t awaits, entered; /* the last record was a tail exit; an entry, or an argument of it */
	/* Calls that were open before all others, the innermost first. Only their exits were found. */
	uint32_t outer[MOST_OUTER], nouter;
};

static void forget_calls(struct opens *o) { o->n = o->nargs = o->awaits = o->entered = 0; }

/* Ends the innermost calls, down to n of them. */
static void end_calls(struct opens *o, uint64_t n)
{
	if (n < o->n)
		o->nargs = o->calls[n].arg;
	o->n = n;
}

static void end_gone(struct opens *o)
{
	uint64_t n = o->n;
	while (n && o->calls[n - 1].fn & CALL_GONE)
		n--;
	end_calls(o, n);
	o->awaits = 0;
}

/* Ends calls that have gone on in tail calls if those cannot include the function that is entered: tail calls that
 * form a loop are calls next to each other. TailLoop in internal/tracewrite is the same rule in Go. */
static void end_loop(struct opens *o, uint32_t fn)
{
	for (uint64_t i = o->n; i-- && o->calls[i].fn & CALL_GONE;) {
		if (o->calls[i].fn != (fn | CALL_GONE) && o->n - i < MOST_GONE)
			continue;
		uint64_t first = i, from = i + 1; /* the calls that have gone on in it end, too */
		while (first && o->calls[first - 1].fn & CALL_GONE)
			first--;
		uint64_t arg = from < o->n ? o->calls[from].arg : o->nargs, shift = arg - o->calls[first].arg;
		for (; from < o->n; first++, from++) {
			o->calls[first] = o->calls[from];
			o->calls[first].arg -= shift;
		}
		for (; arg < o->nargs; arg++)
			o->args[arg - shift] = o->args[arg];
		o->n = first;
		o->nargs -= shift;
		return;
	}
}

static void follow_function(struct opens *o, uint32_t word)
{
	uint32_t fn = word >> 4, kind = word >> 1 & 7;
	o->entered = 0;
	if (kind != XR_EXIT && kind != XR_TAIL) {
		if (o->awaits)
			end_loop(o, fn);
		o->awaits = 0;
		if (o->n < o->room && o->nargs < o->room) {
			o->calls[o->n++] = (struct open_call){.fn = fn, .arg = o->nargs};
			o->entered = 1;
		}
		return;
	}
	if (o->awaits)
		end_gone(o);
	uint64_t i = o->n, least = i > SEARCHED ? i - SEARCHED : 0;
	while (i > least && o->calls[i - 1].fn != fn)
		i--;
	if (i == least) {
		if (!o->n && o->nouter < MOST_OUTER)
			o->outer[o->nouter++] = fn;
		return;
	}
	if (kind == XR_TAIL) {
		end_calls(o, i);
		o->calls[i - 1].fn |= CALL_GONE;
		o->awaits = 1;
	} else {
		end_calls(o, i - 1);
		end_gone(o);
	}
}

/* Returns whether an event may come between a tail exit and the entry of the function that is called. */
static int within_tail_call(const uint8_t *p)
{
	struct { char magic[4]; uint16_t schema, kind; } head;
	if (*p >> 1 != XR_REC_CUSTOM || load32(p + 4) < sizeof head)
		return 0;
	xr_copy(&head, p + 16, sizeof head);
	return !xr_memcmp(head.magic, "XRYM", 4) && (head.kind == XR_META_SWITCH || head.kind == XR_META_DESCRIPTOR);
}

/* Follows entries, and exits of the innermost calls. Returns the first other record. Nearly all records are followed
 * here. */
static const uint8_t *follow_usual(struct opens *o, const uint8_t *p, const uint8_t *stop, uint64_t epoch)
{
	const uint8_t *from = p;
	struct open_call *calls = o->calls;
	uint64_t n = o->n, nargs = o->nargs;
	for (; p < stop; p += 8) {
		uint32_t word = load32(p), fn = word >> 4;
		if ((word & 15) == XR_ENTER << 1 && fn && n < o->room)
			calls[n++] = (struct open_call){.fn = fn, .arg = nargs};
		else if ((word & 15) == XR_EXIT << 1 && n && calls[n - 1].fn == fn && !(n > 1 && calls[n - 2].fn & CALL_GONE))
			nargs = calls[--n].arg;
		else
			break;
	}
	o->n = n;
	o->nargs = nargs;
	if (p > from) {
		o->entered = 0;
		o->last = epoch | load64(p - 8) >> 32;
	}
	return p;
}

/* Follows the records of a chunk whose TSCs are at least from and less than to. Returns 0 at a later one. */
static int follow(struct opens *o, const struct xr_chunk *c, uint64_t end, uint64_t from, uint64_t to)
{
	const uint8_t *p = (const uint8_t *)c + XR_CHUNK_HEADER, *stop = (const uint8_t *)c + end;
	uint64_t epoch = c->first & ~(uint64_t)UINT32_MAX, size;
	int all = c->first >= from && c->last && c->last < to;
	for (; p < stop; p += size) {
		if (all && !o->awaits) {
			p = follow_usual(o, p, stop, epoch);
			if (p >= stop)
				break;
		}
		uint64_t record = load64(p);
		size = 8;
		if (is_function(record)) {
			uint64_t tsc = epoch | record >> 32;
			if (!(uint32_t)record || tsc < from)
				continue;
			if (tsc >= to)
				return 0;
			follow_function(o, record);
			o->last = tsc;
			continue;
		}
		size = record_size(p, stop);
		if (!size)
			return 1;
		if (!written(p, size))
			continue;
		uint64_t value = load64(p + 8) >> 1;
		switch (*p >> 1) {
		case XR_REC_STAMP:
			epoch = value & ~(uint64_t)UINT32_MAX;
			if (value < to)
				o->cpu = record >> 16;
			break;
		case XR_REC_ARG:
			if (o->entered && o->nargs < o->room && o->nargs - o->calls[o->n - 1].arg < MOST_ARGS)
				o->args[o->nargs++] = value | (record >> 8 & 1) << 63;
			break;
		case XR_REC_CUSTOM:
		case XR_REC_TYPED:
			if (value < from)
				break;
			if (value >= to)
				return 0;
			o->entered = 0;
			if (o->awaits && !within_tail_call(p))
				end_gone(o);
			o->last = value;
		}
	}
	return 1;
}

/* Follows the chunks of a thread before those that were copied. If one has been overwritten, the calls
 * that were open before it are unknown. */
static void follow_earlier(const struct xr_trace *trace, struct opens *o, struct xr_thread *t, const struct copies *s, uint64_t from)
{
	const struct xr_chunk *oldest = copy_at(s, s->n - 1);
	uint64_t until = oldest->seq / 2, number = until > t->nchunks ? until - t->nchunks : 1;
	for (; number < until; number++) {
		xr_lock_one(XR_LOCK_THREAD, &t->lock);
		const struct xr_chunk *c = chunk_then(trace, t, number);
		int same = c && c->thread == oldest->thread && c->tid == oldest->tid;
		if (same && c->last >= from)
			follow(o, c, chunk_end(t, c), from, UINT64_MAX);
		xr_unlock_one(XR_LOCK_THREAD, &t->lock);
		if (!same)
			forget_calls(o);
	}
}

static int append_block(struct xr_trace *trace, const struct xr_chunk *of, uint8_t *block, uint8_t *end, struct xr_order order,
			uint16_t cpu, uint64_t tsc)
{
	xr_block_head(block, end - block - 16, of->pid, of->tid, order);
	xr_cpu_record(block + XR_BLOCK_HEAD, cpu, tsc);
	xr_seal(block, end);
	return append(trace, block, end - block);
}

/* Appends the calls of a thread that are open where the trace begins. */
static int append_open(struct xr_trace *trace, struct xr_thread *t, const struct copies *s, struct opens *o)
{
	struct xr_window w = {0};
	forget_calls(o);
	o->last = o->nouter = o->cpu = 0;
	int known = xr_window_at(trace->since, &w);
	if (known)
		follow_earlier(trace, o, t, s, w.from);
	uint64_t i = s->n;
	while (known && i && follow(o, copy_at(s, i - 1), copy_at(s, i - 1)->streamed, w.from, trace->since))
		i--;
	o->nouter = 0; /* these calls ended before */
	uint64_t room = XR_BLOCK_START + 64 + 8 * (MOST_OUTER + 2 * o->n) + 16 * o->nargs;
	uint8_t *block = xr_map(room), *entries = block + XR_BLOCK_START + 16 + 8 + 12, *out = entries + 8 * MOST_OUTER;
	if (!block)
		return -ENOMEM;
	struct { uint32_t records; uint64_t since; } __attribute__((packed)) cut = {.since = o->last};
	for (uint64_t k = 0; k < o->n; k++) {
		const struct open_call *c = &o->calls[k];
		uint32_t fn = c->fn & ~CALL_GONE, next = k + 1 < o->n ? c[1].arg : o->nargs;
		store64(out, fn << 4 | (next > c->arg ? XR_ENTER_ARG : XR_ENTER) << 1);
		out += 8;
		for (uint32_t a = c->arg; a < next; a++)
			out = put_record(out, CALL_ARGUMENT, o->args[a]);
		cut.records++;
		if (c->fn & CALL_GONE) {
			store64(out, fn << 4 | XR_TAIL << 1);
			out += 8;
			cut.records++;
		}
	}
	uint16_t cpu = o->cpu;
	/* Exits without an entry are of calls that were open before all of these. */
	for (int more = known; more && i; i--)
		more = follow(o, copy_at(s, i - 1), copy_at(s, i - 1)->streamed, trace->since, w.to ? w.to : UINT64_MAX);
	uint8_t *first = entries + 8 * (MOST_OUTER - o->nouter);
	for (uint32_t k = 0; k < o->nouter; k++)
		store64(entries + 8 * (MOST_OUTER - 1 - k), o->outer[k] << 4 | XR_ENTER << 1);
	cut.records += o->nouter;
	uint8_t *begin = first - (entries - block);
	put_metadata_event(begin + XR_BLOCK_START, XR_META_CUT, &cut, sizeof cut);
	int err = cut.records || cut.since ? append_block(trace, copy_at(s, 0), begin, out, (struct xr_order){0}, cpu, trace->since) : 0;
	xr_unmap(block, room);
	return err;
}

/* If the first record at or behind an offset of a chunk is a switch, stores it. Returns its time, 1 for another record,
 * or 0 if there is none. */
static uint64_t switch_at(const struct xr_chunk *c, uint64_t at, uint64_t end, struct xr_switch *wait)
{
	const uint8_t *p = (const uint8_t *)c + at, *stop = (const uint8_t *)c + end;
	while (p < stop && *p == (XR_REC_STAMP << 1 | 1))
		p += 16;
	if (p + 24 + 8 + sizeof *wait > stop || *p != (XR_REC_CUSTOM << 1 | 1) || !within_tail_call(p) || load32(p + 4) != 8 + sizeof *wait)
		return p < stop && load64(p) ? 1 : 0;
	xr_copy(wait, p + 16 + 8, sizeof *wait);
	return load64(p + 8) >> 1;
}

/* Returns whether a thread was off the CPU when the trace ended, at a moment that may have passed. What it was since
 * then counts to the time until it ran again. */
static int waited(const struct xr_trace *trace, struct xr_thread *t, const struct xr_chunk *c, struct xr_switch *wait)
{
	enum { LEAST = 20000 /* ns */ };
	if (trace->until == UINT64_MAX)
		return xr_offcpu_waits(t, wait);
	xr_lock_one(XR_LOCK_THREAD, &t->lock);
	uint64_t number = c->seq / 2, at = 0;
	const struct xr_chunk *now = chunk_then(trace, t, number), *next = t->taken > number ? chunk_of(t, number + 1) : NULL;
	if (now)
		at = switch_at(now, c->streamed, chunk_end(t, now), wait);
	if (!at && next && next->seq == 2 * number + 2 && next->tid == c->tid)
		at = switch_at(next, XR_CHUNK_HEADER, chunk_end(t, next), wait);
	int same = t->state == XR_THREAD_LIVE && t->tid == c->tid;
	xr_unlock_one(XR_LOCK_THREAD, &t->lock);
	if (!at) {
		at = xr_rdtsc();
		if (!same || !xr_offcpu_waits(t, wait))
			return 0;
	}
	uint64_t since = at > trace->until ? xr_ns(at - trace->until) : UINT64_MAX;
	if (wait->off == XR_UNKNOWN || wait->off < since || wait->off - since < LEAST)
		return 0;
	wait->off -= since;
	if (wait->queued != XR_UNKNOWN && wait->queued > wait->off)
		wait->queued = wait->off;
	*wait = (struct xr_switch){.off = wait->off, .queued = wait->queued};
	return 1;
}

/* Appends the end of a thread's records. Its open calls lasted at least until then. */
static int append_end(struct xr_trace *trace, struct xr_thread *t, const struct xr_chunk *c, uint8_t *scratch, uint64_t tsc)
{
	uint32_t edge = 0;
	uint8_t *end = scratch + XR_BLOCK_START;
	struct xr_switch wait;
	if (waited(trace, t, c, &wait))
		end = put_metadata_event(end, XR_META_SWITCH, &wait, sizeof wait);
	end = put_metadata_event(end, XR_META_EDGE, &edge, sizeof edge);
	struct xr_order order = block_order(trace, c, tsc);
	order.major++;
	return append_block(trace, c, scratch, end, order, 0, tsc);
}

static int append_thread(struct xr_trace *trace, const struct copies *s, uint8_t *scratch, uint64_t *records, uint64_t *last)
{
	for (uint64_t i = s->n; i-- > 0;) {
		const struct xr_chunk *c = copy_at(s, i);
		struct block b = encode_chunk(trace, c, XR_CHUNK_HEADER, c->streamed, scratch);
		trace->lost[XR_LOST_DAMAGED] += b.damaged;
		int err = b.records ? append(trace, scratch, b.end - scratch) : 0;
		if (err)
			return err;
		*records += b.records;
		if (b.last > *last)
			*last = b.last;
	}
	return 0;
}

/* Makes room for the calls that a ring can have. Pages that are not used cost nothing. */
static int make_room(struct opens *o, uint64_t nchunks)
{
	uint64_t n = nchunks * (XR_CHUNK_SIZE / 8);
	if (n <= o->room)
		return 1;
	if (o->room) {
		xr_unmap(o->calls, o->room * sizeof *o->calls);
		xr_unmap(o->args, o->room * sizeof *o->args);
	}
	o->calls = xr_map(n * sizeof *o->calls);
	o->args = xr_map(n * sizeof *o->args);
	o->room = o->calls && o->args ? n : 0;
	return o->room != 0;
}

static int append_threads(struct xr_trace *trace, uint64_t *records)
{
	struct copies copies = {0};
	struct opens opens = {0};
	struct scratch *owner;
	uint8_t *scratch = take_scratch(&owner);
	if (!scratch)
		return -ENOMEM;
	int err = 0;
	for (uint64_t i = 0, n = nthreads(); !err && i < n; i++) {
		struct xr_thread *t = thread_at(i);
		int lives = t->state == XR_THREAD_LIVE;
		uint64_t now = xr_rdtsc(), last = trace->until < now ? trace->until : now;
		err = copy_thread(trace, t, &copies);
		int cut = !err && trace->cut && copies.n;
		if (cut && trace->until < UINT64_MAX) /* then */
			lives = !copy_at(&copies, 0)->last || copy_at(&copies, 0)->last > trace->until;
		if (cut)
			err = make_room(&opens, copies.cap) ? append_open(trace, t, &copies, &opens) : -ENOMEM;
		if (!err)
			err = append_thread(trace, &copies, scratch, records, &last);
		if (!err && cut && lives)
			err = append_end(trace, t, copy_at(&copies, 0), scratch, last);
	}
	give_scratch(owner, scratch);
	if (copies.chunks)
		xr_unmap(copies.chunks, copies.cap * XR_CHUNK_SIZE);
	if (opens.calls)
		xr_unmap(opens.calls, opens.room * sizeof *opens.calls);
	if (opens.args)
		xr_unmap(opens.args, opens.room * sizeof *opens.args);
	return err;
}

static int64_t write_rings(struct xr_trace trace, uint64_t since, struct xr_written *w)
{
	const uint64_t NEVER = INT64_MAX; /* asks for the metadata alone */
	int err = xr_file_refusal(trace.fd);
	if (err)
		return err;
	xr_calibrated();
	uint64_t signals = xr_block_signals();
	trace.since = oldest(since, trace.until);
	trace.cut = since == trace.since && since && since < NEVER;
	uint64_t records = 0;
	err = append_first(&trace);
	if (!err)
		err = append_threads(&trace, &records);
	if (!err)
		err = append_metadata(&trace, 1);
	xr_restore_signals(signals);
	if (w)
		*w = (struct xr_written){.records = records, .bytes = trace.bytes, .torn = trace.torn};
	return err ? err : (int64_t)records;
}

int64_t xr_snapshot(int fd, uint64_t since, struct xr_written *w)
{
	return write_rings((struct xr_trace){.fd = fd, .until = UINT64_MAX}, since, w);
}

int64_t xr_snapshot_kept(int fd, const struct xr_later *kept)
{
	struct xr_trace trace = {.fd = fd, .until = kept->until, .kept = kept, .torn = kept->torn};
	xr_lock(XR_LOCK_STREAM);
	xr_put(&trace.gone, kept_gone.gone.p, kept_gone.gone.n);
	trace.unlisted = kept_gone.unlisted;
	xr_unlock(XR_LOCK_STREAM);
	int64_t n = write_rings(trace, kept->since, NULL);
	xr_text_free(&trace.gone);
	return n;
}

void xr_kept_done(void)
{
	xr_lock(XR_LOCK_STREAM);
	if (!__atomic_load_n(&xr_later_until, __ATOMIC_SEQ_CST)) {
		xr_text_free(&kept_gone.gone);
		kept_gone.unlisted = 0;
	}
	xr_unlock(XR_LOCK_STREAM);
}
