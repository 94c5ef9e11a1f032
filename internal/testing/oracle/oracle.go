// Package oracle checks promises of this library that only its own tests need: one function per promise, each over
// what a run recorded. [streamtest.Check] checks the promises about the sequence itself, for users' tests, too.
//
// A failed check is a [*streamtest.Violation]. [Events] and [History] read recordings from text, for test tables.
package oracle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The promises checked here.
const (
	acknowledged = "acknowledged" // a checkpoint never moves past an event that was not acked
	durable      = "durable"      // a checkpoint is old or new, never torn
	bounded      = "bounded"      // at most 5 requests per second, averaged over 10 seconds
	classified   = "classified"   // a status has a known state, and a cause and a next try when something failed
	inTime       = "in time"      // a change or a GAP is delivered within a limit, whatever happens to the connection
)

// CheckRequests checks that a client sent at most 5 requests per second, averaged over any 10 seconds. Each page of
// a list counts: pass the requests of one stream, whose lists have few pages. The error is the first Violation.
func CheckRequests(requests []streamtest.Request) error {
	const most, window = 50, 10 * time.Second
	requests = slices.SortedStableFunc(slices.Values(requests),
		func(a, b streamtest.Request) int { return a.At.Compare(b.At) })
	for i := most; i < len(requests); i++ {
		last := requests[i]
		if took := last.At.Sub(requests[i-most].At); took < window {
			return &streamtest.Violation{Promise: bounded, Index: i, What: last.Verb + " " + last.Resource,
				Why: fmt.Sprintf("%d requests in %v", most+1, took)}
		}
	}
	return nil
}

// CheckStatuses checks that each status is classified: its state is known, a failed state has a cause and a next
// try, a healthy state has neither, and Stopped has no next try. It joins one Violation per invalid status.
func CheckStatuses(statuses []stream.Status) error {
	var errs []error
	for i, st := range statuses {
		for _, st := range append([]stream.Status{st}, st.Namespaces...) {
			if why := unclassified(st); why != "" {
				errs = append(errs, &streamtest.Violation{Promise: classified, Index: i,
					What: "status " + string(st.State) + " " + st.Namespace, Why: why})
			}
		}
	}
	return errors.Join(errs...)
}

func unclassified(st stream.Status) string {
	switch st.State {
	case stream.Idle, stream.Listing, stream.Streaming, stream.Resuming:
		if st.Cause != nil || !st.NextTry.IsZero() {
			return "a healthy state must have neither a cause nor a next try"
		}
	case stream.Backoff, stream.Stalled, stream.Unauthorized, stream.Forbidden, stream.Gone:
		if st.Cause == nil || st.NextTry.IsZero() {
			return "a failed state must have a cause and a next try"
		}
	case stream.Unordered:
		if st.Cause == nil {
			return "a server that breaks the rules must be the cause"
		}
	case stream.Stopped:
		if !st.NextTry.IsZero() {
			return "a stopped stream must have no next try"
		}
	default:
		return "unknown state"
	}
	return ""
}

// CheckTimely checks that the receiver learned of each change within limit: the change was delivered, or a snapshot
// was being read, at the start or after a GAP. It considers changes that happened after rec.Begin and were due
// before rec.End. A receiver that takes events slowly makes them late. CheckTimely does not check how soon a rewind
// of the server is detected.
//
// opts are those of [streamtest.Check]; only Namespaces, Selected and the start matter. The error joins the first
// Violation of each namespace.
func CheckTimely(h streamtest.History, rec streamtest.Recording, limit time.Duration,
	opts *streamtest.CheckOptions) error {
	if opts == nil {
		opts = &streamtest.CheckOptions{}
	}
	var errs []error
	for _, ns := range namespacesOf(opts) {
		start := opts.After
		if opts.From != nil {
			start = opts.From.ResourceVersions[ns]
		}
		snapshots := snapshotsOf(rec, ns, start == "")
		if v := firstLate(h, rec, expectedOf(h, ns, opts.Selected), limit, snapshots); v != nil {
			errs = append(errs, v)
		}
	}
	return errors.Join(errs...)
}

