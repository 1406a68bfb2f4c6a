/* Handles signals on an alternate stack that has little room behind the kernel's part of the frame, above a page
 * that may not be touched: altstack ROOM. Threads come and go, too. Prints how often its functions were
 * called. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PLAIN __attribute__((xray_never_instrument, noinline))
#define TRACED __attribute__((noinline))

enum { ROUNDS = 3000, THREADS = 8, PAGE = 4096, LARGE = 65536 };
static long handled, looked, worked, wrong;
static char *lowest;

TRACED void look(void)
{
	looked++;
	__asm__ volatile("" ::: "memory");
}

TRACED void handle(int signal)
{
	(void)signal;
	handled++;
	look();
	look();
	__asm__ volatile("" ::: "memory");
}

PLAIN static void measure(int signal)
{
	(void)signal;
	lowest = __builtin_frame_address(0);
}

/* Gives the thread an alternate stack of this size and raises signals. Returns the stack's end. */
PLAIN static char *use(long size, void (*handler)(int), int rounds)
{
	char *memory = mmap(0, PAGE + LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_sp = memory + PAGE, .ss_size = size}, seen;
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
	mprotect(memory, PAGE, PROT_NONE);
	wrong += sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < rounds; i++)
		raise(SIGUSR1);
	stack.ss_flags = SS_DISABLE;
	wrong += sigaltstack(&stack, &seen) || seen.ss_sp != memory + PAGE || (long)seen.ss_size != size || seen.ss_flags;
	return memory + PAGE + size;
}

static long frame, room;

TRACED void *work(void *p)
{
	worked++;
	use(frame + room, handle, ROUNDS);
	return p;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t thread;
	room = argc > 1 ? atol(argv[1]) : 64;
	frame = use(LARGE, measure, 1) - lowest;
	work(NULL);
	for (int i = 0; i < THREADS; i++)
		wrong += pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL);
	printf("handle %ld\nlook %ld\nwork %ld\nsum %ld\n", handled, looked, worked, wrong);
	return wrong != 0;
}
