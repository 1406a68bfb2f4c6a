package locks

import (
	"regexp"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// These patterns guess from a function's qualified name, without parameters, how it affects
// locks: LockNames wait for one, UnlockNames release one, and CondNames release one while they wait.
const (
	LockNames = `(^|[^A-Za-z])((mutex|spin|rw|(timed|clock)?(rd|wr)?)lock(_shared)?|acquire|enter|Lock|Acquire|Enter)$` +
		`|[a-z](Lock|Acquire|Enter)$`
	UnlockNames = `(?i)(^|[^A-Za-z])(release|leave)$|unlock(_shared)?$|[a-z](Release|Leave)$`
	CondNames   = `(?i)(co?nd|(^|[^a-z])cv)\w*(::|_)?\w*wait`
)

// Suffixes of names: functions that take a lock only if it is free, and functions that take a
// shared lock.
const (
	tryNames    = `(^|[^A-Za-z])[Tt]ry_?([Ll]ock|[Aa]cquire|[Ee]nter)\w*$|[a-z]Try(Lock|Acquire|Enter)\w*$`
	sharedNames = `(?i)shared|rdlock|(^|[^a-z])read`
)

// Pattern selects functions by name.
type Pattern struct {
	*regexp.Regexp
	Given bool // by the user: it may match the full name, too
}

// Choose returns the pattern that the user gave, or the usual one for nil.
func Choose(given *regexp.Regexp, usual string) Pattern {
	if given != nil {
		return Pattern{given, true}
	}
	return Pattern{regexp.MustCompile(usual), false}
}

// Matches reports whether the pattern matches a label, as shown in short or, if given, in full.
func (p Pattern) Matches(label string) bool {
	if p.Given {
		return symbolize.Matches(p.Regexp, label)
	}
	return p.MatchString(symbolize.Shorten(label))
}

// ByName returns a function for [Options.Function] that tells from names what functions do to locks.
// nil stands for the usual patterns.
func ByName(names symbolize.Names, lock, unlock, cond *regexp.Regexp) func(reader.FuncID) Function {
	locks, unlocks, conds := Choose(lock, LockNames), Choose(unlock, UnlockNames), Choose(cond, CondNames)
	try, shared := regexp.MustCompile(tryNames), regexp.MustCompile(sharedNames)
	return func(fn reader.FuncID) Function {
		full := symbolize.Label(names, fn)
		name := symbolize.Shorten(full)
		if f, ok := ofLibc(name); ok {
			return f
		}
		class, last := splitName(name)
		is := Function{Class: class, Constructor: isConstructor(class, last)}
		switch {
		case unlocks.Matches(full):
			is.Role = Unlock
		case conds.Matches(full):
			is.Role = Condition
		case strings.HasPrefix(last, "~"):
			is.Class = "" // a destructor of a class that is named after a lock
		case try.MatchString(last):
			is.Role, is.Shared = TryLock, shared.MatchString(last)
		case locks.Matches(full):
			is.Role, is.Shared = Lock, shared.MatchString(last)
		default:
			is.Class = ""
		}
		return is
	}
}

// Members returns how reports name the members of classes that functions take as locks.
func Members(names symbolize.Names) func(taker reader.FuncID) string {
	lock, guard := regexp.MustCompile(LockNames), regexp.MustCompile(`^std::(lock_guard|unique_lock|shared_lock)\b.*::(lock_guard|unique_lock|shared_lock)$`)
	members := symbolize.NewMembers(func(name string) int {
		f, ok := ofLibc(name)
		switch {
		case ok && (f.Role == Lock || f.Role == TryLock), !ok && lock.MatchString(name):
			return 1
		case guard.MatchString(name):
			return 2
		}
		return 0
	})
	return func(taker reader.FuncID) string { return members.Passed(names, taker) }
}

// splitName splits a qualified name into class and method. The class of a C function is its name
// up to the last underscore.
func splitName(name string) (class, last string) {
	depth := 0
	for i := len(name) - 1; i > 0; i-- {
		switch name[i] {
		case '>':
			depth++
		case '<':
			depth--
		case ':':
			if depth == 0 && name[i-1] == ':' {
				return name[:i-1], name[i+1:]
			}
		}
	}
	if i := strings.LastIndexByte(name, '_'); i > 0 {
		return name[:i], name
	}
	return "", name
}

// isConstructor reports whether a method has the name of its class, apart from template
// arguments.
func isConstructor(class, last string) bool {
	if i := strings.IndexByte(class, '<'); i > 0 {
		class = class[:i]
	}
	return class != "" && class[strings.LastIndexByte(class, ':')+1:] == last
}
