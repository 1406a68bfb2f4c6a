package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/sql"
)

// sqlQuery is one run of sql.
type sqlQuery struct {
	app    *app
	inputs session.Inputs
	output session.Output
	text   string
}

func (a *app) sqlCommand() *cobra.Command {
	q := sqlQuery{app: a, inputs: session.Inputs{Scope: session.ByCall, Templates: true, PathMemory: true}}
	var list strings.Builder
	for _, t := range tables.All {
		var names []string
		for _, c := range t.Of(tables.Queries) {
			names = append(names, c.Name)
		}
		fmt.Fprintf(&list, "\n  %-10s %s", t.Name, strings.Join(names, ", "))
	}
	return a.overTraces(command{
		use:   "sql TRACE... QUERY",
		short: "Query the calls of a trace with SQL",
		long: `Query the calls, functions, call paths, threads and events of traces in SQLite's SQL.
Queries read the traces directly: there is no server and no import. Times are in
nanoseconds.

Tables:` + list.String(),
		example: `  xray sql -m ./server trace.xray 'SELECT function, count(*), quantile(duration, 0.99) FROM calls GROUP BY 1'
  xray sql trace.xray "SELECT * FROM calls WHERE duration > ns('5ms') ORDER BY duration DESC LIMIT 10"
  xray sql -f csv -o slow.csv trace.xray 'SELECT start, duration FROM calls WHERE thread = 4711'`,
		args:   cli.Operands("a TRACE, and a QUERY such as 'SELECT function, count(*) FROM calls GROUP BY 1'", 2, true),
		traces: q.operands,
		inputs: &q.inputs,
		output: &q.output,
		run:    q.run,
	})
}

// operands removes the query, which is the last operand.
func (q *sqlQuery) operands(args []string) []string {
	q.text = args[len(args)-1]
	return args[:len(args)-1]
}

func (q *sqlQuery) run(s *session.Session) (err error) {
	p := &passes{s: s, budget: budgetOf(s)}
	defer func() { err = errors.Join(err, p.close()) }()
	db, err := sql.Open(p.options())
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query(context.Background(), q.text)
	if e := (*sql.Error)(nil); errors.As(err, &e) {
		return cli.Usage(err)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	doc := &report.Doc{Kind: s.Command, Clock: s.Clock}
	result := sql.NewResult(rows, q.output.Short(q.inputs.Style))
	streamed := q.output.Streams()
	caveats := func() []string { return append(db.Caveats(), s.Caveats(p.seen())...) }
	if streamed {
		doc.Late = caveats
		doc.Body = result.Streamed()
	} else {
		if doc.Body, err = result.Body(); err != nil {
			return err
		}
		doc.Caveats = caveats()
	}
	err = session.WriteDoc(s.Streams, &q.output, doc)
	if err = errors.Join(result.Err(), err); err != nil {
		return err
	}
	if streamed && !q.output.TellsCaveats() {
		session.TellCaveats(s.Streams, "", caveats())
	}
	s.Summary(p.seen().Stats)
	return nil
}

// passes runs the passes of a query over the trace: the first one on the session itself, and
// concurrent ones on sessions of their own.
type passes struct {
	s      *session.Session
	budget *calls.PathBudget // nil for any number of paths

	mu     sync.Mutex
	busy   bool // s has a pass
	others []*session.Session
	run    *session.Run // the one that saw most; nil until there is one
}

func budgetOf(s *session.Session) *calls.PathBudget {
	if s.MaxPaths == 0 {
		return nil
	}
	return calls.NewPathBudget(s.MaxPaths)
}

// acquire returns a session without a pass.
func (p *passes) acquire() (*session.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.busy {
		p.busy = true
		return p.s, nil
	}
	if n := len(p.others); n > 0 {
		s := p.others[n-1]
		p.others = p.others[:n-1]
		return s, nil
	}
	return p.s.Again()
}

func (p *passes) release(s *session.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == p.s {
		p.busy = false
	} else {
		p.others = append(p.others, s)
	}
}

func (p *passes) close() (err error) {
	for _, s := range p.others {
		err = errors.Join(err, s.Trace.Close())
	}
	return err
}

// pass implements sql.Options.Pass.
func (p *passes) pass(opts sql.PassOptions, sink calls.Sink) error {
	s, err := p.acquire()
	if err != nil {
		return err
	}
	defer p.release(s)
	how := calls.Options{Shards: 1, Paths: opts.Paths, Budget: p.budget}
	if opts.OffCPU {
		how.OffCPU = s.OffCPU()
	}
	scope := s.Scope
	scope.Filter = scope.Filter.And(opts.Filter)
	begun := false
	_, run, err := session.Analyze(s, scope, how, func() session.Streamed {
		if again, ok := sink.(sql.Restarter); ok && begun {
			again.Restart()
		}
		begun = true
		return session.Streamed{Sink: sink}
	})
	if run != nil && run.Stats != nil {
		p.mu.Lock()
		if p.run == nil || p.run.Events <= run.Events {
			p.run = run
		}
		p.mu.Unlock()
	}
	return err
}

// seen returns the run that saw most of the trace.
func (p *passes) seen() *session.Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return &session.Run{}
	}
	return p.run
}

func (p *passes) options() sql.Options {
	s := p.s
	opts := sql.Options{
		Source: tables.Source{
			Names: s.Names, Clock: s.Clock, OffCPU: s.OffCPU() != nil, Files: s.Trace.Files(),
			ThreadName: s.Trace.ThreadName, ProcessName: s.Trace.ProcessName,
		},
		Pass: p.pass, Memory: s.TableMemory,
		Start: func() (uint64, error) {
			s, err := p.acquire()
			if err != nil {
				return 0, err
			}
			defer p.release(s)
			return s.Start()
		},
		Traces: p.traces,
	}
	if s.Alias == nil {
		opts.Source.Values = s.Expressions()
	}
	if s.Names != nil {
		opts.Functions = aliased(s)
	}
	return opts
}

// aliased returns the functions of the maps, or the functions that these count as.
func aliased(s *session.Session) []reader.FuncID {
	list := symbolize.IDs(s.Names)
	if s.Alias != nil {
		for i, id := range list {
			list[i] = s.Alias(id)
		}
	}
	return list
}

// traces describes the trace files.
func (p *passes) traces() []tables.Trace {
	var list []tables.Trace
	start, _ := p.options().Start()
	for i, name := range p.s.Trace.Files() {
		file := tables.Trace{Name: name, OffProcessor: p.s.NoOffCPU()}
		if r := p.s.Trace.Recording(i); r != nil {
			file.Process = &r.Process
			if at, ok := r.Clock.Realtime(start); ok {
				file.Started = int64(at)
			}
		}
		list = append(list, file)
	}
	return list
}
