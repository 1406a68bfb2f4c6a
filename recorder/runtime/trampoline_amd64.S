/* The trampolines that sleds reach. A sled's own thunk has saved r10 at -8(%rsp) and put the word of
 * its record into r10d. Entries call, exits jump, and both get back by ret, so one trampoline serves
 * all kinds.
 *
 * They preserve all registers, because any calling convention may use r10 and r11. Some tail calls
 * have their target there, and functions their arguments. No vector register is used,
 * because al counts those of a variadic call, and arguments and results may be in any of them.
 * The flags hold nothing at entries and exits; see patch.c for conditional tail exits. Every push has
 * its CFI, so that debuggers and profilers find the caller from each instruction. */
#include "fibers.h"
#include "layout.h"
#include "libcalls.h"
#include "trampoline_amd64.h"
#include "values.h"

	.macro LEAVE4
	.cfi_remember_state
	UNSAVE4
	DONE
	.cfi_restore_state
	.endm

	/* Sets r11 to the thread's struct, or 0 in a new thread. */
	.macro THREAD
	movq	xr_tls@gottpoff(%rip), %r11
	movq	%fs:(%r11), %r11
	testq	%r11, %r11
	.endm

	/* Sets rcx to the cursor and eax to the stamp, or jumps to label 4: without a chunk, with a
	 * full one, on another CPU, or in another epoch. The cursor is loaded before the stamp is
	 * read. A signal handler that records in between moves the cursor, and RESERVE notices
	 * that, so time never runs backwards.
	 *
	 * by says how a change of CPU is noticed: not at all, by the CPU's number, or by the kernel
	 * having cleared the target of rseq, as it does whenever the thread was not running. That
	 * check comes after the stamp: if the thread was off the CPU in between, that time is
	 * before the event, whose stamp is then read again. */
	.set	BY_NOTHING, 0
	.set	BY_RDPID, 1
	.set	BY_RSEQ, 2
	.macro STAMP by
	movq	XR_THREAD_CURSOR(%r11), %rcx
	testw	%cx, %cx
	jz	4f
	.if \by == BY_RDPID
	rdpid	%rdx
	cmpl	%edx, XR_THREAD_CPU(%r11)
	jne	4f
	.endif
	rdtsc
	cmpl	%edx, XR_THREAD_EPOCH(%r11)
	jne	4f
	.if \by == BY_RSEQ
	movq	XR_THREAD_RSEQ(%r11), %rdx
	cmpq	$0, (%rdx)
	je	4f
	.endif
	.endm

	/* Takes rcx and eax from STAMP. Sets rax to the place of n bytes of records, which belong
	 * to the thread before any is written, and rdx to the record. If a signal handler has
	 * recorded since STAMP, jumps to label 2 instead. */
	.macro RESERVE n
	shlq	$32, %rax
	orq	%r10, %rax
	movq	%rax, %rdx
	movq	%rcx, %rax
	addq	$\n, %rcx
	cmpxchgq %rcx, XR_THREAD_CURSOR(%r11)
	jne	2b
	.endm

	/* Jumps to label 1 if n bytes are available; otherwise leaves. */
	.macro SLOW n
	movl	$\n, %eax
	call	slow
	testl	%eax, %eax
	jnz	1b
	LEAVE4
	.endm

	.text

	/* int xr_slow(eax), preserving all registers except rax and r11. */
	.type	slow, @function
	.p2align 4
slow:
	.cfi_startproc
	SAVE	rcx
	SAVE	rdx
	SAVE	rsi
	SAVE	rdi
	SAVE	r8
	SAVE	r9
	SAVE	r10
	SAVE	rbp
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	andq	$-16, %rsp
	movl	%eax, %edi
	call	xr_slow
	movq	%rbp, %rsp
	.cfi_def_cfa_register rsp
	UNSAVE	rbp
	UNSAVE	r10
	UNSAVE	r9
	UNSAVE	r8
	UNSAVE	rdi
	UNSAVE	rsi
	UNSAVE	rdx
	UNSAVE	rcx
	ret
	END	slow

	BEGIN	xr_call_on
	SAVE	rbp
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	movq	%r9, %rsp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %rcx
	call	*%rax
	movq	%rbp, %rsp
	.cfi_def_cfa_register rsp
	UNSAVE	rbp
	ret
	END	xr_call_on

	/* The target of sleds that are on while nothing is recorded, and that of events. */
	BEGIN	xr_no_call
	movq	-8(%rsp), %r10
	ret
	END	xr_no_call

	BEGIN	xr_nothing
	ret
	END	xr_nothing

	/* Records an entry or an exit. */
	.macro RECORD name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	RESERVE	8
	movq	%rdx, (%rax)
	LEAVE4
