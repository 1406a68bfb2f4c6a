/* Fills all registers, calls a function that has only sleds, and compares the registers:
 * registers MODE. Only r10 and the flags may differ, and r11 except at a tail exit, where it may
 * hold the function to jump to. */
#include "walk.h"

/* Sleds as compilers write them: an entry, or one with its argument, and an exit. */
#define SLEDS(name, kind) \
	__asm__(".text\n.p2align 4\n.type " name ", @function\n" name ":\n" \
		"1:	.byte 0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\n" \
		"	.byte 0x90\n" \
		"2:	.byte 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\n" \
		".size " name ", . - " name "\n" \
		".section xray_instr_map, \"ao\", @progbits, .text\n" \
		"	.quad 1b - .\n	.quad " name " - .\n	.byte " kind ", 0, 2\n	.zero 13\n" \
		"	.quad 2b - .\n	.quad " name " - .\n	.byte 1, 0, 2\n	.zero 13\n" \
		".text\n")
SLEDS("with_entry", "0");
SLEDS("with_argument", "3");
void with_entry(void), with_argument(void);

/* An entry and a tail exit, at which r11 must stay equal to r12. The code that is returned to
 * stands for the target. */
uint64_t r11_differs;
__asm__(".text\n.p2align 4\n.type with_tail, @function\nwith_tail:\n"
	"1:	.byte 0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\n"
	"	mov %r12, %r11\n"
	"	.p2align 1\n"
	"2:	.byte 0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\n"
	"	xor %r12, %r11\n"
	"	or %r11, r11_differs(%rip)\n"
	"	ret\n"
	".size with_tail, . - with_tail\n"
	".section xray_instr_map, \"ao\", @progbits, .text\n"
	"	.quad 1b - .\n	.quad with_tail - .\n	.byte 0, 0, 2\n	.zero 13\n"
	"	.quad 2b - .\n	.quad with_tail - .\n	.byte 2, 0, 2\n	.zero 13\n"
	".text\n");
void with_tail(void);

enum { GENERAL = 13, VECTORS = 16 };
struct registers {
	uint64_t general[GENERAL];
	uint8_t vectors[VECTORS][16];
	void (*function)(void);
};

/* Loads registers from p, calls p->function, and then stores the registers into q. */
void through(const struct registers *p, struct registers *q);
__asm__(".text\n.globl through\nthrough:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	push %rsi\n"
	"	mov %rdi, %r11\n"
	"	.set i, 0\n"
	"	.irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n	movdqu 104+16*\\r(%r11), %xmm\\r\n	.endr\n"
	"	.irp r, rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r12,r13,r14,r15\n	mov i(%r11), %\\r\n	.set i, i+8\n	.endr\n"
	"	call *360(%r11)\n"
	"	pop %r11\n"
	"	.set i, 0\n"
	"	.irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n	movdqu %xmm\\r, 104+16*\\r(%r11)\n	.endr\n"
	"	.irp r, rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r12,r13,r14,r15\n	mov %\\r, i(%r11)\n	.set i, i+8\n	.endr\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n	ret\n");

int __xray_set_handler(void (*)(int, int)), __xray_set_handler_arg1(void (*)(int, int, uint64_t)), __xray_patch(void);

/* A handler that uses all registers that functions may use. */
static long handled;
PLAIN static void handle(int id, int type)
{
	__asm__ volatile(
		".irp r, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n	pcmpeqd %%xmm\\r, %%xmm\\r\n	.endr\n"
		".irp r, rax,rcx,rdx,rsi,rdi,r8,r9,r10,r11\n	mov $-1, %%\\r\n	.endr\n" : : :
		"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		"xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	handled++;
}
PLAIN static void handle_argument(int id, int type, uint64_t argument) { handle(id, type); }

/* Starts recording in the given mode, or with handlers. */
PLAIN static int begin(int argc, char **argv)
{
	enum xr_mode mode;
	if (argc == 2 && !strcmp(argv[1], "handlers"))
		return !xr_start(XR_RECORD, 0, 0, -1, 0) && __xray_set_handler(handle) == 1 && __xray_set_handler_arg1(handle_argument) == 1 &&
		       __xray_patch() == 1;
	return argc == 2 && xr_parse_mode(argv[1], &mode) &&
	       !xr_start(mode, mode == XR_PRUNE ? 1000 : 0, mode == XR_DEPTH ? 3 : 0, -1, 0);
}

PLAIN int main(int argc, char **argv)
{
	static void (*const functions[])(void) = {with_entry, with_argument, with_tail};
	struct registers before, after;
	long differences = 0, tails = 0, through_slow = 0;
	uint64_t x = 88172645463325252ull;
	if (!begin(argc, argv))
		return 2;
	for (int i = 0; i < 200000; i++) {
		uint64_t *words = (uint64_t *)&before;
		for (unsigned k = 0; k < sizeof before / 8; k++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			words[k] = x;
		}
		before.function = functions[i % 3];
		r11_differs = 0;
		uint64_t taken = xr_tls ? xr_tls->taken : 0;
		through(&before, &after);
		after.function = before.function;
		differences += memcmp(&before, &after, sizeof before) != 0;
		tails += r11_differs != 0;
		through_slow += xr_tls && xr_tls->taken != taken;
	}
	printf("differences %ld\ntails %ld\nslow %ld\nhandled %ld\n", differences, tails, through_slow, handled);
	return 0;
}
