package main

import (
	"regexp"
	"sync"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/why"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// These patterns guess from a function's qualified name, without parameters, how it affects
// other threads: lockNames wait for a lock, waitNames wait for anything, unlockNames release a
// lock, and condNames release it while they wait.
const (
	lockNames = `(^|[^A-Za-z])((mutex|spin|rw|rd|wr)?lock(_shared)?|acquire|enter|Lock|Acquire|Enter)$` +
		`|[a-z](Lock|Acquire|Enter)$`
	waitNames = lockNames +
		`|(^|[^A-Za-z])((timed)?wait(_for|_until)?|await\w*|futex|poll|select|park|Wait(For|Until)?|Await\w*|Park)$` +
		`|[a-z](Wait|WaitFor|WaitUntil|Park)$`
	unlockNames = `(?i)(^|[^A-Za-z])(release|leave)$|unlock(_shared)?$|[a-z](Release|Leave)$`
	condNames   = `(?i)(cond|(^|[^a-z])cv)\w*(::|_)?\w*wait`
)

// waitFlags are the flags that select functions that wait for other threads or release them.
type waitFlags struct{ wait, unlock string }

func (f *waitFlags) add(flags *pflag.FlagSet) {
	f.addWait(flags)
	addNames(flags, &f.unlock, "unlock", unlockNames, "treat functions that match `REGEXP` as releasing a lock")
}

// addWait adds only --wait.
func (f *waitFlags) addWait(flags *pflag.FlagSet) {
	addNames(flags, &f.wait, "wait", waitNames, "treat functions that match `REGEXP` as waits")
	f.unlock = unlockNames
}

// addNames adds a flag whose default is too long for the help text. The documentation lists
// it.
func addNames(flags *pflag.FlagSet, p *string, name, value, usage string) {
	flags.StringVar(p, name, value, usage)
	flags.Lookup(name).DefValue = ""
}

// matchesEither reports whether an expression matches a function's name: the short one, or either
// one if the expression is given by the user.
func matchesEither(re *regexp.Regexp, full string, given bool) bool {
	if given {
		return symbolize.Matches(re, full)
	}
	return re.MatchString(symbolize.Shorten(full))
}

// roles returns a function that tells the role of a function by its name. It may be called
// concurrently. The first call for a function takes a few microseconds.
func (f *waitFlags) roles(s *session.Session) (func(reader.FuncID) why.Role, error) {
	wait, err := regexp.Compile(f.wait)
	if err != nil {
		return nil, cli.Usagef("--wait: %w", err)
	}
	unlock, err := regexp.Compile(f.unlock)
	if err != nil {
		return nil, cli.Usagef("--unlock: %w", err)
	}
	lock, cond := regexp.MustCompile(lockNames), regexp.MustCompile(condNames)
	if f.unlock != unlockNames {
		lock = wait // a user who passes --unlock means the locks that these functions wait for
	}
	role := func(full string) why.Role {
		name := symbolize.Shorten(full)
		switch {
		case matchesEither(unlock, full, f.unlock != unlockNames):
			return why.Unlocks
		case !matchesEither(wait, full, f.wait != waitNames):
			return why.Runs
		case cond.MatchString(name):
			return why.WaitsUnlocked
		case lock.MatchString(name):
			return why.Locks
		}
		return why.Waits
	}
	var mu sync.Mutex
	known := make(map[reader.FuncID]why.Role)
	return func(fn reader.FuncID) why.Role {
		mu.Lock()
		defer mu.Unlock()
		r, ok := known[fn]
		if !ok {
			r = role(symbolize.Label(s.Names, fn))
			known[fn] = r
		}
		return r
	}, nil
}
