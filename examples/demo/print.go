package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/wI2L/jsondiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// printer writes events for people: the time, type, kind and name, and what changed.
type printer struct {
	w      io.Writer
	specs  map[types.UID]map[string]any // as last seen, to find what changed
	counts map[stream.Type]int
}

func newPrinter(w io.Writer) *printer {
	return &printer{w: w, specs: map[types.UID]map[string]any{}, counts: map[stream.Type]int{}}
}

func (p *printer) print(now time.Time, ev stream.Event) error {
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
	line := fmt.Sprintf("%s  %-8s  %-6s  %-19s  %s", now.Format("15:04:05.000"), ev.Type, ev.Resource.Kind, name, what)
	_, err := fmt.Fprintln(p.w, strings.TrimRight(line, " "))
	return err
}

func (p *printer) whatChanged(kind stream.Type, o *unstructured.Unstructured) string {
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

func (p *printer) summary() {
	fmt.Fprintf(p.w, "Seen: %d ADDED, %d MODIFIED, %d DELETED, %d GAP.\n",
		p.counts[stream.Added], p.counts[stream.Modified], p.counts[stream.Deleted], p.counts[stream.Gap])
}
