package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wI2L/jsondiff"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// demoPrinter writes events for people: the time, type, kind and name, and what changed.
type demoPrinter struct {
	w      io.Writer
	colour bool
	specs  map[types.UID]map[string]any // as last seen, to find what changed
	counts map[stream.Type]int
}

func newDemoPrinter(w io.Writer) *demoPrinter {
	p := &demoPrinter{w: w, specs: map[types.UID]map[string]any{}, counts: map[stream.Type]int{}}
	p.colour = wantsColour(w, os.Getenv, term.IsTerminal)
	return p
}

// wantsColour reports whether w is a terminal, unless NO_COLOR (https://no-color.org) or TERM=dumb disables colour.
func wantsColour(w io.Writer, getenv func(string) string, isTerminal func(int) bool) bool {
	if o, ok := w.(*output); ok {
		w = o.w
	}
	f, ok := w.(*os.File)
	return ok && isTerminal(int(f.Fd())) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

var colours = map[stream.Type]string{
	stream.Added: "\x1b[32m", stream.Modified: "\x1b[33m", stream.Deleted: "\x1b[31m",
	stream.Synced: "\x1b[36m", stream.Gap: "\x1b[35m",
}

func (p *demoPrinter) print(now time.Time, ev stream.Event) {
	p.counts[ev.Type]++
	name, what := "", ""
	if o := ev.Object; o != nil {
		name = o.GetName()
		if o.GetNamespace() != "" {
			name = o.GetNamespace() + "/" + name
		}
		what = p.whatChanged(ev.Type, o)
	} else {
		what = "at resourceVersion " + ev.ResourceVersion
		if ev.Gap != nil {
			what = "from resourceVersion " + ev.Gap.From
		}
	}
	kind := fmt.Sprintf("%-8s", ev.Type)
	if p.colour {
		kind = colours[ev.Type] + kind + "\x1b[0m"
	}
	line := fmt.Sprintf("%s  %s  %-6s  %-19s  %s", now.Format("15:04:05.000"), kind, ev.Resource.Kind, name, what)
	fmt.Fprintln(p.w, strings.TrimRight(line, " "))
}

func (p *demoPrinter) whatChanged(kind stream.Type, o *unstructured.Unstructured) string {
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	before := p.specs[o.GetUID()]
	p.specs[o.GetUID()] = spec
	switch kind {
	case stream.Deleted:
		delete(p.specs, o.GetUID())
		return ""
	case stream.Added:
		before = map[string]any{}
	}
	patch, err := jsondiff.Compare(before, spec)
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, op := range patch {
		words = append(words, describe(op))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func describe(op jsondiff.Operation) string {
	field := strings.ReplaceAll(strings.TrimPrefix(op.Path, "/"), "/", ".")
	switch op.Type {
	case jsondiff.OperationReplace:
		return fmt.Sprintf("%s %v -> %v", field, op.OldValue, op.Value)
	case jsondiff.OperationRemove:
		return "no " + field
	}
	return fmt.Sprintf("%s=%v", field, op.Value)
}

func (p *demoPrinter) summary() {
	fmt.Fprintf(p.w, "Seen: %d ADDED, %d MODIFIED, %d DELETED, %d GAP.\n",
		p.counts[stream.Added], p.counts[stream.Modified], p.counts[stream.Deleted], p.counts[stream.Gap])
}
