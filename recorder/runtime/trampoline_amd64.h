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

	/* Begins a trampoline for entries and exits. The sled's thunk has saved r10 below the return address. */
	.macro SLED name
	BEGIN	\name
	leaq	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r10, 0
	.endm

	/* Ends a trampoline that SLED has begun. */
	.macro DONE
	UNSAVE	r10
	ret
	.endm

	/* Goes on with another trampoline. r10 is the word again. */
	.macro PASS target:vararg
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	jmp	\target
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

	/* The status flags. Unlike pushf, this leaves a debugger's trap flag alone. */
	.macro SAVE_FLAGS
	SAVE	rax
	lahf
	seto	%al
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	.endm

	.macro UNSAVE_FLAGS
	popq	%rax
	.cfi_adjust_cfa_offset -8
	addb	$127, %al
	sahf
	UNSAVE	rax
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
