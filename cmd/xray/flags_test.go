package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagsPage has the table of all flags.
var flagsPage = filepath.Join("..", "..", "docs", "flags.md")

// legacyLetters are letters that have another meaning in another command, because llvm-xray has
// them so.
var legacyLetters = map[string]bool{
	"symbolize -s": true, // extract --sort; account has --sort, too
	"symbolize -y": true,
}

// flagUse is a flag as one or more commands declare it.
type flagUse struct {
	letter, value, usage, defaults string
	optional                       bool // the value may be absent, and follows an equals sign
	commands                       []string
}

// TestFlags checks that a flag has the same letter and the same kind of value in all commands, that
// no two flags share a letter, and that docs/flags.md lists all flags.
func TestFlags(t *testing.T) {
	uses := make(map[string][]*flagUse)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "xray ")
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "version" {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			use := &flagUse{f.Shorthand, value, usage, f.DefValue, value != "" && f.NoOptDefVal != "", []string{name}}
			for _, u := range uses[f.Name] {
				if u.letter == use.letter && u.value == use.value && u.usage == use.usage && u.defaults == use.defaults {
					u.commands = append(u.commands, name)
					return
				}
			}
			uses[f.Name] = append(uses[f.Name], use)
		})
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(new(app).root())
	names := make([]string, 0, len(uses))
	letters := make(map[string]string)
	for name, list := range uses {
		names = append(names, name)
		for _, u := range list {
			letter := name + " -" + u.letter
			if u.value != list[0].value {
				t.Errorf("--%s takes %s in %v, and %s in %v", name, list[0].value, list[0].commands, u.value, u.commands)
			}
			if legacyLetters[letter] {
				continue
			}
			if u.letter != list[0].letter {
				t.Errorf("--%s is -%s in %v, and -%s in %v", name, list[0].letter, list[0].commands, u.letter, u.commands)
			}
			if other := letters[u.letter]; u.letter != "" && other != "" && other != name {
				t.Errorf("-%s is --%s and --%s", u.letter, other, name)
			}
			letters[u.letter] = name
		}
	}
	slices.Sort(names)
	var table strings.Builder
	table.WriteString("| flag | meaning | commands |\n|---|---|---|\n")
	for _, name := range names {
		// cobra visits commands in another order once their help has been printed.
		slices.SortFunc(uses[name], func(a, b *flagUse) int { return slices.Compare(a.commands, b.commands) })
		for _, u := range uses[name] {
			writeFlag(&table, name, u)
		}
	}
	page, err := os.ReadFile(flagsPage)
	if err != nil {
		t.Fatal(err)
	}
	const start = "## All flags\n\n"
	head, old, ok := strings.Cut(string(page), start)
	if !ok {
		t.Fatalf("%s has no section %q", flagsPage, start)
	}
	if old == table.String() {
		return
	}
	if *update {
		if err := os.WriteFile(flagsPage, []byte(head+start+table.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s (-page +program; -update rewrites it):\n%s", flagsPage, cmp.Diff(strings.Split(old, "\n"), strings.Split(table.String(), "\n")))
}

func writeFlag(table *strings.Builder, name string, u *flagUse) {
	flag := "`--" + name
	switch {
	case u.optional:
		flag += "[=" + u.value + "]"
	case u.value != "":
		flag += " " + u.value
	}
	flag += "`"
	if u.letter != "" {
		flag = "`-" + u.letter + "`, " + flag
	}
	usage := u.usage
	switch u.defaults {
	case "", "false", "0", "[]":
	default:
		if !strings.Contains(usage, "default") {
			usage += fmt.Sprintf(" (default %s)", u.defaults)
		}
	}
	escape := strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`)
	fmt.Fprintf(table, "| %s | %s | %s |\n", escape.Replace(flag), escape.Replace(usage), strings.Join(u.commands, ", "))
}
