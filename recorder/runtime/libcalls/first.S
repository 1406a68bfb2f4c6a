/* The first call of a function. r11 points to the word for the address of libc's function. All
 * registers that may hold arguments keep the caller's values when libc's function gets control. */
	.text
	.globl	xr_first_call
	.hidden	xr_first_call
	.type	xr_first_call, @function
xr_first_call:
	.cfi_startproc
	.irp	reg, rdi, rsi, rdx, rcx, r8, r9, rax, r11
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.endr
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	xr_find_calls
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	.irp	reg, r11, rax, r9, r8, rcx, rdx, rsi, rdi
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.endr
	jmp	*(%r11)
	.cfi_endproc
	.size	xr_first_call, . - xr_first_call

	.section .note.GNU-stack, "", @progbits
