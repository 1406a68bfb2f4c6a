package observe

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
)

// quotas follows the CPU quotas of a process: those of its cgroup and of the cgroups around it.
type quotas struct {
	found bool
	next  time.Time
	every time.Duration
	list  []quotaFiles
}

// quotaFiles is a cgroup with a quota.
type quotaFiles struct {
	dir  string
	v2   bool
	last reader.QuotaSample // as it was read last, which may be equal to the latest sample
	reader.Quota
}

// Quotas are read this often while the process runs. A process without a quota may get one.
const quotaInterval, quotaSearch = 25 * time.Millisecond, 5 * time.Second

// maxQuotaSamples limits the samples of a cgroup. Then every second one is omitted, and the interval is doubled.
const maxQuotaSamples = 4096

// sample reads the quotas of a process if it is time to do so. root is where the system's files are, "/".
func (q *quotas) sample(root string, pid int) {
	now := time.Now()
	if now.Before(q.next) {
		return
	}
	if !q.found {
		q.list, q.every = findQuotas(root, pid), quotaInterval
		q.found = len(q.list) > 0
	}
	q.next = now.Add(quotaSearch)
	if q.found {
		q.next = now.Add(q.every)
	}
	q.read()
}

// read reads the quotas now.
func (q *quotas) read() {
	for i := range q.list {
		f := &q.list[i]
		s, ok := f.stat()
		if !ok {
			continue
		}
		n := len(f.Samples)
		if n > 0 && s.Throttled == f.Samples[n-1].Throttled && s.ThrottledNS == f.Samples[n-1].ThrottledNS {
			f.last = s
			continue
		}
		if n > 0 && f.last.TSC > f.Samples[n-1].TSC {
			f.Samples = append(f.Samples, f.last) // nothing happened until then
		}
		f.Samples = append(f.Samples, s)
		f.last = s
		if len(f.Samples) >= maxQuotaSamples {
			for k := range len(f.Samples) / 2 {
				f.Samples[k] = f.Samples[2*k+1]
			}
			f.Samples = f.Samples[:len(f.Samples)/2]
			q.every *= 2
		}
	}
}

// report returns the quotas with their last values.
func (q *quotas) report() (list []reader.Quota) {
	q.read()
	for i := range q.list {
		f := &q.list[i]
		quota := f.Quota
		if n := len(quota.Samples); n > 0 && f.last.TSC > quota.Samples[n-1].TSC {
			quota.Samples = append(slices.Clone(quota.Samples), f.last)
		}
		list = append(list, quota)
	}
	return list
}

// findQuotas returns the cgroups with a quota that a process is in, innermost first.
func findQuotas(root string, pid int) (list []quotaFiles) {
	text, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		v2 := fields[0] == "0" && fields[1] == ""
		if !v2 && !slices.Contains(strings.Split(fields[1], ","), "cpu") {
			continue
		}
		within, mount := cgroupMount(string(mounts), v2)
		path, ok := strings.CutPrefix(filepath.Clean("/"+fields[2]), strings.TrimSuffix(within, "/"))
		if mount == "" || !ok {
			continue
		}
		for path = filepath.Clean("/" + path); ; path = filepath.Dir(path) {
			f := quotaFiles{dir: filepath.Join(root, mount, path), v2: v2, Quota: reader.Quota{Group: path}}
			if f.limit() {
				list = append(list, f)
			}
			if path == "/" {
				break
			}
		}
	}
	return list
}

// cgroupMount returns which cgroup is mounted where: of version 2, or of version 1 with the controller of CPUs.
func cgroupMount(mounts string, v2 bool) (within, mount string) {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(kind) < 3 {
			continue
		}
		if v2 && kind[0] == "cgroup2" || !v2 && kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "cpu") {
			return f[3], strings.ReplaceAll(f[4], `\040`, " ")
		}
	}
	return "", ""
}

// limit reads the quota, and reports whether there is one.
func (f *quotaFiles) limit() bool {
	if f.v2 {
		words := strings.Fields(f.text("cpu.max"))
		if len(words) < 2 {
			return false
		}
		quota, err1 := strconv.ParseUint(words[0], 10, 50) // "max" without a quota
		period, err2 := strconv.ParseUint(words[1], 10, 50)
		f.QuotaNS, f.PeriodNS = 1000*quota, 1000*period
		return err1 == nil && err2 == nil && period > 0
	}
	quota, err1 := strconv.ParseInt(strings.TrimSpace(f.text("cpu.cfs_quota_us")), 10, 50) // -1 without a quota
	period, err2 := strconv.ParseInt(strings.TrimSpace(f.text("cpu.cfs_period_us")), 10, 50)
	if err1 != nil || err2 != nil || quota <= 0 || period <= 0 {
		return false
	}
	f.QuotaNS, f.PeriodNS = 1000*uint64(quota), 1000*uint64(period)
	return true
}

// stat reads how often the quota stopped the cgroup so far.
func (f *quotaFiles) stat() (s reader.QuotaSample, ok bool) {
	for line := range strings.Lines(f.text("cpu.stat")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "nr_periods":
			ok = true
		case "nr_throttled":
			s.Throttled = n
		case "throttled_time":
			s.ThrottledNS = n
		case "throttled_usec":
			s.ThrottledNS = 1000 * min(n, 1<<53)
		}
	}
	s.TSC = ring.ReadTSC()
	return s, ok
}

func (f *quotaFiles) text(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.dir, name))
	return string(text)
}
