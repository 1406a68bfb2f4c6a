/* Does what the state in a file says. The file also has the number of calls of each function.
 * Compile with -fxray-instruction-threshold=1. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define F __attribute__((noinline))
#define PLAIN __attribute__((noinline, xray_never_instrument))
enum { OFTEN, SLOW, KEPT, STEP, QUICK, FUNCTIONS };
enum { IDLE, WORK, FORK, EXEC, END, AGAIN };
struct file { atomic_long calls[FUNCTIONS], state, busy, child; };
static struct file *file, private;
static char **arguments;

PLAIN static void count(int function) { file->calls[function]++; }

F void often(void) { count(OFTEN); for (volatile int i = 0; i < 50; i++) ; }
F void quick(void) { count(QUICK); __asm__ volatile(""); }
F void slow(void) { count(SLOW); usleep(2000); __asm__ volatile(""); }
__attribute__((noinline, xray_always_instrument)) void kept(void) { count(KEPT); __asm__ volatile(""); }

F void step(void)
{
	count(STEP);
	for (int i = 0; i < 20000; i++)
		often();
	slow();
	quick();
	for (int i = 0; i < 50; i++)
		kept();
	__asm__ volatile("");
}

PLAIN static void have_child(void)
{
	int status = 1;
	pid_t child = fork();
	if (!child) {
		file = &private;
		for (int i = 0; i < 20; i++)
			step();
		_exit(file->calls[OFTEN] == 400000 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	file->child = status ? -1 : 1;
}

PLAIN static void *work(void *first)
{
	while (file->state != END) {
		file->busy++;
		if (file->state == WORK)
			step();
		else if (file->state == FORK && first && !file->child)
			have_child();
		else if (file->state == EXEC && first)
			execlp("sleep", "sleep", "1000", NULL);
		else if (file->state == AGAIN && first) {
			file->state = IDLE;
			execv("/proc/self/exe", arguments);
		}
		file->busy--;
		if (file->state != WORK)
			usleep(1000);
	}
	return NULL;
}

PLAIN int main(int argc, char **argv)
{
	pthread_t threads[2];
	int fd = open(argv[1], O_RDWR);
	arguments = argv;
	file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, i ? NULL : &threads);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return argc - 2;
}
