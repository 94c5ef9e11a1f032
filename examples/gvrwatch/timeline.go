package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/timeline"
	"github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

// timelineOptions are the flags of timeline.
type timelineOptions struct {
	watch  watchOptions // those that select objects, and --types
	output string
}

func (o *timelineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.output, "output", "o", "", "Write the page to this file, readable for you only; - is stdout.")
	f.BoolVarP(&o.watch.what.allNamespaces, "all-namespaces", "A", false,
		"Accepted because watch has it: the default.")
	f.StringSliceVarP(&o.watch.conn.namespaces, "namespace", "n", nil, "Show only objects of these namespaces.")
	f.StringVarP(&o.watch.what.labelSelector, "selector", "l", "", "Label selector, as in watch.")
	f.StringSliceVar(&o.watch.filter.types, "types", nil,
		"Show only objects with such an event: ADDED, MODIFIED, DELETED. Without MODIFIED, no changes are on the page.")
}

func newTimeline(streams genericiooptions.IOStreams) *cobra.Command {
	o := &timelineOptions{}
	cmd := &cobra.Command{
		Use:   "timeline FILE [TYPE[,TYPE]... [NAME]... | TYPE/NAME...] -o PAGE.html",
		Short: "Make a page of what watch --record has recorded",
		Long: "Make one HTML page of what 'gvrwatch watch --record FILE' has recorded: a row for each object, a\n" +
			"mark for each event; a click shows which fields it has changed. A browser opens the page from the\n" +
			"disk. The page loads nothing, so that it can be sent to others. It has no values of Secrets, even if\n" +
			"they are recorded.",
		Example: "  gvrwatch timeline incident.rec -o incident.html\n" +
			"  gvrwatch timeline incident.rec pods,deployments -n web -o web.html\n" +
			"  gvrwatch timeline incident.rec --types DELETED -o deleted.html",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("missing FILE: name a file that watch --record has written")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			run, err := o.check(args)
			if err != nil {
				return err
			}
			return asRunError(run(streams))
		},
	}
	o.addFlags(cmd.Flags())
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault // files
		}
		return nil, noFiles
	}
	return cmd
}

// kindsOf are what --types names.
var kindsOf = map[string][]timeline.Kind{
	string(stream.Added):    {timeline.Existed, timeline.Created},
	string(stream.Modified): {timeline.Changed},
	string(stream.Deleted):  {timeline.Deleted},
}

// check validates the command line, and returns what to run.
func (o *timelineOptions) check(args []string) (func(genericiooptions.IOStreams) error, error) {
	if o.output == "" {
		return nil, errors.New("missing --output: name the page to write, such as -o page.html, or -o - for stdout")
	}
	if err := o.watch.checkFlags(); err != nil {
		return nil, err
	}
	options := timeline.Options{Title: filepath.Base(args[0]), Only: o.only(args[1:])}
	for _, name := range o.watch.filter.types {
		kinds, ok := kindsOf[name]
		if !ok {
			return nil, fmt.Errorf("--types=%s: must be of ADDED, MODIFIED and DELETED", name)
		}
		options.Kinds = append(options.Kinds, kinds...)
	}
	var want wanted
	if len(args) > 1 {
		if err := o.watch.checkArgs(args[1:], &want); err != nil {
			return nil, err
		}
	}
	selector, err := labels.Parse(o.watch.what.labelSelector)
	return func(streams genericiooptions.IOStreams) error {
		if o.output == "-" && screen.IsTerminal(streams.Out) {
			return errors.New("--output=-: stdout is a terminal: name a file, or redirect the output")
		}
		file, err := recording.Open(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		if sameFile(args[0], o.output) {
			return fmt.Errorf("--output=%s: is the recording: name another file", o.output)
		}
		selection := &replay{
			opts: &replayOptions{watch: o.watch}, file: file, want: want, labels: selector,
		}
		if err := selection.look(&span{}); err != nil {
			return err
		}
		options.Keep = selection.selects
		page, err := timeline.Of(recording.Changes(file.Entries()), options)
		if err != nil {
			return err
		}
		if len(page.Objects) == 0 {
			selected := ""
			if options.Only != "" {
				selected = " of " + options.Only
			}
			printMessage(streams.ErrOut, "the recording has no events%s: the page is empty", selected)
		}
		write := func(w io.Writer) error { return timeline.Write(w, page) }
		if out, ok := streams.Out.(*screen.Output); ok && o.output == "-" {
			return write(out.Raw()) // it is HTML, in which texts are escaped
		}
		return writeFile(o.output, write)
	}, err
}

// only returns what is selected of a recording, in words.
func (o *timelineOptions) only(args []string) string {
	words := slices.Clone(args)
	if len(o.watch.conn.namespaces) > 0 {
		words = append(words, "in", strings.Join(o.watch.conn.namespaces, ","))
	}
	if o.watch.what.labelSelector != "" {
		words = append(words, "labels", o.watch.what.labelSelector)
	}
	if len(o.watch.filter.types) > 0 {
		words = append(words, "with", strings.Join(o.watch.filter.types, ","))
	}
	return strings.Join(words, " ")
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// writeFile writes a file as a whole or not at all, readable for its owner only. What exists and is no regular file,
// such as a named pipe, is written to as it is.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
