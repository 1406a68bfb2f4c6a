
/* Handlers count their calls, too. The timer's number of calls varies. */
LOCAL void on_signal(int) __asm__("on_signal"), on_timer(int) __asm__("on_timer");

ATTRIBUTES(noinline) LOCAL void on_signal(int n)
{
	CALLED(FUNCTIONS);
	sum += n;
}

ATTRIBUTES(noinline) LOCAL void on_timer(int n)
{
	CALLED(FUNCTIONS + 1);
}

static int rounds;

PLAIN static void *thread(void *x)
{
	u64 *result = (u64 *)x;
	for (int i = 0; i < rounds; i++)
		*result = run(*result);
	return 0;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t threads[THREADS + 1];
	u64 results[THREADS + 1];
	rounds = atoi(argv[1]);
	for (int i = 0; i < 14; i++)
		in[i] = i * 0x9e3779b9ul;
	signal(SIGUSR2, on_signal);
	signal(SIGPROF, on_timer);
	struct itimerval every = {{0, 2000}, {0, 2000}};
	if (TIMER)
		setitimer(ITIMER_PROF, &every, 0);
	for (int i = 1; i <= THREADS; i++) {
		results[i] = i * 77;
		pthread_create(&threads[i], 0, thread, &results[i]);
	}
	results[0] = 1;
	thread(&results[0]);
	for (int i = 1; i <= THREADS; i++) {
		pthread_join(threads[i], 0);
		results[0] ^= results[i];
	}
	signal(SIGPROF, SIG_IGN);
	printf("sum %lx\n", results[0]);
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%s %lu\n", names[i], counts[i]);
	printf("on_signal %lu\non_timer %lu\n", counts[FUNCTIONS], counts[FUNCTIONS + 1]);
	fflush(stdout);
	int status = results[0] & 31;
	switch (END) {
	case 1: exit(status);
	case 2: _exit(status);
	case 3: quick_exit(status);
	}
	return status;
}
