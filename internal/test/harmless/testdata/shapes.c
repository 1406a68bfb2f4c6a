/* Calls functions of many shapes with random values in all registers, and prints a checksum of all registers
 * behind each call. So whatever a sled changes, at entries, exits, tail exits and events, changes the output. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define F __attribute__((noinline, used))
#define PLAIN __attribute__((xray_never_instrument, noinline))
typedef uint64_t u64;
typedef struct { u64 a; double b; } mixed;
typedef struct { u64 a[5]; } large;

static u64 counts[256], sum;

/* Up to 14 parameters, and an expression of all. */
#define P1(T) T a1
#define P2(T) P1(T), T a2
#define P3(T) P2(T), T a3
#define P4(T) P3(T), T a4
#define P5(T) P4(T), T a5
#define P6(T) P5(T), T a6
#define P7(T) P6(T), T a7
#define P8(T) P7(T), T a8
#define P9(T) P8(T), T a9
#define P10(T) P9(T), T a10
#define P11(T) P10(T), T a11
#define P12(T) P11(T), T a12
#define P13(T) P12(T), T a13
#define P14(T) P13(T), T a14
#define S1 a1
#define S2 S1 * 3 + a2
#define S3 (S2) * 3 + a3
#define S4 (S3) * 3 + a4
#define S5 (S4) * 3 + a5
#define S6 (S5) * 3 + a6
#define S7 (S6) * 3 + a7
#define S8 (S7) * 3 + a8
#define S9 (S8) * 3 + a9
#define S10 (S9) * 3 + a10
#define S11 (S10) * 3 + a11
#define S12 (S11) * 3 + a12
#define S13 (S12) * 3 + a13
#define S14 (S13) * 3 + a14
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define CALLED (counts[__COUNTER__]++)

/* In pairs: the second function ends in a tail call of the first. */
#define INTS(n) \
	F u64 int##n(P##n(u64)) { CALLED; return S##n; } \
	F u64 tail##n(P##n(u64)) { CALLED; a1 ^= 5; return int##n ARGUMENTS##n; }
#define DOUBLES(n) F double double##n(P##n(double)) { CALLED; return S##n; }
#define ARGUMENTS1 (a1)
#define ARGUMENTS2 (a1, a2)
#define ARGUMENTS3 (a1, a2, a3)
#define ARGUMENTS4 (a1, a2, a3, a4)
#define ARGUMENTS5 (a1, a2, a3, a4, a5)
#define ARGUMENTS6 (a1, a2, a3, a4, a5, a6)
#define ARGUMENTS7 (a1, a2, a3, a4, a5, a6, a7)
#define ARGUMENTS8 (a1, a2, a3, a4, a5, a6, a7, a8)
#define ARGUMENTS9 (a1, a2, a3, a4, a5, a6, a7, a8, a9)
#define ARGUMENTS10 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)
#define ARGUMENTS11 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11)
#define ARGUMENTS12 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12)
#define ARGUMENTS13 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13)
#define ARGUMENTS14 (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14)
EACH(INTS)
EACH(DOUBLES)

F void none(void) { CALLED; }
F u64 constant(void) { CALLED; return 7; }
F mixed both(mixed a, u64 b, mixed c) { CALLED; return (mixed){a.a + b + c.a, a.b + c.b}; }
F u64 memory(large a, u64 b, large c) { CALLED; return a.a[0] + b + c.a[4]; }
F long double x87(u64 a, long double b) { CALLED; return b + (long double)(a & 0xff); }
F u64 variadic(u64 n, ...)
{
	va_list list;
	u64 s = n;
	CALLED;
	va_start(list, n);
	for (int i = 0; i < 9; i++)
		s = s * 3 + va_arg(list, u64);
	va_end(list);
	return s;
}
F double variadic_doubles(double n, ...)
{
	va_list list;
	CALLED;
	va_start(list, n);
	for (int i = 0; i < 9; i++)
		n = n * 3 + va_arg(list, double);
	va_end(list);
	return n;
}

/* Conditional tail calls, before version 19 with -Os and -Oz. */
F void refuse(u64 a) { CALLED; sum += a; }
F void serve(u64 a, u64 b)
{
	CALLED;
	if (a & 1) {
		refuse(a);
		return;
	}
	sum -= b;
}
F void compare(u64 a, u64 b)
{
	CALLED;
	if (a > b)
		refuse(b);
}

/* Sleds of events call this, which nothing else defines in a program without a recorder. */
PLAIN F void __xray_CustomEvent(const void *p, size_t n) { (void)p, (void)n; }

#ifdef NO_EVENTS
#define __xray_customevent(p, n) (void)0
#endif

