package ctl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/report/label"
)

// List shows the processes that ctl can reach.
func (c *Control) List(ctx context.Context) error {
	found, err := client.List(ctx)
	if err != nil {
		return err
	}
	return c.WriteText("", func(w io.Writer) error {
		if c.Format == "json" {
			return writeListJSON(w, found)
		}
		return writeList(w, found)
	})
}

func writeList(w io.Writer, found []client.Listening) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no process has a listening recorder")
		return err
	}
	table := texttab.Table{Columns: []texttab.Column{
		{Title: "pid", Right: true}, {Title: "parent", Right: true}, {Title: "mode"}, {Title: "threads", Right: true},
		{Title: "lost", Right: true}, {Title: "command"},
	}}
	for _, l := range found {
		pid, parent := "?", "?"
		if l.PID > 0 {
			pid, parent = strconv.Itoa(l.PID), strconv.Itoa(l.Parent)
		}
		row := []string{pid, parent, "?", "?", "?", l.Command}
		if s := l.Status; s != nil {
			row[2], row[3], row[4] = describeMode(s), strconv.FormatInt(s.Threads.Live, 10), label.Grouped(uint64(s.Dropped))
		} else if l.Err != nil {
			row[5] += " (" + l.Err.Error() + ")"
		}
		table.Add(row...)
	}
	return table.WriteText(w)
}

// listed is a row of the list as JSON.
type listed struct {
	PID     int            `json:"pid"` // 0 when unknown
	Parent  int            `json:"parent"`
	Command string         `json:"command"`
	Status  *client.Status `json:"status"` // null when unavailable
	Error   string         `json:"error,omitempty"`
}

func writeListJSON(w io.Writer, found []client.Listening) error {
	rows := make([]listed, len(found))
	for i, l := range found {
		rows[i] = listed{PID: l.PID, Parent: l.Parent, Command: l.Command, Status: l.Status}
		if l.Err != nil {
			rows[i].Error = l.Err.Error()
		}
	}
	return json.NewEncoder(w).Encode(rows)
}
