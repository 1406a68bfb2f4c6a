/* Fills all registers and the flags, calls a function that has only sleds, and compares the registers:
 * registers MODE. Only the flags may differ, at entries and exits. Events and conditional tail exits
 * preserve them too, and a conditional tail exit that is not taken leaves the red zone alone. */
#include "walk.h"

#define ROW(sled, function, kind) "	.quad " sled " - .\n	.quad " function " - .\n	.byte " kind ", 0, 2\n	.zero 13\n"
#define JUMP "	.p2align 1\n	.byte 0xeb, 9, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\n"
#define RETURN "	.p2align 1\n2:	.byte 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0\n"

/* Sleds as compilers write them: an entry, then code, and an exit. rows are those of sleds in the code. */
#define SLEDS(name, kind, code, rows) \
	__asm__(".text\n.p2align 4\n.globl " name "\n.type " name ", @function\n" name ":\n1:" JUMP code RETURN \
		".size " name ", . - " name "\n.section xray_instr_map, \"ao\", @progbits, .text\n" \
		ROW("1b", name, kind) rows ROW("2b", name, "1") ".text\n");

SLEDS("with_entry", "0", "", "")
SLEDS("with_argument", "3", "", "")
SLEDS("with_tail", "0", "	.p2align 1\n3:" JUMP "	jmp returns\n", ROW("3b", "with_tail", "2"))
__asm__("returns:	ret\n");

/* Events are in the middle of functions, so the flags are set before. */
#define SET_FLAGS "	push flags(%rip)\n	popf\n"
#define GET_FLAGS "	pushf\n	pop flags_behind(%rip)\n"
SLEDS("with_custom", "0",
	SET_FLAGS "	.p2align 1\n3:	.byte 0xeb, 15\n	push %rdi\n	push %rsi\n	mov %rdi, %rdi\n	mov %rsi, %rsi\n"
	"	call __xray_CustomEvent\n	pop %rsi\n	pop %rdi\n" GET_FLAGS, ROW("3b", "with_custom", "4"))
SLEDS("with_typed", "0",
	SET_FLAGS "	.p2align 1\n3:	.byte 0xeb, 20\n	push %rdi\n	push %rsi\n	push %rdx\n	mov %rdi, %rdi\n	mov %rsi, %rsi\n"
	"	mov %rdx, %rdx\n	call __xray_TypedEvent\n	pop %rdx\n	pop %rsi\n	pop %rdi\n" GET_FLAGS, ROW("3b", "with_typed", "5"))
extern char with_entry[], with_argument[], with_tail[], with_custom[], with_typed[];

/* Tail exits before conditional jumps, as clang made them before version 19. If the jump is not taken, the
 * red zone must be as it was. */