4:	SLOW	8
	END	\name
	.endm

	RECORD	xr_record, BY_RDPID
	RECORD	xr_record_nocpu, BY_NOTHING
	RECORD	xr_record_rseq, BY_RSEQ

	/* Records a call without duration, of a function that has only entry sleds or only exit sleds. */
	.macro RECORD_ONCE name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	cmpw	$(XR_CHUNK_SIZE - 16), %cx
	ja	4f
	RESERVE	16
	movq	%rdx, (%rax)
	orq	$(XR_EXIT << 1), %rdx
	movq	%rdx, 8(%rax)
	LEAVE4
4:	SLOW	16
	END	\name
	.endm

	RECORD_ONCE xr_record_once, BY_RDPID
	RECORD_ONCE xr_record_once_nocpu, BY_NOTHING
	RECORD_ONCE xr_record_once_rseq, BY_RSEQ

	/* The same in other modes: an entry, then an exit. Their trampolines find the same place on the stack,
	 * because entries are called once more. */
	SLED	xr_once
	SAVE	r10
	call	*xr_once_next(%rip)
	UNSAVE	r10
	orl	$(XR_EXIT << 1), %r10d
	call	*xr_once_next + 8(%rip)
	DONE
	END	xr_once

	/* Records an entry and the function's first argument. */
	.macro RECORD_ARG name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	cmpw	$(XR_CHUNK_SIZE - 24), %cx
	ja	4f
	RESERVE	24
	movq	%rdi, %rcx
	shrq	$63, %rcx
	shlq	$8, %rcx
	orq	$(XR_REC_ARG << 1 | 1), %rcx
	movq	%rcx, 8(%rax)
	leaq	1(%rdi, %rdi), %rcx
	movq	%rcx, 16(%rax)
	movq	%rdx, (%rax)
	LEAVE4
4:	SLOW	24
	END	\name
	.endm

	RECORD_ARG xr_record_arg, BY_RDPID
	RECORD_ARG xr_record_arg_nocpu, BY_NOTHING
	RECORD_ARG xr_record_arg_rseq, BY_RSEQ

	/* Label 8: adds a dropped call to the thread's sums. edx is the word of its entry, and its
	 * ticks are in the upper half of r10. Each sum takes one instruction. */
	.macro ADD_SUMS
	movq	$0, XR_THREAD_AGAIN(%r11)
8:	movl	%edx, %eax
	shrl	$4, %eax
	cmpq	%rax, XR_THREAD_NSUMS(%r11)
	jbe	9f
	shlq	$4, %rax
	addq	XR_THREAD_SUMS(%r11), %rax
	shrq	$32, %r10
	incq	(%rax)
	addq	%r10, 8(%rax)
	LEAVE4
9:	movl	$XR_SUMS, %eax
	call	slow
	testl	%eax, %eax
	jz	10f
	THREAD
	jnz	8b
10:	LEAVE4
	.endm

	/* Jumps to LINK, label \link, if the exit, whose entry of n bytes is the previous record, is one of a tail
	 * call, or if a tail exit precedes the entry. LINK comes back to label \alone if the call is alone. */
	.macro LINKED n, link, alone
	testb	$(XR_TAIL << 1), %r10b
	jnz	\link\()f
	movb	-\n - 8(%rcx), %dl
	andb	$7, %dl
	cmpb	$(XR_TAIL << 1), %dl
	je	\link\()f
\alone:
	.endm

	/* Otherwise jumps to label 3, or leaves if the call was removed. The sled's return address is above r10
	 * and what SAVE4 and this have saved. */
	.macro LINK n, link, alone
