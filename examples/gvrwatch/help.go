package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
)

// helpGroups are the flags that --help shows, with the first sentence of each. --help-all shows all sentences, and the
// flags without a group. A command need not have all of these.
var helpGroups = []struct {
	title string
	flags []string
}{
	{"Selection", []string{
		"all-namespaces", "namespace", "selector", "field-selector", "all", "exclude", "follow", "types", "changed",
		"since", "at",
	}},
	{"Output", []string{
		"output", "output-watch-events", "watch-only", "timestamps", "summary",
	}},
	{"When to end", []string{"watch", "until-synced", "timeout", "limit", "for", "allow-missing"}},
	{"Scripts", []string{"checkpoint", "exec", "record"}},
	{"Server", []string{"kubeconfig", "context"}},
}

const (
	helpAllName = "help-all"
	optionsName = "options"
)

// helpAll is the value of --help-all, which ends the reading of the command line as --help does.
type helpAll bool

func (h *helpAll) Set(string) error { *h = true; return pflag.ErrHelp }
func (h *helpAll) String() string   { return "false" }
func (h *helpAll) Type() string     { return "bool" }

// addHelp replaces cobra's help. Options has the flags of a command.
func addHelp(root, of *cobra.Command) {
	all := new(helpAll)
	f := root.PersistentFlags().VarPF(all, helpAllName, "", "Show all flags.")
	f.NoOptDefVal, f.Hidden = "true", true
	options := &cobra.Command{
		Use: optionsName, Short: "Show all flags of watch and get", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(options)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		h := help{w: out, cmd: cmd, width: screen.Columns(out, 80, 100), all: bool(*all)}
		if cmd == options {
			h.cmd, h.all = of, true
			h.flags()
			return
		}
		h.print()
	})
}

// help prints the help of a command.
type help struct {
	w     io.Writer
	cmd   *cobra.Command
	width int
	all   bool
	short int // how much is left out, up to 2
}

func (h help) line(format string, args ...any) { fmt.Fprintf(h.w, format+"\n", args...) }

// filled wraps the paragraphs of a text, but none with a line that is indented.
func filled(text string, columns int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.HasPrefix(p, "\t") || strings.Contains(p, "\n\t") ||
			strings.Contains(p, "\n ") {
			continue
		}
		var b strings.Builder
		column := 0
		for _, word := range strings.Fields(p) {
			switch {
			case column > 0 && column+1+len(word) > columns:
				b.WriteByte('\n')
				column = 0
			case column > 0:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		paragraphs[i] = b.String()
	}
	return strings.Join(paragraphs, "\n\n")
}

// mostLines is how long --help is. Without room, only the flags of groups are shown, and then only the first paragraph
// of the text and the first examples.
const mostLines = 59

func (h help) print() {
	var b bytes.Buffer
	for _, short := range []int{0, 1, 2} {
		b.Reset()
		part := h
		part.w, part.short = &b, short
		part.render()
		if h.all || bytes.Count(b.Bytes(), []byte("\n")) <= mostLines {
			break
		}
	}
	_, _ = h.w.Write(b.Bytes()) // stdout remembers its error
}

func (h help) render() {
	text := h.cmd.Long
	if text == "" {
		text = h.cmd.Short + "."
	}
	if h.short == 2 {
		text, _, _ = strings.Cut(text, "\n\n")
	}
	h.line("%s\n\nUsage:", filled(text, h.width))
	if h.cmd.HasAvailableSubCommands() {
		h.line("  %s COMMAND\n\nCommands:", h.cmd.CommandPath())
		for _, c := range h.cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				h.line("  %-12s %s", c.Name(), c.Short)
			}
		}
	} else {
		h.line("  %s", h.cmd.UseLine())
	}
	if examples := strings.Split(h.cmd.Example, "\n"); h.cmd.Example != "" {
		if h.short == 2 {
			examples = examples[:min(len(examples), 6)]
		}
		h.line("\nExamples:\n%s", strings.Join(examples, "\n"))
	}
	h.flags()
	switch {
	case h.short > 0:
		h.line("\n%s --%s shows %d more flags, and says more.", h.cmd.CommandPath(), helpAllName, len(h.more()))
	case h.cmd.HasAvailableSubCommands():
		h.line("\n%s COMMAND --help says more about a command.", h.cmd.CommandPath())
	}
}

// flags prints the groups of flags.
func (h help) flags() {
	others := "Flags"
	for _, g := range helpGroups {
		if h.group(g.title, g.flags) {
			others = "Other flags"
		}
	}
	if h.all || h.short == 0 {
		h.group(others, h.more())
	}
}

// more returns the flags without a group.
func (h help) more() (names []string) {
	h.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		for _, g := range helpGroups {
			if slices.Contains(g.flags, f.Name) {
				return
			}
		}
		if !f.Hidden && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

func (h help) group(title string, names []string) (shown bool) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, name := range names {
		f := h.cmd.Flags().Lookup(name)
		if f == nil || f.Hidden {
			continue
		}
		short := *f
		if sentence, _, more := strings.Cut(f.Usage, ". "); more && !h.all {
			short.Usage = sentence + "."
		}
		flags.AddFlag(&short)
	}
	if flags.HasFlags() {
		h.line("\n%s:\n%s", title, strings.TrimRight(flags.FlagUsagesWrapped(h.width), "\n"))
	}
	return flags.HasFlags()
}
