//go:build linux && amd64

package args

import (
	"strings"
	"testing"
)

const allSource = `
#include <string>
#include <vector>
#include <cstdio>
enum Op { get, set };
struct Part { int a; };
struct Request { long id; std::string key; Op op; Part part; std::vector<int> list; double *p; unsigned flags : 3; };
struct Empty {};
struct Server {
	int port;
	void handle(const Request &req, Request *next, std::string name, std::vector<int> v, int, Part by, Empty e, long double ld, int (*f)(int));
};
__attribute__((noinline)) void Server::handle(const Request &req, Request *next, std::string name, std::vector<int> v, int, Part by, Empty e, long double ld, int (*f)(int)) {
	printf("%ld %p %s %zu %d %Lg %p\n", req.id, next, name.c_str(), v.size(), by.a, ld, f);
}
int main() {
	Request r{17, "key", set, {3}, {1, 2}};
	r.flags = 5;
	Server{80}.handle(r, nullptr, "name", {4, 5, 6}, 1, {9}, {}, 2.5l, nullptr);
}
`

// Without expressions there are all parameters, and of classes their members.
func TestAllParameters(t *testing.T) {
	p := open(t, compiled(t, "clang++-22", allSource, "-O0"), func(symbol string) bool { return strings.Contains(symbol, "Server6handle") })
	lines, refused, _ := p.values(t, func(string) []*Expression { return []*Expression{} }, nil)
	if len(lines) != 1 {
		t.Fatalf("got %q", lines)
	}
	fields := fieldsOf(lines[0])
	const want = `req.id=17 req.key="key" req.op=set req.list.size()=2 req.p=0x0 req.flags=5 next=0x0 name="name" v.size()=3 by.a=9 ld=2.5 f=0x0`
	if got := strings.Join(fields[2:], " "); !strings.HasPrefix(fields[1], "this=0x") || got != want {
		t.Errorf("got  %s\nwant this=... %s", strings.Join(fields[1:], " "), want)
	}
	whole := strings.Join(refused, "\n")
	for _, want := range []string{
		"req.part: req.part is of type Part: choose a member: a",
		"parameter 6: it has no name",
		"e: it is empty",
	} {
		if !strings.Contains(whole, want) {
			t.Errorf("refused: %s\nwant %s", whole, want)
		}
	}
}

// Classes of the program that are a pointer to bytes and a length are strings, in registers and in memory. Those that
// may be something else are not. What else is a pointer can be cast to one to a string.
func TestOwnStrings(t *testing.T) {
	const source = `
#include <cstdio>
#include <cstring>
` + ownSource + `
extern "C" __attribute__((noinline)) void others(Other *o) { asm volatile("" : : "r"(o) : "memory"); }
extern "C" __attribute__((noinline)) void own(Slice s, const Slice &r, Text t, Text *p, Buffer b, Holder *h, Slice none, void *opaque, unsigned char *bytes, Node n) {
	asm volatile("" : : "r"(&s), "r"(&r), "r"(&t), "r"(p), "r"(&b), "r"(h), "r"(&none), "r"(opaque), "r"(bytes), "r"(&n) : "memory");
}
int main() {
	others(nullptr);
	Text t{4, (unsigned char *)"text and more"};
	Text negative{-1, (unsigned char *)"text"};
	Buffer b{(char *)"buffer", 6, 80, 1};
	Holder h{{"\x01 in a holder", 11}, negative, "end"};
	own({"slice", 5}, {"reference", 3}, t, &t, b, &h, {nullptr, 0}, (void *)"opaque", (unsigned char *)"bytes", Node{(char *)"node", 4, nullptr});
}
`
	s, err := Parse("own: s, s.size(), s.empty(), s[1], r, t, t.size(), *p, p->len, b, h->slice, h->negative, none, (char *)opaque, (char*)bytes:3, n.data")
	if err != nil {
		t.Fatal(err)
	}
	others, err := Parse("others: o->node, o->range, o->two, o->record, o->flags")
	if err != nil {
		t.Fatal(err)
	}
	const want = `own s="slice" s.size()=5 s.empty()=false s[1]='l' r="ref" t="text" t.size()=4 *p="text" p->len=4 b="buffer" h->slice="\x01 in a hold" h->negative=(none) none="" (char *)opaque="opaque" (char*)bytes="byt"... n.data="node"`
	for _, b := range []struct{ compiler, flags string }{{"clang++-22", "-O0"}, {"clang++-14", "-O2"}, {"g++", "-O2"}} {
		t.Run(b.compiler+b.flags, func(t *testing.T) {
			p := open(t, compiled(t, b.compiler, source, b.flags), func(symbol string) bool { return symbol == "own" })
			lines, refused, _ := p.values(t, func(string) []*Expression { return s.Expressions }, nil)
			if len(lines) != 1 || lines[0] != want {
				t.Errorf("got  %q, refused %q\nwant %s", lines, refused, want)
			}
			p = open(t, p.path, func(symbol string) bool { return symbol == "others" })
			lines, refused, _ = p.values(t, func(string) []*Expression { return others.Expressions }, nil)
			if text := strings.Join(refused, "\n"); len(lines) > 0 || strings.Count(text, ": choose a member: ") != len(others.Expressions) {
				t.Errorf("got %q, refused %q", lines, refused)
			}
		})
	}
}

