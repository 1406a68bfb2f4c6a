package allocations_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/explain/allocations"
	"github.com/xray-tools/xray/reader"
)

func TestCopies(t *testing.T) {
	for name, want := range map[string]bool{
		"Order::Order(Order const&)":                                                                    true,
		"shop::Order::Order(shop::Order const&)":                                                        true,
		"shop::Order::operator=(shop::Order const&)":                                                    true,
		"(anonymous namespace)::Order::Order((anonymous namespace)::Order const&)":                      true,
		"std::vector<int, std::allocator<int> >::vector(std::vector<int, std::allocator<int> > const&)": true,
		"Pair<void (*)(int), a::B>::Pair(Pair<void (*)(int), a::B> const&)":                             true,
		"std::map<int, X>::map(std::map<int, X> const&, std::allocator<X> const&)":                      true,
		"<alloc::vec::Vec<T,A> as core::clone::Clone>::clone":                                           true,
		"shop::Order::Order(shop::Order&&)":                                                             false,
		"shop::Order::Order(shop::Item const&)":                                                         false,
		"shop::Order::Order(int)":                                                                       false,
		"shop::Order::operator==(shop::Order const&)":                                                   false,
		"shop::Order::merge(shop::Order const&)":                                                        false,
		"shop::copy(shop::Order const&)":                                                                false,
		"Order(Order const&)":                                                                           false,
		"malloc":                                                                                        false,
		"":                                                                                              false,
		")":                                                                                             false,
		"(":                                                                                             false,
		"a::b)":                                                                                         false,
		"::(":                                                                                           false,
	} {
		if got := allocations.Copies(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// A copy inside a copy is part of it, with what it copies and allocates.
func TestCopiedObjects(t *testing.T) {
	const work, object, memcpy, malloc = 1, 2, 3, 4
	roles := map[reader.FuncID]allocations.Role{object: allocations.Object, memcpy: allocations.Copy, malloc: allocations.Alloc}
	var l log
	l.thread(1, 1000, join(enter(work),
		enter(object), call(malloc, 0x1000, 64), enter(memcpy, 50), exit(memcpy), // from 1020
		enter(object), enter(memcpy, 14), exit(memcpy), exit(object), // inside
		exit(object),
		enter(memcpy, 1000), exit(memcpy),
		enter(object), exit(object),
		exit(work))...)
	r := analyze(t, &l, allocations.Options{Role: func(fn reader.FuncID) allocations.Role { return roles[fn] }})
	want := []allocations.CopySums{{Func: object, Path: []reader.FuncID{work}, Calls: 2, Bytes: 64, Allocated: 64, Ticks: 100, Longest: 90}}
	if diff := cmp.Diff(want, r.Objects); diff != "" {
		t.Error(diff)
	}
	moved := []allocations.CopySums{
		{Func: memcpy, Path: []reader.FuncID{work}, Calls: 1, Bytes: 1000, Ticks: 10, Longest: 10},
		{Func: memcpy, Path: []reader.FuncID{work, object}, Calls: 1, Bytes: 50, Ticks: 10, Longest: 10},
		{Func: memcpy, Path: []reader.FuncID{work, object, object}, Calls: 1, Bytes: 14, Ticks: 10, Longest: 10},
	}
	if diff := cmp.Diff(moved, r.Moved); diff != "" {
		t.Error(diff)
	}
}
