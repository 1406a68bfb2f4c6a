/* Functions with the same code, which linkers fold into one, beside others. */
#include <cstdio>

#define F __attribute__((noinline))
static long counts[8];

template <class T> F long same(T x)
{
	counts[0]++;
	volatile long r = long(x) * 3;
	return r + 1;
}

extern "C" {
F long left(long x)
{
	counts[1]++;
	for (volatile int i = 0; i < 5; i = i + 1) {
	}
	return x + 5;
}
F long right(long x)
{
	counts[1]++;
	for (volatile int i = 0; i < 5; i = i + 1) {
	}
	return x + 5;
}
F long alone(long x)
{
	counts[2]++;
	return x ^ 3;
}
F long crossed(long x)
{
	counts[3]++;
	return alone(x) + alone(x + 1);
}
F long thrower(long x)
{
	counts[4]++;
	if (x % 10 == 0)
		throw int(x);
	return x;
}
/* Only the blocks behind the first are the same. */
F long rising(long x)
{
	counts[5]++;
	for (volatile int i = 0; i < 5; i = i + 1) {
	}
	return x + 7;
}
F long falling(long x)
{
	counts[6]++;
	for (volatile int i = 0; i < 5; i = i + 1) {
	}
	return x + 7;
}
F long unused(long x) { return x * 99; }
}

__attribute__((xray_never_instrument)) int main()
{
	long s = 0;
	for (long i = 0; i < 1000; i++) {
		s += same<long>(i) + same<unsigned long>(i) + same<long long>(i) + left(i) + right(i) + crossed(i) + rising(i) + falling(i);
		try {
			s += thrower(i);
		} catch (int e) {
			s += e;
		}
	}
	std::printf("total %ld, same %ld, twins %ld;\nalone %ld\nrising %ld\nfalling %ld\ncrossed %ld\nthrower %ld\n", s, counts[0], counts[1], counts[2], counts[5], counts[6], counts[3],
		    counts[4]);
	return 0;
}
