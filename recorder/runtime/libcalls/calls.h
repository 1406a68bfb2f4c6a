/* libc functions with sleds, for programs whose libc calls are recorded. This file is compiled
 * twice. In preloaded objects, each function has the name of libc's function, which it finds at
 * its first call. With XR_WRAP, the functions go into an archive, and the linker replaces libc's
 * functions by them (--wrap).
 *
 * A function is a sled, a call of libc's function, and another sled. In between it keeps only
 * one word on the stack, so unwinding or longjmp leaves nothing behind. Errno is never touched.
 * While the first sled is off, it leads to a jump to libc's function, which costs next to nothing.
 *
 * At its sleds, r11 is the value to record: an argument or the result. Sleds have the record's
 * kind as compilers write it. The byte that compilers leave 0 is the number of a thunk, from 1;
 * see XR_CALL_... */
#include <features.h>

#include "../libcalls.h"

#ifdef XR_WRAP
#define XR_MAP_FLAGS "ao", @progbits, .text
#else
#define XR_MAP_FLAGS "a", @progbits
#endif

	/* A row of the sled table. */
	.macro SLED_ROW sled, function, kind, thunk
	.pushsection xray_instr_map, XR_MAP_FLAGS
	.quad	\sled - ., \function - .
	.byte	\kind, 0, 2, \thunk
	.zero	12
	.popsection
	.endm

	/* A function. thunk and out say what its sleds record. load and result put the value into
	 * r11. save is the register that becomes r11 before result. */
	.macro LIBCALL name, thunk=0, load=, save=%r11, out=0, result=
#ifdef XR_WRAP
	.globl	__wrap_\name
	.hidden	__wrap_\name
	.type	__wrap_\name, @function
#else
	.globl	\name
#endif
	.type	\name, @function
	.balign	XR_CALL_ALIGN
	.quad	XR_CALL_MARK
	.zero	XR_CALL_HEAD - 9
	.byte	.Lentry_\name - .Lstart_\name
#ifdef XR_WRAP
__wrap_\name:
#endif
\name:
.Lstart_\name:
	.cfi_startproc
	endbr64
	\load
	.p2align 1
.Lentry_\name:
	.byte	0xeb, XR_CALL_BYPASS - 2, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0
	jmp	1f
	/* Here while the sled is off. */
#ifdef XR_WRAP
	jmp	__real_\name@PLT
#else
	jmp	*.Lreal_\name(%rip)
#endif
1:	pushq	\save
	.cfi_adjust_cfa_offset 8
#ifdef XR_WRAP
	call	__real_\name@PLT
#else
	call	*.Lreal_\name(%rip)
#endif
	popq	%r11
	.cfi_adjust_cfa_offset -8
	\result
	.p2align 1
.Lexit_\name:
	.byte	0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0
	.cfi_endproc
	.size	\name, . - \name
	.if \thunk
	SLED_ROW .Lentry_\name, .Lstart_\name, 3, \thunk
	.else
	SLED_ROW .Lentry_\name, .Lstart_\name, 0, 0
	.endif
	.if \out
	SLED_ROW .Lexit_\name, .Lstart_\name, 1, \out
	.elseif \thunk
	SLED_ROW .Lexit_\name, .Lstart_\name, 1, XR_CALL_EXIT
	.else
	SLED_ROW .Lexit_\name, .Lstart_\name, 1, 0
	.endif
#ifndef XR_WRAP
	.pushsection .rodata.str1.1, "aMS", @progbits, 1
.Lname_\name:
	.string	"\name"
	.popsection
	.pushsection .data.xr_calls, "aw", @progbits
	.quad	.Lname_\name
.Lreal_\name:
	.quad	.Lfirst_\name
	.popsection
	.pushsection .text.unlikely, "ax", @progbits
.Lfirst_\name:
	leaq	.Lreal_\name(%rip), %r11
	jmp	xr_first_call
	.popsection
#endif
	.endm

	/* Arguments, by register. */
	.macro FIRST_ARG
	movq	%rdi, %r11
	.endm
	.macro SECOND_ARG
	movq	%rsi, %r11
	.endm
	.macro THIRD_ARG
	movq	%rdx, %r11
	.endm
	.macro INT_ARG
	movslq	%edi, %r11
	.endm
	/* For waits on a condition, the lock comes first, because it is what other threads wait
	 * for. */
	.macro LOCK_AND_CONDITION
	movq	%rsi, %r11
	movq	%rdi, %rax
	.endm
	.macro BOTH_ARGS
	movq	%rdi, %r11
	movq	%rsi, %rax
	.endm

	/* Results: 64 bits wide, and of type int. */
	.macro LONG_RESULT
	movq	%rax, %r11
	.endm
	.macro INT_RESULT
	movslq	%eax, %r11
	.endm

#define ADDRESS(name) LIBCALL name, XR_CALL_ARG, FIRST_ARG
#define ADDRESS_RESULT(name) LIBCALL name, XR_CALL_ARG, FIRST_ARG, out=XR_CALL_RESULT, result=INT_RESULT
#define CONDITION(name) LIBCALL name, XR_CALL_ARGS, LOCK_AND_CONDITION
#define CONDITION_RESULT(name) LIBCALL name, XR_CALL_ARGS, LOCK_AND_CONDITION, out=XR_CALL_RESULT, result=INT_RESULT
#define PLAIN(name) LIBCALL name

#ifndef XR_WRAP
	.section .data.xr_calls, "aw", @progbits
	.p2align 3
	.globl	xr_calls
	.hidden	xr_calls
	.type	xr_calls, @object
xr_calls:
	/* for imports.c */
	.globl	xray_libcalls
xray_libcalls:
#endif
	.text

	/* At the end of a file. */
	.macro END_OF_CALLS
#ifndef XR_WRAP
	.section .data.xr_calls
	.quad	0, 0
	.size	xr_calls, . - xr_calls
#endif
	.section .note.GNU-stack, "", @progbits
	.endm
