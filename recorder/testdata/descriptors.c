/* Treats its descriptors as daemons do, and then works with its own files and sockets:
 * descriptors WHAT. It must find nothing of the recorder in them. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLAIN __attribute__((xray_never_instrument))

__attribute__((noinline, xray_always_instrument)) int work(int i)
{
	volatile int x = i;
	return x * 3;
}

PLAIN static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(3);
	}
}

PLAIN static void close_each(void)
{
	for (int fd = 3; fd < getdtablesize(); fd++)
		close(fd);
}

PLAIN static void close_range_of_all(void)
{
	must(!syscall(SYS_close_range, 3, ~0u, 0), "close_range");
}

/* Replaces each open descriptor by a file of its own. */
PLAIN static void replace_all(int own)
{
	DIR *d = opendir("/proc/self/fd");
	must(d != NULL, "/proc/self/fd");
	int open[1024], n = 0;
	for (struct dirent *e; (e = readdir(d));)
		if (atoi(e->d_name) > 2 && atoi(e->d_name) != dirfd(d) && atoi(e->d_name) != own)
			open[n++] = atoi(e->d_name);
	closedir(d);
	for (int i = 0; i < n; i++)
		must(dup2(own, open[i]) >= 0, "dup2");
	printf("replaced %d\n", n);
}

/* Uses files of its own, which get the lowest free descriptor numbers. */
PLAIN static void use_files(const char *what)
{
	int db = -1;
	if (!strcmp(what, "replace")) {
		db = open("db.dat", O_RDWR | O_CREAT | O_TRUNC, 0600);
		replace_all(db);
	} else {
		strcmp(what, "range") ? close_each() : close_range_of_all();
		db = open("db.dat", O_RDWR | O_CREAT | O_TRUNC, 0600);
	}
	int log = open("my.log", O_RDWR | O_CREAT | O_TRUNC, 0600);
	must(db >= 0 && log >= 0, "open");
	printf("numbers %d %d\n", db, log);
	must(write(db, "DATABASE HEADER v1\n", 19) == 19 && write(log, "LOG v1\n", 7) == 7, "write");
	for (int i = 0; i < 30000; i++)
		must(work(i) == 3 * i, "work");
	struct stat st;
	char head[20] = {0};
	must(pread(db, head, 19, 0) == 19 && !fstat(db, &st), "read");
	printf("header %s, size %ld\n", strcmp(head, "DATABASE HEADER v1\n") ? "damaged" : "good", (long)st.st_size);
	fflush(stdout);
	for (char c; read(0, &c, 1) > 0;)
		;
}

static int port;

PLAIN static void *clients(void *none)
{
	int bad = 0;
	for (int i = 0; i < 200; i++) {
		int s = socket(AF_INET, SOCK_STREAM, 0);
		struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		struct timeval patience = {10, 0};
		char c = 0;
		setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		bad += connect(s, (void *)&a, sizeof a) || write(s, "x", 1) != 1 || read(s, &c, 1) != 1 || c != 'y';
		close(s);
		usleep(500);
	}
	printf("bad %d of 200\n", bad);
	exit(0);
	return none;
}

/* Serves at a socket with a descriptor number that the recorder may have used. */
PLAIN static void serve(int place)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int l = -1;
	close_each();
	for (int i = 0; i <= place; i++)
		l = socket(AF_INET, SOCK_STREAM, 0);
	must(!bind(l, (void *)&a, sizeof a) && !listen(l, 100) && !getsockname(l, (void *)&a, &n), "listen");
	port = a.sin_port;
	pthread_t t;
	must(!pthread_create(&t, NULL, clients, NULL), "thread");
	for (;;) {
		int c = accept(l, NULL, NULL);
		char b;
		work(c);
		if (read(c, &b, 1) == 1)
			must(write(c, "y", 1) == 1, "write");
		close(c);
	}
}

PLAIN int main(int argc, char **argv)
{
	if (argc == 3)
		serve(atoi(argv[2]));
	use_files(argv[1]);
	return 0;
}
