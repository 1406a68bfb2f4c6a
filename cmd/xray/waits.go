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

// What functions do to other threads, as their qualified names without parameters
// tell: those that wait, those of them that wait for a lock, those that give a lock
// back, and those that give it back while they wait.
const (
	lockNames = `(^|[^A-Za-z])((mutex|spin|rw|rd|wr)?lock(_shared)?|acquire|enter|Lock|Acquire|Enter)$` +
		`|[a-z](Lock|Acquire|Enter)$`
	waitNames = lockNames +
		`|(^|[^A-Za-z])((timed)?wait(_for|_until)?|await\w*|futex|poll|select|park|Wait(For|Until)?|Await\w*|Park)$` +
		`|[a-z](Wait|WaitFor|WaitUntil|Park)$`
	unlockNames = `(?i)(^|[^A-Za-z])(release|leave)$|unlock(_shared)?$|[a-z](Release|Leave)$`
	condNames   = `(?i)(cond|(^|[^a-z])cv)\w*(::|_)?\w*wait`
)

// waitFlags say which functions wait for other threads.
type waitFlags struct{ wait, unlock string }

func (f *waitFlags) add(flags *pflag.FlagSet) {
	f.addWait(flags)
	addNames(flags, &f.unlock, "unlock", unlockNames, "functions that match `REGEXP` release a lock")
}

// addWait adds the first of the flags alone.
func (f *waitFlags) addWait(flags *pflag.FlagSet) {
	addNames(flags, &f.wait, "wait", waitNames, "functions that match `REGEXP` wait")
	f.unlock = unlockNames
}

// addNames adds a flag whose default is too long for the help. It is documented.
func addNames(flags *pflag.FlagSet, p *string, name, value, usage string) {
	flags.StringVar(p, name, value, usage)
	flags.Lookup(name).DefValue = ""
}

// roles says what functions do. It may be called concurrently. The first call for a
// function costs some microseconds.
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
		lock = wait // who says how locks are given back means these
	}
	role := func(name string) why.Role {
		switch {
		case unlock.MatchString(name):
			return why.Unlocks
		case !wait.MatchString(name):
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
			r = role(symbolize.Shorten(symbolize.Label(s.Names, fn)))
			known[fn] = r
		}
		return r
	}, nil
}
