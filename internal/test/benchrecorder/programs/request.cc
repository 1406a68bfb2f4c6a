// Parts of requests, with a call of an empty function in each.
#include <xray/recorder.h>

#include "measure.h"

__attribute__((noinline)) static void empty() { __asm__ volatile(""); }

PLAIN unsigned long work()
{
	const unsigned long n = 20000;
	for (unsigned long i = 0; i < n; i++) {
		xray::request part(i % 100 + 1);
		empty();
	}
	return n;
}
