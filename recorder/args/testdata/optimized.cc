// Functions whose parameters optimizers remove or replace, because all of their callers are known. What is
// in the registers then is old: values that callers left there must not appear as arguments.
#include "show.h"

#define NOINLINE __attribute__((noinline))

// The value of an argument that the function does not use, if its caller passes it.
static volatile long truth;
#define UNUSED(e) printf(" %s=%ld", #e, truth)

struct Pair { int a; long b; };

//@ unused: a, b
NOINLINE int unused(int a, int b) { ENTER(unused); SHOW(a), UNUSED(b); LEAVE(); return a + 1; }

//@ unusedLocal: a, b, c
static NOINLINE int unusedLocal(int a, int b, int c) { ENTER(unusedLocal); SHOW(a), UNUSED(b), SHOW(c); LEAVE(); return a + c; }

//@ constant: a, k
static NOINLINE int constant(int a, int k) { ENTER(constant); SHOW(a), SHOW(k); LEAVE(); return a / k; }

//@ promoted: p->a
static NOINLINE long promoted(const Pair *p) { ENTER(promoted); SHOW(p->a); LEAVE(); return p->a * 3; }

//@ half: p.a, p.b
static NOINLINE long half(Pair p, int c) { ENTER(half); printf(" p.a=%d", (int)truth); SHOW(p.b); fprintf(stderr, "%d", c); LEAVE(); return p.b; }

//@ reassigned: a, b
NOINLINE long reassigned(int a, int b) {
	ENTER(reassigned);
	a = b + 4;
	UNUSED(a), SHOW(b);
	LEAVE();
	fprintf(stderr, "%d\n", a);
	return a * 2;
}

//@ discarded: a
//~ discarded: result
static NOINLINE int discarded(int a) { ENTER(discarded); SHOW(a); LEAVE(); return a * 2; }

//@ stack: g, h
static NOINLINE int stack(int a, int b, int c, int d, int e, int f, int g, int h) {
	ENTER(stack);
	UNUSED(g), SHOW(h);
	LEAVE();
	return h;
}

int main(int argc, char **) {
	for (int i = 0; i < 3; i++) {
		truth = 171 + i, unused(argc + i, 171 + i);
		Pair p = {argc + i, 181 + i};
		truth = 191 + i, fprintf(stderr, "%d", unusedLocal(argc + i, 191 + i, 192));
		fprintf(stderr, "%d", constant(argc + i, 7));
		fprintf(stderr, "%ld", promoted(&p));
		truth = argc + i, fprintf(stderr, "%ld", half(p, i));
		fprintf(stderr, "%ld", reassigned(argc + i, 131 + i));
		discarded(argc + i);
		printf("~discarded result=%d\n", (argc + i) * 2);
		truth = 7 + i, stack(1, 2, 3, 4, 5, 6, 7 + i, 8 + i);
	}
}
