/* Forks children in which one thread records its first call while another changes the mode. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xray/recorder.h>

static pthread_barrier_t both;
static volatile int sink;

__attribute__((noinline)) static void call(void) { sink++; }

XRAY_NEVER_INSTRUMENT static void *work(void *none)
{
	pthread_barrier_wait(&both);
	call();
	return none;
}

XRAY_NEVER_INSTRUMENT int main(void)
{
	int good = 0;
	char answer[4096];
	call();
	for (int n = 0; n < 20; n++) {
		int status = 1;
		if (!fork()) {
			pthread_t t;
			pthread_barrier_init(&both, 0, 2);
			pthread_create(&t, 0, work, 0);
			pthread_barrier_wait(&both);
			xray_command("mode prune threshold=1", answer, sizeof answer);
			pthread_join(t, 0);
			_exit(0);
		}
		wait(&status);
		good += status == 0;
	}
	printf("%d\n", good);
	return 0;
}
