package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes a file of the system below root.
func (s system) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(string(s), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// system is a directory with files as the kernel has them.
type system string

// The quotas of a process are those of its cgroup and of the cgroups around it, of both versions.
func TestQuotas(t *testing.T) {
	for name, test := range map[string]struct {
		cgroup, mounts string
		files          map[string]string
		want           string
	}{
		"v2": {
			"0::/web/api\n", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			map[string]string{"web/api/cpu.max": "max 100000\n", "web/cpu.max": "50000 100000\n"}, "/web 50ms/100ms",
		},
		"v2, two": {
			"0::/web/api\n", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			map[string]string{"web/api/cpu.max": "20000 50000\n", "web/cpu.max": "50000 100000\n"}, "/web/api 20ms/50ms /web 50ms/100ms",
		},
		"v2, in a container": {
			"0::/pods/7\n", "30 20 0:26 /pods/7 /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			map[string]string{"cpu.max": "20000 50000\n"}, "/ 20ms/50ms",
		},
		"v1": {
			"4:memory:/x\n1:cpu,cpuacct:/web\n0::/\n", "29 20 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n30 20 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu,cpuacct\n",
			map[string]string{"web/cpu.cfs_quota_us": "30000\n", "web/cpu.cfs_period_us": "100000\n", "cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, "/web 30ms/100ms",
		},
		"outside of the mount": {"0::/other\n", "30 20 0:26 /pods/7 /sys/fs/cgroup rw - cgroup2 cgroup rw\n", map[string]string{"cpu.max": "20000 50000\n"}, ""},
		"none":                 {"0::/web\n", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n", map[string]string{"web/cpu.max": "max 100000\n"}, ""},
		"damaged":              {"x\n0::\n", "30 - \n", map[string]string{"cpu.max": "7\n"}, ""},
	} {
		root := system(t.TempDir())
		root.write(t, "proc/7/cgroup", test.cgroup)
		root.write(t, "proc/self/mountinfo", test.mounts)
		for path, text := range test.files {
			root.write(t, "sys/fs/cgroup/"+path, text)
		}
		var got []string
		for _, f := range findQuotas(string(root), 7) {
			got = append(got, fmt.Sprintf("%s %dms/%dms", f.Group, f.QuotaNS/1e6, f.PeriodNS/1e6))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// The samples say when the quota stopped the cgroup, and when it did not. They are limited.
func TestQuotaSamples(t *testing.T) {
	root := system(t.TempDir())
	root.write(t, "proc/7/cgroup", "0::/web\n")
	root.write(t, "proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")
	root.write(t, "sys/fs/cgroup/web/cpu.max", "50000 100000\n")
	stat := func(n int) {
		root.write(t, "sys/fs/cgroup/web/cpu.stat", fmt.Sprintf("usage_usec 5\nnr_periods 9\nnr_throttled %d\nthrottled_usec %d\n", n, 1000*n))
	}
	stat(2)
	var q quotas
	q.sample(string(root), 7)
	q.sample(string(root), 7) // too early
	for range 3 {
		q.read()
	}
	stat(5)
	q.read()
	q.read()
	s := q.report()[0].Samples
	if len(s) != 4 || s[0].Throttled != 2 || s[1].Throttled != 2 || s[2].Throttled != 5 || s[2].ThrottledNS != 5e6 || s[3].Throttled != 5 ||
		s[0].TSC >= s[1].TSC || s[1].TSC >= s[2].TSC || s[2].TSC >= s[3].TSC {
		t.Fatalf("got %+v", s)
	}
	many := &q.list[0].Samples
	for len(*many) < maxQuotaSamples-2 {
		s := (*many)[len(*many)-1]
		s.Throttled++
		*many = append(*many, s)
	}
	for i := range 4 {
		stat(2*maxQuotaSamples + i)
		q.read()
	}
	s = q.report()[0].Samples
	if len(s) > maxQuotaSamples || s[len(s)-1].Throttled != 2*maxQuotaSamples+3 || q.every != 2*quotaInterval {
		t.Errorf("%d samples, the last one %+v", len(s), s[len(s)-1])
	}
	if err := os.RemoveAll(filepath.Join(string(root), "sys")); err != nil {
		t.Fatal(err)
	}
	if after := q.report()[0].Samples; len(after) != len(s) {
		t.Errorf("a cgroup that is gone has %d samples instead of %d", len(after), len(s))
	}
}
