/* Memory: records the size or the freed address, and the resulting address. */
#include "calls.h"

	.macro PRODUCT
	movq	%rdi, %r11
	imulq	%rsi, %r11
	.endm
	.macro OLD_AND_PRODUCT
	movq	%rdi, %r11
	movq	%rsi, %rax
	imulq	%rdx, %rax
	.endm
	.macro OLD_AND_THIRD
	movq	%rdi, %r11
	movq	%rdx, %rax
	.endm
	/* The address that the pointer argument points to, if the allocation succeeded. */
	.macro STORED_RESULT
	testl	%eax, %eax
	jz	1f
	leaq	.Lnothing(%rip), %r11
1:	movq	(%r11), %r11
	.endm

	.section .rodata.cst8, "aM", @progbits, 8
.Lnothing:
	.quad	0
	.text

	LIBCALL	malloc, XR_CALL_ARG, FIRST_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	calloc, XR_CALL_ARG, PRODUCT, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	realloc, XR_CALL_ARGS, BOTH_ARGS, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	free, XR_CALL_ARG, FIRST_ARG
	LIBCALL	posix_memalign, XR_CALL_ARG, THIRD_ARG, save=%rdi, out=XR_CALL_RESULT, result=STORED_RESULT
	LIBCALL	aligned_alloc, XR_CALL_ARG, SECOND_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	memalign, XR_CALL_ARG, SECOND_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	valloc, XR_CALL_ARG, FIRST_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	mmap, XR_CALL_ARG, SECOND_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	munmap, XR_CALL_ARGS, BOTH_ARGS
	LIBCALL	mremap, XR_CALL_ARGS, OLD_AND_THIRD, out=XR_CALL_RESULT, result=LONG_RESULT
#ifdef __GLIBC__
	LIBCALL	pvalloc, XR_CALL_ARG, FIRST_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	mmap64, XR_CALL_ARG, SECOND_ARG, out=XR_CALL_RESULT, result=LONG_RESULT
	LIBCALL	reallocarray, XR_CALL_ARGS, OLD_AND_PRODUCT, out=XR_CALL_RESULT, result=LONG_RESULT
#endif

	END_OF_CALLS