uint64_t flags, flags_behind, taken, red_zone, kept;
#define CONDITIONAL(condition) \
	SLEDS("on_" #condition, "0", "	movq $0, taken(%rip)\n	movq $0x1234, red_zone(%rip)\n" \
		SET_FLAGS "	movq $0x1234, -8(%rsp)\n	.p2align 1\n3:" JUMP "	j" #condition " is_taken\n" \
		"	mov %rax, kept(%rip)\n	mov -8(%rsp), %rax\n	mov %rax, red_zone(%rip)\n	mov kept(%rip), %rax\n" GET_FLAGS, \
		ROW("3b", "on_" #condition, "2")) \
	extern char on_##condition[];
__asm__(".text\nis_taken:	movq $1, taken(%rip)\n" GET_FLAGS "	ret\n");
CONDITIONAL(o) CONDITIONAL(no) CONDITIONAL(b) CONDITIONAL(ae) CONDITIONAL(e) CONDITIONAL(ne) CONDITIONAL(be) CONDITIONAL(a)
CONDITIONAL(s) CONDITIONAL(ns) CONDITIONAL(p) CONDITIONAL(np) CONDITIONAL(l) CONDITIONAL(ge) CONDITIONAL(le) CONDITIONAL(g)

/* Whether a condition, by its number, holds. */
PLAIN static int holds(int condition, uint64_t f)
{
	int c = f & 1, p = f >> 2 & 1, z = f >> 6 & 1, s = f >> 7 & 1, o = f >> 11 & 1;
	return (condition & 1) ^ (int[]){o, c, z, c | z, s, p, s != o, z | (s != o)}[condition / 2];
}

/* All but the stack pointer. */
enum { GENERAL = 15, VECTORS = 16, STATUS = 0x8d5 };
struct registers {
	uint64_t general[GENERAL];
	uint8_t vectors[VECTORS][16];
} before, after;
char *function;

/* Loads all registers from before, calls function, and stores them into after. */
void through(void);
#define GENERAL_REGISTERS "rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15"
#define VECTOR_REGISTERS "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
__asm__(".text\n.globl through\nthrough:\n"
	"	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n	push %r15\n"
	"	.irp r, " VECTOR_REGISTERS "\n	movdqu before+120+16*\\r(%rip), %xmm\\r\n	.endr\n"
	"	.set i, 0\n	.irp r, " GENERAL_REGISTERS "\n	mov before+i(%rip), %\\r\n	.set i, i+8\n	.endr\n"
	"	call *function(%rip)\n"
	"	.set i, 0\n	.irp r, " GENERAL_REGISTERS "\n	mov %\\r, after+i(%rip)\n	.set i, i+8\n	.endr\n"
	"	.irp r, " VECTOR_REGISTERS "\n	movdqu %xmm\\r, after+120+16*\\r(%rip)\n	.endr\n"
	"	pop %r15\n	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n	ret\n");

int __xray_set_handler(void (*)(int, int)), __xray_set_handler_arg1(void (*)(int, int, uint64_t)), __xray_patch(void),
	__xray_set_customevent_handler(void (*)(void *, size_t)), __xray_set_typedevent_handler(void (*)(size_t, void *, size_t));

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
PLAIN static void handle_custom(void *event, size_t n) { handle(0, 0); }
PLAIN static void handle_typed(size_t type, void *event, size_t n) { handle(0, 0); }

/* Selects all functions, and values of each that are read from registers and, in vain, from memory. */
PLAIN static int select_values(void)
{
	static char text[1 << 16];
	char *end = text + strlen(strcpy(text, "object "));
	end += readlink("/proc/self/exe", end, 4096);
	end += sprintf(end, "\n1-60\n");
	for (int id = 1; id <= 60; id++)
		end += sprintf(end, "values %02x00000002000200"
			"0200000000000000" "0105000000000000" "1700000040000000" /* a string at rdi */
			"0200000000000000" "0201010000000000" "1400000000000000" /* the upper half of xmm1 */
			"0300000000000000" "0100000000000000" "0508000000000000" "1400000000000000" /* 8 bytes at rax */
			"0200000000000000" "010a000000000000" "1400000000000000" /* r10 */
			" \"entry\":[]\n", id);
	return !xr_set_filter(text, end - text);
}

/* Starts recording in the given mode, with handlers, within a budget, or with values. */
PLAIN static int begin(const char *how)
{
	enum xr_mode mode = XR_RECORD;
	int handlers = !strcmp(how, "handlers"), budget = !strcmp(how, "budget"), values = !strcmp(how, "values");
	if (values && !select_values())
		return 0;
	if (!handlers && !budget && !values && !xr_parse_mode(how, &mode))
		return 0;
	if (budget && xr_budget_start(1000000))
		return 0;
	if (xr_start(mode, mode == XR_PRUNE ? 1000 : 0, mode == XR_DEPTH ? 3 : 0, -1, 0))
		return 0;
	return !handlers || (__xray_set_handler(handle) == 1 && __xray_set_handler_arg1(handle_argument) == 1 &&
			     __xray_set_customevent_handler(handle_custom) == 1 && __xray_set_typedevent_handler(handle_typed) == 1 &&
			     __xray_patch() == 1);
}

PLAIN int main(int argc, char **argv)
{
	/* Events take a system call, so they are rarer. */
	static char *const functions[] = {
		on_o, on_no, on_b, on_ae, on_e, on_ne, on_be, on_a, on_s, on_ns, on_p, on_np, on_l, on_ge, on_le, on_g,
		with_custom, with_typed, with_entry, with_argument, with_tail,
	};
	enum { CONDITIONS = 16, EVENTS = 18, FUNCTIONS = sizeof functions / sizeof *functions };
	long differences = 0, wrong_flags = 0, wrong_ways = 0, through_slow = 0;
	uint64_t x = 88172645463325252ull;
	if (argc != 2 || !begin(argv[1]))
		return 2;
	for (int i = 0; i < 200000; i++) {
		uint64_t *words = (uint64_t *)&before;
		for (unsigned k = 0; k < sizeof before / 8; k++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			words[k] = x;
		}
		unsigned f = i % FUNCTIONS;
		if (f >= CONDITIONS && f < EVENTS && i % 16)
			f += 3;
		function = functions[f];
		flags = (before.general[2] & STATUS) | 2;
		uint64_t was = xr_tls ? xr_tls->taken : 0;
		through();
		differences += memcmp(&before, &after, sizeof before) != 0;
		int is_taken = f < CONDITIONS && holds(f, flags);
		wrong_flags += f < EVENTS && !is_taken && (flags_behind ^ flags) & STATUS;
		if (f < CONDITIONS)
			wrong_ways += is_taken != (int)taken || red_zone != 0x1234;
		through_slow += xr_tls && xr_tls->taken != was;
	}
	printf("differences %ld\nflags %ld\nways %ld\nslow %ld\nhandled %ld\n", differences, wrong_flags, wrong_ways, through_slow, handled);
	return 0;
}
