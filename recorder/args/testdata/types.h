// Types of each class of the calling convention. TestPositions passes them in each position.
#pragma once
#include "show.h"

enum Color { red, green = 7, blue = -3 };
enum class Op : uint8_t { get = 1, set = 200 };
struct One { int a; };
struct Floats { float a, b; };
struct ThreeFloats { float a, b, c; };
struct Mixed { double a; long b; };
struct Packed2 { int a; float b; double c; };
struct Chars { char a, b, c; };
struct Big { long a, b, c; };
struct Bits { unsigned a : 3; int b : 7; unsigned long c : 40; bool d : 1; };
struct Base { int a; };
struct Derived : Base, One { double b; };
struct Inner { short a; struct { char b; union { int c; float d; }; }; };
struct Nested { Inner in; unsigned char e; };
struct Array { int a[3]; };
struct Empty {};
struct __attribute__((packed)) Unaligned { char a; int b; };
struct alignas(16) Aligned { long a; };
struct AlignedBig { alignas(16) long a; long b, c; };
struct Copied { int a; Copied(int a) : a(a) {} Copied(const Copied &o) : a(o.a) {} };
struct Destroyed { long a; ~Destroyed() { asm volatile(""); } };
struct Virtual { int a; Virtual(int a) : a(a) {} virtual int f() { return a; } };
struct HasCopied { Copied c; };
struct Wide { __int128 a; };
struct LongDouble { long double a; };
union Number { int i; float f; long l; };
typedef int Vector __attribute__((vector_size(16)));
struct HasVector { Vector a; };

static void put(Color v) { fputs(v == red ? "red" : v == green ? "green" : "blue", stdout); }
static void put(Op v) { fputs(v == Op::get ? "get" : "set", stdout); }