\link:	pushq	%rax
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	SAVE	rsi
	SAVE	rdi
	SAVE	r8
	SAVE	r9
	pushq	%r10
	.cfi_adjust_cfa_offset 8
	movq	%rcx, %rdi
	movl	%eax, %esi
	movl	%r10d, %edx
	movq	104(%rsp), %rcx
	movl	$\n, %r8d
	CALL_C	xr_prune_linked
	cmpl	$1, %eax
	popq	%r10
	.cfi_adjust_cfa_offset -8
	UNSAVE	r9
	UNSAVE	r8
	UNSAVE	rdi
	UNSAVE	rsi
	popq	%r11
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	jb	3b
	ja	\alone\()b
	LEAVE4
	.endm

	/* Records an exit. If the entry is the previous record and younger than the threshold,
	 * removes the entry instead. The entry's slot is zeroed before the cursor moves back over
	 * it, so unwritten memory always reads as 0. If a signal handler recorded in between, the
	 * entry is restored.
	 *
	 * A removed call is added to the thread's sums of calls and of ticks, each by one
	 * instruction. Its ticks wait in the upper half of r10, which is otherwise 0. The ID is the
	 * entry's, which is known before the stamp is: the next stamp waits for loads whose
	 * addresses depend on this one. Calls with an argument are never removed, because compilers
	 * log arguments only of functions that are always instrumented. */
	.macro PRUNE name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	movl	%r10d, %edx
	andl	$-16, %edx
	cmpl	%edx, -8(%rcx)
	jne	3f
	LINKED	8, 11, 12
	movl	%eax, %edx
	subl	-4(%rcx), %edx
	cmpq	xray_recorder_root + XR_ROOT_THRESHOLD(%rip), %rdx
	jae	3f
	shlq	$32, %rdx
	orq	%rdx, %r10
	movq	-8(%rcx), %rdx
	movq	$0, -8(%rcx)
	movq	%rcx, %rax
	subq	$8, %rcx
	cmpxchgq %rcx, XR_THREAD_CURSOR(%r11)
	jne	6f
	ADD_SUMS
6:	movq	%rdx, (%rcx)
	movl	%r10d, %r10d
	jmp	2b
3:	RESERVE	8
	movq	%rdx, (%rax)
	LEAVE4
4:	SLOW	8
	LINK	8, 11, 12
	END	\name
	.endm

	PRUNE	xr_prune, BY_RDPID
	PRUNE	xr_prune_nocpu, BY_NOTHING
	PRUNE	xr_prune_rseq, BY_RSEQ

	/* struct xr_place xr_take(rdi): takes room for this many bytes of records, which belong to the
	 * thread before any is written. Returns null if the slow path is needed. Called from C. */
	.macro TAKE name, by
	BEGIN	\name
	THREAD
	jz	4f
2:	STAMP	\by
	movzwl	%cx, %edx
	addl	%edi, %edx
	cmpl	$XR_CHUNK_SIZE, %edx
	ja	4f
	movl	XR_THREAD_EPOCH(%r11), %edx
	shlq	$32, %rdx
	orq	%rax, %rdx
	leaq	(%rcx, %rdi), %rsi
	movq	%rcx, %rax
	cmpxchgq %rsi, XR_THREAD_CURSOR(%r11)
	jne	2b
	ret
4:	xorl	%eax, %eax
	ret
	END	\name
	.endm

	TAKE	xr_take, BY_RDPID
	TAKE	xr_take_nocpu, BY_NOTHING
	TAKE	xr_take_rseq, BY_RSEQ

	/* Counts an entry. One instruction does it, so signals do not matter. */
	SLED	xr_count
	SAVE	r11
	shrl	$4, %r10d
	THREAD
	jz	4f
2:	cmpq	%r10, XR_THREAD_NCOUNTERS(%r11)
	jbe	4f
	movq	XR_THREAD_COUNTERS(%r11), %r11
	incq	(%r11, %r10, 8)
3:	.cfi_remember_state
	UNSAVE	r11
	DONE
	.cfi_restore_state
4:	SAVE3
	movl	$XR_COUNTERS, %eax
	call	slow
	testl	%eax, %eax
	UNSAVE3
	jz	3b
	THREAD
	jnz	2b
	jmp	3b
	END	xr_count

	/* Profile mode: a C function does everything. */
	SLED	xr_profile
	SAVE4
	SAVE	rsi
	SAVE	rdi
	SAVE	r8
	SAVE	r9
	leaq	72(%rsp), %rsi
	CALL_C	xr_profile_event, movl %r10d, %edi
	UNSAVE	r9
	UNSAVE	r8
	UNSAVE	rdi
	UNSAVE	rsi
	UNSAVE4
	DONE
	END	xr_profile

	/* Depth mode: a C function decides whether the call is recorded. The trampoline for that
	 * serves the same kind of sled. */
	.macro DEPTH name, next
	SLED	\name
	SAVE_ALL
	leaq	80(%rsp), %rsi
	CALL_C	xr_depth_wants, movl %r10d, %edi
	testl	%eax, %eax
	UNSAVE_ALL
	jz	1f
	.cfi_remember_state
	PASS	*xr_depth_next + \next(%rip)
	.cfi_restore_state
1:	DONE
	END	\name
	.endm

	DEPTH	xr_depth_enter, 0
	DEPTH	xr_depth_exit, 8
	DEPTH	xr_depth_arg, 16
	DEPTH	xr_depth_keep, 24

	/* With a budget: counts an entry, and records it unless its function's limit is reached. A
	 * function that is off has the limit 0. A recorded call is noted with the address of its return
	 * address, so that only its exit is recorded. The note is written twice, before and after top moves: a signal
	 * handler may overwrite it before, and may read it after. */
	.macro BUDGET_ENTER name, kind, next
	SLED	\name
	SAVE	r11
	shrl	$4, %r10d