/* An event between a comparison and what depends on it. */
F u64 event(u64 a, u64 b)
{
	u64 less = a < b, same = (a & 7) == (b & 7);
	CALLED;
	__xray_customevent("event", 5);
	return (less ? a : b) + same;
}

#define CONVENTION(name) F __attribute__((name)) u64 with_##name(P9(u64)) { CALLED; return S9; } \
	F __attribute__((name)) void empty_##name(void) { CALLED; }
CONVENTION(ms_abi)
CONVENTION(regcall)
CONVENTION(vectorcall)
CONVENTION(swiftcall)
CONVENTION(preserve_most)
CONVENTION(preserve_all)
#if __clang_major__ >= 19
CONVENTION(preserve_none)
#define NEW ROW(with_preserve_none) ROW(empty_preserve_none)
#else
#define NEW
#endif

enum { GENERAL = 15, VECTORS = 16, STACK = 64 };
__attribute__((used)) struct {
	u64 general[GENERAL];
	u64 vectors[VECTORS][2];
	u64 stack[STACK];
} before, after;
__attribute__((used)) void *function;

/* Loads all registers but the stack pointer from before, calls function, and stores them into after. What the
 * function takes for arguments on the stack is from before, too. */
void through(void);
#define GENERAL_REGISTERS "rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15"
#define VECTOR_REGISTERS "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
__asm__(".text\n.globl through\nthrough:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	sub $520, %rsp\n"
	"	lea before+376(%rip), %rsi\n	mov %rsp, %rdi\n	mov $64, %ecx\n	rep movsq\n"
	"	.irp r, " VECTOR_REGISTERS "\n	movdqu before+120+16*\\r(%rip), %xmm\\r\n	.endr\n"
	"	.set i, 0\n	.irp r, " GENERAL_REGISTERS "\n	mov before+i(%rip), %\\r\n	.set i, i+8\n	.endr\n"
	"	call *function(%rip)\n"
	"	.set i, 0\n	.irp r, " GENERAL_REGISTERS "\n	mov %\\r, after+i(%rip)\n	.set i, i+8\n	.endr\n"
	"	.irp r, " VECTOR_REGISTERS "\n	movdqu %xmm\\r, after+120+16*\\r(%rip)\n	.endr\n"
	"	fninit\n	add $520, %rsp\n	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n	ret\n");

#define ROW(f) {(void *)f, #f},
#define ROWS(n) ROW(int##n) ROW(tail##n) ROW(double##n)
static const struct {
	void *f;
	const char *name;
} functions[] = {
	EACH(ROWS) ROW(none) ROW(constant) ROW(both) ROW(memory) ROW(x87) ROW(variadic) ROW(variadic_doubles) ROW(serve)
	ROW(compare) ROW(event) ROW(with_ms_abi) ROW(empty_ms_abi) ROW(with_regcall) ROW(empty_regcall) ROW(with_vectorcall)
	ROW(empty_vectorcall) ROW(with_swiftcall) ROW(empty_swiftcall) ROW(with_preserve_most) ROW(empty_preserve_most)
	ROW(with_preserve_all) ROW(empty_preserve_all) NEW
};

/* Addresses in the program and on the stack differ between runs. */
PLAIN static u64 relative(u64 v)
{
	extern char __executable_start[], _end[];
	u64 stack = (uintptr_t)__builtin_frame_address(0);
	if (v - (uintptr_t)__executable_start < (u64)(_end - __executable_start))
		return v - (uintptr_t)__executable_start;
	return v - (stack - 65536) < 131072 ? 1 : v;
}

PLAIN int main(void)
{
	enum { FUNCTIONS = sizeof functions / sizeof *functions, ROUNDS = 200 };
	u64 x = 88172645463325252ull;
	for (int k = 0; k < FUNCTIONS; k++) {
		u64 h = 0;
		function = functions[k].f;
		for (int round = 0; round < ROUNDS; round++) {
			u64 *words = (u64 *)&before;
			for (unsigned i = 0; i < sizeof before / 8; i++) {
				x ^= x << 13, x ^= x >> 7, x ^= x << 17;
				words[i] = x;
			}
			before.general[0] |= 1; /* variadic functions save vector registers only if there are arguments in them */
			through();
			for (int i = 0; i < GENERAL; i++)
				h = (h ^ relative(after.general[i])) * 0x100000001b3ull;
			for (int i = 0; i < VECTORS; i++)
				h = (h ^ after.vectors[i][0] ^ after.vectors[i][1] << 1) * 0x100000001b3ull;
		}
		printf("%s: x%016lx\n", functions[k].name, h);
	}
	u64 calls = 0;
	for (int i = 0; i < 256; i++)
		calls += counts[i];
	printf("sum %lu, calls %lu;\n", sum, calls);
	return 0;
}
