package ctl

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/xray-tools/xray/recorder/client"
)

// A process may answer anything. What xray ctl prints of it has no other lines than those of a status.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(`{"mode":"record\n  lost no\u001b[2J","offcpu":"a\nb","recording":true,"stream":{"bytes":-1,"limit":9223372036854775807},"windows":{"length_ns":-1,"recorded_ns":-9223372036854775808}}`))
	f.Add([]byte(`{"exe":"a\nb","warnings":["x\ny"],"refused":[{"path":"p\n","why":"\r"}],"sealed":true,"threshold_ns":1,"depth":-5,"paused":"\n"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s client.Status
		if json.Unmarshal(data, &s) != nil {
			return
		}
		var b bytes.Buffer
		if err := writeStatus(&b, &s); err != nil {
			t.Fatal(err)
		}
		const most = 11 // rows without the lists
		if n := strings.Count(b.String(), "\n"); n > most+len(s.Refused)+len(s.Warnings) || strings.ContainsAny(b.String(), "\x1b\r") {
			t.Errorf("got %d lines: %q", n, b.String())
		}
	})
}

func FuzzCounters(f *testing.F) {
	f.Add(append(binary.LittleEndian.AppendUint64(nil, 1), make([]byte, 16)...))
	f.Add(binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, data []byte) {
		counters, err := parseCounters(data)
		if err != nil {
			return
		}
		if err := writeCounters(new(bytes.Buffer), counters, nil); err != nil || len(counters) != (len(data)-8)/16 {
			t.Errorf("%d counters in %d bytes; %v", len(counters), len(data), err)
		}
	})
}
