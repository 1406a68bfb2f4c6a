package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/reader/calls"
)

// Flags that several subcommands have are declared here, each once, so that a flag has the
// same name, letter and values everywhere.

// AddOutput adds --output.
func AddOutput(f *pflag.FlagSet, path *string) {
	f.StringVarP(path, "output", "o", "-", "write to `FILE`; - is standard output")
}

// AddTop adds --top. *n is the default, and 0 shows all. what names the rows in the help text.
func AddTop(f *pflag.FlagSet, n *int, what string) {
	AddCount(f, n, "top", "n", 0, "show the first `N` "+what+"; 0 shows all")
}

// AddSeed adds --seed for analyses that draw samples. *seed is the default.
func AddSeed(f *pflag.FlagSet, seed *uint64) { f.Uint64Var(seed, "seed", *seed, "use random seed `N`") }

// AddExact adds --exact.
func AddExact(f *pflag.FlagSet, exact *bool) {
	f.BoolVar(exact, "exact", false, "never approximate percentiles; needs more memory")
}

// AddPerThread adds --per-thread.
func AddPerThread(f *pflag.FlagSet, perThread *bool, where string) {
	f.BoolVar(perThread, "per-thread", false, where+"keep threads apart")
}

// AddMaxCalls adds --max-calls. *n is the default, and 0 is no limit.
func AddMaxCalls(f *pflag.FlagSet, n *int, where string) {
	AddCount(f, n, "max-calls", "", 0, where+"show only the `N` longest calls; 0 shows all")
}

// AddTitle adds --title.
func AddTitle(f *pflag.FlagSet, title *string, where string) {
	f.StringVar(title, "title", "", where+"set the title to `TEXT`")
}

// AddSlow adds --slow, the rule that tells slow calls from others. *rule is the default.
func AddSlow(f *pflag.FlagSet, rule *string) {
	f.StringVar(rule, "slow", *rule, "treat calls as slow by `RULE`: above a percentile (p99), top:100, or >5ms")
}

// AddShare adds a flag that takes a percentage, with or without a percent sign; *p is its default, a
// fraction from 0 to 1.
func AddShare(f *pflag.FlagSet, p *float64, name, usage string) { f.Var((*share)(p), name, usage) }

// AddBudget adds --budget, a percentage of the CPU time that recording may take.
func AddBudget(f *pflag.FlagSet, p *float64, usage string) {
	f.Var(budget{(*share)(p)}, "budget", usage)
}

// share is a flag that takes a percentage.
type share float64

// budget is a share that is more than 0.
type budget struct{ *share }

// Set implements pflag.Value.
func (b budget) Set(text string) error {
	err := b.share.Set(text)
	if err == nil && *b.share == 0 {
		return Usagef("must be more than 0%%")
	}
	return err
}

// String implements pflag.Value.
func (s *share) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(*s), 'g', 12, 64) + "%"
}

// Type implements pflag.Value.
func (s *share) Type() string { return "share" }

// Set implements pflag.Value.
func (s *share) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return Usagef("must be a percentage: 1%% or 0.1%%")
	}
	*s = share(v / 100)
	return nil
}

// AddKeepGoing accepts the flag of llvm-xray to continue after a bad record, which xray always
// does.
func AddKeepGoing(f *pflag.FlagSet) { Ignored(f, "keep-going", "k") }

// Ignored adds a hidden boolean flag for something that xray does anyway.
func Ignored(f *pflag.FlagSet, name, short string) {
	f.BoolP(name, short, true, "")
	// The only error is that there is no such flag.
	_ = f.MarkHidden(name)
}

// Choice is a flag that takes one of a few words.
type Choice struct {
	value   *string
	allowed []string
	// Synonyms maps other words, as llvm-xray has them, to those that are allowed.
	Synonyms map[string]string
}

// AddChoice adds a flag that takes one of allowed; *p is its default.
func AddChoice(flags *pflag.FlagSet, p *string, name, short, usage string, allowed ...string) *Choice {
	c := &Choice{value: p, allowed: allowed}
	flags.VarP(c, name, short, usage+": "+strings.Join(allowed, ", "))
	return c
}

// String implements pflag.Value.
func (c *Choice) String() string { return *c.value }

// Type implements pflag.Value.
func (c *Choice) Type() string { return "word" }

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	if to, ok := c.Synonyms[s]; ok {
		s = to
	}
	if !slices.Contains(c.allowed, s) {
		return Usagef("must be one of %s", strings.Join(c.allowed, ", "))
	}
	*c.value = s
	return nil
}

// count is a flag that takes an integer of at least least.
type count struct {
	value *int
	least int
}

// AddCount adds a flag that takes an integer of at least least; *p is its default.
func AddCount(flags *pflag.FlagSet, p *int, name, short string, least int, usage string) {
	flags.VarP(&count{p, least}, name, short, usage)
}

