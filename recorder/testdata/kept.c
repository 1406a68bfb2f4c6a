/* Keeps the snapshot of a request, and overwrites all rings before it is written: kept FILE HOW. HOW says what
 * happens then. The program prints how often the request called each function. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xray/recorder.h>

#define RECORDED __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((noinline, xray_never_instrument))

static volatile long sink;
static int phase, waits, briefs, pipes[2];

PLAIN static void must(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s: %s\n", what, xray_last_error());
		exit(1);
	}
}

PLAIN static void await(int p)
{
	while (__atomic_load_n(&phase, __ATOMIC_ACQUIRE) < p)
		usleep(100);
}

/* A thread is where it should be. */
PLAIN static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }
PLAIN static void await_flag(int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		usleep(100);
}

PLAIN static void enter(int p) { __atomic_store_n(&phase, p, __ATOMIC_RELEASE); }

RECORDED static void leaf(void) { sink++; }
RECORDED static void work(void) { sink++; }
RECORDED static void brief(void) { sink++; }
RECORDED static void step(void) { sink++; }
RECORDED static void handle(int n) { for (int i = 0; i < n; i++) step(); }

PLAIN static void leaves(int n) { for (int i = 0; i < n; i++) leaf(); }

/* Begins long before the request, and goes on. */
RECORDED static void outer(void)
{
	leaves(20000);
	enter(1);
	await(2);
	for (int i = 0; i < 3000; i++)
		work();
	enter(3);
	await(4);
	leaves(200000);
	enter(5);
	await(6);
	sink++;
}
PLAIN static void *churn(void *none) { outer(); return none; }

RECORDED static void idle(void) { char c; set(&waits); must(read(pipes[0], &c, 1) == 1, "read"); sink++; }
PLAIN static void *wait_idly(void *none) { idle(); return none; }

/* Ends after the request. */
PLAIN static void *in_request(void *none)
{
	for (int i = 0; i < 500; i++)
		brief();
	set(&briefs);
	await(4);
	return none;
}
PLAIN static void *one_leaf(void *none) { leaf(); return none; }

PLAIN int main(int argc, char **argv)
{
	static struct xray_slowest slowest, other;
	pthread_t t[3], next;
	char where[4096], answer[1024];
	if (argc != 3)
		return 2;
	const char *how = argv[2];
	slowest.path = argv[1];
	snprintf(where, sizeof where, "%s.other", argv[1]);
	other.path = where;
	must(!pipe(pipes) && !xray_start(getenv("START")), "start");
	pthread_create(&t[0], NULL, churn, NULL);
	pthread_create(&t[1], NULL, wait_idly, NULL);
	await(1);
	await_flag(&waits);
	uint64_t earlier = xray_request_begin(1, "earlier");
	handle(10);
	must(xray_request_end(earlier, &slowest) == 1 && xray_request_end(earlier, &other) == 1, "earlier request");
	usleep(2000);
	if (!strcmp(how, "killed")) {
		/* So that the file which is awaited below is that of the slow request. */
		while (access(argv[1], F_OK) || access(where, F_OK))
			usleep(1000);
		must(!unlink(argv[1]), "unlink");
	}

	uint64_t begin = xray_request_begin(2, "slow");
	pthread_create(&t[2], NULL, in_request, NULL);
	handle(1000);
	enter(2);
	await(3);
	await_flag(&briefs);
	usleep(20000);
	must(xray_request_end(begin, &slowest) == 1, "request");
	must(!xray_request_end(xray_now() - 1, &slowest), "faster request");
	enter(4);
	pthread_join(t[2], NULL);
	for (int i = 0; i < 20; i++) {
		pthread_create(&next, NULL, one_leaf, NULL);
		pthread_join(next, NULL);
	}
	handle(100000);
	await(5);

	must(!strcmp(how, "killed") || access(argv[1], F_OK), "it was not written later");
	if (!strcmp(how, "killed")) {
		while (access(argv[1], F_OK))
			usleep(1000);
		kill(getpid(), SIGKILL);
	} else if (!strcmp(how, "fork")) {
		pid_t child = fork();
		if (!child)
			exit(0);
		int status;
		must(child > 0 && waitpid(child, &status, 0) == child && !status && access(argv[1], F_OK), "a child writes what its parent kept");
	} else if (!strcmp(how, "pause")) {
		must(!xray_command("mode off", answer, sizeof answer) && !access(argv[1], F_OK), "a pause writes what is kept");
	} else if (!strcmp(how, "stop")) {
		must(!xray_stop() && !access(argv[1], F_OK), "the end of the recording writes what is kept");
	}
	must(write(pipes[1], "", 1) == 1, "write");
	enter(6);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return 0;
}
