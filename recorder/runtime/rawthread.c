/* A thread created by clone alone. See rawthread.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>

#include "rawthread.h"
#include "syscall.h"

/* The start of the thread control block, which compilers and the ABI use. The rest is private to
 * libc. */
struct head {
	struct head *tcb;
	void *dtv;
	struct head *self;
	uint64_t multiple_threads, sysinfo, stack_guard, pointer_guard;
	uint64_t unused[2];
	uint64_t features; /* control-flow enforcement */
};
_Static_assert(__builtin_offsetof(struct head, stack_guard) == 0x28, "");
_Static_assert(__builtin_offsetof(struct head, features) == 0x48, "");

enum {
	GUARD = 1 << 12,
	STACK = 1 << 17,
	MOST_STATIC = 1 << 17, /* static TLS: the thread-local variables of objects loaded at start */
	PTHREAD = 1 << 13,     /* twice the size of a thread control block, rounded up */
};

static struct {
	char *map;
	struct head *head;
	uint32_t alive; /* the thread ID; the kernel clears it and wakes waiters when the thread ends */
} thread;

int64_t xr_clone(uint64_t flags, void *stack, uint32_t *parent_tid, uint32_t *child_tid, void *tls, void (*run)(void));
__asm__(
	"	.text\n"
	"	.hidden	xr_clone\n"
	"	.globl	xr_clone\n"
	"	.type	xr_clone, @function\n"
	"	.p2align 4\n"
	"xr_clone:\n"
	"	.cfi_startproc\n"
	"	movl	$56, %eax\n" /* SYS_clone */
	"	movq	%rcx, %r10\n"
	"	syscall\n"
	"	testq	%rax, %rax\n"
	"	jz	1f\n"
	"	ret\n"
	"1:	.cfi_undefined rip\n"
	"	xorl	%ebp, %ebp\n"
	"	call	*%r9\n"
	"	movl	$60, %eax\n" /* SYS_exit */
	"	xorl	%edi, %edi\n"
	"	syscall\n"
	"	hlt\n"
	"	.cfi_endproc\n"
	"	.size	xr_clone, . - xr_clone\n");

static struct head *caller(void)
{
	struct head *self;
	__asm__("movq %%fs:16, %0" : "=r"(self));
	return self;
}

/* Sets up the thread's memory: a stack, and above it zeroed TLS and the thread control block. */
static int prepare(void)
{
	const struct head *c = caller();
	uint64_t below = (uintptr_t)c - (uintptr_t)&errno;
	uint64_t own = (uintptr_t)c - (uintptr_t)&xr_unsealed;
	if (below < own)
		below = own;
	if (below > MOST_STATIC)
		return -ENOSYS;
	if (!thread.map) {
		thread.map = xr_map(STACK + MOST_STATIC + 2 * PTHREAD);
		if (!thread.map)
			return -ENOMEM;
		xr_sys3(SYS_mprotect, (intptr_t)thread.map, GUARD, PROT_NONE);
		thread.head = (struct head *)(thread.map + STACK + MOST_STATIC + PTHREAD);
	}
	/* An earlier thread used this memory. The kernel does not release locked memory. */
	if (xr_sys3(SYS_madvise, (intptr_t)thread.map + STACK, MOST_STATIC + 2 * PTHREAD, MADV_DONTNEED))
		xr_zero(thread.map + STACK, MOST_STATIC + 2 * PTHREAD);
	struct head *h = thread.head;
	h->tcb = h->self = h;
	h->dtv = (char *)h + PTHREAD / 2; /* for no module and generation 0 */
	h->multiple_threads = 1;
	h->sysinfo = c->sysinfo;
	h->stack_guard = c->stack_guard;
	h->pointer_guard = c->pointer_guard;
	h->features = c->features;
	return 0;
}

int xr_raw_thread_start(void (*run)(void))
{
	xr_raw_thread_join();
	int err = prepare();
	if (err)
		return err;
	int64_t tid = xr_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
		CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
		thread.map + STACK, &thread.alive, &thread.alive, thread.head, run);
	return tid < 0 ? tid : 0;
}

void xr_raw_thread_join(void)
{
	for (uint32_t tid; (tid = __atomic_load_n(&thread.alive, __ATOMIC_ACQUIRE));)
		xr_sys4(SYS_futex, (intptr_t)&thread.alive, FUTEX_WAIT, tid, 0);
}

void xr_raw_thread_forked(void) { thread.alive = 0; }

int xr_is_raw_thread(void) { return thread.head && caller() == thread.head; }
