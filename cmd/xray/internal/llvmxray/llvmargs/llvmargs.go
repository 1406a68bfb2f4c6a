// Package llvmargs parses command lines like LLVM's tools, with the same error messages and
// help texts.
//
// An option is one or two dashes and a name. Its value follows "=" or is the next argument.
// One-letter options without values may be grouped, as in -kd. Options and operands may be
// mixed. "--" ends the options. If an option is repeated, the last value counts. Errors do
// not stop parsing: all of them are reported. An argument @file is replaced by the
// arguments in that response file.
package llvmargs

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/report/label"
)

// Command is a subcommand with its options and operands.
type Command struct {
	Name, Short string
	// Operands describes the operands in the help. Min and Max limit their number. A Max of
	// 0 means no limit.
	Operands string
	Min, Max int

	options []*option
}

type option struct {
	name    string
	aliases []string
	value   string // its placeholder in the help; "" for options without a value
	choices []Choice
	help    string
	set     func(string) error
	boolean bool
}

// Choice is one of the words that an option accepts.
type Choice struct{ Name, Help string }

// Bool adds an option without a value, or with a boolean after "=". One-letter aliases may
// be grouped.
func (c *Command) Bool(p *bool, name, help string, aliases ...string) {
	c.Func(name, help, func(v bool) { *p = v }, aliases...)
}

// Func is like Bool, for options whose position matters. It calls f in the order of the
// command line.
func (c *Command) Func(name, help string, f func(bool), aliases ...string) {
	c.options = append(c.options, &option{name: name, aliases: aliases, help: help, boolean: true, set: func(s string) error {
		switch s {
		case "", "true", "TRUE", "True", "1":
			f(true)
		case "false", "FALSE", "False", "0":
			f(false)
		default:
			return fmt.Errorf("'%s' is invalid value for boolean argument! Try 0 or 1", s)
		}
		return nil
	}})
}

// String adds an option with a string value. value is its placeholder in the help.
func (c *Command) String(p *string, name, value, help string, aliases ...string) {
	c.options = append(c.options, &option{name: name, aliases: aliases, value: value, help: help, set: func(s string) error {
		*p = s
		return nil
	}})
}

// Int adds an option with a 32-bit integer, in decimal or C notation.
func (c *Command) Int(p *int, name, value, help string, aliases ...string) {
	c.options = append(c.options, &option{name: name, aliases: aliases, value: value, help: help, set: func(s string) error {
		n, err := strconv.ParseInt(s, 0, 32)
		if err != nil || strings.ContainsAny(s, "_+") {
			return fmt.Errorf("'%s' value invalid for integer argument!", s)
		}
		*p = int(n)
		return nil
	}})
}

// Choice adds an option that accepts one of choices. *p is the default.
func (c *Command) Choice(p *string, name, help string, choices []Choice, aliases ...string) {
	c.options = append(c.options, &option{name: name, aliases: aliases, value: "value", help: help, choices: choices, set: func(s string) error {
		if !slices.ContainsFunc(choices, func(ch Choice) bool { return ch.Name == s }) {
			return fmt.Errorf("Cannot find option named '%s'!", s)
		}
		*p = s
		return nil
	}})
}

// Tool is a program with subcommands.
type Tool struct {
	Program  string // name under which it was called
	Overview string
	Version  string // printed for --version
	Commands []*Command
}

// Outcome is the result of parsing a command line.
type Outcome uint8

const (
	Run    Outcome = iota // run the command
	Shown                 // help or version has been printed
	Failed                // the command line is invalid; errors have been printed
)

// Parse parses the arguments after the program's name. It sets the options of the command,
// and returns the command with its operands. It prints help to out, and errors to errs.
func (t *Tool) Parse(args []string, out, errs io.Writer) (*Command, []string, Outcome) {
	args, err := expand(args)
	if err != nil {
		t.complain(errs, "%v", err)
		return nil, nil, Failed
	}
	var cmd *Command
	unknown := false
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if cmd = t.command(args[0]); cmd == nil {
			unknown = true
			t.complain(errs, "Unknown subcommand '%s'.  Try: '%s --help'", args[0], t.Program)
			var names []string
			for _, c := range t.Commands {
				names = append(names, c.Name)
			}
			if near := nearest(args[0], names); near != "" {
				t.complain(errs, "Did you mean '%s'?", near)
			}
		}
		args = args[1:]
	}
	p := &parser{tool: t, cmd: cmd, args: args, errs: errs, failed: unknown}
	p.run()
	switch {
	case p.failed:
		return cmd, nil, Failed
	case p.wantHelp:
		t.help(out, cmd)
		return cmd, nil, Shown
	case p.wantVersion:
		fmt.Fprintln(out, t.Version)
		return cmd, nil, Shown
	case cmd == nil:
		t.help(out, nil)
		return nil, nil, Shown
	}
	return cmd, p.operands, Run
}

