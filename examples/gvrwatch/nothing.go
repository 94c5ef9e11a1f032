package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// nothingFound prints a line on stderr if there are no objects once all types are synced, such as
//
//	gvrwatch: no pods found in the namespace default (-A looks in all)
type nothingFound struct {
	status func() mux.Status
	more   func() bool // other types follow
	errOut io.Writer
	where  func([]gvr.Resource) string
	synced []gvr.Resource
	said   bool // or there was something
}

// newNothingFound returns nil where SYNCED is a document on stdout, and if the run does not learn what exists.
func (s *session) newNothingFound(merged *mux.Mux, want wanted) *nothingFound {
	o := s.opts
	if o.print.hasControls() || o.begin.watchOnly || o.begin.resourceVersion != "" ||
		o.exec.command != "" || o.end.condition != "" {
		return nil
	}
	where := func(synced []gvr.Resource) string { return s.whereNothingIs(synced, want) }
	more := func() bool { return len(s.sources) > 0 }
	return &nothingFound{status: merged.Status, more: more, errOut: s.streams.ErrOut, where: where}
}

// observe is called with each event that was delivered, whether or not it was printed.
func (p *nothingFound) observe(ev stream.Event) {
	p.said = p.said || ev.HasObject()
	if ev.Type != stream.Synced || p.said {
		return
	}
	p.synced = append(p.synced, ev.Resource)
	if p.more() {
		return
	}
	for _, source := range p.status().Sources {
		if !source.Synced || source.Stream == nil {
			return // SYNCED of another type follows
		}
		p.said = p.said || source.Stream.Objects > 0 // after a checkpoint
	}
	if !p.said {
		p.said = true
		printMessage(p.errOut, "%s", p.where(p.synced))
	}
}

// whereNothingIs says what was looked for, and where.
func (s *session) whereNothingIs(synced []gvr.Resource, want wanted) string {
	var types, names []string
	namespaced := false
	for _, r := range synced {
		types = append(types, r.Resource)
		namespaced = namespaced || r.Namespaced
	}
	for _, t := range want.targets {
		if t.name != "" {
			names = append(names, t.name)
		}
	}
	slices.Sort(types)
	slices.Sort(names)
	text := "no " + joinNames(slices.Compact(types))
	if len(names) > 0 {
		text += " with the name " + joinNames(slices.Compact(names))
	}
	if strings.ContainsAny(strings.Join(names, ""), `*?[\^$+|`) {
		text += " (names are no patterns: -l selects objects)"
	}
	if s.opts.what.labelSelector != "" {
		text += fmt.Sprintf(" with the labels %q", s.opts.what.labelSelector)
	}
	if s.opts.what.fieldSelector != "" {
		text += fmt.Sprintf(" with the fields %q", s.opts.what.fieldSelector)
	}
	text += " found"
	switch namespaces := s.namespaces(); {
	case !namespaced:
	case len(namespaces) == 0:
		text += " across all namespaces"
	case len(namespaces) == 1:
		text += " in the namespace " + namespaces[0] + " (-A looks in all)"
	default:
		text += " in the namespaces " + strings.Join(namespaces, ", ") + " (-A looks in all)"
	}
	return text
}
