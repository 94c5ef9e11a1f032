package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/examples/internal/changes"
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
	var words []string
	for _, f := range changes.Compare(map[string]any{"spec": before}, map[string]any{"spec": spec}) {
		words = append(words, describe(f))
	}
	return strings.Join(words, ", ")
}

func describe(f changes.Field) string {
	name := strings.TrimPrefix(f.Path, "spec.")
	switch {
	case f.Old == "":
		return name + "=" + f.New
	case f.New == "":
		return "no " + name
	}
	return name + " " + f.Old + " -> " + f.New
}

func (p *printer) summary() {
	fmt.Fprintf(p.w, "Seen: %d ADDED, %d MODIFIED, %d DELETED, %d GAP.\n",
		p.counts[stream.Added], p.counts[stream.Modified], p.counts[stream.Deleted], p.counts[stream.Gap])
}
