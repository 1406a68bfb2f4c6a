/* The trampolines that call handlers, which are functions of the program; see llvm_api.c. They
 * preserve all registers, and then jump to the trampoline of the recorder's mode. */
#include "trampoline_amd64.h"

/* Offsets in struct handling of llvm_api.c, and the room for it on the stack. */
#define HANDLER 24
#define RECORDED 32
#define SAVED 48
#define HANDLING 64

	.text

	/* Parts of the vector registers, as bits of XCR0: YMM and ZMM are the upper halves of ymm0 to
	 * ymm15 and of zmm0 to zmm15, MASKS is k0 to k7, MORE is zmm16 to zmm31. X87 means that the
	 * x87 stack is not empty, and IN_USE that the processor reports which parts are not 0. */
	.set	X87, 1 << 0
	.set	YMM, 1 << 2
	.set	MASKS, 1 << 5
	.set	ZMM, 1 << 6
	.set	MORE, 1 << 7
	.set	IN_USE, 1 << 31

	/* Offsets at which they are saved: the x87 state at 0, then zmm0 to zmm31, then k0 to k7. */
	.set	AT_VECTORS, 512
	.set	AT_MASKS, AT_VECTORS + 32 * 64
	.set	SAVED_SIZE, AT_MASKS + 64

	.macro EACH_VECTOR first, last, operation, kind, back
	.set	i, \first
	.rept	\last - \first + 1
	ONE_VECTOR %i, \operation, \kind, \back
	.set	i, i + 1
	.endr
	.endm
	.altmacro
	.macro ONE_VECTOR n, operation, kind, back
	.if \back
	\operation AT_VECTORS + 64 * \n(%rsp), %\kind\n
	.else
	\operation %\kind\n, AT_VECTORS + 64 * \n(%rsp)
	.endif
	.endm

	.macro EACH_MASK back
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	.if \back
	kmovq	AT_MASKS + 8 * \n(%rsp), %k\n
	.else
	kmovq	%k\n, AT_MASKS + 8 * \n(%rsp)
	.endif
	.endr
	.endm

	/* Saves or restores the parts in eax. Arguments and results are in the first 16 registers. Upper
	 * halves that were not saved are 0 after the restore. */
	.macro VECTORS back
	testl	$ZMM, %eax
	jnz	1f
	testl	$YMM, %eax
	jnz	2f
	.if \back
	testl	$YMM, xr_vectors(%rip)
	jz	4f
	vzeroupper
4:
	.endif
	EACH_VECTOR 0, 15, movups, xmm, \back
	jmp	3f
1:	EACH_VECTOR 0, 15, vmovups, zmm, \back
	jmp	3f
2:	EACH_VECTOR 0, 15, vmovups, ymm, \back
3:	testl	$MORE, %eax
	jz	5f
	EACH_VECTOR 16, 31, vmovups, zmm, \back
5:	testl	$MASKS, %eax
	jz	6f
	EACH_MASK \back
6:
	.endm

	/* Calls a handler as described by rdi, a struct handling, and preserves the vector registers.
	 * Those that never hold arguments or results are preserved only if esi has their bits. XSAVE and
	 * XRSTOR would do the same, but take ten times as long. */
	.type	call_handler, @function
	.p2align 4
call_handler:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	pushq	%rbx
	.cfi_offset rbx, -24
	movq	%rdi, %rbx
	subq	$SAVED_SIZE, %rsp
	andq	$-64, %rsp
	movl	xr_vectors(%rip), %edi
	movl	$YMM | ZMM, %eax
	testl	%edi, %edi
	jns	1f
	movl	$1, %ecx
	xgetbv
	andl	$YMM | ZMM, %eax
1:	orl	%esi, %eax
	andl	%eax, %edi
	/* Functions expect the x87 stack to be empty, but at an exit it may hold a result. */
	fnstsw	%ax
	testl	$0x3800, %eax
	jz	1f
	orl	$X87, %edi
	fxsave64 (%rsp)
	emms
1:	movl	%edi, %eax
	movl	%eax, SAVED(%rbx)
	VECTORS	0
	movq	(%rbx), %rdi
	movq	8(%rbx), %rsi
	movq	16(%rbx), %rdx
	call	*HANDLER(%rbx)
	movl	SAVED(%rbx), %eax
	testl	$X87, %eax
	jz	1f
	fxrstor64 (%rsp)
1:	VECTORS	1
	movq	%rbx, %rdi
	call	xr_handler_end
	movq	-8(%rbp), %rbx
	.cfi_restore rbx
	leave
	.cfi_restore rbp
	.cfi_def_cfa rsp, 8
	ret
	END	call_handler

	/* The comparison is before the pops, which preserve the flags. */
	.macro HANDLE name, events, next, more
	.if \more
	BEGIN	\name
	SAVE_FLAGS
	.else
	SLED	\name
	.endif
	SAVE_ALL
	SAVE	rbp
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	subq	$HANDLING, %rsp
	andq	$-16, %rsp
	leaq	8(%rbp), %rdi
	movl	$\events, %esi
	leaq	-HANDLING(%rbp), %rdx
	call	xr_handler_begin
	testl	%eax, %eax
	jz	1f
	leaq	-HANDLING(%rbp), %rdi
	movl	$\more, %esi
	call	call_handler
1:	cmpl	$0, RECORDED - HANDLING(%rbp)
	movq	%rbp, %rsp
	.cfi_def_cfa_register rsp
	UNSAVE	rbp
	UNSAVE_ALL
	jz	2f
	.cfi_remember_state
	.if \more
	UNSAVE_FLAGS
	jmp	*xr_handler_next + 8 * \next(%rip)
	.cfi_restore_state
2:	UNSAVE_FLAGS
	ret
	.else
	PASS	*xr_handler_next + 8 * \next(%rip)
	.cfi_restore_state
2:	DONE
	.endif
	END	\name
	.endm

	/* The numbers of events are from enum xr_events, and those of thunks from patch.c. */
	HANDLE	xr_handle_enter, 0, 0, 0
	HANDLE	xr_handle_exit, 0, 1, 0
	HANDLE	xr_handle_arg, 1, 2, 0
	HANDLE	xr_handle_custom, 2, 3, MORE | MASKS
	HANDLE	xr_handle_typed, 3, 4, MORE | MASKS
	HANDLE	xr_handle_keep, 0, 5, 0

	.section .note.GNU-stack, "", @progbits
