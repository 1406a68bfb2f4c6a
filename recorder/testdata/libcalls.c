/* Calls libc functions a known number of times. Prints the same whether it is recorded or not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int ready, sum;

NOINLINE static void *contend(void *rounds)
{
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < (long)rounds; i++) {
		pthread_mutex_lock(&mutex);
		sum++;
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

NOINLINE static void *wait_ready(void *arg)
{
	pthread_mutex_lock(&mutex);
	sem_post(&semaphore);
	while (!ready)
		pthread_cond_wait(&condition, &mutex);
	pthread_mutex_unlock(&mutex);
	return arg;
}

static void locks(void)
{
	pthread_t threads[2];
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_spin_init(&spin, 0);
	sem_init(&semaphore, 0, 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, contend, (void *)500);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	pthread_create(&threads[0], NULL, wait_ready, NULL);
	sem_wait(&semaphore);
	pthread_mutex_lock(&mutex);
	ready = 1;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&mutex);
	pthread_join(threads[0], NULL);
	pthread_rwlock_rdlock(&rwlock);
	printf("trywrlock %d\n", pthread_rwlock_trywrlock(&rwlock));
	pthread_rwlock_unlock(&rwlock);
	pthread_spin_lock(&spin);
	printf("trylock %d\n", pthread_spin_trylock(&spin));
	pthread_spin_unlock(&spin);
	struct timespec past = {1, 0};
	pthread_mutex_lock(&mutex);
	printf("timedwait %d\n", pthread_cond_timedwait(&condition, &mutex, &past));
	printf("trylock %d\n", pthread_mutex_trylock(&mutex));
	pthread_mutex_unlock(&mutex);
	printf("sum %d\n", sum);
}

static void nothing(int signal) { (void)signal; }

static void alarm_in(long us, void (*handler)(int))
{
	struct sigaction act = {.sa_handler = handler};
	struct itimerval in = {.it_value = {.tv_usec = us}};
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &in, NULL);
}

static sigjmp_buf back;
static void jump(int signal) { siglongjmp(back, signal); }

NOINLINE static void files(const char *path)
{
	char buffer[100] = "0123456789";
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ssize_t n = 0;
	for (int i = 0; i < 10; i++)
		n += write(fd, buffer, 10);
	struct iovec parts[2] = {{buffer, 3}, {buffer, 4}};
	n += writev(fd, parts, 2);
	n += pwrite(fd, buffer, 5, 200);
	printf("written %zd\n", n);
	printf("fsync %d\n", fsync(fd));
	printf("pread %zd\n", pread(fd, buffer, sizeof buffer, 150));
	int other = dup(fd);
	close(fd);
	lseek(other, 0, SEEK_SET);
	printf("read %zd\n", read(other, buffer, 50));
	close(other);
	errno = 0;
	printf("read of nothing %zd", read(fd, buffer, 1));
	printf(" %d\n", errno);
	printf("open of nothing %d", open("/nowhere/at/all", O_RDONLY));
	printf(" %d\n", errno);
}

NOINLINE static void sockets(void)
{
	int pair[2], fds[2];
	char buffer[16];
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	printf("send %zd\n", send(pair[0], "hello", 5, 0));
	struct pollfd polled = {pair[1], POLLIN, 0};
	printf("poll %d\n", poll(&polled, 1, 1000));
	printf("recv %zd\n", recv(pair[1], buffer, sizeof buffer, 0));
	int epoll = epoll_create1(0);
	struct epoll_event event;
	printf("epoll %d\n", epoll_wait(epoll, &event, 1, 1));
	close(epoll);
	close(pair[0]);
	close(pair[1]);
	if (pipe(fds))
		return;
	alarm_in(20000, nothing);
	errno = 0;
	printf("interrupted %zd", read(fds[0], buffer, 1));
	printf(" %d\n", errno);
	if (!sigsetjmp(back, 1)) {
		alarm_in(20000, jump);
		if (read(fds[0], buffer, 1) == 1)
			puts("read without a writer");
	} else {
		puts("jumped");
	}
	close(fds[0]);
	close(fds[1]);
}

static int pipe_of_nothing[2];
static void note(void *text) { puts(text); }

static void *cancelled_read(void *arg)
{
	char c;
	pthread_cleanup_push(note, "read cancelled");
	if (read(pipe_of_nothing[0], &c, 1) == 1)
		puts("read without a writer");
	pthread_cleanup_pop(0);
	return arg;
}

static void unlock(void *m)
{
	puts("wait cancelled");
	pthread_mutex_unlock(m);
}

static void *cancelled_wait(void *arg)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	while (!ready)
		pthread_cond_wait(&condition, &mutex);
	pthread_cleanup_pop(1);
	return arg;
}

static void *cancelled_sleep(void *arg)
{
	pthread_cleanup_push(note, "sleep cancelled");
	sleep(100);
	pthread_cleanup_pop(0);
	return arg;
}

static void cancel(void)
{
	void *(*const all[])(void *) = {cancelled_read, cancelled_wait, cancelled_sleep};
	if (pipe(pipe_of_nothing))
		return;
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		void *result;
		pthread_create(&thread, NULL, all[i], NULL);
		usleep(20000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("cancelled %d\n", result == PTHREAD_CANCELED);
	}
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void forks(const char *path)
{
	fflush(stdout);
	pid_t child = fork();
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (write(fd, "four", 4) != 4)
		abort();
	close(fd);
	if (!child)
		_exit(3);
	int status;
	waitpid(child, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));
}

/* The compiler must not know what these do. */
static void *(*volatile get)(size_t) = malloc;
static void (*volatile drop)(void *) = free;
static void *(*volatile zeroed)(size_t, size_t) = calloc;
static void *(*volatile again)(void *, size_t) = realloc;
static void *(*volatile aligned)(size_t, size_t) = aligned_alloc;

NOINLINE static void *keep(size_t size) { return get(size); }

static void memory(void)
{
	for (int i = 0; i < 100; i++)
		drop(get(1000));
	char *grown = again(get(100), 1 << 20);
	memset(grown, 1, 1 << 20);
	drop(again(grown, 3 << 20));
	drop(zeroed(10, 20));
	drop(aligned(64, 640));
	void *p = NULL;
	printf("memalign %d\n", posix_memalign(&p, 64, 700));
	drop(p);
	p = NULL;
	printf("memalign %d\n", posix_memalign(&p, 3, 700));
	void *kept[7];
	for (int i = 0; i < 7; i++)
		kept[i] = keep(5000);
	printf("kept %d\n", kept[0] != kept[6]);
	p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("munmap %d\n", munmap(p, 8192));
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOFBF, 1 << 14);
	if (argc > 1 && !strcmp(argv[1], "locks"))
		locks();
	else if (argc > 2 && !strcmp(argv[1], "io"))
		files(argv[2]), sockets();
	else if (argc > 1 && !strcmp(argv[1], "cancel"))
		cancel();
	else if (argc > 2 && !strcmp(argv[1], "fork"))
		forks(argv[2]);
	else if (argc > 1 && !strcmp(argv[1], "alloc"))
		memory();
	return 0;
}
