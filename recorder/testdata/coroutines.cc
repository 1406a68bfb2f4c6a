// C++20 coroutines that throw: the exception passes through the functions that resume them.
#include <coroutine>
#include <cstdio>
#include <exception>

#define F __attribute__((noinline, xray_always_instrument))
#define PLAIN __attribute__((noinline, xray_never_instrument))
#define BARRIER __asm__ volatile("" ::: "memory")

static volatile long sink;

struct task {
	struct promise_type {
		PLAIN task get_return_object() { return task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
		PLAIN std::suspend_always initial_suspend() noexcept { return {}; }
		PLAIN std::suspend_always final_suspend() noexcept { return {}; }
		PLAIN std::suspend_always yield_value(long) { return {}; }
		PLAIN void return_void() {}
		PLAIN void unhandled_exception() { throw; }
	};
	std::coroutine_handle<promise_type> handle;
};

extern "C" {
F void check(long i)
{
	sink = sink + 1;
	if (i % 10 == 0)
		throw i;
	BARRIER;
}
}

PLAIN static task steps(long i)
{
	co_yield i;
	check(i);
	co_yield i;
}

extern "C" {
F void resume(task t)
{
	t.handle.resume();
	BARRIER;
}

F void request(long i)
{
	task t = steps(i);
	resume(t);
	try {
		resume(t);
	} catch (long) {
		sink = sink + 1;
	}
	t.handle.destroy();
	BARRIER;
}
}

PLAIN int main()
{
	for (long i = 0; i < 1000; i++)
		request(i);
	std::printf("%ld\n", sink);
	return 0;
}
