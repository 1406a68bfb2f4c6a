#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

typedef unsigned long u64;
typedef signed char i8;
typedef int i32;
typedef float f32;
typedef double f64;
typedef long double f80;
typedef __int128 i128;
typedef const char *ptr;
typedef struct { i32 a, b; } pair;
typedef struct { u64 a; f64 b; } mixed;
typedef struct { u64 a[9]; } large;
typedef f32 v16 __attribute__((vector_size(16)));

#define PLAIN __attribute__((xray_never_instrument))
#define ATTRIBUTES(more) __attribute__((noinline, more))
#define CALLED(n) __atomic_fetch_add(&counts[n], 1, __ATOMIC_RELAXED)

/* How to make a value of each type from an integer, and how to fold it into one. Others are cast. */
#define VALUE(type, make, fold) \
	static inline __attribute__((always_inline, unused)) type make_##type(u64 x) { return make; } \
	static inline __attribute__((always_inline, unused)) u64 fold_##type(type v) { return fold; }
VALUE(f32, (f32)(x & 0xffffff), (u64)v)
VALUE(f64, (f64)(x & 0xfffffffffffff), (u64)v)
VALUE(f80, (f80)x, (u64)v)
VALUE(i128, (i128)x << 64 | (x ^ 1), (u64)(v >> 64) * 3 + (u64)v)
VALUE(pair, ((pair){(i32)x, (i32)(x >> 32)}), (u64)v.a * 3 + (u64)v.b)
VALUE(mixed, ((mixed){x, (f64)(x & 0xfffffff)}), v.a * 3 + (u64)v.b)
VALUE(large, ((large){{x, 1, 2, 3, 4, 5, 6, 7, x + 8}}), v.a[0] * 3 + v.a[8])
VALUE(v16, ((v16){(f32)(x & 0xffff), 1, 2, (f32)(x >> 50)}), (u64)v[0] * 3 + (u64)v[3])

#ifdef __cplusplus
extern "C" {
#endif
#ifdef LOCAL
#define STATE static
#define INITIALLY(value) = value
#else
#define LOCAL
#if PART == 0
#define STATE
#define INITIALLY(value) = value
#else
#define STATE extern
#define INITIALLY(value)
#endif
#endif
STATE u64 counts[FUNCTIONS + 2];
STATE volatile u64 in[14] INITIALLY({});
/* How many calls may still be made, and what functions without results add to. */
STATE __thread long fuel, turns INITIALLY(3);
STATE __thread u64 sum;
/* Where a longjmp goes, and how many callers catch exceptions. */
STATE __thread jmp_buf *jump;
STATE __thread int tries;
