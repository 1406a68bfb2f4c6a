package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/explain/survey"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// completeNames lets shells complete what flags take with names from the trace or program on the command line.
func completeNames(cmd *cobra.Command) {
	for flag, complete := range map[string]cobra.CompletionFunc{
		"root": completeFunctions, "func": completeFunctions, "exclude": completeFunctions, "keep": completeFunctions, "id-func": completeFunctions,
		"args": completeFunctions, "results": completeFunctions, "when": completeFunctions, "by": completeFunctions, "by-arg": completeFunctions,
		"thread": completeThreads, "instr-map": completeBinaries,
	} {
		if cmd.Flags().Lookup(flag) != nil {
			// The only error is that the flag has a completion already.
			_ = cmd.RegisterFlagCompletionFunc(flag, complete)
		}
	}
}

// openNamed opens the names of the first operand that is a file, or of the process of -p.
func openNamed(cmd *cobra.Command, args []string) (*session.Session, error) {
	streams := cli.Streams{Stdout: cli.Text{Raw: io.Discard}, Stderr: cli.Text{Raw: io.Discard}}
	maps, _ := cmd.Flags().GetStringArray("instr-map")
	maps = slices.Compact(maps) // cobra parses a command line twice to complete it
	if pid, err := cmd.Flags().GetString("pid"); err == nil && pid != "" {
		args = []string{filepath.Join("/proc", pid, "exe")}
	}
	i := slices.IndexFunc(args, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	})
	if i < 0 {
		return nil, os.ErrNotExist
	}
	path := args[i]
	if symbolize.IsProgram(path) || symbolize.IsSharedObject(path) {
		maps, path = []string{path}, ""
	}
	return session.Inputs{}.With(maps).OpenNames(&streams, cmd.Name(), path)
}

// completeFunctions completes a regular expression with the short names of functions.
func completeFunctions(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	s, err := openNamed(cmd, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	anchor := ""
	if strings.HasPrefix(typed, "^") {
		anchor = "^"
	}
	var words []cobra.Completion
	for _, id := range symbolize.IDs(s.Names) {
		name, _, _ := strings.Cut(symbolize.Shorten(symbolize.Label(s.Names, id)), "(")
		if word := anchor + regexp.QuoteMeta(name); strings.HasPrefix(word, typed) {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return slices.Compact(words), cobra.ShellCompDirectiveNoFileComp
}

// largestListed is the size of a trace up to which its threads are listed, because that reads all of it.
const largestListed = 32 << 20

// completeThreads completes with the IDs of threads, which have their names beside them.
func completeThreads(cmd *cobra.Command, args []string, _ string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	s, err := openNamed(cmd, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	info, err := os.Stat(args[0])
	if s.Trace == nil || err != nil || info.Size() > largestListed {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := survey.Run(s.Trace, calls.Options{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	name := s.ThreadNames().Name
	for _, t := range found.Threads {
		words = append(words, cobra.CompletionWithDesc(strconv.Itoa(int(t.Thread.Thread)), name(t.Thread)))
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeBinaries completes with files that have sleds, and folders.
func completeBinaries(_ *cobra.Command, _ []string, typed string) (words []cobra.Completion, directive cobra.ShellCompDirective) {
	paths, err := filepath.Glob(regexp.MustCompile(`[*?[\\]`).ReplaceAllString(typed, `\$0`) + "*")
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	directive = cobra.ShellCompDirectiveNoFileComp
	for _, path := range paths {
		switch info, err := os.Stat(path); {
		case err != nil:
		case info.IsDir():
			words, directive = append(words, path+"/"), directive|cobra.ShellCompDirectiveNoSpace
		case info.Mode().IsRegular() && build.HasSleds(path):
			words = append(words, path)
		}
	}
	if len(words) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return words, directive
}