const ownSource = `
struct Slice { const char *data_; size_t size_; };
struct Text { int len; unsigned char *data; };
struct Buffer { char *str; int length; unsigned capacity, hash; };
struct Holder { Slice slice; Text negative; char tail[4]; };
struct Node { char *data; int len; Node *next; };      // more than a string
struct Range { char *begin, *end; };                   // without a length
struct Two { char *data; int len, size; };             // which one is it?
struct Record { double *data; long size; };            // not bytes
struct Flags { char *data; unsigned len : 24, kind : 8; };
struct Other { Node node; Range range; Two two; Record record; Flags flags; };
`

// Errors say what is wrong and what there is instead.
func TestRefusedExpressions(t *testing.T) {
	p := open(t, compiled(t, "clang++-22", allSource, "-O0"), func(symbol string) bool { return strings.Contains(symbol, "Server6handle") })
	f, err := NewFunction(p.binary, p.addresses[0], p.names[0])
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"request":         "the function has no parameter request: it has this, req, next, name, v, by, e, ld, f",
		"req":             "req is of type Request: choose a member: id, key, op, part, list, p, flags",
		"req.no":          "Request has no member no: it has id, key, op, part, list, p, flags",
		"next.id":         "next is a pointer: write next->id",
		"next->part.b":    "Part has no member b: it has a",
		"req.id.x":        "req.id has no members: it is of type long",
		"*req.id":         "req.id is not a pointer, but of type long",
		"req.id[2]":       "req.id has no elements that can be read: it is of type long",
		"name.size().x":   "name.size() is a number, which has no members",
		"name.substr()":   "name.substr(): functions of the program cannot be called; known are size",
		"v":               "v is of type std::vector<int, std::allocator<int> >: choose its size or an element, as v.size() or v[0]",
		"*f":              "f points to a function",
		"result":          "the result is known when the function returns: use --results",
		"e.x":             "e: it is empty",
		"req.list.data()": "",
		"port":            "",
		"this->port":      "",
	} {
		e, err := parseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		values, refused := f.Entry([]*Expression{e})
		switch {
		case want == "" && len(values) != 1:
			t.Errorf("%s: got %v", text, refused)
		case want != "" && (len(refused) != 1 || !strings.HasPrefix(refused[0].Why, want)):
			t.Errorf("%s: got %v, %v, want %s", text, values, refused, want)
		}
	}
	e, _ := parseExpression("req")
	if _, refused := f.Exit([]*Expression{e}); len(refused) != 1 || !strings.Contains(refused[0].Why, "only result can be read when a function returns") {
		t.Errorf("a parameter at the exit: got %v", refused)
	}
	if _, refused := f.Exit(nil); len(refused) != 1 || !strings.Contains(refused[0].Why, "returns nothing") {
		t.Errorf("the result of a function without one: got %v", refused)
	}
}
