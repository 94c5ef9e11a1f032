package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// TestHelpFits: the help of each command is a page, and no line of it wraps.
func TestHelpFits(t *testing.T) {
	root := newRoot(genericiooptions.NewTestIOStreamsDiscard(), screen.New(io.Discard, io.Discard, nil))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var commands []string
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		commands = append(commands, strings.TrimPrefix(c.CommandPath(), "gvrwatch"))
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				add(sub)
			}
		}
	}
	add(root)
	if len(commands) < 8 {
		t.Fatalf("only %q", commands)
	}
	for _, c := range commands {
		for _, flag := range []string{"--help", "--help-all"} {
			status, stdout, stderr := runTool(t, append(strings.Fields(c), flag)...)
			lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
			if status != 0 || stderr != "" || stdout == "" || flag == "--help" && c != " options" && len(lines) >= 60 {
				t.Errorf("%s %s: status %d, %d lines\n%s%s", c, flag, status, len(lines), stderr, stdout)
			}
			for _, line := range lines {
				if len(line) > 100 {
					t.Errorf("%s %s: a line has %d characters: %s", c, flag, len(line), line)
				}
			}
		}
	}
}

// TestHelpHasAllFlags: options and --help-all have all flags of watch; --help has those of most people, in groups.
func TestHelpHasAllFlags(t *testing.T) {
	root := newRoot(genericiooptions.NewTestIOStreamsDiscard(), screen.New(io.Discard, io.Discard, nil))
	watch, _, err := root.Find([]string{"watch"})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	watch.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	missing := func(help string) (names []string) {
		for _, name := range all {
			if !regexp.MustCompile(`(?m)^ .{5}--` + name + `( |$)`).MatchString(help) {
				names = append(names, name)
			}
		}
		return names
	}
	for _, args := range []string{"options", "help options", "options --help", "watch --help-all"} {
		_, stdout, _ := runTool(t, strings.Fields(args)...)
		if names := missing(stdout); len(names) > 0 || !strings.Contains(stdout, "\nSelection:\n") {
			t.Errorf("%s lacks %q:\n%s", args, names, stdout)
		}
	}
	for _, args := range []string{"watch --help", "help watch", "watch boats -h"} {
		_, stdout, _ := runTool(t, strings.Fields(args)...)
		names := missing(stdout)
		if len(names) == 0 || !strings.Contains(stdout, "\ngvrwatch watch --help-all shows ") {
			t.Errorf("%s shows everything:\n%s", args, stdout)
		}
		for _, title := range []string{"Usage", "Examples", "Selection", "Output", "When to end", "Scripts", "Server"} {
			if !strings.Contains(stdout, "\n"+title+":\n") {
				t.Errorf("%s lacks %s:\n%s", args, title, stdout)
			}
		}
		if !strings.Contains(stdout, "--until-synced ") || strings.Contains(stdout, "--token ") ||
			strings.Contains(stdout, "not waited for") {
			t.Errorf("%s must have the first sentences of what most people use:\n%s", args, stdout)
		}
	}
}
