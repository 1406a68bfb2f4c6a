/* Steps that can be counted from any part of a trace, in two threads until standard input ends:
 *   windows          prints the process's ID
 *   windows fork     also in a child, whose ID it prints next
 * Steps are numbered consecutively, and each calls leaf three times. No step reads the time. Between
 * steps, calls of leave end by longjmp. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RECORDED __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((xray_never_instrument))

static volatile sig_atomic_t ended;

RECORDED long leaf(long i)
{
	__asm__ volatile("" : "+r"(i));
	return i;
}

RECORDED __attribute__((xray_log_args(1))) long step(long i)
{
	long sum = leaf(i);
	sum += leaf(i);
	sum += leaf(i);
	__asm__ volatile("" : "+r"(sum));
	return sum;
}

/* Lets other threads run, and keeps the trace small. */
PLAIN static void rest(long i)
{
	if (i % 8 == 0)
		usleep(20);
}

RECORDED void leave(jmp_buf to) { longjmp(to, 1); }

RECORDED void *work(void *none)
{
	jmp_buf here;
	for (volatile long i = 1; !ended; i++) {
		step(i);
		if (!setjmp(here))
			leave(here);
		rest(i);
	}
	return none;
}

PLAIN static void end(int signal)
{
	(void)signal;
	ended = 1;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t other;
	pid_t child = 0;
	char byte;
	signal(SIGTERM, end);
	if (argc > 1 && !strcmp(argv[1], "fork") && !(child = fork())) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(NULL);
		exit(0);
	}
	pthread_create(&other, NULL, work, NULL);
	pthread_create(&(pthread_t){0}, NULL, work, NULL);
	printf("%d\n", getpid());
	if (child)
		printf("%d\n", child);
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	ended = 1;
	pthread_join(other, NULL);
	if (child) {
		kill(child, SIGTERM);
		waitpid(child, NULL, 0);
	}
	return 0;
}
