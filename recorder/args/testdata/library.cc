// Arguments of the standard library's types. Lines that begin with //@ are the expressions of a function at
// its entry, and with //~ at its exit.
#include "show.h"
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

using namespace std::chrono_literals;

enum class Kind { get, put_, del };
static void put(Kind k) { fputs(k == Kind::get ? "get" : k == Kind::put_ ? "put_" : "del", stdout); }

template <class T> static void put(const std::optional<T> &o) {
	if (o)
		put(*o);
	else
		fputs("(none)", stdout);
}
template <class T> static void put(const std::unique_ptr<T> &p) { put((const void *)p.get()); }
template <class T> static void put(const std::shared_ptr<T> &p) { put((const void *)p.get()); }
static void put(std::string_view s) { printf("\"%.*s\"", (int)s.size(), s.data()); }
template <class T> static void put(const std::atomic<T> &a) { put(a.load()); }

#define TEXT(e, text) ((void)printf(" %s=%s", #e, text))
#define EXTERN extern "C" __attribute__((noinline))

struct Node {
	int id;
	std::string name;
	std::unique_ptr<Node> next;
	std::shared_ptr<Node> shared;
	std::vector<double> weights;
	std::optional<std::string> note;
	Kind kind;
};

//@ strings: a:40, b:40, c, d, a.size(), b.size(), b.empty(), c.size(), *d, a[1], b:10, b.length(), a.data()
EXTERN void strings(std::string a, const std::string &b, std::string_view c, std::string *d) {
	ENTER(strings);
	SHOW(a), SHOW(b), SHOW(c), TEXT(d, "POINTER"), SHOW(a.size()), SHOW(b.size()), SHOW(b.empty()), SHOW(c.size()), SHOW(*d), SHOW(a[1]);
	if (b.size() > 10)
		printf(" b=\"%.10s\"...(%zu bytes)", b.c_str(), b.size());
	else
		SHOW(b);
	SHOW(b.length());
	TEXT(a.data(), "POINTER");
	LEAVE();
}

//@ vectors: v.size(), v[0], v[2], w.size(), w[1], e->empty(), s.size(), s[1], f.size(), f[2], a[1], a.size(), n[1].id, n[0].name, n.size()
EXTERN void vectors(const std::vector<int> &v, std::vector<std::string> w, std::vector<long> *e, std::span<const short> s, std::span<int, 3> f, std::array<long, 2> &a, const std::vector<Node> &n) {
	ENTER(vectors);
	SHOW(v.size()), v.size() > 0 ? SHOW(v[0]) : TEXT(v[0], "(none)"), v.size() > 2 ? SHOW(v[2]) : TEXT(v[2], "(none)"), SHOW(w.size());
	w.size() > 1 ? SHOW(w[1]) : TEXT(w[1], "(none)");
	SHOW(e->empty());
	SHOW(s.size()), s.size() > 1 ? SHOW(s[1]) : TEXT(s[1], "(none)"), SHOW(f.size()), SHOW(f[2]), SHOW(a[1]), SHOW(a.size());
	n.size() > 1 ? SHOW(n[1].id) : TEXT(n[1].id, "(none)");
	n.size() > 0 ? SHOW(n[0].name) : TEXT(n[0].name, "(none)");
	SHOW(n.size());
	LEAVE();
}

//@ optionals: a, *a, b, a.has_value(), c, b.value().size()
EXTERN void optionals(std::optional<int> a, const std::optional<std::string> &b, std::optional<Kind> c) {
	ENTER(optionals);
	SHOW(a), a ? SHOW(*a) : TEXT(*a, "(none)"), SHOW(b), SHOW(a.has_value()), SHOW(c);
	b ? SHOW(b.value().size()) : TEXT(b.value().size(), "(none)");
	LEAVE();
}

