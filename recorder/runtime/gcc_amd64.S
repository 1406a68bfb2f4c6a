/* The hooks that gcc's instrumentation calls. They find the ID of the function and jump to a
 * trampoline as a sled would: with the record's word in r10d and, for profile mode, the
 * function's place on the stack in r11. */
#include "gcc.h"
#include "layout.h"
#include "trampoline_amd64.h"

	.text

	/* What the program calls. Each hook jumps to its current target. Weak, because a program
	 * may have its own hooks. */
	.macro HOOK name, number
	.weak	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	jmp	*xr_gcc_hooks + 8 * \number(%rip)
	END	\name
	.endm

	HOOK	__cyg_profile_func_enter, XR_CYG_ENTER
	HOOK	__cyg_profile_func_exit, XR_CYG_EXIT
	HOOK	__fentry__, XR_FENTRY
	HOOK	__return__, XR_RETURN

	/* The program calls these like any function, so the argument registers are free. */
	.macro CYG name, kind, number
	BEGIN	\name
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	xr_gcc_id
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	shll	$4, %eax
	jz	1f
	leal	\kind << 1(%rax), %r10d
	movq	%rsp, %r11
	jmp	*xr_gcc_next + 8 * \number(%rip)
1:	ret
	END	\name
	.endm

	CYG	xr_on_cyg_enter, XR_ENTER, XR_CYG_ENTER
	CYG	xr_on_cyg_exit, XR_EXIT, XR_CYG_EXIT

	/* The program calls these where no call is expected: before the prologue, and after the
	 * epilogue or before a tail call. Any register may be in use, including r10 and r11. The
	 * stack holds 9 registers, the return address into the function, and the function's own
	 * return address. */
	BEGIN	xr_on_fentry
	SAVE_ALL
	leaq	80(%rsp), %rsi
	movq	72(%rsp), %rdi
	CALL_C	xr_gcc_enter
	shll	$4, %eax
	jz	1f
	leal	XR_ENTER << 1(%rax), %r10d
	leaq	72(%rsp), %r11
	call	*xr_gcc_next + 8 * XR_FENTRY(%rip)
1:	UNSAVE_ALL
	ret
	END	xr_on_fentry

	BEGIN	xr_on_return
	SAVE_ALL
	leaq	80(%rsp), %rdi
	CALL_C	xr_gcc_leave
	shll	$4, %eax
	jz	1f
	leal	XR_EXIT << 1(%rax), %r10d
	leaq	80(%rsp), %r11
	call	*xr_gcc_next + 8 * XR_RETURN(%rip)
1:	UNSAVE_ALL
	ret
	END	xr_on_return

	.macro PROFILE name, function
	BEGIN	\name
	SAVE_ALL
	movq	%r11, %rsi
	CALL_C	\function, movl %r10d, %edi
	UNSAVE_ALL
	ret
	END	\name
	.endm

	PROFILE	xr_gcc_profile, xr_profile_event
	PROFILE	xr_gcc_profile_inlined, xr_profile_inlined

	.section .note.GNU-stack, "", @progbits
