package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

const (
	aWeek       = 168 * time.Hour
	longestLook = 30 * time.Second // for --timeout=0: a server may not answer
)

// wait waits, and prints the result.
func (o *waitOptions) wait(ctx context.Context, s *session, want wanted) error {
	signalled, limit := ctx, o.timeout
	switch {
	case limit < 0:
		limit = aWeek
	case limit == 0:
		limit, o.watch.end.untilSynced = longestLook, true
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	merged, err := s.open(ctx, &want)
	switch {
	case err != nil && signalled.Err() != nil:
		return errors.New("interrupted before the server has said what it serves")
	case errors.Is(err, errTimeout):
		return fmt.Errorf("discovery did not complete within %v", limit)
	case err != nil:
		return err
	}
	seen := newSeen(s, o)
	err = condition.Wait(ctx, waitedEvents{seen.events(merged), seen}, o.targets(s)...)
	var unmet *condition.UnmetError
	switch {
	case errors.Is(err, condition.ErrNoObjects):
		return errNoMatch
	case err == nil:
		return seen.print(s.streams)
	case !errors.As(err, &unmet): // an error of a condition
		return errors.New(strings.TrimPrefix(err.Error(), "gvrwatch: "))
	}
	w := waitResult{unmet: unmet, seen: seen, namespaces: o.watch.showsNamespaces()}
	switch {
	case signalled.Err() != nil:
		w.text = "interrupted while waiting for the condition"
		return w.report(s.streams)
	case errors.Is(unmet.Err, errTimeout) && o.timeout != 0:
		w.text = "timed out waiting for the condition"
	case errors.Is(unmet.Err, errTimeout), errors.Is(unmet.Err, stream.ErrUnmet):
		w.text, w.once = "condition not met", true
	default:
		return s.srv.explain(unmet.Err)
	}
	return cmp.Or(seen.print(s.streams), w.report(s.streams))
}

// errNoMatch is what kubectl says.
var errNoMatch = errors.New("no matching resources found")

// targets returns the objects that must meet the conditions. Without names one of them waits for the first object,
// unless the first look decides.
func (o *waitOptions) targets(s *session) (all []condition.Target) {
	for _, c := range o.conditions {
		all = append(all, s.targets(c)...)
	}
	if !o.allowNone && o.timeout != 0 && !o.deletes() && all[0].Name == "" {
		all = append(all, s.targets(created)...)
	}
	return all
}

// waitedEvents are the events of a wait. They are seen before they are yielded.
type waitedEvents struct {
	printedEvents // condition.Wait asks its Mux what is synced; none is printed
	seen          *seen
}

func (w waitedEvents) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for ev, err := range w.printedEvents.Events(ctx) {
			if err == nil {
				err = w.seen.observe(&ev)
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// waitResult is what is printed of a wait whose conditions are not met.
type waitResult struct {
	unmet      *condition.UnmetError
	seen       *seen
	namespaces bool   // they are printed
	text       string // what kubectl says, such as "timed out waiting for the condition"
	once       bool   // it was one look
}

// report prints a line for each object, as kubectl does, but the last one, which it returns.
func (w waitResult) report(streams genericiooptions.IOStreams) error {
	reasons := map[condition.Target][]string{}
	for t, reason := range w.unmet.Unmet {
		if t.For == ready && t.Name != "" {
			reason = cmp.Or(w.seen.notReady(t), reason)
		}
		t.For = condition.Condition{}
		if !slices.Contains(reasons[t], reason) {
			reasons[t] = append(reasons[t], reason)
		}
	}
	var lines []string
	for _, t := range slices.SortedFunc(maps.Keys(reasons), func(a, b condition.Target) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	}) {
		slices.Sort(reasons[t])
		lines = append(lines, w.line(t, strings.Join(reasons[t], "; ")))
	}
	switch {
	case len(lines) == 0:
		return fmt.Errorf("%s: not everything has been read from the server", w.text)
	case w.unmet.More > 0:
		lines = append(lines, fmt.Sprintf("%s: %d more are not met", w.text, w.unmet.More))
	}
	last := len(lines) - 1
	for _, line := range lines[:last] {
		printMessage(streams.ErrOut, "%s", line)
	}
	return errors.New(lines[last])
}

// line says why an object does not meet the condition, in kubectl's words and then in those of the reason.
func (w waitResult) line(t condition.Target, reason string) string {
	resource := schema.ParseGroupResource(t.Resource)
	switch {
	case t.Name == "" && w.once && reason == "has no objects":
		return errNoMatch.Error()
	case t.Name == "" && reason == "has no objects":
		return w.text + ": " + errNoMatch.Error()
	case t.Name == "":
		return w.text + ": what exists " + reason
	case w.once && reason == "does not exist":
		return apierrors.NewNotFound(resource, t.Name).Error()
	}
	on := " on "
	if w.once {
		on = " for "
	}
	in := ""
	if w.namespaces && t.Namespace != "" {
		in = " in namespace " + t.Namespace
	}
	return w.text + on + resource.Resource + "/" + t.Name + in + ": " + reason
}

// events returns those of a Mux. None is printed.
func (s *seen) events(merged *mux.Mux) printedEvents {
	drop := func(_ stream.Event, ack func()) (bool, error) {
		ack()
		return false, nil
	}
	return printedEvents{merged, drop, 0, &counts{}}
}
