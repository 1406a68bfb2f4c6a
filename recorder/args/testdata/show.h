// Functions that print values in the form in which xray shows them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

static void put(bool v) { fputs(v ? "true" : "false", stdout); }
static void put(char v) { printf("'%c'", v); }
static void put(signed char v) { printf("%d", v); }
static void put(unsigned char v) { printf("%d", v); }
static void put(short v) { printf("%d", v); }
static void put(unsigned short v) { printf("%d", v); }
static void put(int v) { printf("%d", v); }
static void put(unsigned v) { printf("%u", v); }
static void put(long v) { printf("%ld", v); }
static void put(unsigned long v) { printf("%lu", v); }
static void put(long long v) { printf("%lld", v); }
static void put(unsigned long long v) { printf("%llu", v); }
static void put(float v) { printf("%g", (double)v); }
static void put(double v) { printf("%g", v); }
static void put(long double v) { printf("%Lg", v); }
static void put(char32_t v) { printf("'%c'", (char)v); }
static void put(const void *v) { printf("0x%lx", (unsigned long)v); }
static void put(const std::string &v) { printf("\"%s\"", v.c_str()); }
static void put(const char *v) {
	if (v)
		printf("\"%s\"", v);
	else
		fputs("(none)", stdout);
}
static void put(unsigned __int128 v) {
	if (v >= 10)
		put((unsigned __int128)(v / 10));
	putchar('0' + (int)(v % 10));
}
static void put(__int128 v) {
	if (v < 0)
		putchar('-');
	put((unsigned __int128)(v < 0 ? -v : v));
}

#define SHOW(e) (printf(" %s=", #e), put(e))
#define ENTER(f) fputs(#f, stdout)
#define LEAVE() (putchar('\n'), fflush(stdout))
