package doctor

import (
	"fmt"
	"io"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/report"
)

// Body returns the report: lines for people, a section for each subject, and a table for programs.
func Body(list []Check) []report.Node {
	body := []report.Node{report.Programs{report.Table("checks", list,
		report.String("subject", func(c *Check) string { return c.Subject }),
		report.String("name", func(c *Check) string { return c.Name }),
		report.String("state", func(c *Check) string { return string(c.State) }),
		report.String("text", func(c *Check) string { return c.Text }),
		report.String("remedy", func(c *Check) string { return c.Remedy }),
	)}}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Subject == list[0].Subject {
			n++
		}
		subject := list[:n]
		body = append(body, report.People{&report.Section{Title: list[0].Subject, Body: []report.Node{&report.Drawing{
			Text: func(w io.Writer, width int) error { return lines(w, subject, width) },
		}}}})
		list = list[n:]
	}
	return body
}

func lines(w io.Writer, list []Check, width int) error {
	longest := 0
	for _, c := range list {
		longest = max(longest, len(c.Name))
	}
	for _, c := range list {
		first := fmt.Sprintf("%-7s  %-*s  ", c.State, longest, c.Name)
		rest := fmt.Sprintf("%*s", len(first), "")
		paragraph := texttab.Wrap(c.Text, first, rest, report.ParagraphWidth(width))
		if c.Remedy != "" {
			paragraph = append(paragraph, texttab.Wrap(c.Remedy, rest+"-> ", rest+"   ", report.ParagraphWidth(width))...)
		}
		for _, line := range paragraph {
			if _, err := fmt.Fprintf(w, "%s\n", texttab.Printable(line)); err != nil {
				return err
			}
		}
	}
	return nil
}
