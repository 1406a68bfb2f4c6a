package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/web"
)

// If another program has the port that the Perfetto UI needs, view reports it before it does any
// work.
func TestViewWithoutPort(t *testing.T) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		listener, err := net.Listen("tcp", web.PerfettoAddress)
		if err == nil {
			defer listener.Close()
			break
		}
		if time.Since(start) > 3*time.Minute { // other tests use the port for seconds
			t.Fatal(err)
		}
	}
	o := runHere("xray", "view", "--perfetto", filepath.Join("..", "..", "testdata", "kvserver-fdr.xray"))
	if o.status != exitFailed || !strings.Contains(o.stderr, "127.0.0.1:9001") || !strings.Contains(o.stderr, "convert -f perfetto") {
		t.Errorf("%v", o)
	}
}

func TestViewRefusesFlagsOfThePage(t *testing.T) {
	for _, flag := range []string{"--title=x", "--source"} {
		if o := runHere("xray", "view", "--perfetto", flag, "trace"); o.status != exitUsage || !strings.Contains(o.stderr, "--perfetto") {
			t.Errorf("%s: %v", flag, o)
		}
	}
}