func (t *Tool) command(name string) *Command {
	for _, c := range t.Commands {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (t *Tool) complain(errs io.Writer, format string, args ...any) {
	fmt.Fprintf(errs, t.Program+": "+format+"\n", args...)
}

// parser is the state of parsing one command line.
type parser struct {
	tool     *Tool
	cmd      *Command // nil before the subcommand
	args     []string
	errs     io.Writer
	operands []string

	failed, wantHelp, wantVersion bool
}

func (p *parser) run() {
	options := p.options()
	for len(p.args) > 0 {
		arg := p.args[0]
		p.args = p.args[1:]
		if arg == "--" {
			p.operands = append(p.operands, p.args...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			if p.cmd == nil {
				p.fail("Unknown command line argument '%s'.  Try: '%s --help'", arg, p.tool.Program)
			}
			p.operands = append(p.operands, arg)
			continue
		}
		name := strings.TrimPrefix(arg[1:], "-")
		p.option(options, arg, name)
	}
	if p.wantHelp || p.wantVersion || p.cmd == nil {
		return
	}
	switch n := len(p.operands); {
	case n < p.cmd.Min:
		plural := "s"
		if p.cmd.Min == 1 {
			plural = ""
		}
		p.fail("Not enough positional command line arguments specified!\nMust specify at least %d positional argument%s: See: %s --help",
			p.cmd.Min, plural, p.tool.Program)
	case p.cmd.Max > 0 && n > p.cmd.Max:
		p.fail("Too many positional arguments specified!\nCan specify at most %d positional arguments: See: %s --help",
			p.cmd.Max, p.tool.Program)
	}
}

// options returns the options of the subcommand and the general ones.
func (p *parser) options() map[string]*option {
	all := map[string]*option{}
	flag := func(to *bool, names ...string) {
		o := &option{name: names[0], boolean: true, set: func(string) error { *to = true; return nil }}
		for _, name := range names {
			all[name] = o
		}
	}
	flag(&p.wantHelp, "help", "h", "help-list", "help-hidden", "help-list-hidden")
	flag(&p.wantVersion, "version")
	if p.cmd == nil {
		return all
	}
	for _, o := range p.cmd.options {
		all[o.name] = o
		for _, alias := range o.aliases {
			all[alias] = o
		}
	}
	return all
}

func (p *parser) fail(format string, args ...any) {
	p.failed = true
	p.tool.complain(p.errs, format, args...)
}

// option parses one option. arg is the argument, name what follows the dashes.
func (p *parser) option(options map[string]*option, arg, name string) {
	key, value, hasValue := strings.Cut(name, "=")
	o := options[key]
	if o == nil {
		if o, key, value, hasValue = p.group(options, name); o == nil {
			p.unknown(options, arg, name)
			return
		}
	}
	if !o.boolean && !hasValue {
		if len(p.args) == 0 {
			p.fail("for the %s option: requires a value!", dashed(key))
			return
		}
		value, p.args = p.args[0], p.args[1:]
	}
	p.set(o, value)
}

func (p *parser) set(o *option, value string) {
	if err := o.set(value); err != nil {
		p.fail("for the --%s option: %v", o.name, err)
	}
}

// group sets all but the last of a group of one-letter options, and returns the last.
func (p *parser) group(options map[string]*option, name string) (o *option, key, value string, hasValue bool) {
	for {
		if name == "" || name[0] == '=' {
			return nil, "", "", false
		}
		key, rest := name[:1], name[1:]
		o := options[key]
		switch {
		case o == nil:
			return nil, "", "", false
		case rest == "":
			return o, key, "", false
		case rest[0] == '=':
			return o, key, rest[1:], true
		case !o.boolean:
			p.fail("for the %s option: may not occur within a group!", dashed(key))
			return nil, "", "", false
		}
		p.set(o, "")
		name = rest
	}
}

func (p *parser) unknown(options map[string]*option, arg, name string) {
	p.fail("Unknown command line argument '%s'.  Try: '%s --help'", arg, p.tool.Program)
	key, value, hasValue := strings.Cut(name, "=")
	var names []string
	for n := range options {
		names = append(names, n)
	}
	slices.Sort(names)
	near := nearest(key, names)
	if near == "" {
		return
	}
	if hasValue {
		p.tool.complain(p.errs, "Did you mean '%s=%s'?", dashed(near), value)
	} else {
		p.tool.complain(p.errs, "Did you mean '%s'?", dashed(near))
	}
}

// dashed adds dashes as LLVM does: one before a letter, two before a longer name.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// nearest returns the name closest to s, or "" if s is empty.
func nearest(s string, names []string) string {
	best, least := "", 0
	for _, name := range names {
		if d := label.Distance(s, name); s != "" && (best == "" || d < least) {
			best, least = name, d
		}
	}
	return best
}
