/* A program with sleds, and a library without, that call each other. */
#define F __attribute__((noinline, xray_always_instrument))

int hooked(int x);
int hooked_callback(int (*f)(int), int x);

F static int called_back(int x) { return x - 1; }

F static int call_hooked(int x) { return hooked(x) + hooked_callback(called_back, x); }

F int main(void)
{
	int sum = 0;
	for (int i = 0; i < 100; i++)
		sum += call_hooked(i);
	return sum != 19900;
}
