package apiserver

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// line is a line of a script. With the trigger "at" it is an action, otherwise a fault.
type line struct {
	text  string
	fired bool // it has had an effect

	action func(*state)
	after  time.Duration // from Apply on

	fault  fault
	rule   *rule // the requests that it is about; nil for "at" and "change"
	change int64 // the revision that it is about; 0 for the others
}

// rule is what a line says about requests.
type rule struct {
	on        class
	resources []gvr.Resource // empty means all
	namespace string         // empty means all
	from, to  int            // which of the requests; to == 0 means no end
	seen      int
}

// script is what Apply has been called with.
type script struct {
	lines []*line // of all scripts
	live  []*line // since "heal"
}

func (s *script) add(lines []*line) {
	s.lines, s.live = append(s.lines, lines...), append(s.live, lines...)
}

// unmet returns the lines that have had no effect.
func (s *script) unmet() (texts []string) {
	for _, l := range s.lines {
		if !l.fired {
			texts = append(texts, l.text)
		}
	}
	return texts
}

// faultFor counts a request in every rule that matches it, and returns the fault of the first one whose turn it is.
func (s *script) faultFor(q *query) *fault {
	var found *fault
	for _, l := range s.live {
		r := l.rule
		if r == nil || !r.matches(q) {
			continue
		}
		r.seen++
		if found == nil && r.seen >= r.from && (r.to == 0 || r.seen <= r.to) {
			found = &l.fault
			// Others have an effect when a watch injects them, or a list has an object.
			l.fired = l.fired || found.at == answering || q.Verb != "watch" && !slices.Contains(inList, found.usage)
		}
	}
	return found
}

// faultAt returns the fault of the frame of a revision, or nil.
func (s *script) faultAt(rev int64) *fault {
	for _, l := range s.live {
		if rev > 0 && l.change == rev {
			return &l.fault
		}
	}
	return nil
}

func (r *rule) matches(q *query) bool {
	return r.on&q.class() != 0 && (r.namespace == "" || r.namespace == q.Namespace) && among(r.resources, q)
}

func among(resources []gvr.Resource, q *query) bool {
	name := schema.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.plural}
	return len(resources) == 0 || slices.ContainsFunc(resources, sameName(gvr.Resource{GroupVersionResource: name}))
}

// checkShadowed returns an error if l can never have an effect, because an earlier line counts instead.
func (l *line) checkShadowed(earlier []*line) error {
	for _, e := range earlier {
		if l.change > 0 && l.change == e.change || l.rule != nil && e.rule != nil && e.rule.shadows(l.rule) {
			return fmt.Errorf("it can never happen, because the earlier line %q applies first", e.text)
		}
	}
	return nil
}

// shadows reports whether r, which comes first, applies to every request that the new rule n would apply to.
func (r *rule) shadows(n *rule) bool {
	if n.on&^r.on != 0 || r.namespace != "" && r.namespace != n.namespace || !contains(r.resources, n.resources) {
		return false
	}
	// r has counted r.seen requests before n counts its first one.
	if r.to == 0 {
		return r.seen+n.from >= r.from // r counts all requests that n counts, and perhaps more
	}
	same := n.on == r.on && n.namespace == r.namespace && contains(n.resources, r.resources)
	return same && n.to > 0 && r.seen+n.from >= r.from && r.seen+n.to <= r.to
}

// contains reports whether all has every resource of some. Empty means all resources.
func contains(all, some []gvr.Resource) bool {
	if len(all) == 0 || len(some) == 0 {
		return len(all) == 0
	}
	return !slices.ContainsFunc(some, func(r gvr.Resource) bool { return !slices.ContainsFunc(all, sameName(r)) })
}
