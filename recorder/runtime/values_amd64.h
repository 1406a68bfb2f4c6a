/* Trampolines of functions with values. They store the general registers as in DWARF's numbering, and C code
 * reads the values. It uses no vector registers, so those still hold what they held in the function. */

	.macro VALUES name, function, at
	SLED	\name
	SAVE	r15
	SAVE	r14
	SAVE	r13
	SAVE	r12
	SAVE	r11
	pushq	40(%rsp) /* r10 */
	.cfi_adjust_cfa_offset 8
	SAVE	r9
	SAVE	r8
	pushq	%rsp
	.cfi_adjust_cfa_offset 8
	addq	$(64 + \at), (%rsp)
	SAVE	rbp
	SAVE	rdi
	SAVE	rsi
	SAVE	rbx
	SAVE	rcx
	SAVE	rdx
	SAVE	rax
	movl	%r10d, %edi
	movq	%rsp, %rsi
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	andq	$-16, %rsp
	call	\function
	movq	%rbp, %rsp
	.cfi_def_cfa_register rsp
	UNSAVE	rax
	UNSAVE	rdx
	UNSAVE	rcx
	UNSAVE	rbx
	UNSAVE	rsi
	UNSAVE	rdi
	UNSAVE	rbp
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	UNSAVE	r8
	UNSAVE	r9
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	UNSAVE	r11
	UNSAVE	r12
	UNSAVE	r13
	UNSAVE	r14
	UNSAVE	r15
	DONE
	END	\name
	.endm

	/* Entries are called by their sled, and exits jumped to. */
	VALUES	xr_values_enter, xr_values_at_entry, 16
	VALUES	xr_values_exit, xr_values_at_exit, 8

	/* Depth mode, in which an entry may also have a condition. */
	VALUES	xr_depth_values_enter, xr_values_at_depth, 16
	DEPTH	xr_depth_values_exit, (8 * XR_NEXT_VALUES + 8)
	BUDGET_ENTER xr_budget_values_enter, 0, (8 * XR_NEXT_VALUES)
	BUDGET_EXIT xr_budget_values_exit, (8 * XR_NEXT_VALUES + 8)
	FIBER_ENTER xr_fiber_values_enter, (8 * XR_NEXT_VALUES)
	FIBER_EXIT xr_fiber_values_exit, (8 * XR_NEXT_VALUES + 8)