// expected is a live event that a change of the history requires.
type expected struct {
	event stream.Event
	epoch int
	at    time.Time
}

// expectedOf leaves out the changes of objects that were not selected before or after.
func expectedOf(h streamtest.History, namespace string, selected func(*unstructured.Unstructured) bool) []expected {
	var all []expected
	for _, c := range h.Changes {
		if c.Object == nil || namespace != "" && c.Object.GetNamespace() != namespace {
			continue
		}
		kind := stream.Type(c.Type)
		if selected != nil {
			rev, _ := strconv.ParseInt(c.ResourceVersion, 10, 64)
			old, known := h.At(c.Epoch, strconv.FormatInt(rev-1, 10))[keyOf(c.Object)]
			was, is := known && selected(old), selected(c.Object)
			switch {
			case !known && is:
			case is && c.Type != watch.Deleted && was:
				kind = stream.Modified
			case is && c.Type != watch.Deleted:
				kind = stream.Added
			case was:
				kind = stream.Deleted
			default:
				continue
			}
		}
		all = append(all,
			expected{stream.Event{Type: kind, Object: c.Object, ResourceVersion: c.ResourceVersion}, c.Epoch, c.At})
	}
	return all
}

// span is the time during which a snapshot was being read. The last span may have no end.
type span struct{ from, to time.Time }

func snapshotsOf(rec streamtest.Recording, namespace string, open bool) []span {
	var spans []span
	if open {
		spans = []span{{from: rec.Begin}}
	}
	for i, ev := range rec.Events {
		switch last := len(spans) - 1; {
		case ev.Type == stream.Gap && ev.Namespace == namespace && !open:
			spans, open = append(spans, span{from: rec.Times[i]}), true
		case ev.Type == stream.Synced && open:
			spans[last].to, open = rec.Times[i], false
		}
	}
	return spans
}

// firstLate returns the first change that was delivered late or never.
func firstLate(h streamtest.History, rec streamtest.Recording, changes []expected, limit time.Duration,
	snapshots []span) *streamtest.Violation {
	for _, e := range changes {
		due := e.at.Add(limit)
		if e.at.Before(rec.Begin) || rec.End.Before(due) || undone(h, e, due) {
			continue
		}
		excused := slices.ContainsFunc(snapshots, func(s span) bool {
			return !s.from.After(due) && (s.to.IsZero() || !s.to.Before(e.at))
		})
		i := 0
		for i < len(rec.Events) && !e.deliveredBy(rec.Events[i]) {
			i++
		}
		if !excused && (i == len(rec.Events) || rec.Times[i].After(due)) {
			why := fmt.Sprintf("%s was due %v after %s", e.event.String(), limit, e.at.Format(time.RFC3339Nano))
			return &streamtest.Violation{Promise: inTime, Index: i, What: textAt(rec.Events, i), Why: why}
		}
	}
	return nil
}

func (e expected) deliveredBy(ev stream.Event) bool {
	return ev.Object != nil && !ev.Inferred && ev.Type == e.event.Type && keyOf(ev.Object) == keyOf(e.event.Object) &&
		ev.Object.GetUID() == e.event.Object.GetUID() && ev.Object.GetResourceVersion() == e.event.ResourceVersion
}

// undone reports whether a rewind undid a change before it was due.
func undone(h streamtest.History, e expected, due time.Time) bool {
	for i, r := range h.Rewinds {
		if i >= e.epoch && older(r.ResourceVersion, e.event.ResourceVersion) && !r.At.After(due) {
			return true
		}
	}
	return false
}

// namespacesOf returns the namespaces that a sequence watches separately; "" is the whole cluster.
func namespacesOf(o *streamtest.CheckOptions) []string {
	if len(o.Namespaces) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
}

func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// older reports whether version a precedes b. It is false if either is not a number. The library compares versions in
// package protocol; an oracle must not use what it checks.
func older(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && x < y
}

// textAt describes event i, or the end of the recording.
func textAt(events []stream.Event, i int) string {
	if i < 0 || i >= len(events) {
		return "the end"
	}
	return events[i].String()
}
