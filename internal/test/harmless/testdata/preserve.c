/* Functions that keep more registers than usual for their callers, and that get arguments in
 * registers that calls usually destroy. */
#include <stdio.h>

#define F __attribute__((noinline))
#define IN volatile long in[13] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};

IN
static volatile long seen;
static long n_most, n_all, n_own, n_use;

F __attribute__((preserve_most)) void most(void) { n_most++; seen++; }
F __attribute__((preserve_all)) void all(void) { n_all++; seen += 2; }
F __attribute__((no_caller_saved_registers, target("general-regs-only"))) void own(void) { n_own++; seen += 3; }

#define USE(name) \
	F long use_##name(void) \
	{ \
		long a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5], g = in[6], h = in[7], i = in[8], j = in[9]; \
		long k = in[10], l = in[11], m = in[12]; \
		n_use++; \
		name(); \
		return a + b * 3 + c * 5 + d * 7 + e * 9 + f * 11 + g * 13 + h * 15 + i * 17 + j * 19 + k * 21 + l * 23 + m * 25; \
	}
USE(most)
USE(all)
USE(own)

#if __has_attribute(preserve_none)
/* An interpreter that passes its state in registers, from one handler to the next. */
#define STATE const unsigned char *pc, long a, long b, long c, long d, long e, long f, long g, long h, long i, long j
#define PASS pc, a, b, c, d, e, f, g, h, i, j
#define NEXT pc++; __attribute__((musttail)) return table[*pc](PASS)
typedef __attribute__((preserve_none)) long operation(STATE);
static operation *const table[];
static long n_add, n_mix, n_end;

__attribute__((preserve_none)) long add(STATE) { n_add++; a += b + c + d + e + f + g + h + i + j; NEXT; }
__attribute__((preserve_none)) long mix(STATE) { n_mix++; j = j * 31 + 7; i ^= a; NEXT; }
__attribute__((preserve_none)) long end(STATE) { n_end++; return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j; }
static operation *const table[] = {add, mix, end};

static long interpret(void)
{
	static unsigned char code[1000];
	for (int n = 0; n < 999; n++)
		code[n] = n * 7 / 3 & 1;
	code[999] = 2;
	return table[code[0]](code, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
}
#endif

__attribute__((xray_never_instrument)) int main(void)
{
	long s = 0;
	for (int i = 0; i < 1000; i++)
		s += use_most() + 3 * use_all() + 5 * use_own();
	printf("total %ld, seen %ld\n", s, seen);
#if __has_attribute(preserve_none)
	printf("interpreted %lx\nadd %ld\nmix %ld\nend %ld\n", interpret(), n_add, n_mix, n_end);
#endif
	printf("most %ld\nall %ld\nown %ld\nuse_most %ld\n", n_most, n_all, n_own, n_use / 3);
	return 0;
}
