/* Calls of an empty function: the extra cost of a call is the recorder's. */
#include "measure.h"

#define TRACED __attribute__((noinline)) // functions marked as always instrumented are never pruned

TRACED static void empty() { __asm__ volatile(""); }

PLAIN unsigned long work()
{
	const unsigned long n = 20000;
	for (unsigned long i = 0; i < n; i++)
		empty();
	return n;
}
