/* Input and output: records a descriptor, and a result in bytes, events or a descriptor. */
#include "calls.h"

	/* The recorder names a descriptor when it first sees it and marks it in a table. These
	 * functions clear the mark when the descriptor is closed, or when a new one gets its
	 * number. */
	.macro DESCRIPTOR
	movslq	%edi, %r11
	leaq	xr_named(%rip), %rax
	.endm
	/* The descriptor of a stream, from libc. */
	.macro STREAM_DESCRIPTOR
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	call	xr_stream_descriptor
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movslq	%eax, %r11
	leaq	xr_named(%rip), %rax
	.endm
	/* The number of descriptors to wait for. */
	.macro COUNT_OF_POLL
	movq	%rsi, %r11
	.endm
	.macro FORGET_R11
	cmpq	$XR_NAMED, %r11
	jae	1f
	leaq	xr_named(%rip), %rcx
	lock btrq %r11, (%rcx)
1:
	.endm
	/* A failed call has its error as a negative number, as the kernel returns it, instead of -1. */
	.macro WITH_ERROR
	cmpq	$-1, %r11
	jne	2f
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	call	xr_error
	movq	%rax, %r11
	popq	%rax
	.cfi_adjust_cfa_offset -8
2:
	.endm
	.macro LONG_OR_ERROR
	LONG_RESULT
	WITH_ERROR
	.endm
	.macro INT_OR_ERROR
	INT_RESULT
	WITH_ERROR
	.endm
	.macro FORGET_ARG
	FORGET_R11
	.endm
	.macro FORGET_ARG_INT_RESULT
	FORGET_R11
	INT_OR_ERROR
	.endm
	.macro NEW_DESCRIPTOR
	movslq	%eax, %r11
	FORGET_R11
	WITH_ERROR
	.endm
	.macro FORGET_ALL
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	call	xr_forget_descriptors
	popq	%rax
	.cfi_adjust_cfa_offset -8
	.endm

#define TRANSFER(name) LIBCALL name, XR_CALL_DESCRIPTOR, DESCRIPTOR, out=XR_CALL_RESULT, result=LONG_OR_ERROR
#define MESSAGES(name) LIBCALL name, XR_CALL_DESCRIPTOR, DESCRIPTOR, out=XR_CALL_RESULT, result=INT_OR_ERROR
#define ON_FILE(name) LIBCALL name, XR_CALL_DESCRIPTOR, DESCRIPTOR
#define OPEN(name) LIBCALL name, out=XR_CALL_RESULT, result=NEW_DESCRIPTOR
#define MORE(name) LIBCALL name, XR_CALL_DESCRIPTOR, DESCRIPTOR, out=XR_CALL_RESULT, result=NEW_DESCRIPTOR
#define CLOSE(name, of) LIBCALL name, XR_CALL_DESCRIPTOR, of, result=FORGET_ARG
#define POLL(name) LIBCALL name, XR_CALL_ARG, COUNT_OF_POLL, out=XR_CALL_RESULT, result=INT_OR_ERROR
#define SELECT(name) LIBCALL name, XR_CALL_ARG, INT_ARG, out=XR_CALL_RESULT, result=INT_OR_ERROR

	TRANSFER(read)
	TRANSFER(write)
	TRANSFER(pread)
	TRANSFER(pwrite)
	TRANSFER(readv)
	TRANSFER(writev)
	TRANSFER(preadv)
	TRANSFER(pwritev)
	TRANSFER(send)
	TRANSFER(recv)
	TRANSFER(sendto)
	TRANSFER(recvfrom)
	TRANSFER(sendmsg)
	TRANSFER(recvmsg)
	TRANSFER(sendfile)
	TRANSFER(splice)
	TRANSFER(tee)
	TRANSFER(vmsplice)
	MESSAGES(sendmmsg)
	MESSAGES(recvmmsg)

	ON_FILE(fsync)
	ON_FILE(fdatasync)
	ON_FILE(syncfs)
	ON_FILE(sync_file_range)
	ON_FILE(ftruncate)
	ON_FILE(fallocate)
	ON_FILE(posix_fallocate)
	ON_FILE(flock)
	ON_FILE(shutdown)
	PLAIN(sync)

	OPEN(open)
	OPEN(openat)
	OPEN(creat)
	OPEN(socket)
	MORE(accept)
	MORE(accept4)
	MORE(dup)
	MORE(dup2)
	MORE(dup3)
	LIBCALL	connect, XR_CALL_DESCRIPTOR, DESCRIPTOR, out=XR_CALL_RESULT, result=FORGET_ARG_INT_RESULT
	CLOSE(close, DESCRIPTOR)
	CLOSE(fclose, STREAM_DESCRIPTOR)

	POLL(poll)
	POLL(ppoll)
	SELECT(select)
	SELECT(pselect)
	MESSAGES(epoll_wait)
	MESSAGES(epoll_pwait)

#ifdef __GLIBC__
	TRANSFER(pread64)
	TRANSFER(pwrite64)
	TRANSFER(preadv64)
	TRANSFER(pwritev64)
	TRANSFER(sendfile64)
	TRANSFER(__read_chk)
	TRANSFER(__pread_chk)
	TRANSFER(__pread64_chk)
	TRANSFER(__recv_chk)
	TRANSFER(__recvfrom_chk)
	ON_FILE(ftruncate64)
	ON_FILE(fallocate64)
	ON_FILE(posix_fallocate64)
	OPEN(open64)
	OPEN(openat64)
	OPEN(creat64)
	OPEN(__open_2)
	OPEN(__open64_2)
	OPEN(__openat_2)
	OPEN(__openat64_2)
	POLL(__poll_chk)
	POLL(__ppoll_chk)
#if __GLIBC_PREREQ(2, 26)
	TRANSFER(preadv2)
	TRANSFER(pwritev2)
	TRANSFER(preadv64v2)
	TRANSFER(pwritev64v2)
#endif
#if __GLIBC_PREREQ(2, 27)
	TRANSFER(copy_file_range)
#endif
#if __GLIBC_PREREQ(2, 34)
	LIBCALL	close_range, result=FORGET_ALL
	LIBCALL	closefrom, result=FORGET_ALL
#endif
#if __GLIBC_PREREQ(2, 35)
	MESSAGES(epoll_pwait2)
#endif
#endif

	END_OF_CALLS
