/* A program that uses restartable sequences itself, between recorded calls:
 *
 *   sequences plain      none
 *   sequences fork       none, and a forked child sleeps
 *   sequences often      clears the pointer of its area repeatedly
 *   sequences pointer    sets its own pointer there, and sleeps
 *   sequences nap        sleeps in a recorded call, and prints the ns as "off"
 *
 * Prints "calls N" and "foreign N", how often its own pointer was still there. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define F __attribute__((noinline)) /* functions that are always instrumented are never pruned */
#define PLAIN __attribute__((xray_never_instrument))

extern const ptrdiff_t __rseq_offset __attribute__((weak));

static volatile long calls;
F void leaf(void) { calls++; }

PLAIN static void doze(void)
{
	struct timespec t = {.tv_nsec = 1000000};
	nanosleep(&t, NULL);
}

PLAIN static uint64_t off_so_far(void)
{
	struct timespec now, cpu;
	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	return (now.tv_sec - cpu.tv_sec) * 1000000000ull + now.tv_nsec - cpu.tv_nsec;
}

F void nap(void)
{
	doze();
	leaf();
}

/* A sequence that is never executed. The signature comes before the address to continue at. */
static uint32_t nowhere[8] = {0x53053053};
static struct {
	uint32_t version, flags;
	uint64_t start, length, abort;
} own __attribute__((aligned(32)));

PLAIN int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "plain";
	volatile uint64_t *pointer = &__rseq_offset ? (uint64_t *)((char *)__builtin_thread_pointer() + __rseq_offset + 8) : NULL;
	long foreign = 0;
	own.start = (uintptr_t)&nowhere[4];
	own.length = 1;
	own.abort = (uintptr_t)&nowhere[1];
	if (!strcmp(what, "often"))
		for (int i = 0; i < 200000; i++) {
			*pointer = 0;
			leaf();
		}
	leaf();
	if (!strcmp(what, "nap")) {
		uint64_t before = off_so_far();
		for (int i = 0; i < 200; i++)
			nap();
		printf("off %lu\n", off_so_far() - before);
		return 0;
	}
	for (int i = 0; i < 50; i++) {
		if (!strcmp(what, "pointer")) {
			*pointer = (uintptr_t)&own;
			leaf();
			foreign += *pointer == (uintptr_t)&own;
		}
		doze();
		leaf();
	}
	if (!strcmp(what, "fork")) {
		pid_t child = fork();
		if (!child) {
			for (int i = 0; i < 50; i++) {
				leaf();
				doze();
			}
			leaf();
			return 0;
		}
		int status;
		if (waitpid(child, &status, 0) != child || status)
			return 1;
		leaf();
	}
	printf("calls %ld\nforeign %ld\n", calls, foreign);
	return 0;
}
