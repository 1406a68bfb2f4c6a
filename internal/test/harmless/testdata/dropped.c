/* Root becomes another user, for good or for a while: dropped HOW. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NOBODY = 65534 };
static long n_work;

__attribute__((noinline)) int work(int i)
{
	volatile int x = i;
	n_work++;
	return x * 3;
}

__attribute__((xray_never_instrument)) int main(int argc, char **argv)
{
	long s = 0;
	int (*become)(uid_t) = strcmp(argv[1], "seteuid") ? setuid : seteuid;
	for (int i = 0; i < 1000; i++)
		s += work(i);
	if (setgid(NOBODY) || become(NOBODY))
		return 1;
	for (int i = 0; i < 1000; i++)
		s += work(i);
	printf("total %ld as %d, %d;\nwork %ld\n", s, (int)getuid(), (int)geteuid(), n_work);
	return 0;
}