1:	THREAD
	jz	4f
	cmpq	%r10, XR_THREAD_NCOUNTERS(%r11)
	jbe	4f
	movq	XR_THREAD_COUNTERS(%r11), %r11
	incq	(%r11, %r10, 8)
	movq	xr_limits(%rip), %r11
	cmpq	$0, (%r11, %r10, 8)
	jne	2f
3:	.cfi_remember_state
	UNSAVE	r11
	DONE
	.cfi_restore_state
2:	SAVE	rax
	SAVE	rdx
	movq	(%r11, %r10, 8), %rdx
	THREAD
	movq	XR_THREAD_COUNTERS(%r11), %rax
	movq	(%rax, %r10, 8), %rax
	subq	$1, %rax
	cmpq	%rdx, %rax
	jae	5f
	movq	XR_THREAD_TOP(%r11), %rdx
	cmpq	XR_THREAD_END(%r11), %rdx
	jae	6f
	leaq	40(%rsp), %rax
	movq	%rax, (%rdx)
	movq	%r10, 8(%rdx)
	addq	$16, XR_THREAD_TOP(%r11)
	movq	%rax, (%rdx)
	movq	%r10, 8(%rdx)
	.cfi_remember_state
	UNSAVE	rdx
	UNSAVE	rax
	UNSAVE	r11
	shll	$4, %r10d
	.if \kind
	orl	$(\kind << 1), %r10d
	.endif
	PASS	*xr_budget_next + \next(%rip)
	.cfi_restore_state
5:	jne	6f
	movq	xr_exhausted(%rip), %rdx
	incl	(%rdx)
6:	UNSAVE	rdx
	UNSAVE	rax
	jmp	3b
4:	SAVE	rax
	movl	$XR_COUNTERS, %eax
	call	slow
	testl	%eax, %eax
	UNSAVE	rax
	jnz	1b
	jmp	3b
	END	\name
	.endm

	BUDGET_ENTER xr_budget_enter, 0, 0
	BUDGET_ENTER xr_budget_arg, XR_ENTER_ARG, 16

	/* Calls a C function with rdx. Its result is in rax. */
	.macro CALL_WITH_RDX function
	SAVE	rcx
	SAVE	rsi
	SAVE	rdi
	SAVE	r8
	SAVE	r9
	SAVE	r10
	CALL_C	\function, movq %rdx, %rdi
	UNSAVE	r10
	UNSAVE	r9
	UNSAVE	r8
	UNSAVE	rdi
	UNSAVE	rsi
	UNSAVE	rcx
	.endm

	/* Records an exit if its call was recorded. At a tail exit, the return address is 8 bytes further
	 * up, because the sled calls the trampoline. */
	.macro BUDGET_EXIT name, next
	SLED	\name
	SAVE	r11
	SAVE	rax
	SAVE	rdx
	THREAD
	jz	5f
	movl	%r10d, %edx
	andl	$(XR_TAIL << 1), %edx
	leaq	32(%rsp, %rdx, 2), %rdx
	movq	XR_THREAD_TOP(%r11), %rax
	cmpq	%rdx, -16(%rax)
	jne	6f
	subq	$16, XR_THREAD_TOP(%r11)
3:	.cfi_remember_state
	UNSAVE	rdx
	UNSAVE	rax
	UNSAVE	r11
	PASS	*xr_budget_next + \next(%rip)
	.cfi_restore_state
6:	ja	5f
	CALL_WITH_RDX xr_budget_exits
	testl	%eax, %eax
	jnz	3b
5:	UNSAVE	rdx
	UNSAVE	rax
	UNSAVE	r11
	DONE
	END	\name
	.endm

	BUDGET_EXIT xr_budget_exit, 8
	BUDGET_EXIT xr_budget_keep, 24

	/* Functions of libc. */
	BUDGET_ENTER xr_budget_call_arg, XR_ENTER_ARG, 32
	BUDGET_ENTER xr_budget_call_args, XR_ENTER_ARG, 40
	BUDGET_ENTER xr_budget_call_descriptor, XR_ENTER_ARG, 48
	BUDGET_EXIT xr_budget_call_exit, 56
	BUDGET_EXIT xr_budget_call_result, 64

	/* With fibers: notes an open call, if its return address is right below that of the innermost call that is noted.
	 * A C function handles the others. The note is written twice, as that of a budget. */
	.macro FIBER_ENTER name, next
	SLED	\name
	SAVE	r11
	SAVE	rax
	SAVE	rdx
	THREAD
	jz	5f
	movq	XR_THREAD_FIBER_TOP(%r11), %rdx
	cmpq	XR_THREAD_FIBER_END(%r11), %rdx
	jae	5f
	leaq	40(%rsp), %rax
	subq	-8(%rdx), %rax
	addq	$XR_FIBER_NEAR, %rax
	cmpq	$XR_FIBER_NEAR, %rax
	jae	5f
	leaq	40(%rsp), %rax
	movq	%rax, (%rdx)
	addq	$8, XR_THREAD_FIBER_TOP(%r11)
	movq	%rax, (%rdx)
