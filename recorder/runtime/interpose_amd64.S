/* libc functions that only assembly can replace: syscall, whose arguments are unknown, and
 * dlopen and dlsym, whose results depend on the caller's address. */
#include <features.h>
#include <sys/syscall.h>

	.text

	.globl	syscall
	.type	syscall, @function
	.p2align 4
syscall:
	.cfi_startproc
	endbr64
	cmpq	$SYS_prctl, %rdi
	je	xr_noticed_syscall
	cmpq	$SYS_unshare, %rdi
	je	xr_noticed_syscall
	cmpq	$SYS_setns, %rdi
	je	xr_noticed_syscall
	cmpq	$SYS_seccomp, %rdi
	je	xr_noticed_syscall
#ifdef __GLIBC__
	cmpq	$SYS_execve, %rdi
	je	xr_noticed_syscall
	cmpq	$SYS_execveat, %rdi
	je	xr_noticed_syscall
#endif
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	8(%rsp), %r9
	syscall
	cmpq	$-4095, %rax
	jae	1f
	ret
1:	negq	%rax
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	call	__errno_location@PLT
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	movl	%ecx, (%rax)
	movq	$-1, %rax
	ret
	.cfi_endproc
	.size	syscall, . - syscall

#ifdef __GLIBC__

/* Runs what with the arguments of dlopen or dlsym and its caller, and restores the arguments. */
	.macro	ASK what
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	movq	%rdi, (%rsp)
	movq	%rsi, 8(%rsp)
	\what
	movq	(%rsp), %rdi
	movq	8(%rsp), %rsi
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	.endm

	.globl	dlopen
	.type	dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	endbr64
	cmpq	$0, xr_real_dlopen(%rip)
	jne	1f
	ASK	"call xr_find_real"
1:	movq	(%rsp), %rax
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	movq	%rdi, (%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rax, %rsi
	call	xr_dlopen_for_any
	movq	(%rsp), %rdi
	movq	8(%rsp), %rsi
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	testl	%eax, %eax
	jne	xr_dlopen_watched
	jmp	*xr_real_dlopen(%rip)
	.cfi_endproc
	.size	dlopen, . - dlopen

	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	cmpq	$0, xr_real_dlsym(%rip)
	jne	1f
	ASK	"call xr_find_real"
1:	ASK	"call xr_before_dlsym"
	jmp	*xr_real_dlsym(%rip)
	.cfi_endproc
	.size	dlsym, . - dlsym

#endif

	.section .note.GNU-stack, "", @progbits
