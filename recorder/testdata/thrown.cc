// Exceptions through recorded calls, some of which clean up. Prints how often functions
// were called.
#include <cstdio>
#include <stdexcept>

#define F __attribute__((noinline, xray_always_instrument))

static long calls[4], cleaned;

struct guard {
	~guard() { cleaned++; }
};

extern "C" F long thrower(long x)
{
	calls[0]++;
	if (x % 3 == 0)
		throw std::runtime_error("third");
	return x;
}

extern "C" F long through(long x)
{
	calls[1]++;
	guard g;
	return thrower(x) + 1;
}

extern "C" F long rethrower(long x)
{
	calls[2]++;
	try {
		return through(x) + 1;
	} catch (...) {
		throw;
	}
}

extern "C" F long catcher(long x)
{
	calls[3]++;
	try {
		return rethrower(x) + 1;
	} catch (const std::exception &) {
		return 0;
	}
}

__attribute__((xray_never_instrument)) int main()
{
	long sum = 0;
	for (long i = 0; i < 3000; i++)
		sum += catcher(i);
	if (cleaned != 3000)
		return 1;
	std::printf("thrower %ld\nthrough %ld\nrethrower %ld\ncatcher %ld\nsum %ld\n", calls[0], calls[1], calls[2], calls[3], sum);
	return 0;
}
