/* Trampolines for libc functions. Their sleds pass a value in r11: an argument at the entry,
 * the result at the exit. They resemble those of trampoline_amd64.S and use its macros. In the
 * registers that these save, the value is at 24(%rsp) and rax at 16(%rsp). */

	/* Puts the argument or result as a record of this kind at \at(%rax). Clobbers rcx. */
	.macro PUT_VALUE kind, at, from
	movq	\from(%rsp), %rcx
	shrq	$63, %rcx
	shlq	$8, %rcx
	orq	$(\kind << 1 | 1), %rcx
	movq	%rcx, \at(%rax)
	movq	\from(%rsp), %rcx
	leaq	1(%rcx, %rcx), %rcx
	movq	%rcx, \at + 8(%rax)
	.endm

	/* Jumps to label 4 if the chunk may not have room for n bytes. */
	.macro ROOM n
	cmpw	$(XR_CHUNK_SIZE - \n), %cx
	ja	4f
	.endm

	.macro CALL_ARG name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	ROOM	24
	RESERVE	24
	PUT_VALUE XR_REC_ARG, 8, 24
	movq	%rdx, (%rax)
	LEAVE4
4:	SLOW	24
	END	\name
	.endm

	.macro CALL_ARGS name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	ROOM	40
	RESERVE	40
	PUT_VALUE XR_REC_ARG, 24, 16
	PUT_VALUE XR_REC_ARG, 8, 24
	movq	%rdx, (%rax)
	LEAVE4
4:	SLOW	40
	END	\name
	.endm

	/* A descriptor. Before the first call that uses it, records what it refers to. */
	.macro CALL_DESCRIPTOR name, next
	BEGIN	\name
	cmpq	$XR_NAMED, %r11
	jae	\next
	btq	%r11, (%rax)
	jc	\next
	SAVE_ALL
	movq	%r11, %rdi
	movq	%rax, %rsi
	CALL_C	xr_name_descriptor
	UNSAVE_ALL
	jmp	\next
	END	\name
	.endm

	.macro CALL_RESULT name, by
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	ROOM	24
	RESERVE	24
	PUT_VALUE XR_REC_RESULT, 0, 24
	movq	%rdx, 16(%rax)
	LEAVE4
4:	SLOW	24
	END	\name
	.endm

	/* Removes an entry of n bytes, including its arguments, as PRUNE does with one of 8 bytes.
	 * Keeps the words on the stack, and puts them back if a signal handler recorded in between.
	 * edx is the entry's word. Jumps to label 3 if the call was too long. */
	.macro TAKE_BACK n
	movl	%eax, %edx
	subl	4 - \n(%rcx), %edx
	cmpq	xray_recorder_root + XR_ROOT_THRESHOLD(%rip), %rdx
	jae	3f
	shlq	$32, %rdx
	orq	%rdx, %r10
	movl	-\n(%rcx), %edx
	.set	.Lat, 8
	.rept	\n / 8
	pushq	-.Lat(%rcx)
	.cfi_adjust_cfa_offset 8
	movq	$0, -.Lat(%rcx)
	.set	.Lat, .Lat + 8
	.endr
	movq	%rcx, %rax
	subq	$\n, %rcx
	cmpxchgq %rcx, XR_THREAD_CURSOR(%r11)
	jne	6f
	.cfi_remember_state
	addq	$\n, %rsp
	.cfi_adjust_cfa_offset -\n
	jmp	8f
	.cfi_restore_state
6:	.set	.Lat, 0
	.rept	\n / 8
	popq	.Lat(%rcx)
	.cfi_adjust_cfa_offset -8
	.set	.Lat, .Lat + 8
	.endr
	movl	%r10d, %r10d
	jmp	2b
	.endm

	/* An exit in prune mode. An argument ends with bit 0 set and is not a trailer. Before it
	 * there is an entry with one argument, or with two. */
	.macro CALL_PRUNE name, by, result
	SLED	\name
	SAVE4
1:	THREAD
	jz	4f
2:	STAMP	\by
	movl	%r10d, %edx
	andl	$-16, %edx
	orl	$(XR_ENTER_ARG << 1), %edx
	cmpb	$(XR_REC_ARG << 1 | 1), -16(%rcx)
	jne	3f
	testb	$1, -8(%rcx)
	jz	3f
	cmpq	$0, -8(%rcx)
	jl	3f
	cmpl	%edx, -24(%rcx)
	jne	7f
	LINKED	24, 11, 12
	TAKE_BACK 24
7:	cmpb	$(XR_REC_ARG << 1 | 1), -32(%rcx)
	jne	3f
	testb	$1, -24(%rcx)
	jz	3f
	cmpq	$0, -24(%rcx)
	jl	3f
	cmpl	%edx, -40(%rcx)
	jne	3f
	LINKED	40, 13, 14
	TAKE_BACK 40
	ADD_SUMS
3:	.if \result
	ROOM	24
	RESERVE	24
	PUT_VALUE XR_REC_RESULT, 0, 24
	movq	%rdx, 16(%rax)
	.else
	RESERVE	8
	movq	%rdx, (%rax)
	.endif
	LEAVE4
4:	SLOW	(8 + 16 * \result)
	LINK	24, 11, 12
	LINK	40, 13, 14
	END	\name
	.endm

	.macro CALLS suffix, by
	CALL_ARG xr_call_arg\suffix, \by
	CALL_ARGS xr_call_args\suffix, \by
	CALL_DESCRIPTOR xr_call_descriptor\suffix, xr_call_arg\suffix
	CALL_RESULT xr_call_result\suffix, \by
	CALL_PRUNE xr_call_prune\suffix, \by, 0
	CALL_PRUNE xr_call_prune_result\suffix, \by, 1
	.endm

	CALLS	, BY_RDPID
	CALLS	_nocpu, BY_NOTHING
	CALLS	_rseq, BY_RSEQ

	DEPTH	xr_depth_call_arg, 32
	DEPTH	xr_depth_call_args, 40
	DEPTH	xr_depth_call_descriptor, 48
	DEPTH	xr_depth_call_exit, 56
	DEPTH	xr_depth_call_result, 64