//@ pointers: p, p->id, p->next->name, s, s->kind, n->shared->id, n->weights.size(), n->weights[1], n->note, n->next->next->id, (*p).id, r.get()
EXTERN void pointers(const std::unique_ptr<Node> &p, std::shared_ptr<Node> s, Node *n, std::unique_ptr<int> r) {
	ENTER(pointers);
	SHOW(p), SHOW(p->id);
	p->next ? SHOW(p->next->name) : TEXT(p->next->name, "(none)");
	SHOW(s), SHOW(s->kind);
	n->shared ? SHOW(n->shared->id) : TEXT(n->shared->id, "(none)");
	SHOW(n->weights.size());
	n->weights.size() > 1 ? SHOW(n->weights[1]) : TEXT(n->weights[1], "(none)");
	SHOW(n->note);
	n->next && n->next->next ? SHOW(n->next->next->id) : TEXT(n->next->next->id, "(none)");
	SHOW((*p).id);
	printf(" r.get()=0x%lx", (unsigned long)r.get());
	LEAVE();
}

//@ durations: a, b, c, d, b.count(), t
EXTERN void durations(std::chrono::nanoseconds a, std::chrono::milliseconds b, std::chrono::duration<double> c, std::chrono::minutes d, const char *const *texts, std::chrono::steady_clock::time_point t) {
	ENTER(durations);
	asm volatile("" : : "r"(a.count()), "x"(c.count()), "r"(d.count()), "r"(t.time_since_epoch().count()));
	TEXT(a, texts[0]), TEXT(b, texts[1]), TEXT(c, texts[2]), TEXT(d, texts[3]), SHOW(b.count()), TEXT(t, texts[4]);
	LEAVE();
}

//@ containers: m.size(), s.size(), u.size(), l.size(), x, m.empty()
EXTERN void containers(const std::map<int, std::string> &m, std::set<long> s, std::unordered_map<std::string, int> &u, std::list<int> l, const std::atomic<long> &x) {
	ENTER(containers);
	SHOW(m.size()), SHOW(s.size()), SHOW(u.size()), SHOW(l.size()), SHOW(x), SHOW(m.empty());
	LEAVE();
}

struct Shape {
	virtual ~Shape() {}
	int sides = 4;
};
struct Queue {
	std::vector<int> items;
	size_t size_ = 3;
};
struct Server : Shape {
	Queue queue;
	const char *host = "local";
	char name[8] = "svc";
	int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
	void handle(int n);
};

//@ Server::handle: this->queue.size_, sides, host, name, queue.items.size(), n, matrix[1][2], this->name[1]
__attribute__((noinline)) void Server::handle(int n) {
	ENTER(Server::handle);
	SHOW(this->queue.size_), SHOW(sides), SHOW(host), TEXT(name, "\"svc\""), SHOW(queue.items.size()), SHOW(n), SHOW(matrix[1][2]), SHOW(this->name[1]);
	LEAVE();
}

int main() {
	std::string longer = "a string that does not fit";
	strings("ab", longer, std::string_view(longer).substr(2, 6), &longer);
	std::string tiny = "xy";
	strings("another string that is not short", tiny, "", &tiny);
	std::vector<int> v = {7, 8, 9};
	std::vector<long> e;
	short s[] = {1, -2};
	int f[] = {5, 6, 7};
	std::array<long, 2> a = {10, 11};
	std::vector<Node> nodes(2);
	nodes[0].name = "first", nodes[1].id = 17;
	vectors(v, {"one", "two"}, &e, s, f, a, nodes);
	vectors({}, {}, &e, {}, f, a, {});
	optionals(3, "note", Kind::put_);
	optionals({}, {}, {});
	auto p = std::make_unique<Node>();
	p->id = 5, p->next = std::make_unique<Node>(), p->next->name = "the next node", p->kind = Kind::get;
	auto sh = std::make_shared<Node>();
	sh->kind = Kind::del, sh->shared = std::make_shared<Node>(), sh->shared->id = 99, sh->weights = {0.5, 2.5}, sh->note = "noted";
	pointers(p, sh, sh.get(), std::make_unique<int>(3));
	pointers(p->next, sh, p.get(), nullptr);
	const char *texts[] = {"1.5us", "250ms", "2.5s", "120s", "3s"};
	durations(1500ns, 250ms, std::chrono::duration<double>(2.5), 2min, texts, std::chrono::steady_clock::time_point(3s));
	std::unordered_map<std::string, int> u = {{"a", 1}, {"b", 2}, {"c", 3}};
	std::atomic<long> x = -44;
	containers({{1, "x"}, {2, "y"}}, {1, 2, 3, 4}, u, {1, 2, 3, 4, 5}, x);
	Server server;
	server.handle(12);
}
