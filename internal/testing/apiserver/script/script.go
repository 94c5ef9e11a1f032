// Package script decides which fault meets which request or frame of the scripted server, runs the actions when they
// are due, and knows which lines have had no effect. Faults and actions are values here: package door lets faults
// happen, and package apiserver does the actions. So this package imports neither, and knows nothing of objects.
package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Script has the lines of all scripts of a server. It is not safe for concurrent use.
type Script struct {
	lines  []*line
	live   []*line // since Heal
	agenda []timed // by time
	timer  *time.Timer
	tick   func()
}

// New makes a Script without lines. It calls tick, in a goroutine of its own, when RunDue has something to do.
func New(tick func()) *Script { return &Script{tick: tick} }

// Apply adds the lines of a text, or none if it returns an error. It calls do with the actions that are due now, and
// RunDue with later ones. The resources that a line may name are those in known.
func (s *Script) Apply(l Language, known Resources, text string, do func(Action)) error {
	var added []*line
	for i, text := range strings.Split(text, "\n") {
		text, _, _ = strings.Cut(text, "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		read, err := l.line(known, text)
		if err == nil {
			err = read.checkShadowed(slices.Concat(s.live, added))
		}
		if err != nil {
			return fmt.Errorf("streamtest: invalid line %d of the script, %q: %w", i+1, text, err)
		}
		added = append(added, read)
	}
	for _, l := range added {
		l.fault.line = len(s.lines)
		s.lines, s.live = append(s.lines, l), append(s.live, l)
		if l.action != nil {
			s.schedule(timed{time.Now().Add(l.after), func() { l.fired = true; do(*l.action) }, true})
		}
	}
	s.RunDue()
	return nil
}

// Check returns an error that names the lines that have had no effect.
func (s *Script) Check() error {
	var unmet []string
	for _, l := range s.lines {
		if !l.fired {
			unmet = append(unmet, l.text)
		}
	}
	if len(unmet) == 0 {
		return nil
	}
	return errors.New("streamtest: lines of the script that have had no effect:\n\t" + strings.Join(unmet, "\n\t"))
}

// Heal ends all faults, and cancels the actions of scripts.
func (s *Script) Heal() {
	s.live = nil
	s.agenda = slices.DeleteFunc(slices.Clone(s.agenda), func(t timed) bool { return t.script })
	s.wait()
}

// After lets RunDue call do after d, as the consequence of an action. Heal does not cancel it.
func (s *Script) After(d time.Duration, do func()) { s.schedule(timed{time.Now().Add(d), do, false}) }

// schedule keeps the order of what is due at the same time.
func (s *Script) schedule(t timed) {
	s.agenda = append(s.agenda, t)
	slices.SortStableFunc(s.agenda, func(a, b timed) int { return a.due.Compare(b.due) })
	s.wait()
}

// RunDue does what is due. It reports whether that was anything.
func (s *Script) RunDue() (ran bool) {
	for len(s.agenda) > 0 && !s.agenda[0].due.After(time.Now()) {
		do := s.agenda[0].do
		s.agenda, ran = s.agenda[1:], true
		do()
	}
	if ran {
		s.wait()
	}
	return ran
}

// Stop cancels all that would be due later.
func (s *Script) Stop() {
	s.agenda = nil
	s.wait()
}

// wait sets the timer to what is due next.
func (s *Script) wait() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if len(s.agenda) > 0 {
		s.timer = time.AfterFunc(time.Until(s.agenda[0].due), s.tick)
	}
}

// Request is what a line may say of a request.
type Request struct {
	Verb                 string                      // as in streamtest.Request
	Resource             schema.GroupVersionResource // as named by the request
	Namespace            string
	Page, Probe, Initial bool // a list with a continue token, with limit=1; a watch with sendInitialEvents
}

// FaultFor counts a request in every line that is about it, and returns the fault of the first one whose turn it is, or
// nil.
func (s *Script) FaultFor(q Request) *Fault {
	var found *Fault
	for _, l := range s.live {
		r := l.rule
		if r == nil || !r.matches(q) {
			continue
		}
		r.seen++
		if found == nil && r.seen >= r.from && (r.to == 0 || r.seen <= r.to) {
			found = &l.fault
			// Others have an effect when a watch injects them, or a list has an object.
			l.fired = l.fired || found.At == Answering || q.Verb != "watch" && !found.NeedsObjects()
		}
	}
	return found
}

// FaultAt returns the fault of the frame of a revision, or nil.
func (s *Script) FaultAt(rev int64) *Fault {
	for _, l := range s.live {
		if rev > 0 && l.change == rev {
			return &l.fault
		}
	}
	return nil
}

// Happened records that a fault has had an effect.
func (s *Script) Happened(f *Fault) { s.lines[f.line].fired = true }

// timed is what is due at some time.
type timed struct {
	due    time.Time
	do     func()
	script bool // a line announced it; otherwise it follows from an earlier action
}

// line is a line of a script. With the trigger "at" it is an action, otherwise a fault.
type line struct {
	text  string
	fired bool // it has had an effect

	action *Action
	after  time.Duration // from Apply on

	fault  Fault
	rule   *rule // the requests that it is about; nil for "at" and "change"
	change int64 // the revision that it is about; 0 for the others
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

// rule is what a line says about requests.
type rule struct {
	on        class
	resources Resources
	namespace string // empty means all
	from, to  int    // which of the requests; to == 0 means no end
	seen      int
}

func (r *rule) matches(q Request) bool {
	return r.on&q.class() != 0 && (r.namespace == "" || r.namespace == q.Namespace) && r.resources.Has(q.Resource)
}

// shadows reports whether r, which comes first, applies to every request that the new rule n would apply to.
func (r *rule) shadows(n *rule) bool {
	if n.on&^r.on != 0 || r.namespace != "" && r.namespace != n.namespace || !r.resources.contain(n.resources) {
		return false
	}
	// r has counted r.seen requests before n counts its first one.
	if r.to == 0 {
		return r.seen+n.from >= r.from // r counts all requests that n counts, and perhaps more
	}
	same := n.on == r.on && n.namespace == r.namespace && n.resources.contain(r.resources)
	return same && n.to > 0 && r.seen+n.from >= r.from && r.seen+n.to <= r.to
}

// Resources are those that a line is about. Empty means all.
type Resources []gvr.Resource

// Has reports whether one of the resources has that name.
func (rs Resources) Has(name schema.GroupVersionResource) bool {
	return len(rs) == 0 || slices.ContainsFunc(rs, func(r gvr.Resource) bool { return r.GroupVersionResource == name })
}

// contain reports whether rs has every resource of some.
func (rs Resources) contain(some Resources) bool {
	if len(rs) == 0 || len(some) == 0 {
		return len(rs) == 0
	}
	return !slices.ContainsFunc(some, func(r gvr.Resource) bool { return !rs.Has(r.GroupVersionResource) })
}

// named reads the name of resources if the words begin with one, and returns the other words.
func (rs Resources) named(words []string) (found Resources, rest []string) {
	if len(words) == 0 {
		return nil, words
	}
	for _, r := range rs {
		names := []string{r.GroupVersionResource.Resource, r.String(), r.GroupResource().String()}
		if slices.Contains(names, words[0]) {
			found, rest = append(found, r), words[1:]
		}
	}
	if found == nil {
		return nil, words
	}
	return found, rest
}
