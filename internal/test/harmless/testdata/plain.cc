/* Exceptions, a constructor before main, and a library's functions, to be linked in each way. */
#include <cstdio>
#include <stdexcept>
#include <string>

static long n_parse, n_serve, n_Early;

struct Early {
	__attribute__((noinline)) Early() { n_Early++; }
} early;

extern "C" {
__attribute__((noinline)) long parse(long x)
{
	n_parse++;
	if (x % 10 == 7)
		throw std::runtime_error(std::to_string(x));
	return x * 3;
}

__attribute__((noinline)) long serve(long x)
{
	n_serve++;
	try {
		return parse(x) + parse(x + 1);
	} catch (std::exception &e) {
		return std::stol(e.what());
	}
}
}

__attribute__((xray_never_instrument)) int main()
{
	long s = 0;
	for (long i = 0; i < 1000; i++)
		s += serve(i);
	std::printf("total %ld of %ld\nparse %ld\nserve %ld\n", s, n_Early, n_parse, n_serve);
	return 0;
}