3:	.cfi_remember_state
	UNSAVE	rdx
	UNSAVE	rax
	UNSAVE	r11
	PASS	*xr_budget_next + \next(%rip)
	.cfi_restore_state
5:	leaq	40(%rsp), %rdx
	CALL_WITH_RDX xr_fiber_enters
	jmp	3b
	END	\name
	.endm

	/* Removes the note of the call, at its exit. */
	.macro FIBER_EXIT name, next
	SLED	\name
	SAVE	r11
	SAVE	rax
	SAVE	rdx
	THREAD
	jz	3f
	movl	%r10d, %edx
	andl	$(XR_TAIL << 1), %edx
	leaq	32(%rsp, %rdx, 2), %rdx
	movq	XR_THREAD_FIBER_TOP(%r11), %rax
	testq	%rax, %rax
	jz	3f
	cmpq	%rdx, -8(%rax)
	jne	5f
	subq	$8, XR_THREAD_FIBER_TOP(%r11)
3:	.cfi_remember_state
	UNSAVE	rdx
	UNSAVE	rax
	UNSAVE	r11
	PASS	*xr_budget_next + \next(%rip)
	.cfi_restore_state
5:	CALL_WITH_RDX xr_fiber_exits
	jmp	3b
	END	\name
	.endm

	FIBER_ENTER xr_fiber_enter, 0
	FIBER_EXIT xr_fiber_exit, 8
	FIBER_ENTER xr_fiber_arg, 16
	FIBER_EXIT xr_fiber_keep, 24
	FIBER_ENTER xr_fiber_call_arg, 32
	FIBER_ENTER xr_fiber_call_args, 40
	FIBER_ENTER xr_fiber_call_descriptor, 48
	FIBER_EXIT xr_fiber_call_exit, 56
	FIBER_EXIT xr_fiber_call_result, 64

#include "libcalls_amd64.h"
#include "values_amd64.h"

	/* void xr_store_vector(rdi, rsi): stores vector register rdi, 16 bytes. */
	BEGIN	xr_store_vector
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	cmpl	$\n, %edi
	jne	1f
	movups	%xmm\n, (%rsi)
	ret
1:
	.endr
	ret
	END	xr_store_vector

	/* Events. Their sleds pass the payload in argument registers, in the middle of a function, with any
	 * stack alignment. All registers may be in use, and the flags: compilers do not know that an event
	 * is a call. Instrumented code refers to these symbols. */
	.macro EVENT name, function
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	SAVE_FLAGS
	SAVE_ALL
	CALL_C	\function
	UNSAVE_ALL
	UNSAVE_FLAGS
	ret
	END	\name
	.endm

	EVENT	__xray_CustomEvent, xr_custom_event
	EVENT	__xray_TypedEvent, xr_typed_event

	.section .tbss, "awT", @nobits
	.globl	xr_tls
	.hidden	xr_tls
	.type	xr_tls, @object
	.size	xr_tls, 8
	.p2align 3
xr_tls:	.zero	8

	/* Where trampolines pass events, and how room for events is taken: the mode's choice. patch.c sets them. */
	.macro	CHOICE name, count
	.globl	\name
	.hidden	\name
	.type	\name, @object
	.size	\name, 8 * (\count)
	.endm

	.bss
	.p2align 3
	CHOICE	xr_depth_next, XR_NEXT_VALUES + 2
xr_depth_next:	.zero 8 * (XR_NEXT_VALUES + 2)
	CHOICE	xr_budget_next, XR_NEXT_VALUES + 2
xr_budget_next:	.zero 8 * (XR_NEXT_VALUES + 2)
	CHOICE	xr_once_next, 2
xr_once_next:	.zero 8 * 2

	.section .data.rel.local, "aw"
	.p2align 3
	CHOICE	xr_take_room, 1
xr_take_room:	.quad xr_take_nocpu

	.section .note.GNU-stack, "", @progbits
