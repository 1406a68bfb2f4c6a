/* Macros of the assembly files. Every push has its CFI. */
#ifdef __CET__
#include <cet.h>
#endif

	.macro SAVE reg
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endm

	.macro UNSAVE reg
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endm

	.macro BEGIN name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 6
\name:
	.cfi_startproc
	endbr64
	.endm

	.macro END name
	.cfi_endproc
	.size	\name, . - \name
	.endm

	.macro SAVE3
	SAVE	rax
	SAVE	rdx
	SAVE	rcx
	.endm

	.macro UNSAVE3
	UNSAVE	rcx
	UNSAVE	rdx
	UNSAVE	rax
	.endm

	.macro SAVE4
	SAVE	r11
	SAVE3
	.endm

	.macro UNSAVE4
	UNSAVE3
	UNSAVE	r11
	.endm

	/* Calls a C function with the general registers saved. setup sets rdi and the other
	 * arguments. */
	.macro CALL_C function, setup:vararg
	SAVE	rbp
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	andq	$-16, %rsp
	\setup
	call	\function
	movq	%rbp, %rsp
	.cfi_def_cfa_register rsp
	UNSAVE	rbp
	.endm

	.macro SAVE_ALL
	SAVE3
	SAVE	rsi
	SAVE	rdi
	SAVE	r8
	SAVE	r9
	SAVE	r10
	SAVE	r11
	.endm

	.macro UNSAVE_ALL
	UNSAVE	r11
	UNSAVE	r10
	UNSAVE	r9
	UNSAVE	r8
	UNSAVE	rdi
	UNSAVE	rsi
	UNSAVE3
	.endm
