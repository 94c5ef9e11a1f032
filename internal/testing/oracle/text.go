package oracle

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TextUID is [streamtest.Text] with the object's uid after its name: "ADDED name(uid)@7".
func TextUID(ev stream.Event) string {
	if ev.HasObject() {
		o := ev.Meta()
		ev.Object, ev.JSON = &unstructured.Unstructured{Object: map[string]any{}}, nil
		ev.Object.SetNamespace(o.GetNamespace())
		ev.Object.SetName(fmt.Sprintf("%s(%s)", o.GetName(), o.GetUID()))
	}
	return ev.String()
}

// Events reads events as TextUID writes them, separated by ";" or newlines: "ADDED a(u1)@5; GAP expired 5..7".
//
// The field spec.n of an object is its resourceVersion; " =3" after the version sets another value. An inferred
// DELETED has no spec, unless " =3" sets one.
func Events(t testing.TB, text string) []stream.Event {
	t.Helper()
	var all []stream.Event
	for _, line := range lines(text) {
		all = append(all, eventOf(t, line))
	}
	return all
}

// Began is the time of the first line of each [History]. The others follow at intervals of one second.
var Began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// History reads a history: events as for [Events], and lines such as "rewind 5".
func History(t testing.TB, text string) streamtest.History {
	t.Helper()
	var h streamtest.History
	for i, line := range lines(text) {
		at := Began.Add(time.Duration(i) * time.Second)
		if to, ok := strings.CutPrefix(line, "rewind "); ok {
			h.Rewinds = append(h.Rewinds, streamtest.Change{ResourceVersion: to, At: at})
			continue
		}
		ev := eventOf(t, line)
		h.Changes = append(h.Changes, streamtest.Change{Type: watch.EventType(ev.Type), Object: ev.Object,
			ResourceVersion: ev.ResourceVersion, Epoch: len(h.Rewinds), At: at})
	}
	return h
}

func lines(text string) []string {
	var all []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

var objectEvent = regexp.MustCompile(`^(\w+) (?:(\w+)/)?(\w+)\((\w*)\)@(\w*)( =-?\d+)?( inferred)?$`)

func eventOf(t testing.TB, s string) stream.Event {
	t.Helper()
	s, ns, _ := strings.Cut(s, " in ")
	s, coalesced, _ := strings.Cut(s, " coalesced ")
	kind, rest, _ := strings.Cut(s, " ")
	ev := stream.Event{Type: stream.Type(kind), Namespace: ns}
	ev.Envelope(friend.Access{}).Coalesced, _ = strconv.Atoi(coalesced)
	switch ev.Type {
	case stream.Synced, stream.Bookmark:
		ev.ResourceVersion = strings.TrimPrefix(rest, "@")
		return ev
	case stream.Gap:
		rest, lost := strings.CutSuffix(rest, " history lost")
		reason, versions, _ := strings.Cut(rest, " ")
		ev.Gap = &stream.GapDetails{Reason: stream.GapReason(reason), HistoryLost: lost}
		ev.Gap.From, ev.Gap.To, _ = strings.Cut(versions, "..")
		return ev
	}
	m := objectEvent.FindStringSubmatch(s)
	if m == nil {
		t.Fatalf("invalid event %q", s)
	}
	n, _ := strconv.ParseInt(m[5], 10, 64)
	if m[6] != "" {
		n, _ = strconv.ParseInt(m[6][2:], 10, 64)
	}
	ev.ResourceVersion, ev.Inferred = m[5], m[7] != ""
	if ev.Object = Object(m[2], m[3], m[4], m[5], n); ev.Inferred && ev.Type == stream.Deleted && m[6] == "" {
		ev.Object = Identity(m[2], m[3], m[4], m[5])
	}
	return ev
}

// Object makes an object with the field spec.n.
func Object(ns, name, uid, rv string, n int64) *unstructured.Unstructured {
	o := Identity(ns, name, uid, rv)
	o.Object["spec"] = map[string]any{"n": n}
	return o
}

// Identity makes an object as an inferred DELETED carries it: metadata only.
func Identity(ns, name, uid, rv string) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "uid": uid, "resourceVersion": rv}
	if ns != "" {
		metadata["namespace"] = ns
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Robot", "metadata": metadata}}
}

// Above returns a selector of objects whose spec.n is greater than n.
func Above(n int64) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		m, _, _ := unstructured.NestedInt64(u.Object, "spec", "n")
		return m > n
	}
}

// Promises returns the promises whose violations err joins, sorted and without duplicates.
func Promises(err error) []string {
	var all []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, Promises(err)...)
		}
	} else if v := (*streamtest.Violation)(nil); errors.As(err, &v) {
		all = []string{v.Promise}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// WantBroken fails the test unless err joins violations of that promise only, or is nil if want is empty.
func WantBroken(t testing.TB, err error, want string) {
	t.Helper()
	if got := strings.Join(Promises(err), ", "); got != want {
		t.Errorf("got %q, want %q; err:\n%v", got, want, err)
	}
}

// Texts returns the String of each event.
func Texts(events []stream.Event) []string { return streamtest.Recording{Events: events}.Texts() }
