package why

import (
	"regexp"
	"sync"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// waitNames guesses from a function's qualified name, without parameters, whether it waits for
// anything.
const waitNames = locks.LockNames +
	`|(^|[^A-Za-z])((timed|clock)?wait(_for|_until)?|await\w*|futex|poll|select|park|Wait(For|Until)?|Await\w*|Park)$` +
	`|[a-z](Wait|WaitFor|WaitUntil|Park)$`

// postNames guesses the same of functions that only wake others.
const postNames = `(^|[^A-Za-z])(sem_post|signal|broadcast|notify(_one|_all)?|wake(_one|_all|_up)?|Signal|Broadcast|Notify(One|All)?|Wake(One|All|Up)?)$`

// RolesByName returns a function for [Options.Role] that tells the role of a function by its name.
// nil stands for the usual patterns. The first call for a function takes a few microseconds.
func RolesByName(names symbolize.Names, wait, unlock *regexp.Regexp) func(reader.FuncID) Role {
	waits, unlocks := locks.Choose(wait, waitNames), locks.Choose(unlock, locks.UnlockNames)
	lock, cond, post := regexp.MustCompile(locks.LockNames), regexp.MustCompile(locks.CondNames), regexp.MustCompile(postNames)
	if unlocks.Given {
		lock = waits.Regexp // a user who says what releases a lock means the locks that these functions wait for
	}
	role := func(full string) Role {
		name := symbolize.Shorten(full)
		switch {
		case unlocks.Matches(full):
			return Unlocks
		case !waits.Matches(full) && post.MatchString(name):
			return Posts
		case !waits.Matches(full):
			return Runs
		case cond.MatchString(name):
			return WaitsUnlocked
		case lock.MatchString(name):
			return Locks
		}
		return Waits
	}
	var mu sync.Mutex
	known := make(map[reader.FuncID]Role)
	return func(fn reader.FuncID) Role {
		mu.Lock()
		defer mu.Unlock()
		r, ok := known[fn]
		if !ok {
			r = role(symbolize.Label(names, fn))
			known[fn] = r
		}
		return r
	}
}
