/* The recorder's threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>

#include "layout.h"
#include "libcalls.h"
#include "syscall.h"
#include "threads.h"

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

static struct raw {
	char *map;
	struct head *head;
	uint32_t alive; /* the thread ID; the kernel clears it and wakes waiters when the thread ends */
	uint32_t tid;
	void (*run)(void);
} raws[XR_RAWS];

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
static int prepare(struct raw *r)
{
	const struct head *c = caller();
	uint64_t below = (uintptr_t)c - (uintptr_t)&errno;
	uint64_t own = (uintptr_t)c - (uintptr_t)&xr_unsealed;
	if (below < own)
		below = own;
	if (below > MOST_STATIC)
		return -ENOSYS;
	if (!r->map) {
		r->map = xr_map(STACK + MOST_STATIC + 2 * PTHREAD);
		if (!r->map)
			return -ENOMEM;
		xr_sys3(SYS_mprotect, (intptr_t)r->map, GUARD, PROT_NONE);
		r->head = (struct head *)(r->map + STACK + MOST_STATIC + PTHREAD);
	}
	/* An earlier thread used this memory. The kernel does not release locked memory. */
	if (xr_sys3(SYS_madvise, (intptr_t)r->map + STACK, MOST_STATIC + 2 * PTHREAD, MADV_DONTNEED))
		xr_zero(r->map + STACK, MOST_STATIC + 2 * PTHREAD);
	struct head *h = r->head;
	h->tcb = h->self = h;
	h->dtv = (char *)h + PTHREAD / 2; /* for no module and generation 0 */
	h->multiple_threads = 1;
	h->sysinfo = c->sysinfo;
	h->stack_guard = c->stack_guard;
	h->pointer_guard = c->pointer_guard;
	h->features = c->features;
	return 0;
}

/* All signals belong to the program. They are blocked, except two of libc in its own threads: with
 * these, libc makes every thread change its user, and ends threads. In a forked child they are blocked
 * at the start. */
static void begin(uint32_t *tid, uint64_t blocked)
{
	xr_restore_signals(blocked);
	xr_sys6(SYS_prctl, 15 /* PR_SET_NAME */, (intptr_t)"xray-ctl", 0, 0, 0, 0);
	*tid = xr_sys0(SYS_gettid);
	xr_unsealed = 1;
}

/* Not FUTEX_WAIT_PRIVATE, because the kernel does not wake that way. */
static void await_end(struct raw *r)
{
	for (uint32_t tid; (tid = __atomic_load_n(&r->alive, __ATOMIC_ACQUIRE));)
		xr_sys4(SYS_futex, (intptr_t)&r->alive, FUTEX_WAIT, tid, 0);
}

/* A thread that has ended counts as part of the process until the kernel has removed it. */
static void await_removal(uint32_t tid)
{
	while (xr_sys3(SYS_tgkill, xr_sys0(SYS_getpid), tid, 0) != -ESRCH)
		xr_sys0(SYS_sched_yield);
}

static struct raw *own(void)
{
	const struct head *h = caller();
	for (struct raw *r = raws; r < raws + XR_RAWS; r++)
		if (r->head == h)
			return r;
	return NULL;
}

static void run_raw(void)
{
	struct raw *r = own();
	begin(&r->tid, ~0ull);
	r->run();
}

int xr_raw_thread_start(enum xr_raw which, void (*run)(void))
{
#ifndef __GLIBC__
	return -ENOSYS; /* the thread control block is another */
#endif
	struct raw *r = &raws[which];
	await_end(r);
	int err = prepare(r);
	if (err)
		return err;
	r->run = run;
	uint64_t signals = xr_block_signals();
	int64_t tid = xr_clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
		CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
		r->map + STACK, &r->alive, &r->alive, r->head, run_raw);
	xr_restore_signals(signals);
	return tid < 0 ? tid : 0;
}

void xr_raw_thread_join(enum xr_raw which)
{
	await_end(&raws[which]);
	await_removal(raws[which].tid);
}

void xr_raw_thread_forked(enum xr_raw which) { raws[which].alive = 0; }

int xr_is_raw_thread(void) { return own() != NULL; }

static void *run_pthread(void *arg)
{
	struct xr_pthread *t = arg;
	begin(&t->tid, ~(1ull << (32 - 1) | 1ull << (33 - 1)));
	t->run();
	return NULL;
}

int xr_pthread_start(struct xr_pthread *t, void (*run)(void))
{
	enum { STACK_SIZE = 33 << 12 }; /* which no thread of the program is likely to have */
	pthread_attr_t attr;
	if (pthread_attr_init(&attr))
		return -ENOMEM;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	t->run = run;
	uint64_t signals = xr_block_signals();
	struct xr_thread *muted = xr_mute();
	int err = pthread_create(&t->thread, &attr, run_pthread, t);
	xr_unmute(muted);
	xr_restore_signals(signals);
	pthread_attr_destroy(&attr);
	return -err;
}

void xr_pthread_join(struct xr_pthread *t)
{
	pthread_join(t->thread, NULL);
	await_removal(t->tid);
}