func (c *count) String() string { return strconv.Itoa(*c.value) }

func (c *count) Type() string { return "int" }

func (c *count) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < int64(c.least) {
		return Usagef("must be an integer ≥ %d", c.least)
	}
	*c.value = int(n)
	return nil
}

// duration is a flag that takes a time that is not negative.
type duration time.Duration

// AddDuration adds a flag that takes a time; *p is its default, and 0 is shown as none.
func AddDuration(f *pflag.FlagSet, p *time.Duration, name, usage string) {
	f.Var((*duration)(p), name, usage)
}

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "time" }

func (d *duration) Set(s string) error {
	t, err := ParseDuration(s)
	*d = duration(t)
	return err
}

// ParseDuration reads a time that is not negative.
func ParseDuration(s string) (time.Duration, error) {
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		return 0, Usagef("%q is not a time: write 5us, 200ms or 1.5s", s)
	}
	return t, nil
}

// window is a flag that takes a part of the time: length of every.
type window struct{ length, every *time.Duration }

// AddWindow adds a flag that takes a part of the time, as 1s/60s. It has no default.
func AddWindow(f *pflag.FlagSet, length, every *time.Duration, name, usage string) {
	f.Var(&window{length, every}, name, usage)
}

// String implements pflag.Value.
func (w *window) String() string {
	if w.every == nil || *w.every == 0 {
		return ""
	}
	return w.length.String() + "/" + w.every.String()
}

// Type implements pflag.Value.
func (w *window) Type() string { return "window" }

// Set implements pflag.Value.
func (w *window) Set(s string) error {
	first, period, ok := strings.Cut(s, "/")
	if !ok {
		return Usagef("%q is not a window: write 1s/60s to record 1 second of every minute", s)
	}
	length, err := ParseDuration(first)
	if err != nil {
		return err
	}
	every, err := ParseDuration(period)
	if err != nil {
		return err
	}
	if length == 0 || length >= every {
		return Usagef("%q: the window must be longer than 0 and shorter than the period", s)
	}
	*w.length, *w.every = length, every
	return nil
}

// ParseQuantile parses a quantile such as p99.5.
func ParseQuantile(text string) (float64, error) {
	digits, ok := strings.CutPrefix(text, "p")
	q, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(q >= 0 && q <= 100) {
		return 0, Usagef("%q is not a percentile like p99", text)
	}
	return q / 100, nil
}

// size is a flag that takes a number of bytes.
type size int64

// AddSize adds a flag that takes a number of bytes. A suffix K, M, G or T stands for a power of
// 1024. *p is the default, and 0 is shown as none.
func AddSize(f *pflag.FlagSet, p *int64, name, usage string) { f.Var((*size)(p), name, usage) }

func (s *size) String() string {
	n, units := int64(*s), "KMGT"
	if n == 0 {
		return ""
	}
	unit := ""
	for i := 0; n%1024 == 0 && i < len(units); i++ {
		n, unit = n/1024, units[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

func (s *size) Type() string { return "size" }

func (s *size) Set(text string) error {
	n, ok := fileio.ParseSize(strings.TrimSuffix(strings.ToUpper(text), "B")) // 20MB is 20M
	if !ok || n == 0 {
		return Usagef("%q is not a size: write a number of bytes, optionally with the suffix K, M, G or T", text)
	}
	*s = size(n)
	return nil
}

// CompleteColumns lets shells complete a flag that takes a column. With lists, the flag takes
// several columns, separated by commas.
func CompleteColumns(cmd *cobra.Command, flag string, columns []string, lists bool) {
	complete := func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := ""
		if i := strings.LastIndexByte(typed, ','); lists {
			before = typed[:i+1]
		}
		var words []cobra.Completion
		for _, c := range columns {
			words = append(words, before+c)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	// The only error is that the flag has a completion already.
	_ = cmd.RegisterFlagCompletionFunc(flag, complete)
}

// CompleteChoices lets shells complete the words that flags take.
func CompleteChoices(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if c, ok := f.Value.(*Choice); ok {
			// The only error is that the flag has a completion already.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

// CountOrAll is a flag that takes a number from 1 up, or all, which is [calls.EveryRoot].
type CountOrAll int

// Type implements pflag.Value.
func (d *CountOrAll) Type() string { return "int" }

// String implements pflag.Value.
func (d *CountOrAll) String() string {
	if *d == calls.EveryRoot {
		return "all"
	}
	return strconv.Itoa(int(*d))
}

// Set implements pflag.Value.
func (d *CountOrAll) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	switch {
	case s == "all":
		n = calls.EveryRoot
	case err != nil || n < 1:
		return Usagef("must be all or an integer ≥ 1")
	}
	*d = CountOrAll(n)
	return nil
}
