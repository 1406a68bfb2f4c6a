/* Replacements for libc functions that leave calls without an exit, or continue on another stack. They apply if the recorder
 * is preloaded. They are not in the archive: in a static program, they would replace libc's
 * functions altogether. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <ucontext.h>

#include "events.h"
#include "fibers.h"
#include "landings.h"
#include "options.h"

#define EXPORT __attribute__((visibility("default")))

/* Returns the stack pointer in a jmp_buf. glibc encodes it with a per-thread secret. */
static uint64_t saved_sp(const void *env)
{
	enum { RSP = 6 };
	uint64_t sp = ((const uint64_t *)env)[RSP];
#ifdef __GLIBC__
	__asm__("rorq $17, %0; xorq %%fs:48, %0" : "+r"(sp) : : "cc");
#endif
	return sp;
}

/* The functions that the program would call without the recorder. */
typedef void jump(struct __jmp_buf_tag env[1], int value);
enum { LONGJMP, UNDERSCORE_LONGJMP, SIGLONGJMP, LONGJMP_CHK, JUMPS };
static jump *jumps[JUMPS];

static int (*swap)(ucontext_t *, const ucontext_t *), (*set)(const ucontext_t *);

__attribute__((constructor(101))) static void find(void)
{
	swap = (int (*)(ucontext_t *, const ucontext_t *))dlsym(RTLD_NEXT, "swapcontext");
	set = (int (*)(const ucontext_t *))dlsym(RTLD_NEXT, "setcontext");
	jumps[LONGJMP] = dlsym(RTLD_NEXT, "longjmp");
	jumps[UNDERSCORE_LONGJMP] = dlsym(RTLD_NEXT, "_longjmp");
	jumps[SIGLONGJMP] = dlsym(RTLD_NEXT, "siglongjmp");
	jumps[LONGJMP_CHK] = dlsym(RTLD_NEXT, "__longjmp_chk");
}

static inline __attribute__((noreturn)) void go(int which, struct __jmp_buf_tag env[1], int value)
{
	if (!jumps[which])
		find(); /* another constructor ran before the recorder's */
	xr_land(saved_sp(env), XR_LEFT_BY_JUMP);
	xr_fibers_jumped();
	jumps[which](env, value);
	__builtin_unreachable();
}

#undef longjmp
#undef _longjmp
#undef siglongjmp
EXPORT void longjmp(struct __jmp_buf_tag env[1], int value) { go(LONGJMP, env, value); }
EXPORT void _longjmp(struct __jmp_buf_tag env[1], int value) { go(UNDERSCORE_LONGJMP, env, value); }
EXPORT void siglongjmp(struct __jmp_buf_tag env[1], int value) { go(SIGLONGJMP, env, value); }

EXPORT __attribute__((noreturn)) void __longjmp_chk(struct __jmp_buf_tag env[1], int value);
void __longjmp_chk(struct __jmp_buf_tag env[1], int value) { go(LONGJMP_CHK, env, value); }

static void note(const ucontext_t *to)
{
	if (xr_options.fibers)
		xr_fibers_expect((uintptr_t)to->uc_stack.ss_sp, to->uc_stack.ss_size);
	else
		xr_note_stacks();
}

/* Both jump to libc's function: it saves the stack pointer of its caller. */
EXPORT int swapcontext(ucontext_t *save, const ucontext_t *to)
{
	if (!swap)
		find();
	note(to);
	if (swap)
		return swap(save, to);
	errno = ENOSYS;
	return -1;
}

EXPORT int setcontext(const ucontext_t *to)
{
	if (!set)
		find();
	note(to);
	if (set)
		return set(to);
	errno = ENOSYS;
	return -1;
}
