/* Allows few system calls, and then works: with libseccomp. */
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static long n_work;

__attribute__((noinline)) int work(int i)
{
	volatile int x = i;
	n_work++;
	return x * 3;
}

__attribute__((xray_never_instrument)) int main(void)
{
	static const int allowed[] = {SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(exit_group), SCMP_SYS(exit), SCMP_SYS(brk),
				      SCMP_SYS(fstat), SCMP_SYS(newfstatat)};
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_KILL_PROCESS);
	long s = 0;
	char text[100];
	for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++)
		seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
	work(1);
	seccomp_load(c);
	for (int i = 0; i < 10000; i++)
		s += work(i);
	snprintf(text, sizeof text, "total %ld;\nwork %ld\n", s, n_work);
	_exit(write(1, text, strlen(text)) < 0);
}
